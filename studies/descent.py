"""Does the last circuit of a model descend from the first that solved the task, and do spikes of the loss rebuild it?

Three hops, four layers, twelve seeds, three times the recipe's steps: at a constant rate, and with a rate that falls
over the last two thirds. From the step at which all hops are learned on, the circuit at every checkpoint that holds the
bar is searched for, so that each is known in its own time; the last one's paths are followed back through all of them.
A spike is a logged validation loss above twice the bar after one below it, once a circuit is there.

Rules:

1. The last circuit descends from the first, at either rate: the same heads do the same. A model's does if half of its
   paths or more (layer, head, query and key) are paths of the first, and more than are paths of any other seed's last
   circuit, whose heads are numbered as by chance, as those of a circuit built anew would be; without another seed
   nothing is said. (How much those have in common with it once their heads are renamed to fit is told, and no verdict
   hangs on it: seeds may well do the same by other heads.) As asked: the lower 95% Clopper-Pearson bound on the share
   of models is above one half. Not as asked: the upper one is below. Else inconclusive.
2. Spikes rebuild circuits: at the constant rate, two neighbouring checkpoints with a spike between them have less of
   their circuits in common than the last two before and the first two after them without, on average. Neighbours are
   two that hold the bar with no other checkpoint between. As asked: it is so in so many models that the two-sided sign
   test gives p below 5%, and the mean difference is above 0.1 by the whole of its 95% interval (Student's t). Not as
   asked: with six models or more it is below 0.1 by the whole of that. Else inconclusive, and so where no model has a
   spike between two without. (Compared were all with a spike and all without, by the sign test alone: where circuits
   change less and less, and spikes come early, that was as asked. No verdict hung on it.)
3. A falling rate stops spikes. As asked: there are fewer a thousand steps, p below 5% by the one-sided Mann-Whitney
   test (exact), six models or more at either. Not as asked: p is not, and with eight models or more their mean is above
   half of the constant rate's by the whole of its 95% interval (Student's t). Else inconclusive.

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
from studies.tools.arms import finished
from studies.tools.circuits import HASTY, Search, search_circuit
from studies.tools.followed import Followed, checkpoints_after_learning, follow
from studies.tools.inference import fewer, t_interval
from studies.tools.judgements import Judgement, most_of
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

RATES = ("constant", "falling")

REBUILT = 0.1
"""What circuits must have less in common, on average, to count as rebuilt."""


@dataclass(frozen=True)
class DescentStudy:
    """What is trained and followed.

    Attributes:
        recipe: the recipe of all models; its schedule is varied.
        hops: D.
        seeds: the seeds at either rate.
        search: how circuits are searched for.
    """

    recipe: hs.Recipe
    hops: int = 3
    seeds: tuple[int, ...] = tuple(range(7000, 7012))
    search: Search = field(default_factory=Search)

    @property
    def setups(self) -> list[hs.Setup]:
        """One run for each seed, at the constant rate and then at the falling one."""
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
    """What was found.

    Attributes:
        models: the models that are trained, at either rate.
    """

    models: tuple[Followed, ...]

    def solved(self, rate: str) -> list[Followed]:
        """The models of a rate that have a circuit at two or more checkpoints."""
        return [model for model in self.models if model.rate == rate and len(model.circuits) > 1]


def standard(recipe: hs.Recipe) -> DescentStudy:
    """The study of a recipe with three times its steps."""
    return DescentStudy(replace(recipe, steps=3 * recipe.steps, checkpoint_every=recipe.steps // 4))


def quick(recipe: hs.Recipe) -> DescentStudy:
    """A tiny version that only shows that the study runs: one hop, one seed."""
    return DescentStudy(replace(recipe, steps=300, checkpoint_every=100), hops=1, seeds=(0,), search=HASTY)


def run(study: DescentStudy, folder: Path, work: Work) -> DescentResult:
    """Train what is not trained yet, find the circuits at checkpoints, and follow the last circuit of each model."""
    work.train(study.setups, folder / "runs")
    runs = finished(study.setups, folder / "runs").values()
    jobs = [(one.path, step, study.search) for one in runs for step in checkpoints_after_learning(one)]
    work.each("circuits at checkpoints", search_circuit, jobs)
    kept = [(one, folder / "followed" / f"{one.path.parent.name}-{one.path.name}.json") for one in runs]
    work.each("paths over time", follow, [(one.path, study.search, path) for one, path in kept])
    return DescentResult(tuple(records.read(path, Followed) for _, path in kept if path.exists()))


def judge(result: DescentResult) -> list[Judgement]:
    """Judge by the rules above."""
    return [*(_descends(rate, result.solved(rate)) for rate in RATES), _rebuilt(result), _stopped(result)]


def _descends(rate: str, models: Sequence[Followed]) -> Judgement:
    """Rule 1."""
    asked = f"{rate} rate: the last circuit descends from the first"
    if not models:
        return Judgement(asked, "not run")
    if len(models) == 1:
        return Judgement(asked, "inconclusive", "", 1, "no other seed to compare it with")
    kept = [model.kept(model.circuits) for model in models]
    by_chance = [max(model.kept(other.circuits[-1:]) for other in models if other is not model) for model in models]
    renamed = [
        max(model.kept_renamed(other.circuits[-1:]) for other in models if other is not model) for model in models
    ]
    descends = [share >= 0.5 and share > chance for share, chance in zip(kept, by_chance, strict=True)]
    told = (
        f"{mean(kept):.0%} of its paths are the first's, {mean(by_chance):.0%} those of the likest other seed "
        f"({mean(renamed):.0%} with its heads renamed to fit); "
        f"{mean(one.there_at_first for one in models):.0%} attended when the first was there"
    )
    return most_of(asked, descends, told)


def _less_in_common(one: Followed) -> list[float]:
    """By how much circuits have less in common over each spike than over the times without before and after it."""
    changes, found = one.changes, []
    for place, (share, spike) in enumerate(changes):
        before = [other for other, there in changes[:place] if not there]
        after = [other for other, there in changes[place:] if not there]
        if spike and before and after:
            found.append(mean((before[-1], after[0])) - share)
    return found


def _rebuilt(result: DescentResult) -> Judgement:
    """Rule 2."""
    asked = "spikes rebuild circuits"
    models = result.solved("constant")
    if not models:
        return Judgement(asked, "not run")
    differences = [mean(some) for some in map(_less_in_common, models) if some]
    n = len(differences)
    if not n:
        return Judgement(asked, "inconclusive", f"{len(models)} models", 0, "no model has checkpoints with and without")
    p, (low, high) = sign_test(differences), t_interval(differences)
    more, less = sum(difference > 0 for difference in differences), sum(difference < 0 for difference in differences)
    ours = f"{mean(differences):+.2f} more in common without a spike ({low:+.2f} to {high:+.2f}), p = {p:.2g}"
    if p < 0.05 and more > less and low > REBUILT:
        return Judgement(asked, "as asked", ours, n)
    if n >= 6 and high < REBUILT:
        return Judgement(asked, "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, "too few models to tell")


def _stopped(result: DescentResult) -> Judgement:
    """Rule 3."""
    asked = "a falling rate stops spikes"
    constant, falling = ([one.spike_rate for one in result.solved(rate)] for rate in RATES)
    n = min(len(constant), len(falling))
    if not n:
        return Judgement(asked, "not run")
    p, low = fewer(falling, constant), t_interval(falling)[0]
    ours = f"{mean(falling):.2f} a thousand steps against {mean(constant):.2f}, p = {p:.2g}"
    if n >= 6 and p < 0.05:
        return Judgement(asked, "as asked", ours, n)
    if n >= 8 and low > mean(constant) / 2:
        return Judgement(asked, "not as asked", ours, n)
    reason = "too few models to tell" if any(constant) else "no spikes at the constant rate either"
    return Judgement(asked, "inconclusive", ours, n, reason)


def table(result: DescentResult) -> str:
    """A Markdown table with a row for each model."""
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
