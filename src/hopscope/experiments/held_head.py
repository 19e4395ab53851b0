"""Does handing a model its first head remove the plateau?

The first useful head of every circuit in the paper ties the two members of a pair by looking at the token before. Two
arms are trained from the same seeds on the same data: one free, one with a head of its first layer held to the token
before from the first step on. What differs is how long the plateau lasts. A control arm holds the same head to itself:
it loses a head as the other does, and is handed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hopscope.emergence.crossing import spread
from hopscope.emergence.plateau import Plateau, plateau
from hopscope.model.held import HeldHead
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import recipes
from hopscope.training.bundles import Bundle
from hopscope.training.recipe import Recipe
from hopscope.training.run_folder import RunFolder

ARMS: Mapping[str, tuple[HeldHead, ...]] = {
    "free": (),
    "handed": (HeldHead(1, 1, "previous"),),
    "control": (HeldHead(1, 1, "itself"),),
}
"""What is held in each arm."""

REMOVED = 0.1
"""A plateau counts as removed if what is left of it is at most this share of the free arm's."""


@dataclass(frozen=True)
class HeldHeadStudy:
    """What is trained.

    Attributes:
        recipe: of every arm, but for what is held.
        problem: what on.
        seeds: one model each, the same in every arm.
    """

    recipe: Recipe = recipes.LAPTOP
    problem: RetrievalProblem = field(default_factory=lambda: RetrievalProblem(hops=3))
    seeds: tuple[int, ...] = (0, 1, 2)

    def bundles(self) -> list[Bundle]:
        """One run an arm."""
        return [Bundle(name, self.problem, replace(self.recipe, held=held), self.seeds) for name, held in ARMS.items()]


def study_of(run: RunFolder) -> HeldHeadStudy:
    """The study whose free arm a run already is: its recipe, problem and seeds."""
    recipe = replace(run.recipe, checkpoint_every=None, checkpoints_per_doubling=None, checkpoint_jump_every=None)
    return HeldHeadStudy(recipe, run.problem, run.seeds)


def held_bundles(study: HeldHeadStudy, free: RunFolder | None = None) -> list[Bundle]:
    """What has to be trained: every arm, or all but the free one where `free` is that arm already."""
    return [bundle for bundle in study.bundles() if free is None or bundle.name != "free"]


def arms(study: HeldHeadStudy, folder: Path, free: RunFolder | None = None) -> dict[str, RunFolder] | None:
    """The run of every arm, or None while one of them is not finished.

    Args:
        study: what was trained.
        folder: of the arms' run folders.
        free: the free arm where it is not in `folder`.

    Raises:
        InputError: a folder in use for something else.
    """
    found = {} if free is None else {"free": free}
    for bundle in held_bundles(study, free):
        if not (folder / bundle.name / "result.json").exists():
            return None
        found[bundle.name] = RunFolder(folder / bundle.name).require(bundle.problem, bundle.recipe, bundle.seeds)
    return found


def answer(study: HeldHeadStudy, runs: Mapping[str, RunFolder]) -> dict[str, Any]:
    """What the arms say, judged."""
    plateaus = {}
    for name, run in runs.items():
        rows = run.metrics()
        plateaus[name] = [plateau(rows, study.problem.chains, model) for model in range(len(run.seeds))]
    return judge(plateaus, study.recipe.steps)


def judge(plateaus: Mapping[str, Sequence[Plateau]], steps: int) -> dict[str, Any]:
    """The answer, by rule.

    The plateau is `removed` if in every seed the handed arm's lasts at most a tenth of the free arm's, `shortened` if
    it is shorter in every seed, `not shortened` otherwise; nothing can be said if a free arm never leaves its plateau
    and the handed one does not either.

    Args:
        plateaus: by arm, one a seed in the same order.
        steps: of a run; a plateau that is not left counts as lasting so long at least.

    Returns:
        `verdict`; by arm `left` (the step at which each seed leaves the plateau, null for never), `length`, `median`
        (median and interval over seeds, of `left`), `learned` (per seed and hop); and `sentence`.
    """
    told_of = {}
    for name, ones in plateaus.items():
        middle, low, high = spread([one.left for one in ones])
        told_of[name] = {
            "left": [one.left for one in ones],
            "length": [one.length for one in ones],
            "median": {"step": middle, "low": low, "high": high},
            "learned": [list(one.learned) for one in ones],
        }
    pairs = list(zip(plateaus["free"], plateaus["handed"], strict=True))
    if all(free.left is None and handed.left is None for free, handed in pairs):
        verdict = "undecided"
    elif all(_lasts(handed, steps) <= REMOVED * _lasts(free, steps) for free, handed in pairs):
        verdict = "removed"
    elif all(_lasts(handed, steps) < _lasts(free, steps) for free, handed in pairs):
        verdict = "shortened"
    else:
        verdict = "not shortened"
    told = "; ".join(
        f"{name}: left at step {_listed([one.left for one in ones])} after {_listed([one.length for one in ones])} "
        "steps on it"
        for name, ones in plateaus.items()
    )
    sentence = f"With the first head handed over the plateau is {verdict} ({told}; a number a seed)."
    return {"verdict": verdict, "arms": told_of, "sentence": sentence}


def _listed(steps: Sequence[int | None]) -> str:
    return ", ".join("never" if step is None else str(step) for step in steps)


def _lasts(one: Plateau, steps: int) -> int:
    """Steps until the plateau is left. Counted from the first step, so that reaching it late is no advantage."""
    return steps + 1 if one.left is None else one.left
