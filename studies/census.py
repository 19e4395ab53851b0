"""Which circuits do models learn? A census of models of three hops, with three, four and six layers.

Seventy seeds a depth by the laptop's recipe, each a run of its own: once it has learned, the heads that it can do
without are taken away, so that its circuit can be certified, and its rate falls. Of those with four layers the first
twenty again, trained on at the full rate to three times the budget before it falls. Every model's circuit is searched
for down from the model and up from nothing. Counted are the models that hold the bar and have a circuit; a search that
is left with more than 64 rows is given up.

Rules, by depth:

1. Most circuits are as small as theory allows: 2D paths in the strict reading, the paper's own procedure. One whose
   strict circuit does not hold the bar is not.
2. Most circuits double: positions on the way jump too, not the query alone.
3. The paper's "three circuits differ": most models share fewer steps beyond the first useful layer with the other
   models of their depth, on average, than two searches of the model itself share.

As asked: the lower 95% Clopper-Pearson bound on the share of models is above one half. Not as asked: the upper one is
below. Else inconclusive. 3 is as asked only if the mean difference, too, is above zero by the whole of its 95% interval
(Student's t): searches that mostly end in one circuit and at times in another, whichever the model, agree with
themselves in most models more than with the mean of others. (Asked for last; no verdict hung on it.)

4. Further training changes the number of paths of the natural reading. As asked: the two-sided sign test over seeds
   that changed gives p below 5%. Not as asked: it does not, and the 95% interval of the mean change (Student's t)
   lies within one path either way, from ten seeds or more. Else inconclusive.
5. A certificate is of a model that tells rows by what they hold: no model with a certified circuit, in either sense,
   goes by place at any hop that it has (`studies.tools.by_place`: rows of each pair are moved, in 128 sequences).
   Asked of those models that are still there. As asked: none does, and the upper 95% Clopper-Pearson bound on how often
   one would is below 10%. Not as asked: one does. Else inconclusive. (Written when every fifth model had been asked, 24
   of them, by the queries' patterns alone; today's question is of when 162 had, and was put to the eight that had lost
   a hop by those and to 15 others, all trained again: so no interval is told.)

    python -m studies census results/studies/census
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import hopscope as hs
from hopscope.statistics import sign_test
from studies.tools import arms
from studies.tools.by_place import ByPlace, places_of
from studies.tools.circuits import HASTY, Search, Seen, between, find_circuits
from studies.tools.inference import share_in_words, spread_in_words, t_interval
from studies.tools.judgements import Judgement, most_of, never
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

LEAST = 10
"""The fewest models by which the absence of a drift can be shown."""

SEQUENCES = 128
"""Pairs of sequences on which a model is tested for going by place."""


@dataclass(frozen=True)
class CensusStudy:
    """What is trained and examined.

    Attributes:
        recipe: the recipe of all models; its layers are varied.
        hops: D.
        layers: the depths, in layers.
        seeds: the seeds of every depth.
        further: how many of the seeds are trained further, at `further_layers`.
        further_layers: the depth of the models that are trained further.
        search: how circuits are searched for.
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
        return [run for depth in depths for run in arms.runs_of(depth, to_the_end=True)]

    @property
    def in_order(self) -> list[hs.Setup]:
        """All runs, seed after seed, so that a census cut short is a smaller census."""
        return sorted([*self.models, *self.trained_on], key=lambda setup: setup.seeds)

    @property
    def trained_on(self) -> list[hs.Setup]:
        """The same seeds on the same data, trained longer; until the rate first falls they equal those of `models`."""
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
    """What was found.

    Attributes:
        models: the models of the census.
        further: the models that were trained further.
        places: by what the models of the census tell rows apart, for those that were available for the test.
    """

    models: tuple[Seen, ...]
    further: tuple[Seen, ...]
    places: tuple[ByPlace, ...] = ()

    @property
    def depths(self) -> list[int]:
        """Layers of the models, rising."""
        return sorted({model.layers for model in self.models})

    def solved(self, layers: int) -> list[Seen]:
        """The models of a depth that have a circuit."""
        return [model for model in self.models if model.layers == layers and model.paths]

    @property
    def pairs(self) -> list[tuple[Seen, Seen]]:
        """Pairs of a model and the same model trained further, where both have a circuit."""
        later = {(one.seed, one.layers): one for one in self.further if one.paths}
        both = [(model, later.get((model.seed, model.layers))) for model in self.models if model.paths]
        return [(one, other) for one, other in both if other]


def standard(recipe: hs.Recipe) -> CensusStudy:
    """The census of a recipe."""
    return CensusStudy(recipe)


def quick(recipe: hs.Recipe) -> CensusStudy:
    """A tiny version that only shows that the study runs: models of one hop."""
    recipe = replace(recipe, steps=240, decay_fraction=0.6)
    return CensusStudy(recipe, hops=1, layers=(2,), seeds=(0,), further=1, further_layers=2, search=HASTY)


