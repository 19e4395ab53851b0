"""What the checks rest on: which rows a circuit claims, and its losses on fresh sequences, each measured once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from typing import Literal, NamedTuple, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig, Patterns
from hopscope.circuits.checks.sampling import SURE, Lost, Sampling, by_sequence
from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    CHOSEN,
    IDENTITY,
    KEEP,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    knock_out,
    moved,
    one_hot,
)
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Hypotheses
from hopscope.circuits.evaluate.role_maps import seen_elsewhere
from hopscope.model.hooks import Hooks, Pattern
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup

COUNTS = 0.2
"""How much the loss must rise without a row or path, as a share of the threshold, for that to count."""

_OFTEN = 0.5
"""The share of a row's queries that must see a key in other chains, for it to be moved there."""

_Whole = Literal["full", "imposed", "own", "nothing"]
"""The model, the circuit with its patterns imposed and with its own, and nothing: what others are compared to."""

_What = TypeVar("_What")


class Levels(NamedTuple):
    """The losses of the model (`full`) and of nothing, between which the circuit's loss lies."""

    full: float
    nothing: float
    circuit: float

    def faithfulness(self, loss: float) -> float:
        """How far a loss goes from that of nothing (0) to that of the model (1)."""
        return (self.nothing - loss) / max(self.nothing - self.full, 1e-12)


