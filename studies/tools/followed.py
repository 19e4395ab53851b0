"""One model over training: the circuit found at each checkpoint, and the spikes of the loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import numpy as np
from scipy.optimize import linear_sum_assignment

import hopscope as hs
from studies.tools import records
from studies.tools.circuits import CircuitSummary, NamedPath, Search, circuit_at, diverged, overlap

SPIKE = 0.1
"""A validation loss above this value (twice the loss threshold) is a spike, once the model has a circuit."""


@dataclass(frozen=True)
class Followed:
    """One model over training.

    Attributes:
        rate: the schedule of the learning rate, `constant` or `falling`.
        seed: the seed that the model was trained from.
        steps: the number of training steps.
        circuits: its circuits at the checkpoints where its loss is below the loss threshold, in order.
        spikes: the steps at which a spike begins, after the first circuit.
        crossed: for each path of the last circuit, the step at which its attention first crosses 0.5, or None.
        checkpoints: the steps of all checkpoints whose circuits were searched for.
    """

    rate: str
    seed: int
    steps: int
    circuits: tuple[CircuitSummary, ...]
    spikes: tuple[int, ...]
    crossed: tuple[float | None, ...]
    checkpoints: tuple[int, ...] = ()

    def kept(self, of: Sequence[CircuitSummary]) -> float:
        """Return the share of the last circuit's paths that the first circuit in `of` also has."""
        last = set(self.circuits[-1].paths)
        return len(last & set(of[0].paths)) / len(last)

    def kept_renamed(self, of: Sequence[CircuitSummary]) -> float:
        """Return `kept` with the heads of that circuit renamed within their layers, such that most paths agree."""
        last = self.circuits[-1].paths
        return in_common_renamed(last, of[0].paths) / len(set(last))

    @property
    def there_at_first(self) -> float:
        """The share of the last circuit's paths whose attention was above 0.5 at the step of the first circuit."""
        first = self.circuits[0].step or 0
        return mean(step is not None and step <= first for step in self.crossed) if self.crossed else 0.0

    @property
    def neighbours(self) -> list[tuple[CircuitSummary, CircuitSummary]]:
        """Pairs of circuits at two consecutive checkpoints.

        A checkpoint within a spike has no circuit. The circuits before and after it are not neighbours, because they
        had twice the time to drift.
        """
        after = dict(pairwise(self.checkpoints))
        return [pair for pair in pairwise(self.circuits) if after.get(pair[0].step or 0) == pair[1].step]

    @property
    def changes(self) -> list[tuple[float, bool]]:
        """For each pair of neighbours, the overlap of the two circuits and whether a spike lies between them."""
        return [
            (
                overlap(set(before.paths), set(after.paths)),
                any((before.step or 0) < spike <= (after.step or 0) for spike in self.spikes),
            )
            for before, after in self.neighbours
        ]

    @property
    def spike_rate(self) -> float:
        """The number of spikes per thousand steps after the first circuit."""
        since = self.steps - (self.circuits[0].step or 0)
        return 1000 * len(self.spikes) / since if since else 0.0


def checkpoints_after_learning(run: hs.Run) -> list[int]:
    """Return the checkpoints after all hops are learned, without diverged ones; empty if a hop is never learned."""
    learned = run.regular_metrics.first_below()[0]
    if None in learned:
        return []
    after = max(at for at in learned if at is not None)
    return [step for step in run.checkpoints if step >= after and not diverged(run, step)]


def follow(path: Path, search: Search, record: Path) -> None:
    """Follow the last circuit of the run in `path` through its checkpoints, and write a `Followed` to `record`."""
    run = hs.Run(path)
    steps = checkpoints_after_learning(run)
    every = [
        CircuitSummary.of(circuit_at(path, step, search), f"{path.parent.name}/{path.name}", step) for step in steps
    ]
    circuits = tuple(summary for summary in every if summary.paths)
    crossed: tuple[float | None, ...] = ()
    if circuits:
        history = run.emergence(step=circuits[-1].step or 0, progress=False)
        crossed = tuple(path.crossing.step for path in history.paths)
    spikes = _spikes(run, circuits[0].step or 0) if circuits else ()
    known = path.parent.name, run.seeds[0], run.result.steps
    records.write(record, Followed(*known, circuits, spikes, crossed, tuple(steps)))


def in_common_renamed(first: Sequence[NamedPath], second: Sequence[NamedPath]) -> int:
    """Return how many paths two circuits share if the heads of one are renamed, within each layer, to fit best.

    >>> first = [(1, 1, ">x1", "x0>"), (1, 2, ">x2", "x1>"), (2, 1, "x0?", ">x1")]
    >>> second = [(1, 5, ">x2", "x1>"), (1, 6, ">x1", "x0>"), (3, 1, "x0?", ">x1")]
    >>> in_common_renamed(first, second)
    2
    """
    ours, others = (_by_layer_and_head(paths) for paths in (first, second))
    common = 0
    for layer in ours.keys() & others.keys():
        shared = np.array([[len(own & other) for other in others[layer].values()] for own in ours[layer].values()])
        common += int(shared[linear_sum_assignment(shared, maximize=True)].sum())
    return common


def _by_layer_and_head(paths: Sequence[NamedPath]) -> dict[int, dict[int, set[tuple[str, str]]]]:
    """Return the query and key of each path, by layer and then by head."""
    found: dict[int, dict[int, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    for layer, head, query, key in paths:
        found[layer][head].add((query, key))
    return found


def _spikes(run: hs.Run, since: int) -> tuple[int, ...]:
    """Return the logged steps after `since` at which the validation loss has risen above `SPIKE`."""
    metrics = run.regular_metrics.after(since)
    above = (~(metrics.validation_loss[:, 0] < SPIKE)).tolist()
    before = [False, *above]  # one entry more than steps, also if there are no steps
    return tuple(
        step for step, now, then in zip(metrics.steps.tolist(), above, before, strict=False) if now and not then
    )
