"""Arms: a recipe on a problem, trained from many seeds, and when each seed learned each hop.

Each seed is a run of its own that ends at the first logged step at which it has learned all that it is asked for (the
validation loss of every hop below two thirds of what averaging the candidates gives, 0.5 with four chains) or when its
budget is spent. A run that never learns a hop is data: it counts as not learned within the budget, and so does one that
diverged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import hopscope as hs
from hopscope.statistics import clopper_pearson
from studies.tools.inference import share_in_words
from studies.tools.judgements import Judgement, never
from studies.tools.records import markdown_table
from studies.tools.work import Work


@dataclass(frozen=True)
class ArmLearned:
    """What the seeds of an arm have learned so far.

    Attributes:
        name: the arm's name.
        layers: layers of its models.
        heads: heads in each layer.
        budget: the most steps that a run may take.
        asked: the problem, by those of its fields that are not the default.
        planned: its seeds.
        seeds: those of its seeds that are finished.
        learned: by seed and hop asked for, the first logged step with the validation loss of a learned hop; None if
            there is none.
    """

    name: str
    layers: int
    heads: int
    budget: int
    asked: dict[str, Any]
    planned: tuple[int, ...]
    seeds: tuple[int, ...]
    learned: tuple[tuple[int | None, ...], ...]

    @classmethod
    def of(cls, arm: hs.Setup, seeds: tuple[int, ...], learned: tuple[tuple[int | None, ...], ...]) -> ArmLearned:
        """What these seeds of an arm have learned."""
        values = {field.name: (getattr(arm.problem, field.name), field.default) for field in fields(arm.problem)}
        asked = {name: value for name, (value, default) in values.items() if name == "hops" or value != default}
        recipe = arm.recipe
        return cls(arm.name, recipe.layers, recipe.heads, recipe.steps, asked, arm.seeds, seeds, learned)

    @cached_property
    def problem(self) -> hs.RetrievalProblem:
        """The problem that its models are trained on."""
        asked: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in self.asked.items()}
        return hs.RetrievalProblem(**asked)

    @property
    def hops(self) -> tuple[int, ...]:
        """Hops the models are asked for."""
        return self.problem.target_hops

    @property
    def last(self) -> int:
        """D, the hops of a chain, and so the last hop."""
        return self.problem.hops

    @property
    def finished(self) -> bool:
        """Whether every seed of the arm is finished."""
        return len(self.seeds) == len(self.planned)

    def times(self, hop: int) -> list[int | None]:
        """The step at which each seed learned the hop; None if it did not."""
        return [one[self.hops.index(hop)] for one in self.learned]

    def steps(self, hop: int) -> list[int]:
        """The steps at which seeds learned the hop, rising; seeds that did not are left out."""
        return sorted(step for step in self.times(hop) if step is not None)

    def everything(self) -> list[int | None]:
        """The step at which each seed had learned every hop that is asked for; None if it had not."""
        return [None if None in one else max(step for step in one if step is not None) for one in self.learned]

    def needs(self, hop: int, *, head_a_row: bool = False) -> int:
        """The fewest layers with which, by theory, such a model can answer with that hop."""
        one_head = self.heads == 1 and not head_a_row
        return hs.theory.minimum_of_hop(self.problem, hop, one_head=one_head, head_a_row=head_a_row)

    @property
    def learned_what_they_may(self) -> int:
        """How many seeds learned every hop for which the model has enough layers. The others may have learned nothing
        at all, or diverged, so that what else they did not learn says nothing about depth."""
        may = [self.needs(hop) <= self.layers for hop in self.hops]
        return sum(all(step is not None for step, one in zip(seed, may, strict=True) if one) for seed in self.learned)

    @property
    def beyond_theory(self) -> int:
        """How many seeds learned a hop for which the model has too few layers."""
        forbidden = [self.needs(hop) > self.layers for hop in self.hops]
        return sum(
            any(step is not None and no for step, no in zip(one, forbidden, strict=True)) for one in self.learned
        )


@dataclass(frozen=True)
class Arms:
    """What the arms of a study have learned so far, in the study's order."""

    arms: tuple[ArmLearned, ...]

    @property
    def begun(self) -> list[ArmLearned]:
        """The arms with a finished seed, which can be drawn.

        Raises:
            InputError: no arm has a finished seed.
        """
        found = [arm for arm in self.arms if arm.seeds]
        if not found:
            raise hs.InputError("there is nothing to draw: no seed is finished")
        return found


def train(
    arms: Sequence[hs.Setup], folder: Path, work: Work, *, to_the_end: bool = False, below: float | None = None
) -> Arms:
    """Train the arms that `work` wants, the first seed of every arm before any second, and read what all arms learned.

    Args:
        arms: the arms to train; their schedules do not count.
        folder: the folder of the study; run folders go into its `runs`.
        work: how the work is done.
        to_the_end: whether the rate falls once a run has learned, so that its circuit can be searched for.
        below: the validation loss below which a hop counts as learned; None for that of the metrics.

    Raises:
        InputError: a run there is damaged, or belongs to another arm.
    """
    work.train(by_seed([arm for arm in arms if work.wants(arm.name)], to_the_end=to_the_end), folder / "runs")
    return read(arms, folder / "runs", to_the_end=to_the_end, below=below)


