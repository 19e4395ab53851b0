"""Does handing a model its first head remove the plateau?

The first useful head of every circuit in the paper ties the two members of a pair by looking at the token before. Two
arms are trained from the same seeds on the same data: one free, one with a head of its first layer held to the token
before from the first step on. What differs is how long the plateau lasts. A control arm holds the same head to itself:
it loses a head as the other does, and is handed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hopscope.emergence.crossing import spread
from hopscope.emergence.plateau import Plateau, plateau
from hopscope.model.held import HeldHead
from hopscope.training.many import finished
from hopscope.training.run import Run
from hopscope.training.setup import Setup

ARMS: Mapping[str, tuple[HeldHead, ...]] = {
    "free": (),
    "handed": (HeldHead(1, 1, "previous"),),
    "control": (HeldHead(1, 1, "itself"),),
}
"""What is held in each arm."""

REMOVED = 0.1
"""A plateau counts as removed if what is left of it is at most this share of the free arm's."""


def held_setups(free: Run) -> list[Setup]:
    """What has to be trained beside a run that is the free arm: the other arms, from its recipe, problem and seeds."""
    recipe = replace(free.recipe, checkpoint_every=None, checkpoints_per_doubling=None, checkpoint_jump_every=None)
    return [Setup(name, free.problem, replace(recipe, held=held), free.seeds) for name, held in ARMS.items() if held]


def arms(free: Run, folder: Path) -> dict[str, Run] | None:
    """The run of every arm, or None while one of them is not finished.

    Args:
        free: the free arm.
        folder: of the other arms' run folders.

    Raises:
        InputError: a folder in use for something else.
    """
    setups = held_setups(free)
    others = finished(setups, folder)
    return {"free": free, **others} if len(others) == len(setups) else None


def answer(runs: Mapping[str, Run]) -> dict[str, Any]:
    """What the arms say, as `judge` puts it."""
    plateaus = {}
    for name, run in runs.items():
        plateaus[name] = [plateau(run.metrics, run.problem.chains, model) for model in range(len(run.seeds))]
    return judge(plateaus, runs["free"].recipe.steps)


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
