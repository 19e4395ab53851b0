"""Are questions in which two look-ups meet learned at the depth that theory asks for, and by which circuits?

`functions` and `relatives` (formulations 4 and 5 of Section 4) as vectors, every look-up asked for, the laptop's
recipe, five seeds at each of the exact minimum of layers, one and two above, eight at one below. Of `functions` 4
chains and twice the steps; of `relatives`, which is learned later, 2 chains and four times the steps. A seed has
learned when the validation loss of every look-up has been below 0.5; of `relatives` below 0.3, since there half of the
error goes by one key of two, a layer too early, and two thirds by each in turn, which theory does not count as looked
up. Of each model the circuit is searched for as soon as it is trained; one whose own loss is above the bar has none.

Rules, for each graph:

1. Nothing is learned beyond its depth. As asked: no seed of any arm learned a look-up for which it has too few layers,
   and the upper 95% Clopper-Pearson bound on how often one would is below one half, counted over those that learned
   every look-up for which they have layers enough. Not as asked: one did. Else inconclusive, and so where no deeper arm
   learned it.
2. It is learned at the minimum: as asked if three seeds of five or more learned all look-ups. Not as asked if so many
   cannot any more. Else inconclusive. The same is asked of one layer above, and of two.
3. Circuits deliver: those of most models that hold the bar pass `deliverability` of the certificate, which knows that
   one key of two is not enough. A model that holds the bar and of which no circuit was found counts against.
4. Look-ups that meet are made side by side, asked where the question looks both up (`functions`): in most circuits the
   earliest layers in which the question, at whichever of its positions, attends to either value are the same.
5. Most models that hold the bar have a certified circuit in the natural reading.
6. Rows are told by what they hold. Asked of the models that make the look-up of several keys (a loss below 0.3), all of
   them and those of too few layers alone: the rows that lead there are moved about (`studies.tools.by_place`), and a
   model that loses the look-up by that goes by place. As asked: most do not. Not as asked: most do.

From 3 on: as asked if the lower 95% Clopper-Pearson bound on the share is above one half, not as asked if the upper one
is below, else inconclusive. (Until `functions` was run, rule 1 counted shallow models that had learned nothing at
all too, and was content with five; 3 and 4 asked for more than half of three models. Those were too easily content.
Rule 6 was written when 13 models of `relatives` had been asked, to explain why rule 1 fails.)

    python -m studies conditional results/studies/conditional
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import hopscope as hs
from studies.tools import arms
from studies.tools.arms import ArmLearned, nothing_beyond
from studies.tools.by_place import ByPlace, places_of
from studies.tools.circuits import HASTY, Search, Seen, find_circuits, seen_table
from studies.tools.judgements import Judgement, as_many_as, most_of
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work


@dataclass(frozen=True)
class Graph:
    """What is asked about one graph.

    Attributes:
        look_ups: how many look-ups a question takes.
        chains: N, the chains in a sequence.
        steps: how many times the recipe's steps are trained.
        below: the validation loss below which a look-up counts as learned. Where one key leads to two facts, their mean
            leaves half of the error; what each of two keys leads to by itself leaves a third at best.
        question: the roles of the question's positions.
        meeting: the roles at which the question looks up keys that meet in one fact; none where these are fewer than
            two.
        facts_that_meet: the facts of one key, from 1, whose value is needed together with another to look up a third.
        needs_what_meets: the number of the first look-up that needs several keys, from 1.
    """

    look_ups: int
    chains: int
    steps: int
    below: float
    question: tuple[str, ...]
    meeting: tuple[str, ...]
    facts_that_meet: tuple[int, ...]
    needs_what_meets: int = 3


GRAPHS: Mapping[str, Graph] = {
    "functions": Graph(3, 4, 2, 0.5, ("f?", "i?"), (">a", ">0"), (1, 2)),
    "relatives": Graph(4, 2, 4, 0.3, ("Eve?",), (), (2,)),
}
"""In `functions` f(a(i)) is looked up by a and by 0; in `relatives` Eve's mother by Eve and by mother."""