def by_seed(arms: Sequence[hs.Setup], *, to_the_end: bool = False) -> list[hs.Setup]:
    """The runs: the first seed of every arm, the longest run first, then the second seeds, and so on. A study cut short
    thus has some seeds of each arm."""
    ranked = [(rank, run) for arm in arms for rank, run in enumerate(runs_of(arm, to_the_end=to_the_end))]
    return [run for _, run in sorted(ranked, key=lambda one: (one[0], -one[1].work))]


def runs_of(arm: hs.Setup, *, to_the_end: bool = False) -> list[hs.Setup]:
    """One run for each seed, which ends as soon as it has learned or, with `to_the_end`, when the recipe's fall after
    that is over."""
    chains = arm.problem.chains
    at_most = 0.5 if chains == 1 else 2 * (1 - 1 / chains) / 3
    recipe = replace(arm.recipe, schedule="decay-when-learned", learned_below=min(arm.recipe.learned_below, at_most))
    if not to_the_end:
        recipe = replace(recipe, decay_fraction=0.0, learned_below=at_most, final_steps=1, checkpoint_every=None)
    return [hs.Setup(f"{arm.name}/seed-{seed:03d}", arm.problem, recipe, (seed,)) for seed in arm.seeds]


def read(arms: Sequence[hs.Setup], folder: Path, *, to_the_end: bool = False, below: float | None = None) -> Arms:
    """What the finished seeds of these arms have learned; arguments as in `train`, with the folder of the runs."""
    found = []
    for arm in arms:
        runs = finished(runs_of(arm, to_the_end=to_the_end), folder).values()
        learned = tuple(tuple(run.regular_metrics.first_below(below)[0]) for run in runs)
        found.append(ArmLearned.of(arm, tuple(run.seeds[0] for run in runs), learned))
    return Arms(tuple(found))


def finished(setups: Iterable[hs.Setup], folder: Path) -> dict[str, hs.Run]:
    """The finished ones of some runs, by name.

    Raises:
        InputError: a folder holds a run of something else.
    """
    found = {}
    for setup in setups:
        if (folder / setup.name / "result.json").exists():
            run = hs.Run(folder / setup.name)
            if (run.problem, run.recipe, tuple(run.seeds)) != (setup.problem, setup.recipe, setup.seeds):
                raise hs.InputError(f"{run.path} is a run of another recipe, problem or seed; choose another folder")
            found[setup.name] = run
    return found


def nothing_beyond(asked: str, found: Sequence[ArmLearned]) -> Judgement:
    """Judge whether no seed learns a hop for which its model has too few layers, and fewer than half would.

    As asked: none did, and the upper 95% Clopper-Pearson bound on how often one would is below one half, counted over
        those that learned every hop for which they have enough layers. Not as asked: one did. Otherwise inconclusive,
        also where no deeper arm learned the last hop.

    Args:
        asked: the claim, without how many would.
        found: the arms of one problem, of several depths.
    """
    asked = f"{asked}, and fewer than half would"
    below = [arm for arm in found if arm.layers < arm.needs(arm.last)]
    if not any(arm.seeds for arm in below):
        return Judgement(asked, "not run")
    n, broken = sum(arm.learned_what_they_may for arm in below), sum(arm.beyond_theory for arm in found)
    none = f"none of {n} that learned what their depth allows does (at most {clopper_pearson(0, n)[1]:.0%} would)"
    ours = f"{broken} do" if broken else none
    deeper = any(arm.steps(arm.last) for arm in found if arm not in below)
    lacking = "" if deeper else "no deeper run learned it either"
    return never(asked, ours, n, happened=bool(broken), rare=0.5, lacking=lacking)


def table(found: Arms) -> str:
    """A Markdown table of who learned what and when; quantiles count seeds that never learn. Arms not begun are left
    out."""
    rows = []
    for arm in (arm for arm in found.arms if arm.seeds):
        for hop in arm.hops:
            steps, n = arm.steps(hop), len(arm.seeds)
            middle, late = (_quantile(steps, n, share) for share in (0.5, 0.9))
            learned, latest = share_in_words(len(steps), n), steps[-1] if steps else "-"
            rows.append((arm.name, f"x{hop}", arm.layers, arm.needs(hop), learned, middle, late, latest))
    headings = "arm", "hop", "layers", "theory", "learned (95%)", "median step", "nine in ten by", "latest"
    return markdown_table(headings, rows)


def _quantile(steps: Sequence[int], seeds: int, share: float) -> str:
    """The step by which this share of all seeds had learned; `-` if fewer ever did."""
    needed = -(-int(share * 1000) * seeds // 1000)
    return str(steps[needed - 1]) if 0 < needed <= len(steps) else "-"
