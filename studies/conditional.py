"""Are questions in which two retrieval steps meet learned at the depth that theory asks for, and by which circuits?

`functions` and `relatives` (formulations 4 and 5 of Section 4) as vectors, with a target for every step, by the
laptop's recipe: five seeds at each of the exact minimum of layers, one and two above, eight at one below. `functions`
has 4 chains and twice the recipe's steps, `relatives`, which is learned later, 2 chains and four times the steps. A
step is learned when its validation loss has been below 0.5; for `relatives` below 0.3, since a model that uses one key
of two, a layer too early, leaves half of the error, and one that uses each in turn a third. The circuit of each model
is searched for as soon as it is trained; a model above the loss threshold has none.

Rules, for each graph:

1. Nothing is learned beyond its depth. Confirmed: no seed of any condition learned a step for which it has too few
   layers, and the upper 95% Clopper-Pearson bound on how often one would is below one half, counted over those that
   learned every step for which they have enough layers. Refuted: one did. Otherwise inconclusive, also where no deeper
   condition learned it.
2. It is learned at the minimum, and likewise one layer above, and two. Confirmed: three seeds of five or more learned
   all steps. Refuted: so many no longer can. Otherwise inconclusive.
3. Circuits deliver: the circuits of most models below the loss threshold pass the check of delivery, for which one key
   of two is not enough. A model below the threshold without a circuit counts against.
4. Steps that meet are made side by side, where the question makes both (`functions`): in most circuits the earliest
   layers in which the question, at any of its positions, attends to either value are the same.
5. Most models below the loss threshold have a certified circuit.
6. The step of several keys is content-based, in all models that make it (a loss below 0.3), and in those with too few
   layers alone: most do not lose it when the rows that lead there are moved (`studies.tools.position_based`).

Rules 3 to 6: confirmed if the lower 95% Clopper-Pearson bound on the share is above one half, refuted if the upper
bound is below, otherwise inconclusive.

    python -m studies conditional results/studies/conditional
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import hopscope as hs
from studies.tools import conditions
from studies.tools.circuits import HASTY, CircuitSummary, Search, circuits_table, find_circuits
from studies.tools.conditions import Condition, nothing_beyond
from studies.tools.judgements import Judgement, as_many_as, most_of
from studies.tools.position_based import PositionTest, position_tests
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work


@dataclass(frozen=True)
class Graph:
    """One graph, and what is tested about it.

    Attributes:
        hops: how many retrieval steps a question takes.
        chains: N, the chains in a sequence.
        steps: how many times the recipe's steps are trained.
        below: the validation loss below which a retrieval step counts as learned. Where one key leads to two facts,
            their mean leaves half of the error; each of two keys by itself leaves a third at best.
        question: the roles of the question's positions.
        meeting: the roles that the question attends to for keys that meet in one fact; none where fewer than two do.
        facts_that_meet: the facts of one key, from 1, whose value is a key of a third fact together with another.
        needs_what_meets: the number of the first retrieval step that needs several keys, from 1.
    """

    hops: int
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
"""In `functions` the keys of f(a(i)) are a and 0; in `relatives` those of Eve's mother are Eve and mother."""


