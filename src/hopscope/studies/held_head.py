"""Does handing a model its first head remove the plateau?

The first useful head of every circuit in the paper ties the two members of a pair by looking at the token before. Two
arms are trained from the same seeds on the same data: one free, one with a head of its first layer held to the token
before from the first step on. What differs is how long the plateau lasts. A control arm holds the same head to itself:
it loses a head as the other does, and is handed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hopscope.emergence.crossing import spread
from hopscope.emergence.plateau import Plateau, plateau
from hopscope.model.held import HeldHead
from hopscope.records import write_record
from hopscope.studies.judgements import FEWEST
from hopscope.studies.work import Work
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup

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
    """Which models are asked.

    Attributes:
        free: what the free arm is trained by: one recipe on one problem, in one run or several.
        at: the folder of their run folders, in the reproduction's; the other arms go into `held-head/`.
    """

    free: tuple[Setup, ...]
    at: str

    @property
    def recipe(self) -> Recipe:
        """Of the free arm."""
        return self.free[0].recipe

    def others(self) -> list[Setup]:
        """The other arms: the free arm's recipe, problem and seeds, with a head held and no checkpoints."""
        plain = replace(self.recipe, checkpoint_every=None, checkpoints_per_doubling=None, checkpoint_jump_every=None)
        seeds = tuple(seed for one in self.free for seed in one.seeds)
        return [
            Setup(name, self.free[0].problem, replace(plain, held=held), seeds) for name, held in ARMS.items() if held
        ]


@dataclass(frozen=True)
class Arm:
    """What one arm came to, an entry a seed.

    Attributes:
        name: of the arm.
        seeds: of its models.
        plateaus: how long each lasts.
        final_losses: validation losses over the last steps; None where a model diverged.
        metrics: of its runs, all rows.
    """

    name: str
    seeds: tuple[int, ...]
    plateaus: tuple[Plateau, ...]
    final_losses: tuple[float | None, ...]
    metrics: Metrics


@dataclass(frozen=True)
class HeldHeadResult:
    """What the arms came to.

    Attributes:
        log_every: steps between rows of the metrics, before the last ones.
        arms: free, handed, control.
        answer: what that says.
    """

    log_every: int
    arms: tuple[Arm, ...]
    answer: Answer


@dataclass(frozen=True)
class Answer:
    """The answer, by rule; `held-head.json` holds it, with the plateaus of every arm.

    Attributes:
        verdict: see `judge`.
        sentence: the same in words.
    """

    verdict: Literal["removed", "shortened", "not shortened", "undecided"]
    sentence: str


def run(study: HeldHeadStudy, folder: Path, work: Work | None = None) -> HeldHeadResult | None:
    """Train the arms that are not trained yet, and read what they came to."""
    work = work or Work()
    work.train(study.free, folder / study.at)
    work.train(study.others(), folder / "held-head")
    return read(study, folder)


def read(study: HeldHeadStudy, folder: Path) -> HeldHeadResult | None:
    """What the arms came to, kept as `folder / "held-head.json"`; None while one of them is not finished.

    Raises:
        InputError: a folder in use for something else.
    """
    from hopscope.training.many import finished

    if not (folder / "held-head").is_dir():
        return None
    free = finished(study.free, folder / study.at)
    others = finished(study.others(), folder / "held-head")
    if len(free) < len(study.free) or len(others) < len(ARMS) - 1:
        return None
    arms = (_arm("free", list(free.values())), *(_arm(name, [run]) for name, run in others.items()))
    answer = judge({arm.name: arm.plateaus for arm in arms}, study.recipe.steps)
    write_record(folder / "held-head.json", _record(arms, answer), kind="hopscope handed head", schema=1)
    return HeldHeadResult(study.recipe.log_every, arms, answer)


def _arm(name: str, runs: Sequence[RunFolder]) -> Arm:
    """What the models of some runs came to."""
    return Arm(
        name,
        tuple(seed for run in runs for seed in run.seeds),
        tuple(plateau(run.metrics, run.problem.chains, model) for run in runs for model in range(len(run.seeds))),
        tuple(model.final_validation_loss for run in runs for model in run.result.models),
        Metrics.side_by_side([run.metrics for run in runs]),
    )


def judge(plateaus: Mapping[str, Sequence[Plateau]], steps: int) -> Answer:
    """The answer, by rule.

    The handed arm's plateau is held against that of the free arm and that of the control, which has lost a head as it
    has: it is `removed` if in every seed it lasts at most a tenth of the shorter of them, `shortened` if it is shorter
    than both in every seed, `not shortened` if in one it is not. A seed in which neither it nor one of the others ever
    ends says nothing: then, and with fewer than three seeds, it is `undecided`, unless in another it is not shorter.

    Args:
        plateaus: by arm, one a seed in the same order.
        steps: of a run; a plateau that is not left counts as lasting so long at least.
    """
    seeds = list(zip(*(plateaus[name] for name in ("free", "control", "handed")), strict=True))
    ended = [[_lasts(one, steps) for one in arms] for arms in seeds if any(one.left is not None for one in arms)]
    lasted = [(min(free, control), handed) for free, control, handed in ended]
    verdict: Literal["removed", "shortened", "not shortened", "undecided"]
    if any(handed >= other for other, handed in lasted):
        verdict = "not shortened"
    elif len(lasted) < max(FEWEST, len(seeds)):
        verdict = "undecided"
    elif all(handed <= REMOVED * other for other, handed in lasted):
        verdict = "removed"
    else:
        verdict = "shortened"
    told = "; ".join(
        f"{name}: left at step {_listed([one.left for one in ones])} after {_listed([one.length for one in ones])} "
        "steps on it"
        for name, ones in plateaus.items()
    )
    return Answer(verdict, f"With the first head handed over the plateau is {verdict} ({told}; a number a seed).")


def _record(arms: Sequence[Arm], answer: Answer) -> dict[str, Any]:
    """What `held-head.json` holds: by arm when each seed leaves the plateau, for how long it was on it, and learns."""
    told = {}
    for arm in arms:
        left = [one.left for one in arm.plateaus]
        told[arm.name] = {
            "left": left,
            "length": [one.length for one in arm.plateaus],
            "median": dict(zip(("step", "low", "high"), spread(left), strict=True)),
            "learned": [list(one.learned) for one in arm.plateaus],
        }
    return {"verdict": answer.verdict, "arms": told, "sentence": answer.sentence}


def _listed(steps: Sequence[int | None]) -> str:
    return ", ".join("never" if step is None else str(step) for step in steps)


def _lasts(one: Plateau, steps: int) -> int:
    """Steps until the plateau is left. Counted from the first step, so that reaching it late is no advantage."""
    return steps + 1 if one.left is None else one.left
