"""What run.json and result.json say, as types."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hopscope.errors import InputError
from hopscope.problem.graph import REVISED
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import as_before, content_hash
from hopscope.training.engine import Engine
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

ADDED = {
    "head_dropout": 0.0,
    "head_dropout_after": 0,
    "embedding_gain": 1.0,
    "output_gain": 1.0,
    "optimiser": "adamw",
}
"""Fields that recipes and problems have got since studies keep records of them (`hopscope.studies.kept`), and what they
stand at in those that lack them. The next one goes here."""

_ADDED_BEFORE = {
    "fall": 0.3,
    "learned_below": 0.5,
    "prune_every": None,
    "prune_cost": 0.3,
    "hop_weights": None,
    "asked": None,
    "graph": "chain",
}
"""Those that runs lack which are older than that."""


def run_hash(problem: dict[str, Any], recipe: dict[str, Any], seeds: list[int]) -> str:
    """A name for what is trained, the same for a recipe written before a field was added and after."""
    told: dict[str, Any] = {"problem": problem, "recipe": recipe, "seeds": seeds}
    if problem.get("graph") in REVISED:
        told["revision"] = REVISED[problem["graph"]]
    return content_hash(as_before(told, ADDED | _ADDED_BEFORE))


def hash_of(setup: Setup) -> str:
    """The content hash of the run of a setup, whether it is there or not."""
    return run_hash(asdict(setup.problem), asdict(setup.recipe), list(setup.seeds))


def check_hash(told: dict[str, Any]) -> None:
    """See that the content hash is that of what stands beside it in run.json, where an older recipe may lack fields.

    Raises:
        InputError: it is not.
    """
    if run_hash(told["problem"], told["recipe"], told["seeds"]) != told["content_hash"]:
        raise InputError("its content_hash is not that of its problem, recipe and seeds")


@dataclass(frozen=True)
class RunRecord:
    """What run.json says.

    Attributes:
        content_hash: a name for what is trained: of problem, recipe and seeds.
        problem: what on.
        recipe: how.
        seeds: one a model.
        engine: how steps are computed; kept when the run resumes.
        versions: of hopscope, torch and Python where the run began.
    """

    content_hash: str
    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...]
    engine: Engine
    versions: dict[str, str]


@dataclass(frozen=True)
class ModelResult:
    """What one model of a finished run came to. A loss that is not a number is None.

    Attributes:
        model: from 0, in the order of the run's seeds.
        seed: of its weights and data.
        hash: a name for the model: what it was trained from, and its seed.
        final_validation_loss: mean over the last `final_steps` steps of the recipe.
        final_partial_losses: likewise, by hop asked for.
        held_out_loss: on a fixed set of sequences, the same for every run on the problem.
        held_out_standard_error: of that, over sequences.
        held_out_partial_losses: on the same set, by hop asked for.
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
        """Whether in the end its answers were no numbers."""
        return self.held_out_loss is None


@dataclass(frozen=True)
class Result:
    """What result.json says.

    Attributes:
        steps: updates done.
        held_out: sequences in the held-out set.
        models: one a seed.
    """

    steps: int
    held_out: int
    models: tuple[ModelResult, ...]
