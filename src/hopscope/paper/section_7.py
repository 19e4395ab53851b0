"""Section 7: training by depth, with and without the implicit curriculum (IC): the runs and their results.

For each formulation and number of layers, one model is trained per seed; it is one row of `summary.json`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.errors import InputError
from hopscope.paper.recipes import SWEEP
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import RecordFormat, content_hash, plain
from hopscope.theory.depth import depths
from hopscope.training.execution import Execution
from hopscope.training.metrics import learned_below
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import finished, train_all
from hopscope.words import counted


@dataclass(frozen=True)
class TrainedModel:
    """The result of training one model, a row of `summary.json`. Losses are None if the model diverged.

    Attributes:
        hops: D.
        chains: N.
        curriculum: whether every hop was asked for, not only the last.
        layers: the number of layers.
        seed: the seed that the model was trained from.
        loss: mean validation loss over the last steps.
        partial_losses: mean validation loss of each hop asked for, over the last steps.
        held_out_loss: the loss on the fixed held-out sequences, at the end.
        held_out_standard_error: the standard error of `held_out_loss`.
        crossings: for each hop asked for, the first logged step at which its validation loss was below
            `metrics.learned_below`.
        made: a hash of recipe and problem, which identifies the study's models in its summary.
    """

    hops: int
    chains: int
    curriculum: bool
    layers: int
    seed: int
    loss: float | None
    partial_losses: tuple[float | None, ...]
    held_out_loss: float | None
    held_out_standard_error: float | None
    crossings: tuple[int | None, ...]
    made: str = ""

    @classmethod
    def of(cls, run: RunFolder, made: str = "") -> list[TrainedModel]:
        """Return the results of all models of a finished run."""
        problem, layers, crossings = run.problem, run.recipe.layers, run.regular_metrics.first_below()
        return [
            cls(
                problem.hops, problem.chains, problem.curriculum, layers, model.seed, model.final_validation_loss,
                model.final_partial_losses, model.held_out_loss, model.held_out_standard_error, steps, made,
            )
            for model, steps in zip(run.result.models, crossings, strict=True)
        ]  # fmt: skip

    @property
    def asked(self) -> range:
        """The hops that are asked for, from 1."""
        return range(1 if self.curriculum else self.hops, self.hops + 1)

    def learned(self, hop: int) -> bool:
        """Return whether the final partial loss of a hop is below that of a learned hop; hops count from 1."""
        loss = self.partial_losses[hop - self.asked[0]] if hop in self.asked else None
        return loss is not None and loss < learned_below(self.chains)

    def forbidden(self, hop: int) -> bool:
        """Return whether Theorem 1 forbids the hop at this number of layers, since t < log3(2D)."""
        return self.layers < depths(hop).theorem_1

    def too_shallow(self, hop: int) -> bool:
        """Return whether this depth is below a hop's exact minimum under Assumptions 1 and 2 (docs/theory.md)."""
        return self.layers < depths(hop).causal


def learned_deeper(model: TrainedModel, models: Sequence[TrainedModel]) -> list[int]:
    """Return the hops asked of this model that a model of the same formulation with more layers learned.

    They are the positive control for hops that this model did not learn. A model that diverged has no such hops.
    """
    alike = (model.hops, model.chains, model.curriculum)
    deeper = [m for m in models if m.layers > model.layers and (m.hops, m.chains, m.curriculum) == alike]
    return [hop for hop in model.asked if model.loss is not None and any(other.learned(hop) for other in deeper)]


@dataclass(frozen=True)
class DepthSummary:
    """The contents of `summary.json`: every model of the study whose result is known."""

    models: tuple[TrainedModel, ...]


SUMMARY = RecordFormat(DepthSummary, "hopscope depth study", "the summary of a depth study")
"""The format of `summary.json`."""


