"""Conditions: a recipe on a problem, trained from many seeds, and when each seed learned each hop.

Each seed is a run of its own. It ends at the first logged step at which the validation loss of every target hop is
below two thirds of what averaging the candidates gives (0.5 with four chains), or when its budget is spent. A run that
never learns a hop, or that diverges, counts as not having learned it within the budget.
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
class Condition:
    """What the seeds of a condition have learned so far.

    Attributes:
        name: the condition's name.
        layers: layers of its models.
        heads: heads in each layer.
        budget: the most steps that a run may take.
        problem_fields: the fields of the problem that are not the default.
        planned: its seeds.
        seeds: those of its seeds that are finished.
        learned: by seed and target hop, the first logged step at which the hop is learned; None if it never is.
    """

    name: str
    layers: int
    heads: int
    budget: int
    problem_fields: dict[str, Any]
    planned: tuple[int, ...]
    seeds: tuple[int, ...]
    learned: tuple[tuple[int | None, ...], ...]

    @classmethod
    def of(cls, setup: hs.Setup, seeds: tuple[int, ...], learned: tuple[tuple[int | None, ...], ...]) -> Condition:
        """What these seeds of a condition have learned."""
        recipe, values = setup.recipe, [(field, getattr(setup.problem, field.name)) for field in fields(setup.problem)]
        changed = {field.name: value for field, value in values if field.name == "hops" or value != field.default}
        return cls(setup.name, recipe.layers, recipe.heads, recipe.steps, changed, setup.seeds, seeds, learned)

    @cached_property
    def problem(self) -> hs.RetrievalProblem:
        """The problem that its models are trained on."""
        given: dict[str, Any] = dict(self.problem_fields)
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}  # as JSON has it
        return hs.RetrievalProblem(**given)

    @property
    def hops(self) -> tuple[int, ...]:
        """The target hops: those that the models are trained to answer."""
        return self.problem.target_hops

    @property
    def last(self) -> int:
        """D, the hops of a chain, and so the last hop."""
        return self.problem.hops

    @property
    def finished(self) -> bool:
        """Whether every seed of the condition is finished."""
        return len(self.seeds) == len(self.planned)

    def times(self, hop: int) -> list[int | None]:
        """The step at which each seed learned the hop; None if it did not."""
        return [steps[self.hops.index(hop)] for steps in self.learned]

    def steps(self, hop: int) -> list[int]:
        """The steps at which seeds learned the hop, rising; seeds that did not are left out."""
        return sorted(step for step in self.times(hop) if step is not None)

    def everything(self) -> list[int | None]:
        """The step at which each seed had learned every target hop; None if it had not."""
        return [None if None in steps else max(step for step in steps if step is not None) for steps in self.learned]

    def needs(self, hop: int, *, head_a_row: bool = False) -> int:
        """The fewest layers with which, by theory, such a model can answer with that hop."""
        one_head = self.heads == 1 and not head_a_row
        return hs.theory.minimum_of_hop(self.problem, hop, one_head=one_head, head_a_row=head_a_row)

    def learned_all(self, hops: Iterable[int]) -> int:
        """How many seeds learned each of these hops."""
        places = [self.hops.index(hop) for hop in hops]
        return sum(all(steps[place] is not None for place in places) for steps in self.learned)

    def learned_any(self, hops: Iterable[int]) -> int:
        """How many seeds learned one of these hops."""
        places = [self.hops.index(hop) for hop in hops]
        return sum(any(steps[place] is not None for place in places) for steps in self.learned)

    @property
    def learned_what_they_may(self) -> int:
        """How many seeds learned every hop for which the model has enough layers. Only these are evidence about depth:
        the others may have learned nothing at all, or diverged."""
        return self.learned_all(hop for hop in self.hops if self.needs(hop) <= self.layers)

    @property
    def beyond_theory(self) -> int:
        """How many seeds learned a hop for which the model has too few layers."""
        return self.learned_any(hop for hop in self.hops if self.needs(hop) > self.layers)


@dataclass(frozen=True)
class Conditions:
    """What the conditions of a study have learned so far, in the study's order."""

    conditions: tuple[Condition, ...]

    @property
    def begun(self) -> list[Condition]:
        """The conditions with a finished seed, which can be drawn.

        Raises:
            InputError: no condition has a finished seed.
        """
        found = [condition for condition in self.conditions if condition.seeds]
        if not found:
            raise hs.InputError("there is nothing to draw: no seed is finished")
        return found


