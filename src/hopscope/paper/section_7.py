"""Section 7: training by depth, with and without the implicit curriculum (IC): what is run, and what came of it.

For each formulation and number of layers a model is trained from every seed: a row of `summary.json`.
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
    """What training one model came to, a row of `summary.json`. Losses are None where it diverged.

    Attributes:
        hops: D.
        chains: N.
        curriculum: whether every hop was asked for, or the last alone.
        layers: the number of layers.
        seed: the seed it was trained from.
        loss: mean validation loss over the last steps.
        partial_losses: the same by hop asked for.
        held_out_loss: the loss on the fixed held-out sequences, at the end.
        held_out_standard_error: its standard error.
        crossings: for each hop asked for, the first logged step at which its validation loss was that of a hop that is
            learned (`metrics.learned_below`).
        made: a hash of recipe and problem, by which a study goes on from its summary alone.
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
        """The models of a finished run."""
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
        """Whether it ends with this hop's partial loss below that of a learned one; hops count from 1."""
        loss = self.partial_losses[hop - self.asked[0]] if hop in self.asked else None
        return loss is not None and loss < learned_below(self.chains)

    def forbidden(self, hop: int) -> bool:
        """Whether Theorem 1 says that so few layers cannot learn a hop, since t < log3(2D)."""
        return self.layers < depths(hop).theorem_1

    def too_shallow(self, hop: int) -> bool:
        """Whether so few layers are below a hop's exact minimum under Assumptions 1 and 2 (docs/theory.md)."""
        return self.layers < depths(hop).causal


def learned_deeper(model: TrainedModel, models: Sequence[TrainedModel]) -> list[int]:
    """The hops that this model was asked for and that one of the same formulation with more layers learned.

    They are the positive control of what it did not learn; a model that diverged is no test of anything.
    """
    alike = (model.hops, model.chains, model.curriculum)
    deeper = [m for m in models if m.layers > model.layers and (m.hops, m.chains, m.curriculum) == alike]
    return [hop for hop in model.asked if model.loss is not None and any(other.learned(hop) for other in deeper)]


@dataclass(frozen=True)
class DepthSummary:
    """What `summary.json` holds: every model of the study of which the result is known."""

    models: tuple[TrainedModel, ...]


SUMMARY = RecordFormat(DepthSummary, "hopscope depth study", "the summary of a depth study")
"""The format of `summary.json`."""


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
        plain_seeds: the seeds without it, one model each; `None` for the same.
        followed: the depth whose runs with the implicit curriculum keep checkpoints, for circuits and emergence;
            `None` for none.
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
        if (steps := self.recipe.steps) < (every := self.recipe.log_every):  # Figure 4 has the rows at its multiples
            raise InputError(f"a study by depth needs at least log_every ({every}) steps, got {steps}; log more often")

    @property
    def as_the_paper(self) -> bool:
        """Whether recipe and hops are those of the paper's Figure 4."""
        return (replace(self.recipe, layers=SWEEP.layers), self.hops, self.plain_hops) == (SWEEP, 5, 3)

    def setups(self) -> list[Setup]:
        """All runs, of each formulation and depth."""
        return [run for curriculum in (True, False) for layers in self.layers for run in self.runs(curriculum, layers)]

    def runs(self, curriculum: bool, layers: int) -> list[Setup]:
        """The runs of one formulation and depth, one for each seed; where it helps, they train as one ensemble."""
        problem = RetrievalProblem(hops=self.hops if curriculum else self.plain_hops, curriculum=curriculum)
        seeds = self.seeds if curriculum or self.plain_seeds is None else self.plain_seeds
        recipe = replace(self.recipe, layers=layers)
        if curriculum and layers == self.followed:
            recipe = replace(recipe, checkpoint_every=self.checkpoint_every, checkpoint_precision="bf16")
        name = f"{'ic' if curriculum else 'non-ic'}-layers-{layers}-seed-"
        return [Setup(f"{name}{seed}", problem, recipe, (seed,)) for seed in seeds]

    def left(self, known: Collection[tuple[str, int]]) -> list[Setup]:
        """The runs not known yet, by hash and seed, and all at the followed depth, whose weights are needed."""
        followed = self.runs(True, self.followed) if self.followed else []
        return [run for run in self.setups() if run in followed or (made(run), run.seeds[0]) not in known]


def made(setup: Setup) -> str:
    """A hash that tells a run from those of another formulation, depth or recipe, but not from those of other seeds."""
    return content_hash([plain(replace(setup, name="", seeds=(0,)))])


@dataclass(frozen=True)
class DepthResult:
    """The models of the finished runs, as in `summary.json`, and the folder of the runs, in the reproduction's."""

    study: DepthStudy
    models: tuple[TrainedModel, ...]
    run: str


def run(study: DepthStudy, folder: Path, execution: Execution, progress: bool = False) -> None:
    """Train what is not trained yet, into `sweep/`; runs that `summary.json` knows are not needed."""
    setups = study.left(_known(study, folder))
    train_all(setups, folder / "sweep", execution=execution, progress=progress)


def read(study: DepthStudy, folder: Path, *, at: str = "sweep") -> DepthResult:
    """Read the results of the finished runs in the folder `at`, and write them to `summary.json`.

    Seeds in the summary that have no run any more stay beside those that have one, which suffices for the judges.
    `InputError` where a run or the summary is damaged, or belongs to another study.
    """
    known, runs = _known(study, folder), finished(study.setups(), folder / at)
    for setup in study.setups():
        if setup.name in runs:
            (known[made(setup), setup.seeds[0]],) = TrainedModel.of(runs[setup.name], made(setup))
    in_order = [(made(setup), setup.seeds[0]) for setup in study.setups()]
    models = tuple(known[key] for key in in_order if key in known)
    if models:
        SUMMARY.write(folder / "summary.json", DepthSummary(models))
    return DepthResult(study, models, at)


def _known(study: DepthStudy, folder: Path) -> dict[tuple[str, int], TrainedModel]:
    """What the summary says of the study's models, by how they were made and their seed."""
    summary = folder / "summary.json"
    models = SUMMARY.read(summary).models if summary.exists() else ()
    planned = {made(setup) for setup in study.setups()}
    for model in models:
        if model.made not in planned:
            raise InputError(
                f"{summary} holds models of {counted(model.layers, 'layer')} and D = {model.hops} that {study.scale} "
                "does not train; it was left untouched: ask for the same study, or choose another folder"
            )
    return {(model.made, model.seed): model for model in models}
