"""The contents of run.json and result.json, as types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash
from hopscope.training.execution import Execution
from hopscope.training.recipe import Recipe, Setup


def hash_of(setup: Setup) -> str:
    """The content hash of a setup's run, whether the run exists or not."""
    return _hash(setup.problem, setup.recipe, setup.seeds)


def _hash(problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int]) -> str:
    return content_hash({"problem": asdict(problem), "recipe": asdict(recipe), "seeds": list(seeds)})


@dataclass(frozen=True)
class RunRecord:
    """The contents of run.json.

    Attributes:
        content_hash: hash of problem, recipe and seeds, which names what is trained.
        problem: what is trained on.
        recipe: how it is trained.
        seeds: one per model.
        execution: how steps are computed; kept when the run resumes.
        versions: versions of hopscope, torch and Python where the run began.
    """

    content_hash: str
    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...]
    execution: Execution
    versions: dict[str, str]

    def __post_init__(self) -> None:
        if self.content_hash != _hash(self.problem, self.recipe, self.seeds):
            raise InputError("content_hash is not that of problem, recipe and seeds")


@dataclass(frozen=True)
class ModelResult:
    """The result of one model of a finished run. A loss that is not a number is None.

    Attributes:
        model: number of the model, from 0, in the order of the run's seeds.
        seed: the seed of its weights and data.
        hash: hash of the run's content hash and the model's seed, which names the model.
        final_validation_loss: mean validation loss over the last steps, see `Schedule.final_from`.
        final_partial_losses: the same by hop asked for.
        held_out_loss: loss on a fixed set of sequences, the same for every run on the problem.
        held_out_standard_error: standard error of that loss over sequences.
        held_out_partial_losses: losses on the same set, by hop asked for.
    """

    model: int
    seed: int
    hash: str
    final_validation_loss: float | None
    final_partial_losses: tuple[float | None, ...]
    held_out_loss: float | None
    held_out_standard_error: float | None
    held_out_partial_losses: tuple[float | None, ...]

    @property
    def diverged(self) -> bool:
        """Whether the trained model's held-out loss is not a number."""
        return self.held_out_loss is None


@dataclass(frozen=True)
class Result:
    """The contents of result.json.

    Attributes:
        steps: updates done.
        held_out: number of sequences in the held-out set.
        models: the result of each model, one per seed.
    """

    steps: int
    held_out: int
    models: tuple[ModelResult, ...]