def train(
    setups: Sequence[hs.Setup], folder: Path, work: Work, *, to_the_end: bool = False, below: float | None = None
) -> Conditions:
    """Train the conditions that `work` selects, and read what all of them learned.

    Args:
        setups: a setup for each condition, with all its seeds; schedules are replaced.
        folder: the folder of the study; run folders go into its `runs`.
        work: how the work is done.
        to_the_end: whether the learning rate decays once a run has learned, so that its circuit can be searched for.
        below: the validation loss below which a hop counts as learned; None for that of the metrics.

    Raises:
        InputError: a run there is damaged, or belongs to another condition.
    """
    chosen = [setup for setup in setups if work.selects(setup.name)]
    work.train(by_seed(chosen, to_the_end=to_the_end), folder / "runs")
    return read(setups, folder / "runs", to_the_end=to_the_end, below=below)


def by_seed(setups: Sequence[hs.Setup], *, to_the_end: bool = False) -> list[hs.Setup]:
    """The runs: the first seed of every condition, the longest run first, then the second seeds, and so on. A study
    that is cut short thus has some seeds of each condition."""
    ranked = [(rank, run) for setup in setups for rank, run in enumerate(runs_of(setup, to_the_end=to_the_end))]
    return [run for _, run in sorted(ranked, key=lambda pair: (pair[0], -pair[1].work))]


def runs_of(setup: hs.Setup, *, to_the_end: bool = False) -> list[hs.Setup]:
    """One run for each seed, which ends as soon as it has learned or, with `to_the_end`, after the decay that
    follows."""
    chains = setup.problem.chains
    at_most = 0.5 if chains == 1 else 2 * (1 - 1 / chains) / 3
    below = min(setup.recipe.learned_below, at_most)
    recipe = replace(setup.recipe, schedule="decay-when-learned", learned_below=below)
    if not to_the_end:
        recipe = replace(recipe, decay_fraction=0.0, learned_below=at_most, final_steps=1, checkpoint_every=None)
    return [hs.Setup(f"{setup.name}/seed-{seed:03d}", setup.problem, recipe, (seed,)) for seed in setup.seeds]


def read(
    setups: Sequence[hs.Setup], folder: Path, *, to_the_end: bool = False, below: float | None = None
) -> Conditions:
    """What the finished seeds of these conditions learned; arguments as in `train`, with the folder of the runs."""
    found = []
    for setup in setups:
        runs = finished(runs_of(setup, to_the_end=to_the_end), folder).values()
        learned = tuple(tuple(run.regular_metrics.first_below(below)[0]) for run in runs)
        found.append(Condition.of(setup, tuple(run.seeds[0] for run in runs), learned))
    return Conditions(tuple(found))


def finished(setups: Iterable[hs.Setup], folder: Path) -> dict[str, hs.Run]:
    """The finished runs among these, by name.

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


def nothing_beyond(claim: str, found: Sequence[Condition]) -> Judgement:
    """Judge whether no seed learns a hop for which its model has too few layers, and fewer than half would.

    Confirmed: none did, and the upper 95% Clopper-Pearson bound on how often one would is below one half, counted over
        those that learned every hop for which they have enough layers. Refuted: one did. Otherwise inconclusive, also
        where no deeper condition learned the last hop.

    Args:
        claim: the hypothesis, without how many would.
        found: the conditions of one problem, of several depths.
    """
    hypothesis = f"{claim}, and fewer than half would"
    below = [condition for condition in found if condition.layers < condition.needs(condition.last)]
    if not any(condition.seeds for condition in below):
        return Judgement(hypothesis, "not run")
    n = sum(condition.learned_what_they_may for condition in below)
    broken = sum(condition.beyond_theory for condition in found)
    none = f"none of {n} that learned what their depth allows does (at most {clopper_pearson(0, n)[1]:.0%} would)"
    deeper = any(condition.steps(condition.last) for condition in found if condition not in below)
    lacking = "" if deeper else "no deeper run learned it either"
    observed = f"{broken} do" if broken else none
    return never(hypothesis, observed, n, happened=bool(broken), rare=0.5, lacking=lacking)


def table(found: Conditions) -> str:
    """A Markdown table of who learned what and when, of the conditions that are begun; quantiles are of all seeds, also
    those that never learn."""
    rows = []
    for condition in (condition for condition in found.conditions if condition.seeds):
        for hop in condition.hops:
            steps, n = condition.steps(hop), len(condition.seeds)
            middle, late = (_quantile(steps, n, share) for share in (0.5, 0.9))
            learned, latest = share_in_words(len(steps), n), steps[-1] if steps else "-"
            shape = condition.layers, condition.needs(hop)
            rows.append((condition.name, f"x{hop}", *shape, learned, middle, late, latest))
    headings = "condition", "hop", "layers", "theory", "learned (95%)", "median step", "nine in ten by", "latest"
    return markdown_table(headings, rows)


def _quantile(steps: Sequence[int], seeds: int, share: float) -> str:
    """The step by which this share of all seeds had learned; `-` if fewer ever did."""
    needed = -(-int(share * 1000) * seeds // 1000)
    return str(steps[needed - 1]) if 0 < needed <= len(steps) else "-"
