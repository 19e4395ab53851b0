"""Does the last circuit of a model descend from the first that solved the task, and do spikes of the loss rebuild it?

We train three hops with four layers, twelve seeds and three times the recipe's steps: once at a constant learning rate
and once with a rate that decays over the last two thirds. After all hops are learned, hopscope searches for the circuit
of every checkpoint below the loss threshold, and follows the paths of the last circuit back through all checkpoints. A
spike is a logged validation loss that rises above twice the threshold once the model has a circuit.

Rules:

1. At either rate, the last circuit descends from the first: the same heads do the same. A model's last circuit descends
   from its first if at least half of the last circuit's paths (layer, head, query and key) are paths of the first, and
   fewer are paths of the last circuit of any other seed, whose heads have unrelated numbers. Confirmed: the lower 95%
   Clopper-Pearson bound on the share of models is above one half. Refuted: the upper bound is below one half. Otherwise
   inconclusive, also if there is no other seed. (What circuits of other seeds share once their heads are renamed to fit
   is reported but not judged.)
2. Spikes rebuild circuits: at the constant rate, the circuits of two neighbouring checkpoints with a spike between them
   have less in common, on average, than the circuits of the last pair of neighbours before and the first pair after
   them that have no spike between them. Neighbours are two checkpoints below the threshold with no other checkpoint
   between them. Confirmed: this is true of so many models that the two-sided sign test gives p below 5%, and the whole
   95% interval of the mean difference (Student's t) is above 0.1. Refuted: there are six models or more, and the whole
   interval is below 0.1. Otherwise inconclusive, also if no model has a spike between two pairs without a spike.
3. A decaying rate stops spikes. Confirmed: there are fewer spikes per thousand steps at the decaying rate, with p below
   5% by the one-sided Mann-Whitney test (exact), for six models or more at each rate. Refuted: p is not below 5% and,
   for eight models or more at each rate, the whole 95% interval of the mean at the decaying rate (Student's t) is above
   half of the mean at the constant rate. Otherwise inconclusive.

    python -m studies descent results/studies/descent
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import hopscope as hs
from hopscope.statistics import sign_test
from studies.tools import records
from studies.tools.circuits import HASTY, Search, search_circuit
from studies.tools.conditions import finished
from studies.tools.followed import Followed, checkpoints_after_learning, follow
from studies.tools.inference import fewer, t_interval
from studies.tools.judgements import Judgement, most_of
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

RATES = ("constant", "falling")

REBUILT = 0.1
"""The mean drop of the overlap above which circuits count as rebuilt."""


@dataclass(frozen=True)
class DescentStudy:
    """The settings of the study.

    Attributes:
        recipe: the recipe of all models; its schedule is varied.
        hops: D.
        seeds: the seeds at either rate.
        search: the settings of the search for circuits.
    """

    recipe: hs.Recipe
    hops: int = 3
    seeds: tuple[int, ...] = tuple(range(7000, 7012))
    search: Search = field(default_factory=Search)

    @property
    def setups(self) -> list[hs.Setup]:
        """One run for each seed: first all runs at the constant rate, then all runs at the decaying rate."""
        recipes = (
            ("constant", replace(self.recipe, schedule="constant")),
            ("falling", replace(self.recipe, schedule="warmup-stable-decay", decay_fraction=2 / 3)),
        )
        problem = hs.RetrievalProblem(hops=self.hops)
        return [
            hs.Setup(f"{rate}/seed-{seed:03d}", problem, recipe, (seed,))
            for rate, recipe in recipes
            for seed in self.seeds
        ]


@dataclass(frozen=True)
class DescentResult:
    """The result of the study.

    Attributes:
        models: the trained models, at both rates.
    """

    models: tuple[Followed, ...]

    def solved(self, rate: str) -> list[Followed]:
        """Return the models of a rate that have a circuit at two or more checkpoints."""
        return [model for model in self.models if model.rate == rate and len(model.circuits) > 1]


def standard(recipe: hs.Recipe) -> DescentStudy:
    """Return the study of a recipe, with three times the recipe's steps."""
    return DescentStudy(replace(recipe, steps=3 * recipe.steps, checkpoint_every=recipe.steps // 4))


def quick(recipe: hs.Recipe) -> DescentStudy:
    """Return a tiny version with one hop and one seed, which only shows that the study runs."""
    return DescentStudy(replace(recipe, steps=300, checkpoint_every=100), hops=1, seeds=(0,), search=HASTY)


def run(study: DescentStudy, folder: Path, work: Work) -> DescentResult:
    """Train the missing models, find the circuits at checkpoints, and follow the last circuit of each model."""
    work.train(study.setups, folder / "runs")
    runs = finished(study.setups, folder / "runs").values()
    jobs = [(run.path, step, study.search) for run in runs for step in checkpoints_after_learning(run)]
    work.each("circuits at checkpoints", search_circuit, jobs)
    jobs_of_paths = [
        (run.path, study.search, folder / "followed" / f"{run.path.parent.name}-{run.path.name}.json") for run in runs
    ]
    work.each("paths over time", follow, jobs_of_paths)
    return DescentResult(tuple(records.read(path, Followed) for *_, path in jobs_of_paths if path.exists()))


def judge(result: DescentResult) -> list[Judgement]:
    """Judge by the rules above."""
    return [*(_descends(rate, result.solved(rate)) for rate in RATES), _rebuilt(result), _stopped(result)]


def _descends(rate: str, models: Sequence[Followed]) -> Judgement:
    """Judge rule 1 for one rate."""
    hypothesis = f"{rate} rate: the last circuit descends from the first"
    if not models:
        return Judgement(hypothesis, "not run")
    if len(models) == 1:
        return Judgement(hypothesis, "inconclusive", "", 1, "no other seed to compare it with")
    kept = [model.kept(model.circuits) for model in models]
    by_chance = [max(model.kept(other.circuits[-1:]) for other in models if other is not model) for model in models]
    renamed = [
        max(model.kept_renamed(other.circuits[-1:]) for other in models if other is not model) for model in models
    ]
    descends = [share >= 0.5 and share > chance for share, chance in zip(kept, by_chance, strict=True)]
    also = (
        f"{mean(kept):.0%} of its paths are the first's, {mean(by_chance):.0%} those of the most similar other seed "
        f"({mean(renamed):.0%} with its heads renamed to fit); "
        f"{mean(model.there_at_first for model in models):.0%} attended at the step of the first"
    )
    return most_of(hypothesis, descends, also)


def _less_in_common(model: Followed) -> list[float]:
    """Return, for each spike, the mean overlap of the pairs before and after the spike, minus the overlap across it."""
    changes, found = model.changes, []
    for place, (share, spike) in enumerate(changes):
        before = [other for other, other_spike in changes[:place] if not other_spike]
        after = [other for other, other_spike in changes[place:] if not other_spike]
        if spike and before and after:
            found.append(mean((before[-1], after[0])) - share)
    return found


def _rebuilt(result: DescentResult) -> Judgement:
    """Judge rule 2."""
    hypothesis = "spikes rebuild circuits"
    models = result.solved("constant")
    if not models:
        return Judgement(hypothesis, "not run")
    differences = [mean(less) for less in map(_less_in_common, models) if less]
    n = len(differences)
    if not n:
        reason = "no model has a spike between two pairs of checkpoints without one"
        return Judgement(hypothesis, "inconclusive", f"{len(models)} models", 0, reason)
    p, (low, high) = sign_test(differences), t_interval(differences)
    more, less = sum(difference > 0 for difference in differences), sum(difference < 0 for difference in differences)
    observed = f"{mean(differences):+.2f} more in common without a spike ({low:+.2f} to {high:+.2f}), p = {p:.2g}"
    if p < 0.05 and more > less and low > REBUILT:
        return Judgement(hypothesis, "confirmed", observed, n)
    if n >= 6 and high < REBUILT:
        return Judgement(hypothesis, "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, "too few models to tell")


def _stopped(result: DescentResult) -> Judgement:
    """Judge rule 3."""
    hypothesis = "a decaying rate stops spikes"
    constant, falling = ([model.spike_rate for model in result.solved(rate)] for rate in RATES)
    n = min(len(constant), len(falling))
    if not n:
        return Judgement(hypothesis, "not run")
    p, low = fewer(falling, constant), t_interval(falling)[0]
    observed = f"{mean(falling):.2f} per thousand steps against {mean(constant):.2f}, p = {p:.2g}"
    if n >= 6 and p < 0.05:
        return Judgement(hypothesis, "confirmed", observed, n)
    if n >= 8 and low > mean(constant) / 2:
        return Judgement(hypothesis, "refuted", observed, n)
    reason = "too few models to tell" if any(constant) else "no spikes at the constant rate either"
    return Judgement(hypothesis, "inconclusive", observed, n, reason)


def table(result: DescentResult) -> str:
    """Return a Markdown table with a row for each model."""
    rows = []
    for model in result.models:
        cells = [f"{model.rate}, seed {model.seed}", str(len(model.circuits))]
        if model.circuits:
            first, last = model.circuits[0], model.circuits[-1]
            cells += [
                f"step {first.step}",
                f"{len(first.paths)}, {len(last.paths)}",
                f"{model.kept(model.circuits):.0%}",
            ]
            cells += [f"{model.there_at_first:.0%}", str(len(model.spikes))]
        rows.append(cells + ["-"] * (7 - len(cells)))
    kept = "paths, first and last", "of the last in the first", "attended then"
    return markdown_table(("model", "circuits", "first at", *kept, "spikes"), rows)


STUDY = Study(
    "descent",
    "Does the last circuit descend from the first, and do spikes rebuild it?",
    DescentResult,
    standard,
    quick,
    run,
    judge,
    table,
)
