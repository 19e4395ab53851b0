"""What the checks rest on: which rows a circuit claims, how each is taken away, and what is lost without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig, Patterns
from hopscope.circuits.checks.sampling import Sampling
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
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup
from hopscope.statistics import Measured

COUNTS = 0.2
"""How much the loss must rise without a row or path, as a share of the threshold, for that to count."""

_OFTEN = 0.5
"""The share of a row's queries that must see a key in other chains, for it to be moved there."""

_What = TypeVar("_What", bound=Hashable)


class Lost(NamedTuple):
    """The circuit's loss without something: how high it is, how much it rises, and how much it must rise at least."""

    loss: Measured
    rise: Measured
    due: float


class Evidence(Sampling):
    """A circuit on fresh sequences.

    Args, beside those of `Sampling`:
        units: the model's rows, and the hypotheses of the search about them.
        imposed: the circuit with its patterns imposed: the ablation of every row of the model.
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
        self.own = units.own_patterns(imposed)
        super().__init__(evaluator, self.own if patterns == "own" else imposed, max_loss, seed, proof)
        self.problem, self.patterns, self.units, self.imposed = evaluator.problem, patterns, units, imposed
        self.nothing: Interventions = dict.fromkeys(evaluator.rows, UNIFORM)
        self.groups, self.grouped = groups, frozenset(path for group in groups for path in group.paths)

    # What the circuit claims

    @cached_property
    def paths(self) -> list[AttentionPath]:
        """Every path, first layer first."""
        return self.units.paths(self.imposed)

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
