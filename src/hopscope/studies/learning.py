"""Does a recipe learn, how surely, and after how many steps?

Every arm is a recipe on a problem, trained from many seeds, each a run of its own that ends at the first logged step
at which it has learned all that it is asked for (validation loss of every hop below 0.5) or when its budget is spent.
A run that never learns a hop is data: it is counted as not learned within the budget.

    hopscope study learning results/learning
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from scipy import stats

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import read_record, write_record
from hopscope.studies.work import Work
from hopscope.theory.depth import depths
from hopscope.training.metrics import LEARNED
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup


@dataclass(frozen=True)
class Wanted:
    """One arm, and what is asked of it before it runs.

    Attributes:
        setup: problem, recipe and seeds.
        hop: the hop that must be learned.
        seeds: how many must learn it.
    """

    setup: Setup
    hop: int
    seeds: int

    def runs(self) -> list[Setup]:
        """One run a seed, which ends as soon as it has learned."""
        recipe = replace(self.setup.recipe, schedule="when-learned", fall=0.0, final_steps=1, checkpoint_every=None)
        return [
            Setup(f"{self.setup.name}/seed-{seed:03d}", self.setup.problem, recipe, (seed,))
            for seed in self.setup.seeds
        ]


@dataclass(frozen=True)
class LearningStudy:
    """What is trained.

    Attributes:
        arms: of the study.
    """

    arms: tuple[Wanted, ...]

    @classmethod
    def of_recipe(cls, recipe: Recipe, seeds: int = 40, first: int = 1000) -> LearningStudy:
        """A recipe on three hops by depth, on seeds that nobody looked at when it was chosen."""
        fresh = tuple(range(first, first + seeds))
        asked = ((4, 3, 38), (3, 3, 36), (2, 1, 40))
        return cls(
            tuple(
                Wanted(
                    Setup(f"{layers}-layers", RetrievalProblem(hops=3), replace(recipe, layers=layers), fresh),
                    hop,
                    share * seeds // 40,
                )
                for layers, hop, share in asked
            )
        )


@dataclass(frozen=True)
class ArmLearned:
    """What an arm came to.

    Attributes:
        name: of the arm.
        layers: of its models.
        hops: D.
        hop: that must be learned.
        wanted: seeds that must learn it.
        budget: steps.
        log_every: steps between looks.
        seeds: finished so far.
        learned: by seed and hop, the first logged step with a validation loss below 0.5; None if there is none.
    """

    name: str
    layers: int
    hops: int
    hop: int
    wanted: int
    budget: int
    log_every: int
    seeds: tuple[int, ...]
    learned: tuple[tuple[int | None, ...], ...]

    def steps(self, hop: int) -> list[int]:
        """Of the seeds that learned the hop, when; rising."""
        return sorted(step for one in self.learned if (step := one[hop - 1]) is not None)

    @property
    def beyond_theory(self) -> int:
        """Seeds that learned a hop for which the model has too few layers."""
        allowed = [depths(hop).causal <= self.layers for hop in range(1, self.hops + 1)]
        return sum(
            any(step is not None and not ok for step, ok in zip(one, allowed, strict=True)) for one in self.learned
        )

    @property
    def verdict(self) -> Literal["as asked", "not as asked", "not finished"]:
        """Whether as many seeds learned as were asked for, and none beyond the theory."""
        if len(self.seeds) < self.wanted or not self.seeds:
            return "not finished"
        return "as asked" if len(self.steps(self.hop)) >= self.wanted and not self.beyond_theory else "not as asked"


def run(study: LearningStudy, folder: Path, work: Work | None = None) -> tuple[ArmLearned, ...]:
    """Train what is not trained yet, and read what it came to."""
    (work or Work()).train(list(chain.from_iterable(arm.runs() for arm in study.arms)), folder)
    return read(study, folder)


def read(study: LearningStudy, folder: Path) -> tuple[ArmLearned, ...]:
    """What the finished runs came to.

    Raises:
        InputError: a run there is damaged, or another than the study's.
    """
    from hopscope.training.many import finished

    found = []
    for arm in study.arms:
        runs = finished(arm.runs(), folder).values()
        recipe = arm.setup.recipe
        found.append(
            ArmLearned(
                name=arm.setup.name,
                layers=recipe.layers,
                hops=arm.setup.problem.hops,
                hop=arm.hop,
                wanted=arm.seeds,
                budget=recipe.steps,
                log_every=recipe.log_every,
                seeds=tuple(run.seeds[0] for run in runs),
                learned=tuple(run.metrics.first_below(LEARNED)[0] for run in runs),
            )
        )
    return tuple(found)


def save(found: Sequence[ArmLearned], folder: Path) -> None:
    """Keep the numbers in `folder`, a file an arm."""
    for arm in found:
        write_record(folder / f"{arm.name}.json", arm, kind="hopscope learning", schema=1)


def load(folder: Path) -> tuple[ArmLearned, ...]:
    """What `save` kept."""
    paths = sorted(folder.glob("*.json"))
    what = "how surely a recipe learns"
    return tuple(read_record(path, ArmLearned, kind="hopscope learning", schema=1, what=what) for path in paths)


def table(found: Sequence[ArmLearned]) -> str:
    """The answer as a Markdown table."""
    lines = [
        "| arm | hop | asked | learned (95%) | median step | nine in ten by | latest | beyond theory | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for arm in found:
        for hop in range(1, arm.hops + 1):
            steps, n = arm.steps(hop), len(arm.seeds)
            low, high = stats.binomtest(len(steps), n).proportion_ci(0.95) if n else (0.0, 1.0)
            quantiles = [_quantile(steps, n, share) for share in (0.5, 0.9)]
            asked = f"{arm.wanted} of {n}" if hop == arm.hop else ""
            lines.append(
                f"| {arm.name} | x{hop} | {asked} | {len(steps)} of {n} ({low:.0%} to {high:.0%}) | {quantiles[0]} "
                f"| {quantiles[1]} | {steps[-1] if steps else '-'} | {arm.beyond_theory if hop == arm.hop else ''} "
                f"| {arm.verdict if hop == arm.hop else ''} |"
            )
    return "\n".join(lines) + "\n"


def _quantile(steps: Sequence[int], seeds: int, share: float) -> str:
    """The step by which so large a share of all seeds had learned; `-` if fewer ever did."""
    needed = -(-int(share * 1000) * seeds // 1000)
    return str(steps[needed - 1]) if 0 < needed <= len(steps) else "-"