class Evidence(Sampling):
    """A circuit on fresh sequences.

    Args, beside those of `Sampling`:
        hypotheses: the search's hypotheses about the model's rows.
        imposed: the circuit with its patterns imposed: the ablation of every row of the model.
        patterns: whether it is judged with the model's own patterns in its active rows, or with imposed ones.
        groups: its redundant paths.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        hypotheses: Hypotheses,
        imposed: Interventions,
        max_loss: float,
        seed: int,
        proof: CertificateConfig,
        patterns: Patterns = "own",
        groups: tuple[PathGroup, ...] = (),
    ) -> None:
        super().__init__(evaluator, max_loss, seed, proof)
        self.problem, self.patterns, self.hypotheses, self.imposed = evaluator.problem, patterns, hypotheses, imposed
        self.groups, self.own = groups, hypotheses.own_patterns(imposed)
        self.nothing: Interventions = dict.fromkeys(evaluator.rows, UNIFORM)
        self.base = self.own if patterns == "own" else imposed
        self._known: dict[tuple[Evaluator, _Whole], Float[Tensor, "sequence hop"]] = {}
        self._changed: dict[tuple[Evaluator, HeadRow, Ablation], Float[Tensor, " sequence"]] = {}

    # What the circuit claims

    @cached_property
    def paths(self) -> list[AttentionPath]:
        """Every path, first layer first."""
        rows = sorted(self.imposed.items())
        return [AttentionPath(*row, key) for row, ablation in rows for key, _ in self.hypotheses.keys(row, ablation)]

    @cached_property
    def _keys(self) -> Counter[HeadRow]:
        return Counter(path.row for path in self.paths)

    @cached_property
    def partial(self) -> list[AttentionPath]:
        """The paths that are only a part of what their row does, so that a path may be idle though its row is not.

        They are those of rows with several paths, and of rows whose ablation is a whole pattern: the weight that it
        puts on other keys, such as a position to rest at, may be all that the row is for.
        """
        return [path for path in self.paths if self._keys[path.row] > 1 or self.imposed[path.row].kind not in CHOSEN]

    @cached_property
    def rows(self) -> list[HeadRow]:
        """The active rows: those with a path, and helpers."""
        return self.hypotheses.in_use(self.imposed, self.evaluator.live_rows)

    @cached_property
    def helpers(self) -> list[HeadRow]:
        """The active rows that attend to no other role of their own chain, or to all chains alike."""
        return [row for row in self.rows if row not in self._keys]

    @cached_property
    def outside(self) -> list[HeadRow]:
        """The rows that could reach an answer and are not active."""
        used = set(self.rows)
        return [row for row in self.evaluator.live_rows if row not in used]

    @cached_property
    def at_mean(self) -> list[HeadRow]:
        """The rows that are at their mean or positional mean instead of off."""
        return [row for row in self.outside if self.imposed[row] not in (UNIFORM, ZERO, IDENTITY)]

    @cached_property
    def unnamed(self) -> list[AttentionPath]:
        """Where the rows that are said to attend to chosen keys attend to other roles of their chain too."""
        chosen = [row for row in self.rows if self.imposed[row].kind in CHOSEN]
        attended = (AttentionPath(*row, key) for row in chosen for key in sorted(self.hypotheses.heavy(row)))
        return [path for path in attended if path not in self.paths]

    @cached_property
    def blinded(self) -> Interventions:
        """The circuit as it is judged, its rows at their mean unable to tell their own chain from others by it."""
        means = [row for row in self.at_mean if self.imposed[row].kind is AblationKind.MEAN]
        return {**self.base, **{row: self.hypotheses.blind(row) for row in means}}

    @cached_property
    def as_they_are(self) -> Mapping[HeadRow, tuple[int, ...]]:
        """The active rows whose own pattern is all that the circuit says of them, and the keys that it names."""
        rows = (row for row in self.rows if self.imposed[row] == KEEP)
        return {row: tuple(path.key for path in self.paths if path.row == row) for row in rows}

    @cached_property
    def writing(self) -> list[HeadRow]:
        """The rows that could reach an answer, of heads that write something: a pruned head is no rival."""
        return [row for row in self.evaluator.live_rows if (row.layer, row.head) not in self._silent]

    @cached_property
    def _silent(self) -> frozenset[tuple[int, int]]:
        return silent_heads(self.rough)

    @cached_property
    def carrying_nothing(self) -> Interventions:
        """The rows that carry nothing according to the circuit, with what takes away from each what it could carry.

        A row at itself stays so, and a row that tells its own chain from others is uniform. One that never does attends
        to all chains alike: where it rests is none of what the circuit is about.
        """
        at_themselves = [row for row in self.outside if self.imposed[row] == IDENTITY]
        free = [row for row in self.outside if self.imposed[row] in (UNIFORM, ZERO)]
        ablated = {row: ALIKE if self.hypotheses.chainless(row) else UNIFORM for row in free}
        return ablated | dict.fromkeys(at_themselves, IDENTITY)

    @cached_property
    def grouped(self) -> frozenset[AttentionPath]:
        """The paths that are in a group."""
        return frozenset(path for group in self.groups for path in group.paths)

    @cached_property
    def exempt(self) -> frozenset[HeadRow]:
        """The rows that imposed patterns make idle, which are judged among own patterns: those of the first active
        layer where patterns are imposed (the paper's exception, Appendix E), else none."""
        first = min((row.layer for row in self.rows), default=0)
        return frozenset(row for row in self.rows if self.patterns == "imposed" and row.layer == first)

    def around(self, row: HeadRow | None) -> Interventions:
        """What a row is judged in; without a row, what the circuit is judged as."""
        return self.own if row in self.exempt else self.base

    def name(self, row: HeadRow) -> str:
        """A row's name for people."""
        return f"layer {row.layer + 1} head {row.head + 1} {self.evaluator.names[row.query]}"

    # Ways to take something away

    def without(self, path: AttentionPath) -> Interventions:
        """The imposed circuit without one path: its row uniform or, if that attends elsewhere too, without this key."""
        return {**self.imposed, path.row: self._removed(self.imposed[path.row], path)}

    @cached_property
    def off(self) -> dict[HeadRow, Ablation]:
        """How each active row is switched off: in the way that costs least, of those a search may choose from."""
        return self._cheapest([(row, row, off) for row in self.rows for off in self._ways_off(row)])

    @cached_property
    def keyless(self) -> dict[AttentionPath, Ablation]:
        """The ablation of each path's row, as it is judged, without the key: in the way that costs least."""
        ways = [(path, ablation) for path in self.paths for ablation in self._ways_without(path)]
        return self._cheapest([(path, path.row, ablation) for path, ablation in ways])

    def unclaimed(self, path: AttentionPath) -> Ablation:
        """The ablation of a path's row in which nothing is left of what the circuit says of the key: a row with one
        key is off, since knocked out it could read the same from another key that the circuit does not name."""
        return self._removed(self.imposed[path.row], path) if self._keys[path.row] > 1 else self.off[path.row]

    def _cheapest(self, ways: Sequence[tuple[_What, HeadRow, Ablation]]) -> dict[_What, Ablation]:
        """Of the ablations that a row may get for the sake of each thing, the one that costs least."""
        least: dict[_What, tuple[float, Ablation]] = {}
        losses = self.settled(
            [{**self.around(row), row: ablation} for _, row, ablation in ways], self.max_loss, self.base
        )
        for (what, _, ablation), loss in zip(ways, losses, strict=True):
            if what not in least or loss < least[what][0]:
                least[what] = loss, ablation
        return {what: ablation for what, (_, ablation) in least.items()}

    def _ways_without(self, path: AttentionPath) -> list[Ablation]:
        """Ways to take a path's key from its row: it is in other chains, if half of the queries see it there (what a
        text question asks has no position in other chains); or it is gone, if the row attends elsewhere too."""
        often = seen_elsewhere(self.rough.where, path.query, path.key) >= _OFTEN
        elsewhere = [moved(path.key)] if often else []
        if path not in self.partial:
            return elsewhere
        ablation = self.around(path.row)[path.row]
        return [knock_out(path.key) if ablation == KEEP else self._removed(ablation, path), *elsewhere]

    def _removed(self, ablation: Ablation, path: AttentionPath) -> Ablation:
        """The ablation of a path's row without the path's key: uniform if the row attends nowhere else."""
        if ablation.kind is AblationKind.MIXTURE:
            weights = zip(ablation.keys, ablation.weights, strict=True)
            rest = {key: weight for key, weight in weights if key != path.key}
            if len(rest) > 1 and sum(rest.values()) > 0:
                return Ablation(AblationKind.MIXTURE, tuple(rest), tuple(rest.values()))
            left = next(iter(rest), path.query)
            return IDENTITY if left == path.query else one_hot(left)
        return knock_out(path.key) if path in self.partial else UNIFORM

    def _ways_off(self, row: HeadRow) -> list[Ablation]:
        """Ways to switch off an active row.

        Where patterns are imposed, it is filled like the other rows of its head; if it is the head's only active row,
        so that the head is then idle, it may also be uniform or at itself.
        """
        if self.patterns == "own":
            return self.hypotheses.offs(row)
        head = {other: ablation for other, ablation in self.imposed.items() if other[:2] == row[:2]}
        used = [other for other, ablation in head.items() if not self.hypotheses.is_off(other, ablation)]
        fills = [ablation for other, ablation in head.items() if other not in used]
        idle = [UNIFORM, IDENTITY] if used == [row] or not fills else []
        return list(dict.fromkeys([*fills, *idle]))

    # Losses

    @cached_property
    def wholes(self) -> Float[Tensor, "whole sequence hop"]:
        """The errors of the model, of the circuit with imposed and with own patterns, and of nothing."""
        judged = 2 if self.patterns == "own" else 1
        return self.until_clear(
            lambda evaluator: torch.stack(self._errors(evaluator, *get_args(_Whole))),
            lambda errors: self.in_doubt([errors[judged].mean(dim=1)]),
            few=False,
        )

    @cached_property
    def levels(self) -> Levels:
        """The losses on `few` sequences of the model, of nothing, and of the circuit as it is judged."""
        wholes = self._errors(self.few, "full", "nothing", self._judged_as(None))
        return Levels(*(float(errors.mean()) for errors in wholes))

    @cached_property
    def lost(self) -> dict[HeadRow, Lost]:
        """The losses without each active row: on `few` sequences if these leave no doubt, on `more` if others do."""
        return dict(zip(self.rows, self._without([(row, self.off[row]) for row in self.rows]), strict=True))

    @cached_property
    def lost_keys(self) -> dict[AttentionPath, Lost]:
        """The losses without each path's key, as `lost` has them for rows."""
        gone = [(path.row, ablation) for path, ablation in self.keyless.items()]
        return dict(zip(self.keyless, self._without(gone), strict=True))

    @cached_property
    def lost_groups(self) -> dict[PathGroup, list[Lost]]:
        """The losses without so many paths of a group that fewer are left than it needs, for every choice of them."""
        return {
            group: [self._lost_together(chosen) for chosen in combinations(group.paths, _too_many(group))]
            for group in self.groups
        }

    def together_off(self, paths: Iterable[AttentionPath]) -> Interventions:
        """Ablations by which some paths are gone: their rows off or, where these have other paths, without the keys."""
        off: Interventions = {}
        for row, gone in _by_row(paths).items():
            whole = len(gone) == self._keys[row] or len(gone) > 1
            off[row] = self.off[row] if whole else self.keyless.get(gone[0], self.off[row])
        return off

    def without_backups(self, row: HeadRow) -> Interventions:
        """Ablations by which the backups of a row, in the first of its groups, are gone: the row is needed then."""
        for group in self.groups:
            others = [path for path in group.paths if path.row != row]
            if len(others) < len(group.paths):
                return self.together_off(others[: _too_many(group) - 1])
        return {}

    def _lost_together(self, paths: Sequence[AttentionPath]) -> Lost:
        candidate = {**self.base, **self.together_off(paths)}

        def measure(evaluator: Evaluator) -> Lost:
            return Lost(by_sequence(evaluator, [candidate])[0], self.circuit(evaluator), COUNTS * self.max_loss)

        return self.until_clear(measure, self.open, few=False)

    def _without(self, changes: Sequence[tuple[HeadRow, Ablation]]) -> list[Lost]:
        """The losses with one row ablated otherwise, for each of the changes alone."""
        for evaluator in (self.few, self.evaluator):
            evaluator.depart_from(self.base)
        self.changed(self.few, changes)  # all in one pass; each is asked for again below
        measures: list[Callable[[Evaluator], Lost]] = [partial(self._lost, *change) for change in changes]
        return [self.until_clear(measure, self.open, few=False) for measure in measures]

    def _lost(self, row: HeadRow, ablation: Ablation, evaluator: Evaluator) -> Lost:
        """The losses with a row ablated otherwise; on `few` sequences if they lie far above the threshold there."""
        (few,) = self.changed(self.few, [(row, ablation)])
        if float(few.mean()) - SURE * float(few.std()) / self.few.sequences**0.5 > 2 * self.max_loss:
            return Lost(few, self.circuit(self.few, row), self.due(row))
        (without,) = self.changed(evaluator, [(row, ablation)])
        return Lost(without, self.circuit(evaluator, row), self.due(row))

    def changed(
        self, evaluator: Evaluator, changes: Sequence[tuple[HeadRow, Ablation]]
    ) -> Float[Tensor, "change sequence"]:
        """The circuit's losses with one row ablated otherwise, `around` which it is judged; each is measured once."""
        new = [(row, ablation) for row, ablation in changes if (evaluator, row, ablation) not in self._changed]
        losses = by_sequence(evaluator, [{**self.around(row), row: ablation} for row, ablation in new])
        self._changed |= {(evaluator, *change): loss for change, loss in zip(new, losses, strict=True)}
        found = [self._changed[evaluator, row, ablation] for row, ablation in changes]
        return torch.stack(found) if found else losses

    def due(self, row: HeadRow) -> float:
        """How much the loss must rise without a row."""
        return (1.0 if row in self.exempt else COUNTS) * self.max_loss

    def full(self, evaluator: Evaluator) -> Float[Tensor, " sequence"]:
        """The model's losses by sequence; measured once."""
        return self._errors(evaluator, "full")[0].mean(dim=1)

    def circuit(self, evaluator: Evaluator, row: HeadRow | None = None) -> Float[Tensor, " sequence"]:
        """The losses by sequence of what a row is judged in; measured once."""
        return self._errors(evaluator, self._judged_as(row))[0].mean(dim=1)

    def faithfulness(self, row: HeadRow, loss: float) -> float:
        """How far a loss goes from that of nothing to the model's; for `exempt` rows, to that with own patterns."""
        if row not in self.exempt:
            return self.levels.faithfulness(loss)
        own, nothing = (float(errors.mean()) for errors in self._errors(self.few, "own", "nothing"))
        return (nothing - loss) / (nothing - own) if own < nothing else 0.0

    def _judged_as(self, row: HeadRow | None) -> _Whole:
        return "own" if self.patterns == "own" or row in self.exempt else "imposed"

    def _errors(self, evaluator: Evaluator, *wanted: _Whole) -> list[Float[Tensor, "sequence hop"]]:
        """The errors of the model, the circuit or nothing; each is measured once."""
        whole: dict[_Whole, Interventions] = {
            "full": {}, "imposed": self.imposed, "own": self.own, "nothing": self.nothing,
        }  # fmt: skip
        new = [name for name in wanted if (evaluator, name) not in self._known]
        if new:
            errors = evaluator.errors([whole[name] for name in new]).double()
            self._known |= {(evaluator, name): error for name, error in zip(new, errors, strict=True)}
        return [self._known[evaluator, name] for name in wanted]

    def open(self, lost: Lost) -> bool:
        """Whether it is in doubt that the loss without something lies above the threshold, or rises by what is due."""
        if self.spare(lost):
            return False
        return self.in_doubt([lost.without]) or self.in_doubt([lost.rise], lost.due)

    def spare(self, lost: Lost) -> bool:
        """Whether something is surely not needed: the interval of the loss without it, or of its rise, ends below."""
        without, rise = self.measured([lost.without, lost.rise])
        return without.interval[1] < self.max_loss or rise.interval[1] < lost.due


def _too_many(group: PathGroup) -> int:
    """How many paths must go for fewer to be left than a group needs."""
    return len(group.paths) - group.needs + 1


def _by_row(paths: Iterable[AttentionPath]) -> dict[HeadRow, list[AttentionPath]]:
    by_row: dict[HeadRow, list[AttentionPath]] = {}
    for path in paths:
        by_row.setdefault(path.row, []).append(path)
    return by_row


class _HeadOff(Hooks):
    """Hooks by which one head attends nowhere."""

    def __init__(self, layer: int, head: int) -> None:
        self._at = layer, head

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        if layer != self._at[0]:
            return pattern
        pattern = pattern.clone()
        pattern[:, :, self._at[1]] = 0
        return pattern


@torch.no_grad()
def silent_heads(evaluator: Evaluator) -> frozenset[tuple[int, int]]:
    """Layer and head, from 0, of the heads without which the stream after their own layer is the same to the bit.

    The stream decides and not the answers: without a head that has a backup no answer changes either.

        >>> from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
        >>> from hopscope.theory.witness import build_witness
        >>> from hopscope.training.data import held_out
        >>> made = build_witness(hops=1, spare_heads=1)  # the spare heads' weights are zero
        >>> sorted(silent_heads(VectorEvaluator(made.transformer, made.problem, held_out(made.problem, 4))))
        [(0, 1), (1, 1)]
    """
    model, silent = evaluator.transformer, set()
    stream = model.embed(evaluator.batch.inputs[None])
    for layer in range(model.shape.layers):
        after = model.run(stream, start=layer, stop=layer + 1, hooks=Hooks())
        for head in range(model.shape.heads):
            if torch.equal(model.run(stream, start=layer, stop=layer + 1, hooks=_HeadOff(layer, head)), after):
                silent.add((layer, head))
        stream = after
    return frozenset(silent)
