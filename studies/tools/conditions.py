"""Conditions: a condition is a recipe on a problem, trained from many seeds, and when each seed learned each hop.

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
    """A condition, and what its seeds have learned so far.

    Attributes:
        name: the condition's name.
        layers: the number of layers of its models.
        heads: the number of heads in each layer.
        budget: the maximum number of steps of a run.
        problem_fields: the fields of the problem that differ from their defaults.
        planned: all seeds of the condition.
        seeds: the seeds that are finished.
        learned: for each finished seed and target hop, the first logged step at which the hop is learned, or None.
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
        """Return the condition of a setup, with its finished seeds and what they have learned."""
        recipe, values = setup.recipe, [(field, getattr(setup.problem, field.name)) for field in fields(setup.problem)]
        changed = {field.name: value for field, value in values if field.name == "hops" or value != field.default}
        return cls(setup.name, recipe.layers, recipe.heads, recipe.steps, changed, setup.seeds, seeds, learned)

    @cached_property
    def problem(self) -> hs.RetrievalProblem:
        """The problem that the models are trained on."""
        given: dict[str, Any] = dict(self.problem_fields)
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}  # as JSON has it
        return hs.RetrievalProblem(**given)

    @property
    def hops(self) -> tuple[int, ...]:
        """The target hops, which the models are trained to answer."""
        return self.problem.target_hops

    @property
    def last(self) -> int:
        """D, the number of hops of a chain, which is also the last hop."""
        return self.problem.hops

    @property
    def finished(self) -> bool:
        """Whether every seed of the condition is finished."""
        return len(self.seeds) == len(self.planned)

    def times(self, hop: int) -> list[int | None]:
        """Return the step at which each seed learned the hop, or None for a seed that did not."""
        return [steps[self.hops.index(hop)] for steps in self.learned]

    def steps(self, hop: int) -> list[int]:
        """Return the steps at which seeds learned the hop, in rising order, without the seeds that did not."""
        return sorted(step for step in self.times(hop) if step is not None)

    def everything(self) -> list[int | None]:
        """Return the step at which each seed had learned every target hop, or None for a seed that has not."""
        return [None if None in steps else max(step for step in steps if step is not None) for steps in self.learned]

    def needs(self, hop: int, *, head_a_row: bool = False) -> int:
        """Return the fewest layers that the hop needs by theory; `head_a_row`: with a head for every row of a block."""
        one_head = self.heads == 1 and not head_a_row
        return hs.theory.minimum_of_hop(self.problem, hop, one_head=one_head, head_a_row=head_a_row)

    def learned_all(self, hops: Iterable[int]) -> int:
        """Return the number of seeds that learned all of these hops."""
        places = [self.hops.index(hop) for hop in hops]
        return sum(all(steps[place] is not None for place in places) for steps in self.learned)

    def learned_any(self, hops: Iterable[int]) -> int:
        """Return the number of seeds that learned at least one of these hops."""
        places = [self.hops.index(hop) for hop in hops]
        return sum(any(steps[place] is not None for place in places) for steps in self.learned)

    @property
    def learned_what_they_may(self) -> int:
        """The number of seeds that learned every hop for which the model has enough layers. Only these are evidence
        about depth, because the other seeds may have learned nothing at all or diverged."""
        return self.learned_all(hop for hop in self.hops if self.needs(hop) <= self.layers)

    @property
    def beyond_theory(self) -> int:
        """The number of seeds that learned a hop for which the model has too few layers."""
        return self.learned_any(hop for hop in self.hops if self.needs(hop) > self.layers)


@dataclass(frozen=True)
class Conditions:
    """The conditions of a study, in the study's order, with what their seeds have learned so far."""

    conditions: tuple[Condition, ...]

    @property
    def begun(self) -> list[Condition]:
        """The conditions that have a finished seed and can be drawn.

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
    """Train the conditions that `work` selects, and return what the seeds of all conditions have learned.

    Args:
        setups: a setup for each condition, with all its seeds. Its schedule is replaced (see `runs_of`).
        folder: the folder of the study. Run folders are in its subfolder `runs`.
        work: the settings for training and parallel work.
        to_the_end: whether the learning rate decays once a run has learned, so that its circuit can be searched for.
        below: the validation loss below which a hop counts as learned; None for the `learned` threshold of the metrics.

    Raises:
        InputError: a run in the folder is damaged or belongs to another condition.
    """
    chosen = [setup for setup in setups if work.selects(setup.name)]
    work.train(by_seed(chosen, to_the_end=to_the_end), folder / "runs")
    return read(setups, folder / "runs", to_the_end=to_the_end, below=below)


def by_seed(setups: Sequence[hs.Setup], *, to_the_end: bool = False) -> list[hs.Setup]:
    """Return the runs in order: the first seed of every condition, longest run first, then all second seeds, and so
    on. A study that is cut short therefore has some seeds of every condition."""
    ranked = [(rank, run) for setup in setups for rank, run in enumerate(runs_of(setup, to_the_end=to_the_end))]
    return [run for _, run in sorted(ranked, key=lambda pair: (pair[0], -pair[1].work))]


def runs_of(setup: hs.Setup, *, to_the_end: bool = False) -> list[hs.Setup]:
    """Return one run for each seed. A run ends as soon as it has learned or, with `to_the_end`, after the decay that
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
    """Return what all finished seeds have learned. Arguments are as in `train`, but `folder` contains the runs."""
    found = []
    for setup in setups:
        runs = finished(runs_of(setup, to_the_end=to_the_end), folder).values()
        learned = tuple(tuple(run.regular_metrics.first_below(below)[0]) for run in runs)
        found.append(Condition.of(setup, tuple(run.seeds[0] for run in runs), learned))
    return Conditions(tuple(found))


def finished(setups: Iterable[hs.Setup], folder: Path) -> dict[str, hs.Run]:
    """Return the finished runs of these setups, by name.

    Raises:
        InputError: a folder contains a run of another setup.
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
    """Judge whether no seed learns a hop for which its model has too few layers, and whether fewer than half would.

    Confirmed: no seed did, and the upper 95% Clopper-Pearson bound on how often a seed would is below one half, counted
        over the seeds that learned every hop for which they have enough layers. Refuted: a seed did. Otherwise
        inconclusive, also if no deeper condition learned the last hop.

    Args:
        claim: the hypothesis, without the part that fewer than half would.
        found: the conditions of one problem, with different depths.
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


def names(study: Any) -> list[str]:
    """Return the names of the `conditions` of a study, which can be trained separately."""
    return [condition.name for condition in study.conditions]


def table(found: Conditions) -> str:
    """Return a Markdown table of when each condition with a finished seed learned each hop. Quantiles are over all
    seeds, including the seeds that never learn."""
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
    """Return the step by which this share of all seeds had learned; `-` if a smaller share ever did."""
    needed = -(-int(share * 1000) * seeds // 1000)
    return str(steps[needed - 1]) if 0 < needed <= len(steps) else "-"
