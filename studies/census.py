"""Which circuits do models learn? A census of models of three hops, with three, four and six layers.

We train seventy seeds of the laptop's recipe at each depth, each seed in its own run. Once a model has learned, the
heads that it does not need are pruned and its learning rate decays. The first twenty seeds with four layers are also
trained a second time, at the full rate, for three times the budget. hopscope searches for the circuit of every model,
both down from the model and up from no rows. A search with more than 64 rows left is given up. A model counts if its
loss is below the loss threshold and it has a circuit.

Rules for each depth:

1. Most circuits are as small as theory allows: 2D paths with imposed patterns (the paper's Appendix E procedure). A
   circuit above the loss threshold does not count as small.
2. Most circuits double: positions on the way also jump, not only the query.
3. The paper's "three circuits differ": most models share fewer retrieval steps beyond the first useful layer with the
   other models of their depth, on average, than two searches of the same model share with each other.

Confirmed: the lower 95% Clopper-Pearson bound on the share of models is above one half. Rule 3 also requires that the
whole 95% interval of the mean difference (Student's t) is above zero, because a search that mostly ends in the same
circuit for every model agrees with itself more often than with the mean of other models. Refuted: the upper bound is
below one half. Otherwise inconclusive.

Rules for all depths:

4. Further training changes the number of paths. Confirmed: the two-sided sign test over the seeds that changed gives p
   below 5%. Refuted: the test does not, there are ten seeds or more, and the 95% interval of the mean change (Student's
   t) is within one path either way. Otherwise inconclusive.
5. A certified model is content-based: no model with a certified circuit is position-based at any of its hops
   (`studies.tools.position_based`: the rows of each pair are moved, in 128 sequences). Confirmed: none is, and the
   upper 95% Clopper-Pearson bound on how often a model would be is below 10%. Refuted: a model is. Otherwise
   inconclusive. We measured the models whose weights were still available: all models that an earlier test of the
   queries' patterns alone had found, and other models.

    python -m studies census results/studies/census
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import hopscope as hs
from hopscope.statistics import sign_test
from studies.tools import conditions
from studies.tools.circuits import HASTY, CircuitSummary, Search, between, find_circuits, rows_by_group
from studies.tools.inference import t_interval
from studies.tools.judgements import Judgement, most_of, never
from studies.tools.position_based import PositionTest, position_tests
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

LEAST = 10
"""The fewest models that can show that the number of paths does not change."""

SEQUENCES = 128
"""The number of pairs of sequences in a position test."""


@dataclass(frozen=True)
class CensusStudy:
    """The settings of the census.

    Attributes:
        recipe: the recipe of all models; its layers are varied.
        hops: D.
        layers: the numbers of layers.
        seeds: the seeds of every depth.
        further: the number of seeds that are trained further.
        further_layers: the number of layers of the models that are trained further.
        search: the settings of the search for circuits.
    """

    recipe: hs.Recipe
    hops: int = 3
    layers: tuple[int, ...] = (3, 4, 6)
    seeds: tuple[int, ...] = tuple(range(6000, 6070))
    further: int = 20
    further_layers: int = 4
    search: Search = field(default_factory=Search)

    @property
    def models(self) -> list[hs.Setup]:
        """One run for each model."""
        problem = hs.RetrievalProblem(hops=self.hops)
        recipes = [replace(self.recipe, layers=layers) for layers in self.layers]
        depths = [hs.Setup(f"{recipe.layers}-layers", problem, recipe, self.seeds) for recipe in recipes]
        return [run for depth in depths for run in conditions.runs_of(depth, to_the_end=True)]

    @property
    def in_order(self) -> list[hs.Setup]:
        """All runs, seed by seed, so that a census that is cut short is a smaller census."""
        return sorted([*self.models, *self.trained_on], key=lambda setup: setup.seeds)

    @property
    def trained_on(self) -> list[hs.Setup]:
        """Longer runs of the first seeds on the same data, equal to `models` until the learning rate first decays."""
        recipe = replace(
            self.recipe,
            layers=self.further_layers,
            schedule="warmup-stable-decay",
            steps=3 * self.recipe.steps,
            decay_fraction=self.recipe.decay_fraction / 3,
        )
        problem = hs.RetrievalProblem(hops=self.hops)
        return [hs.Setup(f"further/seed-{seed:03d}", problem, recipe, (seed,)) for seed in self.seeds[: self.further]]


@dataclass(frozen=True)
class CensusResult:
    """The result of the census.

    Attributes:
        models: the models of the census.
        further: the models that were trained further.
        places: the position tests of the models of the census whose weights were available.
    """

    models: tuple[CircuitSummary, ...]
    further: tuple[CircuitSummary, ...]
    places: tuple[PositionTest, ...] = ()

    @property
    def depths(self) -> list[int]:
        """The numbers of layers of the models, in rising order."""
        return sorted({model.layers for model in self.models})

    def solved(self, layers: int) -> list[CircuitSummary]:
        """Return the models with `layers` layers that have a circuit."""
        return [model for model in self.models if model.layers == layers and model.paths]

    @property
    def pairs(self) -> list[tuple[CircuitSummary, CircuitSummary]]:
        """Pairs of a model and the same model after further training, if both have a circuit."""
        later = {(model.seed, model.layers): model for model in self.further if model.paths}
        both = [(model, later.get((model.seed, model.layers))) for model in self.models if model.paths]
        return [(model, further) for model, further in both if further]


def standard(recipe: hs.Recipe) -> CensusStudy:
    """Return the census of a recipe."""
    return CensusStudy(recipe)


def quick(recipe: hs.Recipe) -> CensusStudy:
    """Return a tiny version with models of one hop, which only shows that the study runs."""
    recipe = replace(recipe, steps=240, decay_fraction=0.6)
    return CensusStudy(recipe, hops=1, layers=(2,), seeds=(0,), further=1, further_layers=2, search=HASTY)


def run(study: CensusStudy, folder: Path, work: Work) -> CensusResult:
    """Train the missing models, find the circuit of every model, and test whether the model is position-based."""
    summaries = find_circuits(study.in_order, folder / "runs", work, study.search)
    found = {summary.model: summary for summary in summaries}
    models, further = (
        tuple(found[setup.name] for setup in setups if setup.name in found)
        for setups in (study.models, study.trained_on)
    )
    every = tuple(range(1, study.hops + 1))
    runs = conditions.finished(study.models, folder / "runs")
    places = position_tests(runs, folder, work, lambda problem: every, SEQUENCES)
    return CensusResult(models, further, places)


def judge(result: CensusResult) -> list[Judgement]:
    """Judge by the rules above: rules 1 to 3 for each depth, then rules 4 and 5."""
    found = []
    for layers in result.depths:
        models = result.solved(layers)
        small = [0 < len(model.imposed) <= hs.theory.minimum_paths(model.hops) for model in models]
        none = sum(not model.imposed for model in models)
        doubling = [model.strategy == "doubling" for model in models]
        found += [
            most_of(
                f"{layers} layers: most circuits are as small as theory allows",
                small,
                f"in {none} none with imposed patterns is below the threshold" if none else "",
            ),
            most_of(f"{layers} layers: most circuits double", doubling),
            _themselves(f"{layers} layers: most models are more like themselves than like others", models),
        ]
    return [*found, _drift(result.pairs), _certified_position_based(result)]


def _themselves(hypothesis: str, models: Sequence[CircuitSummary]) -> Judgement:
    """Judge rule 3 for the models of one depth."""
    pairs = zip(models, between(models), strict=False)
    more = [model.within - others for model, others in pairs if model.within is not None]
    most = most_of(hypothesis, [difference > 0 for difference in more])
    if most.verdict == "confirmed" and t_interval(more)[0] <= 0:
        return replace(most, verdict="inconclusive", reason="the mean difference is not clearly above zero")
    return most


def _certified_position_based(result: CensusResult) -> Judgement:
    """Judge rule 5."""
    hypothesis = "no model with a certified circuit is position-based"
    certified = {model.model for model in result.models if model.certified}
    position_based = {
        place.model: any(map(place.is_position_based, range(1, len(place.losses) + 1))) for place in result.places
    }
    tested = [position_based[name] for name in certified if name in position_based]
    if not tested:
        return Judgement(hypothesis, "not run")
    others = [is_so for name, is_so in position_based.items() if name not in certified]
    observed = f"{sum(tested)} of {len(tested)}; of those without {sum(others)} of {len(others)}"
    return never(hypothesis, observed, len(tested), happened=any(tested))


def _drift(pairs: Sequence[tuple[CircuitSummary, CircuitSummary]]) -> Judgement:
    """Judge rule 4."""
    hypothesis = "further training changes the number of paths"
    if not pairs:
        return Judgement(hypothesis, "not run")
    changes = [len(later.paths) - len(first.paths) for first, later in pairs]
    losses = [later.loss - first.loss for first, later in pairs if later.loss is not None and first.loss is not None]
    p, (low, high), n = sign_test(changes), t_interval(changes), len(changes)
    imposed = [len(later.imposed) - len(first.imposed) for first, later in pairs if first.imposed and later.imposed]
    observed = f"{mean(changes):+.1f} paths ({low:+.1f} to {high:+.1f}), p = {p:.2g}; loss {mean(losses):+.4f}"
    observed += f"; imposed {mean(imposed):+.1f} paths, where both exist ({len(imposed)})" if imposed else ""
    if p < 0.05:
        return Judgement(hypothesis, "confirmed", observed, n)
    if n >= LEAST and low >= -1 and high <= 1:
        return Judgement(hypothesis, "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, "too few models to tell")


def table(result: CensusResult) -> str:
    """Return a Markdown table with a column for each depth."""
    depths = result.depths
    models = ["models", *(str(sum(model.layers == layers for model in result.models)) for layers in depths)]
    rows = rows_by_group([result.solved(layers) for layers in depths])
    return markdown_table(["layers", *map(str, depths)], [models, *rows])


STUDY = Study(
    "census",
    "Which circuits do models learn, how similar are they, and do they change?",
    CensusResult,
    standard,
    quick,
    run,
    judge,
    table,
    recipe=hs.recipes.LAPTOP,
)