@dataclass(frozen=True)
class DepthStudy:
    """The models to train.

    Attributes:
        scale: the preset's name.
        recipe: the recipe of every run; its `layers` are varied.
        layers: the numbers of layers.
        hops: D of the runs with the implicit curriculum.
        plain_hops: D of the runs without the implicit curriculum.
        seeds: the seeds of the runs with the implicit curriculum, one model each.
        plain_seeds: the seeds of the runs without the implicit curriculum, one model each; `None` for the same seeds.
        followed: the number of layers whose runs with the implicit curriculum keep checkpoints, for circuits and
            emergence; `None` if no runs keep checkpoints.
        checkpoint_every: steps between these checkpoints.
    """

    scale: str
    recipe: Recipe
    layers: tuple[int, ...]
    hops: int
    plain_hops: int
    seeds: tuple[int, ...]
    plain_seeds: tuple[int, ...] | None = None
    followed: int | None = None
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        if (steps := self.recipe.steps) < (every := self.recipe.log_every):  # Figure 4 uses rows at its multiples
            raise InputError(f"a study by depth needs at least log_every ({every}) steps, got {steps}; log more often")

    @property
    def as_the_paper(self) -> bool:
        """Whether recipe and hops are those of the paper's Figure 4."""
        return (replace(self.recipe, layers=SWEEP.layers), self.hops, self.plain_hops) == (SWEEP, 5, 3)

    def setups(self) -> list[Setup]:
        """Return all runs of each formulation and depth."""
        return [run for curriculum in (True, False) for layers in self.layers for run in self.runs(curriculum, layers)]

    def runs(self, curriculum: bool, layers: int) -> list[Setup]:
        """Return the runs of one formulation and depth, one per seed; they can be trained as one ensemble."""
        problem = RetrievalProblem(hops=self.hops if curriculum else self.plain_hops, curriculum=curriculum)
        seeds = self.seeds if curriculum or self.plain_seeds is None else self.plain_seeds
        recipe = replace(self.recipe, layers=layers)
        if curriculum and layers == self.followed:
            recipe = replace(recipe, checkpoint_every=self.checkpoint_every, checkpoint_precision="bf16")
        name = f"{'ic' if curriculum else 'non-ic'}-layers-{layers}-seed-"
        return [Setup(f"{name}{seed}", problem, recipe, (seed,)) for seed in seeds]

    def left(self, known: Collection[tuple[str, int]]) -> list[Setup]:
        """Return the runs that are not `known` (by hash and seed), and all followed runs, whose weights are needed."""
        followed = self.runs(True, self.followed) if self.followed else []
        return [run for run in self.setups() if run in followed or (made(run), run.seeds[0]) not in known]


def made(setup: Setup) -> str:
    """Return a hash of a run's formulation, depth and recipe; the seed does not change the hash."""
    return content_hash([plain(replace(setup, name="", seeds=(0,)))])


@dataclass(frozen=True)
class DepthResult:
    """The models of the finished runs, as in `summary.json`, and the runs' folder in the reproduction's folder."""

    study: DepthStudy
    models: tuple[TrainedModel, ...]
    run: str


def run(study: DepthStudy, folder: Path, execution: Execution, progress: bool = False) -> None:
    """Train the missing runs into `sweep/`; except for followed runs, results in `summary.json` are enough."""
    setups = study.left(_known(study, folder))
    train_all(setups, folder / "sweep", execution=execution, progress=progress)


def read(study: DepthStudy, folder: Path, *, at: str = "sweep") -> DepthResult:
    """Read the results of the finished runs in the folder `at`, and write them to `summary.json`.

    Models in the summary are kept even if their run folder is gone, since claims need only the summary.
    Raises an `InputError` if a run or the summary is damaged or belongs to another study.
    """
    known, runs = _known(study, folder), finished(study.setups(), folder / at)
    for setup in study.setups():
        if setup.name in runs:
            (known[made(setup), setup.seeds[0]],) = TrainedModel.of(runs[setup.name], made(setup))
    in_order = [(made(setup), setup.seeds[0]) for setup in study.setups()]
    models = tuple(known[key] for key in in_order if key in known)
    if models:
        others = (model for key, model in known.items() if key not in in_order)  # of other seeds
        SUMMARY.write(folder / "summary.json", DepthSummary((*models, *others)))
    return DepthResult(study, models, at)


def _known(study: DepthStudy, folder: Path) -> dict[tuple[str, int], TrainedModel]:
    """Return the models in the summary, keyed by their hash `made` and their seed."""
    summary = folder / "summary.json"
    models = SUMMARY.read(summary).models if summary.exists() else ()
    planned = {made(setup) for setup in study.setups()}
    for model in models:
        if model.made not in planned:
            raise InputError(
                f"{summary} holds a model of {counted(model.layers, 'layer')} and D = {model.hops} with other settings "
                f"than {study.scale}'s; it was left untouched: give the same settings, or choose another folder"
            )
    return {(model.made, model.seed): model for model in models}
