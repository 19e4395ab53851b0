"""Arms: a recipe on a problem, trained from many seeds, and when each seed learned each hop.

Each seed is a run of its own that ends at the first logged step at which it has learned all that it is asked for
(validation loss of every hop below 0.5) or when its budget is spent. A run that never learns a hop is data: it counts
as not learned within the budget, and so does one that diverged. With other than four chains another loss is asked for
(`hopscope.training.metrics.learned_below`), but not of those recorded of `plateau` before that was so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.errors import InputError
from hopscope.statistics import share_in_words
from hopscope.studies.judgements import Judgement, never
from hopscope.studies.kept import kept, made_by
from hopscope.studies.work import Work
from hopscope.theory.depth import minimum_of_hop
from hopscope.training.metrics import learned_below
from hopscope.training.plan import Plan
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup


@dataclass(frozen=True)
class ArmLearned:
    """What an arm came to.

    Attributes:
        setup: what it is trained by, and from which seeds.
        seeds: finished so far.
        learned: by seed and hop asked for, the first logged step with a validation loss below 0.5, or what else the
            study calls learned; None if there is none.
    """

    setup: Setup
    seeds: tuple[int, ...]
    learned: tuple[tuple[int | None, ...], ...]

    @property
    def name(self) -> str:
        """Of the arm."""
        return self.setup.name

    @property
    def layers(self) -> int:
        """Of its models."""
        return self.setup.recipe.layers

    @property
    def budget(self) -> int:
        """The most steps that a run has."""
        return self.setup.recipe.steps

    @property
    def hops(self) -> tuple[int, ...]:
        """Asked for."""
        return self.setup.problem.target_hops

    @property
    def last(self) -> int:
        """D."""
        return self.setup.problem.hops

    @property
    def finished(self) -> bool:
        """Whether every seed is."""
        return len(self.seeds) == len(self.setup.seeds)

    def times(self, hop: int) -> list[int | None]:
        """When each seed learned the hop."""
        return [one[self.hops.index(hop)] for one in self.learned]

    def steps(self, hop: int) -> list[int]:
        """Of the seeds that learned the hop, when; rising."""
        return sorted(step for step in self.times(hop) if step is not None)

    def everything(self) -> list[int | None]:
        """When each seed had learned every hop that is asked for."""
        return [None if None in one else max(step for step in one if step is not None) for one in self.learned]

    @property
    def learned_all(self) -> list[Setup]:
        """The runs, trained to the end, of the seeds that learned every hop that is asked for."""
        seeds = [seed for seed, step in zip(self.seeds, self.everything(), strict=True) if step is not None]
        return runs_of(replace(self.setup, seeds=tuple(seeds)), to_the_end=True) if seeds else []

    def needs(self, hop: int) -> int:
        """Layers that theory asks for so that such a model can answer with that hop."""
        return minimum_of_hop(self.setup.problem, hop, one_head=self.setup.recipe.heads == 1)

    def tells_of(self, *, planned: bool) -> set[str]:
        """Its runs, whatever their budget: that may grow, and what is learned in the shorter one is known."""
        runs = [run for run in runs_of(self.setup) if planned or run.seeds[0] in self.seeds]
        return {_of(run) for run in runs}

    @property
    def learned_what_they_may(self) -> int:
        """Seeds that learned every hop for which the model has layers enough; others may have learned nothing at all,
        or diverged, so that what else they did not learn says nothing of depth."""
        may = [self.needs(hop) <= self.layers for hop in self.hops]
        return sum(all(step is not None for step, one in zip(seed, may, strict=True) if one) for seed in self.learned)

    @property
    def beyond_theory(self) -> int:
        """Seeds that learned a hop for which the model has too few layers."""
        forbidden = [self.needs(hop) > self.layers for hop in self.hops]
        return sum(
            any(step is not None and no for step, no in zip(one, forbidden, strict=True)) for one in self.learned
        )


@dataclass(frozen=True)
class Arms:
    """What the arms of a study came to.

    Attributes:
        arms: in the study's order.
    """

    arms: tuple[ArmLearned, ...]

    @property
    def begun(self) -> list[ArmLearned]:
        """Those with a finished seed, to draw.

        Raises:
            InputError: there is none.
        """
        found = [arm for arm in self.arms if arm.seeds]
        if not found:
            raise InputError("there is nothing to draw: no seed is finished")
        return found


def learned(study: str, arms: Sequence[Setup], folder: Path, work: Work) -> Arms:
    """Train the seeds of which nothing is known, each arm's first before any arm's second, and tell what all came to.

    Of what the work does not want nothing is trained; what is known of it is told.

    Args:
        study: its name.
        arms: what is trained; their schedules do not count.
        folder: of the study; its record there, if there is one, is an `Arms`.
        work: how.

    Raises:
        InputError: a record or a run there is damaged, or another than the arm's.
    """
    return train(arms, folder / "runs", work, (kept(study, folder, Arms) or Arms(())).arms)


def train(
    arms: Sequence[Setup], folder: Path, work: Work, before: Sequence[ArmLearned] = (), *, to_the_end: bool = False
) -> Arms:
    """The same from what was known before, with all run folders in `folder`; `to_the_end` as in `by_seed`."""
    known, wanted = _of_arms(before, to_the_end=to_the_end), [arm for arm in arms if work.wants(arm.name)]
    runs = [run for run in by_seed(wanted, to_the_end=to_the_end) if _known(run, known) is None]
    work.train(runs, folder, in_order=True)
    return read(arms, folder, before, to_the_end=to_the_end)


_Learned = tuple[int | None, ...]
_Known = dict[str, list[tuple[Recipe, _Learned]]]


def _of_arms(arms: Sequence[ArmLearned], *, to_the_end: bool) -> _Known:
    """What each run came to, whatever its budget: its recipe, and when it learned each hop."""
    found: _Known = {}
    for arm in (one for one in arms if one.seeds):  # of which a seed is finished
        runs = runs_of(replace(arm.setup, seeds=arm.seeds), to_the_end=to_the_end)
        for run, steps in zip(runs, arm.learned, strict=True):
            found.setdefault(_of(run), []).append((run.recipe, steps))
    return found


def _known(run: Setup, known: _Known) -> _Learned | None:
    """When a run learned each hop, if that follows from what is known of it or of one with another budget."""
    for recipe, learned in known.get(_of(run), ()):
        constant = min(Plan(recipe).falls_from, Plan(run.recipe).falls_from)
        if recipe.steps == run.recipe.steps or all(step is not None and step <= constant for step in learned):
            return learned
    return None


def _of(run: Setup) -> str:
    """What tells a run from all others, whatever it is called and however long it may go on."""
    return made_by(replace(run, recipe=replace(run.recipe, steps=1)))


def by_seed(arms: Sequence[Setup], *, to_the_end: bool = False) -> list[Setup]:
    """The runs: every arm's first seed, the longest first, then the second: a study cut short has some of each arm.

    Args:
        arms: what is trained; their schedules do not count but for `fall`.
        to_the_end: let the rate fall once a run has learned, so that its circuit can be looked for.
    """
    ranked = [(rank, run) for arm in arms for rank, run in enumerate(runs_of(arm, to_the_end=to_the_end))]
    return [run for _, run in sorted(ranked, key=lambda one: (one[0], -one[1].work))]


def runs_of(arm: Setup, *, to_the_end: bool = False) -> list[Setup]:
    """One run a seed, which ends as soon as it has learned, or as the recipe's fall has it after that."""
    recipe = replace(arm.recipe, schedule="when-learned")
    if not to_the_end:
        below = learned_below(arm.problem.chains)
        recipe = replace(recipe, fall=0.0, learned_below=below, final_steps=1, checkpoint_every=None)
    return [Setup(f"{arm.name}/seed-{seed:03d}", arm.problem, recipe, (seed,)) for seed in arm.seeds]