@dataclass(frozen=True)
class ConditionalStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all models; its layers are varied.
        graphs: the graphs to train on.
        seeds: the seeds of every condition.
        further: further seeds of the conditions with too few layers.
        offsets: the depths, as layers above (or, negative, below) the exact minimum.
        search: how circuits are searched for.
    """

    recipe: hs.Recipe
    graphs: Mapping[str, Graph] = field(default_factory=lambda: GRAPHS)
    seeds: tuple[int, ...] = tuple(range(9000, 9005))
    further: tuple[int, ...] = tuple(range(9005, 9008))
    offsets: tuple[int, ...] = (0, 1, 2, -1)
    search: Search = field(default_factory=Search)

    @property
    def conditions(self) -> list[hs.Setup]:
        """One condition for each graph and depth, the minimum first."""
        found = []
        for name, graph in self.graphs.items():
            problem = hs.RetrievalProblem(graph.hops, graph.chains, graph=name)  # type: ignore[arg-type]
            times = graph.steps  # and as many steps of decay as the recipe has
            longer = replace(
                self.recipe, steps=times * self.recipe.steps, decay_fraction=self.recipe.decay_fraction / times
            )
            for more in self.offsets:
                layers = hs.theory.min_layers(problem) + more
                seeds = self.seeds + (self.further if more < 0 else ())
                found.append(hs.Setup(f"{name}-{layers}-layers", problem, replace(longer, layers=layers), seeds))
        return found


@dataclass(frozen=True)
class ConditionalResult:
    """What was found.

    Attributes:
        max_loss: the loss threshold of models and their circuits.
        conditions: what each condition learned.
        models: all models that were trained, with their circuits.
        places: the position tests of those models whose weights were available.
    """

    max_loss: float
    conditions: tuple[Condition, ...]
    models: tuple[CircuitSummary, ...]
    places: tuple[PositionTest, ...] = ()

    def of(self, graph: str) -> list[Condition]:
        """The conditions of a graph."""
        return [condition for condition in self.conditions if condition.problem.graph == graph]

    def solved(self, graph: str) -> list[CircuitSummary]:
        """The models of a graph that are below the loss threshold."""
        return [model for model in self.models if model.model.startswith(f"{graph}-") and model.solves(self.max_loss)]


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
        offsets=(0,),
        search=HASTY,
    )


def run(study: ConditionalStudy, folder: Path, work: Work) -> ConditionalResult:
    """Train what is not trained yet, seed after seed, and find the circuit of every model."""
    runs, max_loss = folder / "runs", study.search.budget.max_loss
    setups = conditions.by_seed(study.conditions, to_the_end=True)
    models = find_circuits(setups, runs, work, study.search)
    found = [condition for graph in study.graphs for condition in _learned_of(graph, study, runs)]
    trained = conditions.finished(setups, runs)
    places = position_tests(trained, folder, work, lambda problem: GRAPHS[problem.graph].facts_that_meet)
    return ConditionalResult(max_loss, tuple(found), models, places)


def _learned_of(graph: str, study: ConditionalStudy, runs: Path) -> Sequence[Condition]:
    """What the conditions of a graph learned."""
    of_graph = [condition for condition in study.conditions if condition.problem.graph == graph]
    return conditions.read(of_graph, runs, to_the_end=True, below=GRAPHS[graph].below).conditions


def judge(result: ConditionalResult) -> list[Judgement]:
    """Judge by the rules above, graph by graph."""
    judgements = []
    for graph in dict.fromkeys(condition.problem.graph for condition in result.conditions):
        found, solved = result.of(graph), result.solved(graph)
        judgements.append(nothing_beyond(f"{graph}: no run learns a step beyond its depth", found))
        for condition in found:
            if condition.layers >= condition.needs(condition.last):
                judgements.append(_learned(graph, condition))
        judgements.append(most_of(f"{graph}: circuits deliver", [model.delivers for model in solved]))
        if meeting := GRAPHS[graph].meeting:
            together = [parallel(model, meeting) for model in solved if model.paths]
            judgements.append(most_of(f"{graph}: steps that meet are made side by side", together))
        certified = ["own" in model.certified for model in solved]
        judgements.append(most_of(f"{graph}: most models have a certified circuit", certified))
        judgements += _content_based(graph, found, result.places)
    return judgements


def parallel(model: CircuitSummary, roles: Sequence[str]) -> bool:
    """Whether the question, at any of its positions, first attends to all these roles in the same layer."""
    question = GRAPHS[model.model.partition("-")[0]].question
    attended = [(layer, key) for layer, _, query, key in model.paths if query in question]
    first = [min((layer for layer, key in attended if key == role), default=None) for role in roles]
    return None not in first and len(set(first)) == 1


def _content_based(graph: str, found: Sequence[Condition], places: Sequence[PositionTest]) -> list[Judgement]:
    """Rule 6."""
    hop, hypothesis = GRAPHS[graph].needs_what_meets, f"{graph}: the step of several keys is content-based"
    too_few = tuple(f"{condition.name}/" for condition in found if condition.layers < condition.needs(hop))
    make_it = [place for place in places if place.model.startswith(f"{graph}-") and place.learned(hop)]
    shallow = [test for test in make_it if test.model.startswith(too_few)]
    return [
        most_of(statement, [not test.is_position_based(hop) for test in tests])
        for statement, tests in ((hypothesis, make_it), (f"{hypothesis}, with too few layers", shallow))
    ]


def _learned(graph: str, condition: Condition) -> Judgement:
    """Rule 2."""
    needs, seeds = condition.needs(condition.last), len(condition.planned)
    more = "the minimum" if condition.layers == needs else f"{condition.layers - needs} above the minimum"
    learned = sum(step is not None for step in condition.everything())
    hypothesis = f"{graph}: learned with {condition.layers} layers, {more}"
    return as_many_as(hypothesis, seeds // 2 + 1, learned, len(condition.seeds), seeds)


def table(result: ConditionalResult) -> str:
    """Markdown tables: who learned what, a row for each circuit, and the position tests."""
    learned = conditions.table(conditions.Conditions(result.conditions))
    tests = f"\n{places_table(result.places)}" if result.places else ""
    return f"{learned}\n{circuits_table(result.models)}{tests}"


def places_table(places: Sequence[PositionTest]) -> str:
    """A Markdown table with a row for each model: the loss of the step of several keys, unchanged and with the rows
    that lead there moved."""
    rows = []
    for place in places:
        hop = GRAPHS[place.model.partition("-")[0]].needs_what_meets
        cells = ["-"] * 4
        if worst := place.worst(hop):
            own, next_chain = f"{worst.loss(worst.fact):.2f}", f"{worst.as_next_chain:.2f}"
            cells = [f"{worst.loss(hop):.2f}", str(worst.layer), own, next_chain]
        rows.append((place.model, hop, place.loss_in_words(hop), *cells))
    moved = "rows moved", "layer", "own value then", "that of the chain at its position"
    return markdown_table(("model", "step", "loss", *moved), rows)


STUDY = Study(
    "conditional",
    "Are questions in which retrieval steps meet learned at the theory's depth, and how?",
    ConditionalResult,
    standard,
    quick,
    run,
    judge,
    table,
    recipe=hs.recipes.LAPTOP,
)