@dataclass(frozen=True)
class ConditionalStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all models; its layers are varied.
        graphs: the graphs that are asked about.
        seeds: the seeds of every arm.
        further: further seeds of the arms with too few layers.
        beside: the depths, as layers above (or, negative, below) the exact minimum.
        search: how circuits are searched for.
    """

    recipe: hs.Recipe
    graphs: Mapping[str, Graph] = field(default_factory=lambda: GRAPHS)
    seeds: tuple[int, ...] = tuple(range(9000, 9005))
    further: tuple[int, ...] = tuple(range(9005, 9008))
    beside: tuple[int, ...] = (0, 1, 2, -1)
    search: Search = field(default_factory=Search)

    @property
    def arms(self) -> list[hs.Setup]:
        """One arm for each graph and depth, the minimum first."""
        found = []
        for name, graph in self.graphs.items():
            problem = hs.RetrievalProblem(graph.look_ups, graph.chains, graph=name)  # type: ignore[arg-type]
            times = graph.steps  # and as many steps of falling rate as the recipe has
            longer = replace(
                self.recipe, steps=times * self.recipe.steps, decay_fraction=self.recipe.decay_fraction / times
            )
            for more in self.beside:
                layers = hs.theory.minimum_layers(problem) + more
                seeds = self.seeds + (self.further if more < 0 else ())
                found.append(hs.Setup(f"{name}-{layers}-layers", problem, replace(longer, layers=layers), seeds))
        return found


@dataclass(frozen=True)
class ConditionalResult:
    """What was found.

    Attributes:
        bar: the bar that a model and its circuit must hold.
        arms: what each arm learned.
        models: all models that were trained, with their circuits.
        places: by what the models tell rows apart, for those that were available for the test.
    """

    bar: float
    arms: tuple[ArmLearned, ...]
    models: tuple[Seen, ...]
    places: tuple[ByPlace, ...] = ()

    def of(self, graph: str) -> list[ArmLearned]:
        """The arms of a graph."""
        return [arm for arm in self.arms if arm.problem.graph == graph]

    def solved(self, graph: str) -> list[Seen]:
        """The models of a graph that hold the bar."""
        return [model for model in self.models if model.model.startswith(f"{graph}-") and model.holds(self.bar)]


def standard(recipe: hs.Recipe) -> ConditionalStudy:
    """The study of a recipe."""
    return ConditionalStudy(recipe)


def quick(recipe: hs.Recipe) -> ConditionalStudy:
    """A tiny version that only shows that the study runs."""
    return ConditionalStudy(
        replace(recipe, steps=20),
        {name: replace(graph, chains=2) for name, graph in GRAPHS.items()},
        seeds=(0,),
        further=(),
        beside=(0,),
        search=HASTY,
    )


def run(study: ConditionalStudy, folder: Path, work: Work) -> ConditionalResult:
    """Train what is not trained yet, seed after seed, and find the circuit of every model."""
    runs, bar = folder / "runs", study.search.budget.max_loss
    setups = arms.by_seed(study.arms, to_the_end=True)
    models = find_circuits(setups, runs, work, study.search)
    found = [arm for graph in study.graphs for arm in _learned_of(graph, study, runs)]
    trained = arms.finished(setups, runs)
    places = places_of(trained, folder, work, lambda problem: GRAPHS[problem.graph].facts_that_meet)
    return ConditionalResult(bar, tuple(found), models, places)


def _learned_of(graph: str, study: ConditionalStudy, runs: Path) -> Sequence[ArmLearned]:
    """What the arms of a graph learned."""
    of_graph = [arm for arm in study.arms if arm.problem.graph == graph]
    return arms.read(of_graph, runs, to_the_end=True, below=GRAPHS[graph].below).arms


def judge(result: ConditionalResult) -> list[Judgement]:
    """Judge by the rules above, graph by graph."""
    judgements = []
    for graph in dict.fromkeys(arm.problem.graph for arm in result.arms):
        found, solved = result.of(graph), result.solved(graph)
        judgements.append(nothing_beyond(f"{graph}: no run learns a look-up beyond its depth", found))
        for arm in found:
            if arm.layers >= arm.needs(arm.last):
                judgements.append(_learned(graph, arm))
        judgements.append(most_of(f"{graph}: circuits deliver", [one.delivers for one in solved]))
        if meeting := GRAPHS[graph].meeting:
            together = [parallel(one, meeting) for one in solved if one.paths]
            judgements.append(most_of(f"{graph}: look-ups that meet are made side by side", together))
        certified = ["natural" in one.certified for one in solved]
        judgements.append(most_of(f"{graph}: most models have a certified circuit", certified))
        judgements += _by_what_they_hold(graph, found, result.places)
    return judgements


def parallel(one: Seen, roles: Sequence[str]) -> bool:
    """Whether the question, at whichever of its positions, first attends to all these roles in the same layer."""
    question = GRAPHS[one.model.partition("-")[0]].question
    looks = [(layer, key) for layer, _, query, key in one.paths if query in question]
    first = [min((layer for layer, key in looks if key == role), default=None) for role in roles]
    return None not in first and len(set(first)) == 1


def _by_what_they_hold(graph: str, found: Sequence[ArmLearned], places: Sequence[ByPlace]) -> list[Judgement]:
    """Rule 6."""
    look_up, asked = GRAPHS[graph].needs_what_meets, f"{graph}: rows are told by what they hold"
    too_few = tuple(f"{arm.name}/" for arm in found if arm.layers < arm.needs(look_up))
    make_it = [place for place in places if place.model.startswith(f"{graph}-") and place.makes(look_up)]
    shallow = [one for one in make_it if one.model.startswith(too_few)]
    return [
        most_of(where, [not one.goes_by_place(look_up) for one in those])
        for where, those in ((asked, make_it), (f"{asked}, with too few layers", shallow))
    ]


def _learned(graph: str, arm: ArmLearned) -> Judgement:
    """Rule 2."""
    needs, seeds = arm.needs(arm.last), len(arm.planned)
    more = "the minimum" if arm.layers == needs else f"{arm.layers - needs} above the minimum"
    learned = sum(step is not None for step in arm.everything())
    asked = f"{graph}: learned with {arm.layers} layers, {more}"
    return as_many_as(asked, seeds // 2 + 1, learned, len(arm.seeds), seeds)


def table(result: ConditionalResult) -> str:
    """Markdown tables: who learned what, then a row for each circuit, then by what rows are told apart."""
    told = f"{arms.table(arms.Arms(result.arms))}\n{seen_table(result.models)}"
    return told + (f"\n{places_table(result.places)}" if result.places else "")


def places_table(places: Sequence[ByPlace]) -> str:
    """A Markdown table with a row for each model: the loss of the look-up of several keys, unchanged and with the rows
    that lead there moved."""
    rows = []
    for place in places:
        look_up = GRAPHS[place.model.partition("-")[0]].needs_what_meets
        loss, worst = place.told(look_up)
        cells = ["-"] * 4
        if worst:
            own, beside = f"{worst.loss(worst.fact):.2f}", f"{worst.beside:.2f}"
            cells = [f"{worst.loss(look_up):.2f}", str(worst.layer), own, beside]
        rows.append((place.model, look_up, loss, *cells))
    moved = "rows moved", "layer", "own value then", "that of the chain at its place"
    return markdown_table(("model", "look-up", "loss", *moved), rows)


STUDY = Study(
    "conditional",
    "Are questions in which look-ups meet learned at the theory's depth, and how?",
    ConditionalResult,
    standard,
    quick,
    run,
    judge,
    table,
    recipe=hs.recipes.LAPTOP,
)
