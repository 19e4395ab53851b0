"""The results of an ensemble of one formulation and depth: a row of `summary.json`, and of Figure 4."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hopscope.records import RecordFormat
from hopscope.theory.depth import depths
from hopscope.training.metrics import learned_below
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder

_BY_SEED = ("final_validation_loss", "final_partial_losses", "held_out_loss", "held_out_standard_error", "crossings")
"""The fields of a group that have an entry for every seed."""


@dataclass(frozen=True)
class Group:
    """The results of the runs of one formulation and depth, with an entry for each seed; None where one diverged.

    Attributes:
        hops: D.
        chains: N.
        curriculum: whether every hop was asked for, or the last alone.
        layers: the number of layers of the models.
        seeds: the seeds of the models.
        final_validation_loss: mean validation loss over the last steps.
        final_partial_losses: the same by hop asked for.
        held_out_loss: the loss on the fixed held-out sequences, at the end, with its standard error after it.
        crossings: for each hop asked for, the first logged step at which its validation loss was that of a
            hop that is learned (`metrics.learned_below`).
        run: the folder of the run, or of the runs, relative to the reproduction's.
        made: a hash of recipe and problem, by which a study goes on from its summary alone.
    """

    hops: int
    chains: int
    curriculum: bool
    layers: int
    seeds: tuple[int, ...]
    final_validation_loss: tuple[float | None, ...]
    final_partial_losses: tuple[tuple[float | None, ...], ...]
    held_out_loss: tuple[float | None, ...]
    held_out_standard_error: tuple[float | None, ...]
    crossings: tuple[tuple[int | None, ...], ...]
    run: str
    made: str = ""

    @classmethod
    def of(cls, runs: Sequence[RunFolder], name: str, made: str = "") -> Group:
        """The group of finished runs of one recipe that differ only in their seeds."""
        run = runs[0]
        models = [model for run in runs for model in run.result.models]
        return cls(
            hops=run.problem.hops,
            chains=run.problem.chains,
            curriculum=run.problem.curriculum,
            layers=run.recipe.layers,
            seeds=tuple(seed for run in runs for seed in run.seeds),
            final_validation_loss=tuple(model.final_validation_loss for model in models),
            final_partial_losses=tuple(model.final_partial_losses for model in models),
            held_out_loss=tuple(model.held_out_loss for model in models),
            held_out_standard_error=tuple(model.held_out_standard_error for model in models),
            crossings=tuple(model for run in runs for model in run.regular_metrics.first_below()),
            run=name,
            made=made,
        )

    def joined(self, other: Group, order: Sequence[int]) -> Group:
        """This group with the seeds of `other` that it lacks, in the given order; seeds not in the order are left
        out."""
        entries = {seed: (group, model) for group in (other, self) for model, seed in enumerate(group.seeds)}
        seeds = tuple(seed for seed in order if seed in entries)
        by_seed: dict[str, Any] = {
            name: tuple(getattr(group, name)[model] for group, model in (entries[seed] for seed in seeds))
            for name in _BY_SEED
        }
        return replace(self, seeds=seeds, **by_seed)

    @property
    def asked(self) -> range:
        """The hops that are asked for, from 1."""
        return range(1 if self.curriculum else self.hops, self.hops + 1)

    def diverged(self, model: int) -> bool:
        """Whether a seed's loss was not a number in the end."""
        return self.final_validation_loss[model] is None

    def learned(self, model: int, hop: int) -> bool:
        """Whether a seed ends with this hop's partial loss below that of a learned one; hops count from 1."""
        losses = self.final_partial_losses[model]
        loss = losses[hop - self.asked[0]] if hop in self.asked else None
        return loss is not None and loss < learned_below(self.chains)

    def forbidden(self, hop: int) -> bool:
        """Whether Theorem 1 says that so few layers cannot learn a hop, since t < log3(2D)."""
        return self.layers < depths(hop).theorem_1

    def too_shallow(self, hop: int) -> bool:
        """Whether so few layers are below a hop's exact minimum, ours for heads that bring what they look at
        (docs/theory.md)."""
        return self.layers < depths(hop).causal


@dataclass(frozen=True)
class DepthSummary:
    """What `summary.json` holds: a group for each formulation and depth with a known seed."""

    groups: tuple[Group, ...]


_FORM = RecordFormat(DepthSummary, "hopscope depth study", "the summary of a depth study")


def write_summary(path: Path, groups: tuple[Group, ...]) -> None:
    """Write `summary.json`."""
    _FORM.write(path, DepthSummary(groups))


def read_summary(path: Path) -> tuple[Group, ...]:
    """Read `summary.json`.

    Raises:
        InputError: it is missing or damaged.
    """
    return _FORM.read(path).groups


def read_groups(setups: Sequence[Setup], folder: Path, at: str) -> tuple[Group, ...]:
    """The groups of the finished runs of these setups in `folder / at`, one for each run.

    Raises:
        InputError: a run there is damaged, or belongs to another setup.
    """
    from hopscope.training.side_by_side import finished

    runs = finished(setups, folder / at).values()
    return tuple(Group.of([run], os.path.relpath(run.path, folder)) for run in runs)