def read(
    arms: Sequence[Setup],
    folder: Path,
    before: Sequence[ArmLearned] = (),
    *,
    to_the_end: bool = False,
    below: float | None = None,
) -> Arms:
    """What the seeds of which something is known came to.

    Known is a seed whose run is finished, and one that was known before, perhaps on another machine, of the same arm or
    of one that differs in its budget alone, if it had learned everything within both: until then the rate is constant,
    so it is the same run. So a study goes on from its small record alone.

    Args:
        arms: what was trained.
        folder: where the run folders are.
        before: what was known.
        to_the_end: as in `by_seed`.
        below: the validation loss below which a hop is learned; `None` for what is called so elsewhere.

    Raises:
        InputError: a run there is damaged, or another than the arm's.
    """
    from hopscope.training.many import finished

    known, found = _of_arms(before, to_the_end=to_the_end), []
    for arm in arms:
        runs = runs_of(arm, to_the_end=to_the_end)
        trained = {name: run.metrics.first_below(below)[0] for name, run in finished(runs, folder).items()}
        every = {run.seeds[0]: trained.get(run.name, _known(run, known)) for run in runs}
        there = {seed: steps for seed, steps in every.items() if steps is not None}
        found.append(ArmLearned(arm, tuple(there), tuple(there.values())))
    return Arms(tuple(found))


def nothing_beyond(asked: str, found: Sequence[ArmLearned]) -> Judgement:
    """Whether no seed learns a hop for which its model has too few layers.

    As asked: none did, and the upper 95% Clopper-Pearson bound on how often one would is below one half, counted over
    those that learned every hop for which they have layers enough. Not as asked: one did. Else inconclusive, and so
    where no deeper arm learned the last hop.

    Args:
        asked: the claim.
        found: arms of one problem, of several depths.
    """
    below = [arm for arm in found if arm.layers < arm.needs(arm.last)]
    if not any(arm.seeds for arm in below):
        return Judgement(asked, "not run")
    n, broken = sum(arm.learned_what_they_may for arm in below), sum(arm.beyond_theory for arm in found)
    ours = f"{broken} do" if broken else f"none of {n} that learned what their depth allows does"
    deeper = any(arm.steps(arm.last) for arm in found if arm not in below)
    lacking = "" if deeper else "no deeper run learned it either"
    return never(asked, ours, n, happened=bool(broken), rare=0.5, lacking=lacking)


def table(found: Arms) -> str:
    """Who learned what and when, as a Markdown table; quantiles count those that never learn. Arms not begun are left
    out."""
    lines = [
        "| arm | hop | layers | theory | learned (95%) | median step | nine in ten by | latest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arm in (one for one in found.arms if one.seeds):
        for hop in arm.hops:
            steps, n = arm.steps(hop), len(arm.seeds)
            middle, late = (_quantile(steps, n, share) for share in (0.5, 0.9))
            lines.append(
                f"| {arm.name} | x{hop} | {arm.layers} | {arm.needs(hop)} | {share_in_words(len(steps), n)} | {middle} "
                f"| {late} | {steps[-1] if steps else '-'} |"
            )
    return "\n".join(lines) + "\n"


def _quantile(steps: Sequence[int], seeds: int, share: float) -> str:
    """The step by which so large a share of all seeds had learned; `-` if fewer ever did."""
    needed = -(-int(share * 1000) * seeds // 1000)
    return str(steps[needed - 1]) if 0 < needed <= len(steps) else "-"