def run(study: CensusStudy, folder: Path, work: Work) -> CensusResult:
    """Train what is not trained yet, find the circuit of every model, and test by what it tells rows apart."""
    found = {
        find_circuit.model: find_circuit
        for find_circuit in find_circuits(study.in_order, folder / "runs", work, study.search)
    }
    models, further = (
        tuple(found[setup.name] for setup in setups if setup.name in found)
        for setups in (study.models, study.trained_on)
    )
    every = tuple(range(1, study.hops + 1))
    runs = arms.finished(study.models, folder / "runs")
    places = places_of(runs, folder, work, lambda problem: every, SEQUENCES)
    return CensusResult(models, further, places)


def judge(result: CensusResult) -> list[Judgement]:
    """Judge by the rules above: depth by depth, then the drift, then whether certified models go by place."""
    found = []
    for layers in result.depths:
        models = result.solved(layers)
        small = [0 < len(model.strict) <= hs.theory.minimum_paths(model.hops) for model in models]
        none = sum(not model.strict for model in models)
        doubling = [model.strategy == "doubling" for model in models]
        found += [
            most_of(
                f"{layers} layers: most circuits are as small as theory allows",
                small,
                f"no strict circuit holds the bar in {none}" if none else "",
            ),
            most_of(f"{layers} layers: most circuits double", doubling),
            _themselves(f"{layers} layers: most models are more like themselves than like others", models),
        ]
    return [*found, _drift(result.pairs), _certified_by_place(result)]


def _themselves(asked: str, models: Sequence[Seen]) -> Judgement:
    """Rule 3, for the models of one depth."""
    beside = zip(models, between(models), strict=False)
    more = [one.within - others for one, others in beside if one.within is not None]
    most = most_of(asked, [difference > 0 for difference in more])
    if most.verdict == "as asked" and t_interval(more)[0] <= 0:
        return replace(most, verdict="inconclusive", reason="on average they may not be")
    return most


def _certified_by_place(result: CensusResult) -> Judgement:
    """Rule 5."""
    asked = "no model with a certified circuit goes by place"
    certified = {model.model for model in result.models if model.certified}
    by_place = {place.model: any(map(place.goes_by_place, range(1, len(place.losses) + 1))) for place in result.places}
    theirs = [by_place[name] for name in certified if name in by_place]
    if not theirs:
        return Judgement(asked, "not run")
    others = [goes for name, goes in by_place.items() if name not in certified]
    ours = f"{sum(theirs)} of {len(theirs)}; of those without {sum(others)} of {len(others)}"
    return never(asked, ours, len(theirs), happened=any(theirs))


def _drift(pairs: Sequence[tuple[Seen, Seen]]) -> Judgement:
    """Rule 4."""
    asked = "further training changes the number of paths"
    if not pairs:
        return Judgement(asked, "not run")
    changes = [len(later.paths) - len(one.paths) for one, later in pairs]
    losses = [later.loss - one.loss for one, later in pairs if later.loss is not None and one.loss is not None]
    p, (low, high), n = sign_test(changes), t_interval(changes), len(changes)
    strict = [len(later.strict) - len(one.strict) for one, later in pairs if one.strict and later.strict]
    ours = f"{mean(changes):+.1f} paths ({low:+.1f} to {high:+.1f}), p = {p:.2g}; loss {mean(losses):+.4f}"
    ours += f"; strict {mean(strict):+.1f} paths, where both are there ({len(strict)})" if strict else ""
    if p < 0.05:
        return Judgement(asked, "as asked", ours, n)
    if n >= LEAST and low >= -1 and high <= 1:
        return Judgement(asked, "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, "too few models to tell")


def table(result: CensusResult) -> str:
    """A Markdown table with a column for each depth."""
    depths = result.depths
    rows: dict[str, Callable[[list[Seen]], str]] = {
        "with a circuit": lambda seen: str(len(seen)),
        "certified, natural": lambda seen: share_in_words(sum("natural" in one.certified for one in seen), len(seen)),
        "certified, strict": lambda seen: share_in_words(sum("strict" in one.certified for one in seen), len(seen)),
        "theory delivers x{D}": lambda seen: share_in_words(sum(one.delivers for one in seen), len(seen)),
        "paths, natural": lambda seen: spread_in_words([len(one.paths) for one in seen]),
        "paths, strict": lambda seen: spread_in_words([len(one.strict) for one in seen if one.strict]),
        "paths that do a step again": lambda seen: spread_in_words([one.repeated for one in seen]),
        "heads": lambda seen: spread_in_words([one.heads for one in seen]),
        "heads of several steps": lambda seen: spread_in_words([one.shared_heads for one in seen]),
        "doubling": lambda seen: share_in_words(sum(one.strategy == "doubling" for one in seen), len(seen)),
        "overlap with another model": lambda seen: spread_in_words(between(seen)),
        "overlap of two searches": lambda seen: spread_in_words([one.within for one in seen if one.within is not None]),
    }
    models = ["models", *(sum(model.layers == n for model in result.models) for n in depths)]
    told = [[name, *(tell(result.solved(n)) for n in depths)] for name, tell in rows.items()]
    return markdown_table(["layers", *map(str, depths)], [models, *told])


STUDY = Study(
    "census",
    "Which circuits do models learn, how alike, and do they change?",
    CensusResult,
    standard,
    quick,
    run,
    judge,
    table,
    recipe=hs.recipes.LAPTOP,
)
