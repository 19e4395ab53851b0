"""What the checks rest on: which rows a circuit claims, how each is taken away, and what is lost without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig, Patterns
from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    CHOSEN,
    IDENTITY,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    knock_out,
    moved,
)
from hopscope.circuits.evaluate.chains import seen_elsewhere
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.problem.counter import derive_seed
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup
from hopscope.statistics import Measured, measured

COUNTS = 0.2
"""How much the loss must rise without a row or path, as a share of the threshold, for that to count."""

_SURE = 4.0
"""How many standard errors on few sequences count as clear: beyond that, more would not change the outcome."""

_FRESH = "circuit certificate"
"""The purpose that the seeds of fresh sequences and random draws are derived for."""

_OFTEN = 0.5
"""The share of a row's queries that must see a key in other chains, for it to be moved there."""

T = TypeVar("T")
_What = TypeVar("_What", bound=Hashable)


class Lost(NamedTuple):
    """The circuit's loss without something: how high it is, how much it rises, and how much it must rise at least."""

    loss: Measured
    rise: Measured
    due: float


class Evidence:
    """A circuit on fresh sequences, and losses there, each measured once.

    From then on, `evaluator` is the model on `proof.sequences` fresh sequences; `few` and `rough` on the first of them.
    `own` is the circuit with own patterns; `base` the one that is judged.

    Args:
        evaluator: the model, on any batch; its transformer and problem are used.
        units: the model's rows, and the hypotheses of the search about them.
        imposed: the circuit with its patterns imposed: the ablation of every row of the model.
        max_loss: the loss threshold, with which losses are compared where no other limit is named.
        seed: the seed of the fresh sequences and random draws; no search sees them.
        proof: how many sequences and random draws there are.
        patterns: whether it is judged with the model's own patterns in its active rows, or with imposed ones.
        groups: its redundant paths.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        units: Units,
        imposed: Interventions,
        max_loss: float,
        seed: int,
        proof: CertificateConfig,
        patterns: Patterns = "own",
        groups: tuple[PathGroup, ...] = (),
    ) -> None:
        self.problem, self.patterns, self.units, self.imposed = evaluator.problem, patterns, units, imposed
        self.max_loss, self.seed, self.proof = max_loss, seed, proof
        self.own = units.own_patterns(imposed)
        self.base = self.own if patterns == "own" else imposed
        self.nothing: Interventions = dict.fromkeys(evaluator.rows, UNIFORM)
        self.groups, self.grouped = groups, frozenset(path for group in groups for path in group.paths)
        fresh = partial(evaluator.fresh, proof.sequences, seed, _FRESH)
        self.evaluator = evaluator.once(f"{_FRESH}: {proof.sequences} from {seed}", fresh)
        self.few, self.rough = self.evaluator.part(proof.few), self.evaluator.part(proof.rough)
        self._known: dict[tuple[Evaluator, frozenset[tuple[HeadRow, Ablation]]], Float[Tensor, " sequence"]] = (
            self.evaluator.once("losses", dict)
        )

    # What the circuit claims

    @cached_property
    def paths(self) -> list[AttentionPath]:
        """Every path, first layer first."""
        rows = sorted(self.imposed.items())
        return [AttentionPath(*row, key) for row, ablation in rows for key in self.units.keys(row, ablation)]

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
        return [row for row in self.evaluator.live_rows if not self.units.is_off(row, self.imposed[row])]

    @property
    def helpers(self) -> list[HeadRow]:
        """The active rows that attend to no other role of their own chain, or to all chains alike."""
        return [row for row in self.rows if row not in self._keys]

    @cached_property
    def outside(self) -> list[HeadRow]:
        """The rows that could reach an answer and are not active."""
        used = set(self.rows)
        return [row for row in self.evaluator.live_rows if row not in used]

    @property
    def at_mean(self) -> list[HeadRow]:
        """The rows that are at their mean or positional mean instead of off."""
        return [row for row in self.outside if self.imposed[row] not in (UNIFORM, ZERO, IDENTITY)]

    @property
    def carrying_nothing(self) -> Interventions:
        """The rows that carry nothing according to the circuit, with what takes away from each what it could carry.

        A row at itself stays so, and a row that tells its own chain from others is uniform. One that never does attends
        to all chains alike: where it rests is none of what the circuit is about.
        """
        at_themselves = [row for row in self.outside if self.imposed[row] == IDENTITY]
        free = [row for row in self.outside if self.imposed[row] in (UNIFORM, ZERO)]
        ablated = {row: ALIKE if self.units.chainless(row) else UNIFORM for row in free}
        return ablated | dict.fromkeys(at_themselves, IDENTITY)

    @cached_property
    def exempt(self) -> frozenset[HeadRow]:
        """The rows that imposed patterns make idle, which are judged among own patterns: those of the first active
        layer where patterns are imposed (the paper's exception, Appendix E), else none."""
        first = min((row.layer for row in self.rows), default=0)
        return frozenset(row for row in self.rows if self.patterns == "imposed" and row.layer == first)

    def around(self, row: HeadRow) -> Interventions:
        """The circuit that a row is judged in."""
        return self.own if row in self.exempt else self.base

    def name(self, row: HeadRow) -> str:
        """A row as reports write it, as in `layer 2 head 1 x0?`."""
        return f"layer {row.layer + 1} head {row.head + 1} {self.evaluator.names[row.query]}"

    # Ways to take something away

    def without(self, path: AttentionPath) -> Interventions:
        """The imposed circuit without one path: its row uniform or, if that attends elsewhere too, without this key."""
        return {**self.imposed, path.row: self._removed(path)}

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
        return self._removed(path) if self._keys[path.row] > 1 else self.off[path.row]

    def together_off(self, paths: Sequence[AttentionPath]) -> Interventions:
        """Ablations by which some paths are gone: their rows off or, where these have other paths, without the key."""
        gone = Counter(path.row for path in paths)
        one_of_several = [path for path in paths if gone[path.row] == 1 < self._keys[path.row]]
        keyless = {path.row: self.keyless[path] for path in one_of_several if path in self.keyless}
        return {row: self.off[row] for row in gone} | keyless

    def without_backups(self, row: HeadRow) -> Interventions:
        """Ablations by which the backups of a row, in the first of its groups, are gone: the row is needed then."""
        group = next((group for group in self.groups if any(path.row == row for path in group.paths)), None)
        others = [path for path in group.paths if path.row != row] if group else []
        return self.together_off(others[: len(group.paths) - group.needs]) if group else {}

    def _cheapest(self, ways: Sequence[tuple[_What, HeadRow, Ablation]]) -> dict[_What, Ablation]:
        """Of the ablations that a row may get for the sake of each thing, the one that costs least."""
        least: dict[_What, tuple[float, Ablation]] = {}
        losses = self.screened([{**self.around(row), row: ablation} for _, row, ablation in ways], self.max_loss)
        for (what, _, ablation), loss in zip(ways, losses, strict=True):
            if what not in least or loss < least[what][0]:
                least[what] = loss, ablation
        return {what: ablation for what, (_, ablation) in least.items()}

    def _ways_without(self, path: AttentionPath) -> list[Ablation]:
        """Ways to take a path's key from its row: it is in other chains, if half of the queries see it there (what a
        text question asks has no position in other chains); or it is gone, if the row attends elsewhere too."""
        often = seen_elsewhere(self.rough.where, path.query, path.key) >= _OFTEN
        judged = self.around(path.row) is self.own
        gone = [knock_out(path.key) if judged else self._removed(path)] if path in self.partial else []
        return [*gone, moved(path.key)] if often else gone

    def _removed(self, path: AttentionPath) -> Ablation:
        """The imposed ablation of a path's row without the path's key: uniform if the row attends nowhere else."""
        ablation = self.imposed[path.row]
        if ablation.kind is AblationKind.MIXTURE:
            weights = zip(ablation.keys, ablation.weights, strict=True)
            rest = {key: weight for key, weight in weights if key != path.key}
            if sum(rest.values()) > 0:
                return Ablation(AblationKind.MIXTURE, tuple(rest), tuple(rest.values()))
        return knock_out(path.key) if path in self.partial else UNIFORM

    def _ways_off(self, row: HeadRow) -> list[Ablation]:
        """Ways to switch off an active row; imposed, as other rows of its head are or, if it is alone, as a head is."""
        if self.patterns == "own":
            return self.units.offs(row)
        others = [
            (other, ablation) for other, ablation in self.imposed.items() if other[:2] == row[:2] and other != row
        ]
        fills = [ablation for other, ablation in others if self.units.is_off(other, ablation)]
        alone = len(fills) == len(others)
        return list(dict.fromkeys([*fills, *([UNIFORM, IDENTITY] if alone or not fills else [])]))

    # What is lost without it

    @cached_property
    def wholes(self) -> Float[Tensor, "whole sequence"]:
        """The losses of the model, of the circuit with imposed and with own patterns, and of nothing."""
        wholes, judged = [{}, self.imposed, self.own, self.nothing], 2 if self.patterns == "own" else 1
        found = self.losses(self.evaluator, wholes)
        return self.losses(self.more, wholes) if self.in_doubt(found[judged], self.max_loss) else found

    @cached_property
    def lost(self) -> dict[HeadRow, Lost]:
        """What is lost without each active row."""
        return self._lost({row: {row: self.off[row]} for row in self.rows})

    @cached_property
    def lost_keys(self) -> dict[AttentionPath, Lost]:
        """What is lost without each path's key."""
        return self._lost({path: {path.row: ablation} for path, ablation in self.keyless.items()})

    @cached_property
    def lost_groups(self) -> dict[tuple[AttentionPath, ...], Lost]:
        """What is lost without so many paths of a group that fewer are left than it needs, for every choice of them."""
        choices = [combinations(group.paths, len(group.paths) - group.needs + 1) for group in self.groups]
        return self._lost({chosen: self.together_off(chosen) for of_group in choices for chosen in of_group})

    def _lost(self, gone: dict[_What, Interventions]) -> dict[_What, Lost]:
        """What is lost without each thing, on so many sequences that it is in no doubt whether it is needed."""
        around = {what: self.around(next(iter(rows))) for what, rows in gone.items()}
        self.losses(self.few, [around[what] | rows for what, rows in gone.items()])  # all in one pass

        def one(what: _What) -> Lost:
            due = (1.0 if next(iter(gone[what])) in self.exempt else COUNTS) * self.max_loss

            def loss_and_rise(evaluator: Evaluator) -> Float[Tensor, "of sequence"]:
                without, own = self.losses(evaluator, [around[what] | gone[what], around[what]])
                return torch.stack([without, without - own])

            def open_(found: Float[Tensor, "of sequence"]) -> bool:
                limits = (self.max_loss, due)
                doubtful = [self.in_doubt(values, limit) for values, limit in zip(found, limits, strict=True)]
                below = [float(values.mean()) < limit for values, limit in zip(found, limits, strict=True)]
                return any(doubtful) and not any(low and not doubt for low, doubt in zip(below, doubtful, strict=True))

            found = self.until_clear(loss_and_rise, open_)
            loss, rise = map(self.measured, found)
            return Lost(loss, rise, due)

        return {what: one(what) for what in gone}

    def faithfulness(self, losses: Iterable[float], best: Interventions | None = None) -> list[float]:
        """How far losses on few sequences go from that of nothing (0) to the model's (1), or to that of the `best`."""
        nothing, full = self.mean_losses([self.nothing, best or {}])
        return [(nothing - loss) / (nothing - full) if full < nothing else 0.0 for loss in losses]

    # Losses on fresh sequences: on few at first, on all where these leave a doubt, on more where that is left still

    @cached_property
    def more(self) -> Evaluator:
        """The model on many other sequences, for what `evaluator` leaves open."""
        fresh = partial(self.evaluator.fresh, self.proof.deciding, self.seed, f"{_FRESH}, in doubt")
        return self.evaluator.once(f"in doubt: {self.proof.deciding}", fresh)

    def losses(
        self, evaluator: Evaluator, candidates: Sequence[Interventions], near: Interventions | None = None
    ) -> Float[Tensor, "candidate sequence"]:
        """The losses by sequence under each candidate; `near` is what they depart from, by default the circuit."""
        keys = [(evaluator, frozenset(candidate.items())) for candidate in candidates]
        new = {key: candidate for key, candidate in zip(keys, candidates, strict=True) if key not in self._known}
        if new:
            evaluator.depart_from(self.base if near is None else near)
            found = evaluator.errors([*new.values()]).double().mean(dim=2)
            self._known |= dict(zip(new, found, strict=True))
        return torch.stack([self._known[key] for key in keys]) if keys else torch.zeros(0, evaluator.sequences)

    def mean_losses(self, candidates: Sequence[Interventions]) -> list[float]:
        """The mean loss on few sequences under each candidate."""
        means: list[float] = self.losses(self.few, candidates).mean(dim=1).tolist()
        return means

    def screened(
        self, candidates: Sequence[Interventions], limit: float, near: Interventions | None = None
    ) -> list[float]:
        """Mean losses under many candidates: on `few` sequences where `rough` ones leave open on which side of `limit`
        a loss is."""
        rough = self.losses(self.rough, candidates, near)
        close = [number for number, loss in enumerate(rough) if _near(loss, limit)]
        means: list[float] = rough.mean(dim=1).tolist()
        losses = self.losses(self.few, [candidates[number] for number in close], near).mean(dim=1).tolist()
        for number, loss in zip(close, losses, strict=True):
            means[number] = loss
        return means

    def until_clear(self, measure: Callable[[Evaluator], T], doubtful: Callable[[T], bool]) -> T:
        """A measurement on few sequences, on all if it is in doubt, and on more if it still is."""
        for evaluator in (self.few, self.evaluator):
            if not doubtful(found := measure(evaluator)):
                return found
        return measure(self.more)

    def sure(self, interventions: Interventions) -> Measured:
        """The loss under interventions, on so many sequences that its interval does not contain the threshold."""

        def measure(evaluator: Evaluator) -> Float[Tensor, " sequence"]:
            return self.losses(evaluator, [interventions])[0]

        return self.measured(self.until_clear(measure, lambda loss: self.in_doubt(loss, self.max_loss)))

    def in_doubt(self, values: Float[Tensor, " sequence"], limit: float) -> bool:
        """Whether their mean may be on either side of a limit: by its interval, on few sequences by a wider one."""
        if len(values) < self.proof.sequences:
            return _near(values, limit)
        low, high = self.measured(values).interval
        return low <= limit <= high

    def measured(self, values: Float[Tensor, " sequence"]) -> Measured:
        """The mean of values by sequence, with its interval."""
        return measured(values, derive_seed(self.seed, _FRESH, "bootstrap"))

    def random(self, purpose: str) -> torch.Generator:
        """A random generator for one purpose."""
        return torch.Generator().manual_seed(derive_seed(self.seed, _FRESH, purpose))


def _near(values: Float[Tensor, " sequence"], limit: float) -> bool:
    """Whether a mean over few sequences is not surely on one side of a limit."""
    return bool((values.mean() - limit).abs() <= _SURE * values.std() / len(values) ** 0.5)
