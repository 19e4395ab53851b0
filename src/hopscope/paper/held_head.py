"""Does handing a model its first head remove the plateau?

The first useful head of every circuit in the paper ties the two members of a pair by looking at the token before. Two
arms are trained from the same seeds on the same data: one free, and one with a head of its first layer held to the
token before from the first step on. The question is how the length of the plateau differs. In a control arm the same
head is held to its own position: the model loses a head as in the other arm, but is handed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hopscope.emergence.crossing import spread
from hopscope.emergence.plateau import Plateau, plateau
from hopscope.model.held import HeldHead
from hopscope.records import RecordForm
from hopscope.training.metrics import Metrics
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup
from hopscope.training.work import Work

ARMS: Mapping[str, tuple[HeldHead, ...]] = {
    "free": (),
    "handed": (HeldHead(1, 1, "previous"),),
    "control": (HeldHead(1, 1, "itself"),),
}
"""The heads that are held in each arm."""

REMOVED = 0.1
"""A plateau counts as removed if what is left of it is at most this share of the free arm's."""

FEWEST = 3
"""With fewer seeds than this nothing is said about all of them."""


@dataclass(frozen=True)
class HeldHeadStudy:
    """What is trained.

    Attributes:
        free: the setups of the free arm: one recipe on one problem, in one run or several.
        at: the folder of their run folders within the reproduction's folder; the other arms go into `held-head/`.
    """

    free: tuple[Setup, ...]
    at: str

    @property
    def recipe(self) -> Recipe:
        """The recipe of the free arm."""
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
    """The result of one arm, with one entry for each seed.

    Attributes:
        name: the name of the arm.
        seeds: the seeds of its models.
        plateaus: the plateau of each model, and how long it lasts.
        final_losses: validation loss of each model over the last steps; None where it diverged.
        metrics: the metrics of its runs, with all rows.
    """

    name: str
    seeds: tuple[int, ...]
    plateaus: tuple[Plateau, ...]
    final_losses: tuple[float | None, ...]
    metrics: Metrics


@dataclass(frozen=True)
class HeldHeadResult:
    """The results of the arms.

    Attributes:
        log_every: steps between rows of the metrics, but for the last ones.
        arms: the free, the handed and the control arm.
        answer: the answer that they give.
    """

    log_every: int
    arms: tuple[Arm, ...]
    answer: Answer


@dataclass(frozen=True)
class Answer:
    """The answer, by the rule of `judge`; `held-head.json` holds it, with the plateaus of every arm.

    Attributes:
        verdict: the verdict, see `judge`.
        sentence: the verdict in a sentence, with its numbers.
    """

    verdict: Literal["removed", "shortened", "not shortened", "undecided"]
    sentence: str


_FORM = RecordForm(dict[str, Any], "hopscope handed head", "what a handed head came to")


def run(study: HeldHeadStudy, folder: Path, work: Work | None = None) -> HeldHeadResult | None:
    """Train the arms that are not trained yet, and read their results."""
    work = work or Work()
    work.train(study.free, folder / study.at)
    work.train(study.others(), folder / "held-head")
    return read(study, folder)


def read(study: HeldHeadStudy, folder: Path) -> HeldHeadResult | None:
    """The results of the arms, also written to `folder / "held-head.json"`; None while an arm is not finished.

    Raises:
        InputError: a folder is in use for something else.
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
    _FORM.write(folder / "held-head.json", _record(arms, answer))
    return HeldHeadResult(study.recipe.log_every, arms, answer)


def _arm(name: str, runs: Sequence[RunFolder]) -> Arm:
    """The result of the models of some runs."""
    return Arm(
        name,
        tuple(seed for run in runs for seed in run.seeds),
        tuple(
            plateau(run.regular_metrics, run.problem.chains, model) for run in runs for model in range(len(run.seeds))
        ),
        tuple(model.final_validation_loss for run in runs for model in run.result.models),
        Metrics.side_by_side([run.metrics for run in runs]),
    )


def judge(plateaus: Mapping[str, Sequence[Plateau]], steps: int) -> Answer:
    """Judge whether the plateau is removed.

    The handed arm's plateau is compared with that of the free arm and that of the control, which has lost a head as
    well. It is `removed` if in every seed it lasts at most a tenth of the shorter of the two, `shortened` if it is
    shorter than both in every seed, and `not shortened` if in some seed it is not. A seed in which no arm ever leaves
    its plateau says nothing. With such a seed, or with fewer than three seeds, the verdict is `undecided`, unless in
    another seed the plateau is not shorter.

    Args:
        plateaus: the plateaus of each arm, by its name, one for each seed in the same order.
        steps: the steps of a run; a plateau that is never left counts as lasting longer than that.
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
    """What `held-head.json` holds: by arm and seed, when the plateau is left, how long it lasted, and when hops are
    learned."""
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
    """Steps until the plateau is left, counted from the first step, so that reaching it late is no advantage."""
    return steps + 1 if one.left is None else one.left
