"""Section 7: training by depth, with and without the implicit curriculum (IC); Figure 4 and claims C3 to C5.

For each formulation and number of layers a model is trained from every seed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.paper.claims import Finding, in_folder
from hopscope.paper.groups import Group, read_summary, write_summary
from hopscope.paper.report import PageFigure, Section, Table
from hopscope.paper.section_7_claims import judge_groups
from hopscope.paper.section_7_figures import final_losses, partial_losses
from hopscope.plot.style import save
from hopscope.plot.training import Panel, training
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash, plain
from hopscope.theory.depth import depths, reach
from hopscope.training.execution import FASTEST, Execution
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.side_by_side import SILENT, ProgressDisplay, train_all
from hopscope.words import counted

if TYPE_CHECKING:
    from hopscope.training.side_by_side import Then


@dataclass(frozen=True)
class DepthStudy:
    """What is trained.

    Attributes:
        scale: the preset's name.
        recipe: the recipe of every run; its `layers` are varied.
        layers: the depths.
        hops: D with the implicit curriculum.
        plain_hops: D without it.
        seeds: the seeds with the implicit curriculum, one model each.
        plain_seeds: the seeds without it, one model each.
        followed: the depth whose runs with the implicit curriculum keep checkpoints, for circuits and emergence;
            `None` for none.
        seeds_followed: the seeds at that depth, in place of `seeds`; empty for `seeds`.
        checkpoint_every: steps between these checkpoints.
    """

    scale: str
    recipe: Recipe
    layers: tuple[int, ...]
    hops: int
    plain_hops: int
    seeds: tuple[int, ...]
    plain_seeds: tuple[int, ...]
    followed: int | None = None
    seeds_followed: tuple[int, ...] = ()
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        if self.recipe.steps < self.recipe.log_every:  # Figure 4 is drawn from the rows at its multiples
            raise InputError(
                f"a study by depth needs steps of at least log_every ({self.recipe.log_every}), got "
                f"{self.recipe.steps}; log more often"
            )

    def setups(self) -> list[Setup]:
        """All runs, of each formulation and depth."""
        return [run for curriculum in (True, False) for layers in self.layers for run in self.runs(curriculum, layers)]

    def runs(self, curriculum: bool, layers: int) -> list[Setup]:
        """The runs of one formulation and depth, one for each seed; where it helps, they train as one ensemble."""
        problem = RetrievalProblem(hops=self.hops if curriculum else self.plain_hops, curriculum=curriculum)
        recipe = replace(self.recipe, layers=layers)
        if curriculum and layers == self.followed:
            recipe = replace(recipe, checkpoint_every=self.checkpoint_every, checkpoint_precision="bf16")
        return [
            Setup(run_name(curriculum, layers, seed), problem, recipe, (seed,))
            for seed in self.seeds_at(curriculum, layers)
        ]

    def left(self, known: Mapping[str, Group]) -> list[Setup]:
        """The runs whose seed is not known yet, and all at the followed depth, whose weights are needed."""
        left = []
        for curriculum, layers in product((True, False), self.layers):
            for one in self.runs(curriculum, layers):
                group = known.get(made(one))
                if group is None or one.seeds[0] not in group.seeds or (curriculum and layers == self.followed):
                    left.append(one)
        return left

    def seeds_at(self, curriculum: bool, layers: int) -> tuple[int, ...]:
        """The seeds of one formulation and depth."""
        if not curriculum:
            return self.plain_seeds
        if layers == self.followed and self.seeds_followed:
            return self.seeds_followed
        return self.seeds


def run_name(curriculum: bool, layers: int, seed: int) -> str:
    """The name of a model's run folder."""
    return f"{'ic' if curriculum else 'non-ic'}-layers-{layers}-seed-{seed}"


def made(one: Setup) -> str:
    """A hash that tells a run from those of another formulation, depth or recipe, but not from those of other seeds."""
    return content_hash([plain(replace(one, name="", seeds=(0,)))])


@dataclass(frozen=True)
class DepthResult:
    """The groups of the finished runs, as in `summary.json`; by number of layers the metrics of those with the implicit
    curriculum; and the folder of the runs, relative to the reproduction's."""

    study: DepthStudy
    groups: tuple[Group, ...]
    curves: tuple[tuple[int, Metrics], ...]
    run: str


def run(
    study: DepthStudy,
    folder: Path,
    execution: Execution = FASTEST,
    display: ProgressDisplay = SILENT,
    *,
    then: Mapping[str, Then] | None = None,
) -> DepthResult:
    """Train what is not trained yet, into `sweep/`, and read the results of the runs; `then` as in `train_all`.

    Runs that `summary.json` knows are not needed, on this machine or another.
    """
    setups = study.left(_known(study, folder))
    with display.runs(setups) as watch:
        train_all(setups, folder / "sweep", execution=execution, then=then, watch=watch)
    return read(study, folder)


