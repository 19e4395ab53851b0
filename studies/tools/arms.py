"""Arms: a recipe on a problem, trained from many seeds, and when each seed learned each hop.

Each seed is a run of its own that ends at the first logged step at which it has learned all that it is asked for
(validation loss of every hop below 0.5 with four chains, see `hopscope.training.metrics.learned_below`) or when its
budget is spent. A run that never learns a hop is data: it counts as not learned within the budget, and so does one that
diverged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.errors import InputError
from hopscope.statistics import clopper_pearson, share_in_words
from hopscope.theory.depth import minimum_of_hop
from hopscope.training.metrics import learned_below
from hopscope.training.plan import Plan
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup
from hopscope.training.work import Work
from hopscope.words import markdown_table
from studies.tools.judgements import Judgement, never
from studies.tools.kept import kept, made_by


@dataclass(frozen=True)
class ArmLearned:
    """What the seeds of an arm have learned so far.

    Attributes:
        setup: the recipe and problem it is trained with, and its seeds.
        seeds: those of its seeds that are finished.
        learned: by seed and hop asked for, the first logged step with the validation loss of a learned hop, or by
            whatever else the study counts as learned; None if there is none.
    """

    setup: Setup
    seeds: tuple[int, ...]
    learned: tuple[tuple[int | None, ...], ...]

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.setup.name

    @property
    def layers(self) -> int:
        """Layers of its models."""
        return self.setup.recipe.layers

    @property
    def budget(self) -> int:
        """The most steps that a run may take."""
        return self.setup.recipe.steps

    @property
    def hops(self) -> tuple[int, ...]:
        """Hops the models are asked for."""
        return self.setup.problem.target_hops

    @property
    def last(self) -> int:
        """D, the hops of a chain, and so the last hop."""
        return self.setup.problem.hops

    @property
    def finished(self) -> bool:
        """Whether every seed of the arm is finished."""
        return len(self.seeds) == len(self.setup.seeds)

    def times(self, hop: int) -> list[int | None]:
        """The step at which each seed learned the hop; None if it did not."""
        return [one[self.hops.index(hop)] for one in self.learned]

    def steps(self, hop: int) -> list[int]:
        """The steps at which seeds learned the hop, rising; seeds that did not are left out."""
        return sorted(step for step in self.times(hop) if step is not None)

    def everything(self) -> list[int | None]:
        """The step at which each seed had learned every hop that is asked for; None if it had not."""
        return [None if None in one else max(step for step in one if step is not None) for one in self.learned]

    @property
    def learned_all(self) -> list[Setup]:
        """Setups, trained to the end, of the seeds that learned every hop that is asked for."""
        seeds = [seed for seed, step in zip(self.seeds, self.everything(), strict=True) if step is not None]
        return runs_of(replace(self.setup, seeds=tuple(seeds)), to_the_end=True) if seeds else []

    def needs(self, hop: int) -> int:
        """The fewest layers with which, by theory, such a model can answer with that hop."""
        return minimum_of_hop(self.setup.problem, hop, one_head=self.setup.recipe.heads == 1)

    def tells_of(self, *, planned: bool) -> set[str]:
        """Names of its runs, finished or planned, whatever their budget: a budget may grow, and what was learned within
        a shorter one stays known."""
        runs = [run for run in runs_of(self.setup) if planned or run.seeds[0] in self.seeds]
        return {_of(run) for run in runs}

    @property
    def regular(self) -> ArmLearned:
        """The same without what was seen at steps that are no multiple of `log_every`.

        The last steps have a row each: twenty times as many looks at who has not learned by then.
        """
        every = self.setup.recipe.log_every
        regular = tuple(tuple(None if step is None or step % every else step for step in one) for one in self.learned)
        return replace(self, learned=regular)

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
    """What the arms of a study have learned so far.

    Attributes:
        arms: one for each arm, in the study's order.
    """

    arms: tuple[ArmLearned, ...]

    @property
    def begun(self) -> list[ArmLearned]:
        """The arms with a finished seed, which can be drawn.

        Raises:
            InputError: no arm has a finished seed.
        """
        found = [arm for arm in self.arms if arm.seeds]
        if not found:
            raise InputError("there is nothing to draw: no seed is finished")
        return found


def learned(study: str, arms: Sequence[Setup], folder: Path, work: Work) -> Arms:
    """Train the seeds of which nothing is known, the first of every arm before any second, and read what all arms
    learned.

    Arms that `work` does not want are not trained; what is known of them is still returned.

    Args:
        study: the name of the study.
        arms: the arms to train; their schedules do not count.
        folder: the folder of the study; its record there, if there is one, is an `Arms`.
        work: how the work is done.

    Raises:
        InputError: a record or a run there is damaged, or belongs to another arm.
    """
    return train(arms, folder / "runs", work, (kept(study, folder, Arms) or Arms(())).arms)


def train(
    arms: Sequence[Setup], folder: Path, work: Work, before: Sequence[ArmLearned] = (), *, to_the_end: bool = False
) -> Arms:
    """As `learned`, given what was known before, with all run folders in `folder`; `to_the_end` as in `by_seed`."""
    known, wanted = _of_arms(before, to_the_end=to_the_end), [arm for arm in arms if work.wants(arm.name)]
    runs = [run for run in by_seed(wanted, to_the_end=to_the_end) if _known(run, known) is None]
    work.train(runs, folder, in_order=True)
    return read(arms, folder, before, to_the_end=to_the_end)


_Learned = tuple[int | None, ...]
_Known = dict[str, list[tuple[Recipe, _Learned]]]


def _of_arms(arms: Sequence[ArmLearned], *, to_the_end: bool) -> _Known:
    """What is known of each run, whatever its budget: its recipe, and when it learned each hop."""
    found: _Known = {}
    for arm in (one for one in arms if one.seeds):  # of which a seed is finished
        runs = runs_of(replace(arm.setup, seeds=arm.seeds), to_the_end=to_the_end)
        for run, steps in zip(runs, arm.learned, strict=True):
            found.setdefault(_of(run), []).append((run.recipe, steps))
    return found


def _known(run: Setup, known: _Known) -> _Learned | None:
    """When a run learned each hop, if that follows from what is known of it or of the same run with another budget."""
    for recipe, learned in known.get(_of(run), ()):
        constant = min(Plan(recipe).falls_from, Plan(run.recipe).falls_from)
        if recipe.steps == run.recipe.steps or all(step is not None and step <= constant for step in learned):
            return learned
    return None


def _of(run: Setup) -> str:
    """A hash that identifies a run, whatever it is called and however long it may go on."""
    return made_by(replace(run, recipe=replace(run.recipe, steps=1)))


def by_seed(arms: Sequence[Setup], *, to_the_end: bool = False) -> list[Setup]:
    """The runs: the first seed of every arm, the longest run first, then the second seeds, and so on. A study cut short
    thus has some seeds of each arm.

    Args:
        arms: the arms to train; of their schedules only `fall` counts.
        to_the_end: whether the rate falls once a run has learned, so that its circuit can be searched for.
    """
    ranked = [(rank, run) for arm in arms for rank, run in enumerate(runs_of(arm, to_the_end=to_the_end))]
    return [run for _, run in sorted(ranked, key=lambda one: (one[0], -one[1].work))]


def runs_of(arm: Setup, *, to_the_end: bool = False) -> list[Setup]:
    """One run for each seed, which ends as soon as it has learned or, with `to_the_end`, when the recipe's fall after
    that is over."""
    at_most = learned_below(arm.problem.chains)
    recipe = replace(arm.recipe, schedule="when-learned", learned_below=min(arm.recipe.learned_below, at_most))
    if not to_the_end:
        recipe = replace(recipe, fall=0.0, learned_below=at_most, final_steps=1, checkpoint_every=None)
    return [Setup(f"{arm.name}/seed-{seed:03d}", arm.problem, recipe, (seed,)) for seed in arm.seeds]


def read(
    arms: Sequence[Setup],
    folder: Path,
    before: Sequence[ArmLearned] = (),
    *,
    to_the_end: bool = False,
    below: float | None = None,
) -> Arms:
    """Read what the seeds of which something is known have learned.

    A seed is known if its run is finished. It is also known if it was before, perhaps on another machine, in the same
    arm or in one that differs in its budget alone, provided that it had learned everything within both: until then the
    rate is constant, so it is the same run. So a study can go on from its small record alone.

    Args:
        arms: the arms that were trained.
        folder: where the run folders are.
        before: what was known before.
        to_the_end: as in `by_seed`.
        below: the validation loss below which a hop counts as learned; `None` for that of the metrics.

    Raises:
        InputError: a run there is damaged, or belongs to another arm.
    """
    from hopscope.training.many import finished

    known, found = _of_arms(before, to_the_end=to_the_end), []
    for arm in arms:
        runs = runs_of(arm, to_the_end=to_the_end)
        regular = {name: run.regular_metrics for name, run in finished(runs, folder).items()}
        trained = {name: rows.first_below(below)[0] for name, rows in regular.items()}
        every = {run.seeds[0]: trained.get(run.name, _known(run, known)) for run in runs}
        there = {seed: steps for seed, steps in every.items() if steps is not None}
        found.append(ArmLearned(arm, tuple(there), tuple(there.values())))
    return Arms(tuple(found))


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
    for arm in (one for one in found.arms if one.seeds):
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
