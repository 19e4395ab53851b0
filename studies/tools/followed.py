"""One model over time: its circuit as found at every checkpoint, and the spikes of its loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.compare import in_common_renamed, overlap
from hopscope.training.run import RunFolder
from studies.tools.circuits import Seen, diverged

SPIKE = 0.1
"""Once a circuit is there, a validation loss above this, twice the bar, is a spike."""


@dataclass(frozen=True)
class Followed:
    """One model over time.

    Attributes:
        rate: `constant` or `falling`.
        seed: the seed it was trained from.
        steps: the steps of its training.
        circuits: its circuits at the checkpoints that hold the bar, in order.
        spikes: the steps at which a spike begins, after the first circuit.
        crossed: for every path of the last circuit, the step at which its attention first crosses 0.5; None if never.
        made: how the model was trained and examined, see `studies.tools.kept.made_by`; empty if it is not known.
        checkpoints: the steps of the checkpoints whose circuits were searched for, whether they hold the bar or not;
            empty in records that do not say.
    """

    rate: str
    seed: int
    steps: int
    circuits: tuple[Seen, ...]
    spikes: tuple[int, ...]
    crossed: tuple[float | None, ...]
    made: str = ""
    checkpoints: tuple[int, ...] = ()

    def kept(self, of: Sequence[Seen]) -> float:
        """The share of the last circuit's paths that the first circuit of `of` has too."""
        last = set(self.circuits[-1].paths)
        return len(last & set(of[0].paths)) / len(last)

    def kept_renamed(self, of: Sequence[Seen]) -> float:
        """As `kept`, once the heads of that circuit are renamed within their layers to have the most in common."""
        last = self.circuits[-1].paths
        return in_common_renamed(last, of[0].paths) / len(set(last))

    @property
    def there_at_first(self) -> float:
        """The share of the last circuit's paths that already attended when the first circuit was there."""
        first = self.circuits[0].step or 0
        return mean(step is not None and step <= first for step in self.crossed) if self.crossed else 0.0

    @property
    def neighbours(self) -> list[tuple[Seen, Seen]]:
        """Pairs of circuits, of a checkpoint and of the very next one.

        A checkpoint within a spike has no circuit, so those before and after it are not neighbours: they had twice as
        long to drift. Where a record does not say which checkpoints there were, they are taken to be evenly spaced, as
        far apart as the two nearest circuits.
        """
        after = dict(pairwise(self.checkpoints or _evenly([one.step or 0 for one in self.circuits])))
        return [(one, other) for one, other in pairwise(self.circuits) if after.get(one.step or 0) == other.step]

    @property
    def changes(self) -> list[tuple[float, bool]]:
        """From one checkpoint to the next: the overlap of their circuits, and whether a spike lies between them."""
        return [
            (
                overlap(set(one.paths), set(after.paths)),
                any((one.step or 0) < spike <= (after.step or 0) for spike in self.spikes),
            )
            for one, after in self.neighbours
        ]

    @property
    def spike_rate(self) -> float:
        """Spikes per thousand steps, from the first circuit on."""
        watched = self.steps - (self.circuits[0].step or 0)
        return 1000 * len(self.spikes) / watched if watched else 0.0


def checkpoints_after_learning(one: RunFolder) -> list[int]:
    """Steps of the checkpoints since every hop was learned, up to where the model diverged; none if a hop never was."""
    learned = one.regular_metrics.first_below()[0]
    if None in learned:
        return []
    after = max(at for at in learned if at is not None)
    return [step for step in one.checkpoints if step >= after and not diverged(one, step)]


def looked_at(one: RunFolder) -> bool:
    """Whether a circuit was searched for at each of these checkpoints, and the last circuit followed."""
    from hopscope.circuits.store import circuit_path
    from hopscope.emergence.track import emergence_path

    if not all(circuit_path(one.path, 0, step).exists() for step in checkpoints_after_learning(one)):
        return False
    circuits = _circuits(one)
    return not circuits or emergence_path(one.path, 0, circuits[-1].step).exists()


def _circuits(one: RunFolder) -> tuple[Seen, ...]:
    """The circuits found at those of these checkpoints that hold the bar."""
    from hopscope.circuits.store import circuit_path

    name = f"{one.path.parent.name}/{one.path.name}"
    found = {step: Circuit.load(circuit_path(one.path, 0, step)) for step in checkpoints_after_learning(one)}
    every = [Seen.of(circuit, name, step) for step, circuit in found.items()]
    return tuple(seen for seen in every if seen.paths)


def follow(path: Path) -> None:
    """Follow the last circuit of a run through its checkpoints, unless that was done before."""
    from hopscope.emergence.track import emergence_of_run

    one = RunFolder(path)
    circuits = _circuits(one)
    if circuits:
        emergence_of_run(one, 0, step=circuits[-1].step)


def followed(one: RunFolder) -> Followed:
    """The record of a run whose circuits were found and followed."""
    from hopscope.emergence.history import Emergence
    from hopscope.emergence.track import emergence_path

    circuits = _circuits(one)
    crossed: tuple[float | None, ...] = ()
    if circuits:
        history = Emergence.load(emergence_path(one.path, 0, circuits[-1].step))
        crossed = tuple(path.crossing.step for path in history.paths)
    spikes = _spikes(one, circuits[0].step or 0) if circuits else ()
    known = one.path.parent.name, one.seeds[0], one.plans.end
    return Followed(*known, circuits, spikes, crossed, checkpoints=tuple(checkpoints_after_learning(one)))


def _evenly(steps: Sequence[int]) -> Sequence[int]:
    """Evenly spaced steps from the first to the last of these, as far apart as the nearest two."""
    nearest = min((after - one for one, after in pairwise(steps)), default=1)
    return range(steps[0], steps[-1] + 1, nearest) if steps else ()


def _spikes(one: RunFolder, since: int) -> tuple[int, ...]:
    """Logged steps after `since` at which the validation loss has risen above `SPIKE`."""
    metrics = one.regular_metrics.after(since)
    above = (~(metrics.validation_loss[:, 0] < SPIKE)).tolist()
    before = [False, *above]  # an entry more than there are steps, of which there may be none
    return tuple(
        step for step, now, then in zip(metrics.steps.tolist(), above, before, strict=False) if now and not then
    )