def read(study: DepthStudy, folder: Path, *, at: str = "sweep") -> DepthResult:
    """Read the results of the finished runs in `folder / at`, and write them to `folder / "summary.json"`.

    Where no run is left but the summary is there, the summary is read, which suffices for the judges. Seeds in it that
    have no run any more are kept beside those that have one.

    Raises:
        InputError: a run or the summary there is damaged, or belongs to another study.
    """
    from hopscope.training.side_by_side import finished

    runs = finished(study.setups(), folder / at)
    summary = folder / "summary.json"
    groups, curves, known = [], [], _known(study, folder)
    for curriculum, layers in product((True, False), study.layers):
        setups = study.runs(curriculum, layers)
        alike = made(setups[0]) if setups else ""
        some = [runs[setup.name] for setup in setups if setup.name in runs]
        found = [known[alike]] if alike in known else []
        if some:
            where = os.path.relpath(some[0].path, folder) if len(some) == 1 else at
            found.insert(0, Group.of(some, where, alike))
        if found:
            groups.append(found[0].joined(found[-1], study.seeds_at(curriculum, layers)))
        if some and curriculum:
            curves.append((layers, Metrics.side_by_side([run.metrics for run in some])))
    if groups:
        write_summary(summary, tuple(groups))
    return DepthResult(study, tuple(groups), tuple(curves), at)


def _known(study: DepthStudy, folder: Path) -> dict[str, Group]:
    """What the summary says of the study's models, by how they were made.

    Raises:
        InputError: the summary is damaged, or says something about other models.
    """
    summary = folder / "summary.json"
    groups = read_summary(summary) if summary.exists() else ()
    asked = {made(setup) for setup in study.setups()}
    for group in groups:
        if group.made not in asked:
            raise InputError(
                f"{summary} holds models of {counted(group.layers, 'layer')} and D = {group.hops} that {study.scale} "
                "does not train; it was left untouched: ask for the same depths, hops and recipe, or choose another "
                "folder"
            )
    return {group.made: group for group in groups}


def judge(result: DepthResult) -> list[Finding]:
    """Findings on C3, C4 and C5."""
    return in_folder(result.run, judge_groups(result.groups, result.study.scale))


def section(result: DepthResult, figures: Path) -> Section | None:
    """The section with the figures of Section 7 and a table of every run; None where nothing is finished."""
    if not result.groups:
        return None
    drawn = [_final_losses(result, figures)]
    if any(group.curriculum for group in result.groups):
        drawn.append(_partial_losses(result, figures))
    if result.curves:
        drawn.append(_training(result, figures))
    return Section(
        "Training by depth (Section 7)",
        paragraphs=[
            "With the implicit curriculum (IC) a query is asked for every symbol of its chain, without it for the last "
            "alone. A loss of 1 is knowing nothing; 0.75 is knowing the four candidates and not which, the plateau on "
            "which training starts.",
            _theory_says(result.study.layers),
        ],
        figures=drawn,
        tables=[_table(result)],
    )


def _partial_losses(result: DepthResult, figures: Path) -> PageFigure:
    stem = figures / "figure-4-right"
    save(partial_losses(result.groups, {hop: depths(hop).causal for hop in range(1, result.study.hops + 1)}), stem)
    return PageFigure(
        stem,
        "Figure 4, right. The same with the implicit curriculum, hop by hop. Dotted lines, in the colour of their hop: "
        "the exact minimum depth floor(log2 k) + 2 of hop k (under Assumptions 1 and 2, deepest or shallowest pairs "
        "first), left of which theory lets no run learn it.",
    )


def _training(result: DepthResult, figures: Path) -> PageFigure:
    stem = figures / "training"
    every = result.study.recipe.log_every
    save(training(*[Panel(counted(layers, "layer"), metrics, every) for layers, metrics in result.curves]), stem)
    return PageFigure(
        stem,
        "Losses over time with the implicit curriculum, a panel for each number of layers. A mark shows where a hop "
        "falls below 0.5.",
    )


def _final_losses(result: DepthResult, figures: Path) -> PageFigure:
    study, exact = result.study, depths(result.study.hops)
    lines = {f"Theorem 1, D = {study.hops}": exact.theorem_1, f"exact causal minimum, D = {study.hops}": exact.causal}
    shown = {label: layers for label, layers in lines.items() if layers <= max(study.layers, default=0)}
    save(final_losses(result.groups, shown), figures / "figure-4-left")
    return PageFigure(
        figures / "figure-4-left",
        "Figure 4, left. Final validation loss (mean over the last "
        f"{study.recipe.final_steps} steps) by number of layers; line: mean over the seeds on the scale, band: lowest "
        "to highest of them, dots: seeds. Vertical lines: how many layers the theory asks for.",
    )


def _theory_says(layers: tuple[int, ...]) -> str:
    reached = ", ".join(f"{counted(number, 'layer')} {counted(reach(number), 'hop')}" for number in layers)
    return (
        "The exact minimum depth under a causal mask, floor(log2 D) + 2 (under Assumptions 1 and 2, deepest or "
        "shallowest pairs first), says how far each can reach: "
        f"{reached}. Theorem 1, a lower bound, would allow more."
    )


def _table(result: DepthResult) -> Table:
    hops = range(1, result.study.hops + 1)
    return Table(
        header=["", "layers", "seed", "final loss", *(f"x{hop}" for hop in hops), "below 0.5 at step"],
        rows=[_row(group, model, hops) for group in result.groups for model in range(len(group.seeds))],
        caption="Every run: final validation loss, its part for each hop asked for, and when each was learned.",
    )


def _row(group: Group, model: int, hops: range) -> list[object]:
    losses = dict(zip(group.asked, group.final_partial_losses[model], strict=True))
    steps = ["never" if step is None else str(step) for step in group.crossings[model]]
    return [
        "IC" if group.curriculum else "no IC",
        group.layers,
        group.seeds[model],
        _number(group.final_validation_loss[model]),
        *(_number(losses[hop]) if hop in losses else "–" for hop in hops),
        " · ".join(steps),
    ]


def _number(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.3f}"
