"""Section 8 and Appendix E: the circuits of trained transformers, found and compared; Figure 5, claims C6 to C11.

Claims are judged by the circuit of the Appendix E procedure. Heads outside this circuit are uniform or the identity; in
heads of the circuit, the whole pattern is imposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from statistics import median
from typing import Any

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import ImposedCircuit
from hopscope.circuits.search.appendix_e import FILLS, Fill, HeadNumbers
from hopscope.circuits.search.config import Effort
from hopscope.lab.run import RunModel
from hopscope.paper import recipes
from hopscope.paper.claims import NOT_RUN, Finding, FirstColumn, General, general, in_folder, yes_or_no
from hopscope.paper.models import MAX_LOSS, PRUNED, Studied, StudiedModels, losses, ranged, shape_in_words
from hopscope.paper.report import PageFigure, Section
from hopscope.plot.card import card
from hopscope.plot.circuit import figure_5
from hopscope.problem.paths import AttentionPath, NamedPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role
from hopscope.theory.path_flow import arrives
from hopscope.theory.scene import Scene, problem_scene
from hopscope.training.run import RunFolder
from hopscope.words import counted

LOW = 0.01
"""The validation loss of transformers A, B and C is below this (Section 8.2)."""

NEEDED, FIRST_LAYER = (0.17, 0.89), (0.05, 0.10)
"""The paper's losses with one path ablated, and with the first useful layer uniform (Appendix E)."""

PAPERS = (recipes.A, recipes.B, recipes.C)
"""The transformers that the paper's claims are about."""

_NUMBERS = "Circuits by the Appendix E procedure and with own patterns. Numbers: the loss without the path."


def find(path: Path, number: int, effort: Effort) -> Circuit | None:
    """Return the circuit of one model of the run in `path`, stored or newly found; None if the model diverged."""
    run = RunFolder(path)
    diverged = run.result.models[number].diverged
    return None if diverged else RunModel(run, number).find_circuit(effort=effort, progress=False)


def judge(result: StudiedModels) -> list[Finding]:
    """Return the findings on C6 to C11 and C21."""
    models = result.compared
    if not models:
        return []
    scale = f"{result.study.scale}: {shape_in_words(models)}"
    solved = [model for model in models if model.solves]
    judged = [model for model in solved if model.decided]
    pruned = any(model.pruned for model in judged)
    aside = [f"{counted(len(solved) - len(judged), 'model')} not searched to the end"] * (len(judged) < len(solved))
    aside += ["heads were pruned in training"] * pruned
    found = [_training(models, scale)]
    for judge_it in (_few_heads, _first_ties, _differ, _work_alone, _needed, _three_suffice):
        left_out = pruned and judge_it in (_few_heads, _differ)
        finding = judge_it([] if left_out else judged, scale)
        if finding.known:
            found.append(replace(finding, spread="; ".join(part for part in (finding.spread, *aside) if part)))
        else:
            none = "no model that solves the task was searched for its circuit"
            why = PRUNED if left_out else "too few of the circuits can be judged by this claim" if judged else none
            found.append(replace(finding, reason=why))
    return in_folder(result.study.at, found)


def _papers(models: Sequence[Studied]) -> list[Studied]:
    """Return transformers A, B and C if the models include all three, else an empty list."""
    found = [model for model in models if model.setup in PAPERS]
    return found if len(found) == len(PAPERS) else []


def _of_three(met: Sequence[bool], numbers: str, why_not: str) -> FirstColumn:
    """Return the first column of a claim on each of A, B and C; `not run` without these transformers."""
    if not met:
        return NOT_RUN, "", ""
    return f"{sum(met)} of {len(met)}", numbers, "" if all(met) else why_not


def _training(models: Sequence[Studied], scale: str) -> Finding:
    trained = [model for model in models if model.shape == (12, 1, 3)]
    if not trained:
        return Finding("C6", reason="no model of 12 layers, one head and D = 3")

    def low(values: Sequence[float | None]) -> list[bool]:
        return [value is not None and value < LOW for value in values]

    def ended(models: Sequence[Studied]) -> tuple[list[bool], str]:
        window, best = ([getattr(model.learned, which) for model in models] for which in ("window", "best"))
        return low(window), f"{losses(window)}; over their best 100 steps {sum(low(best))} of {len(best)}"

    first = _of_three(*ended(_papers(trained)), "at a constant rate, losses spike to the end")
    met, spread = ended(trained)
    return general("C6", sum(met), len(met), first, spread=spread, scale=scale)


def _heads(model: Studied) -> int:
    """Return the number of heads in the model's circuit; 0 if no circuit works."""
    return len({path.where[:2] for path in model.working.paths}) if model.working else 0


def _few_heads(models: Sequence[Studied], scale: str) -> Finding:
    def count(some: Sequence[Studied]) -> str:
        return ", ".join(str(_heads(model) or "none") for model in some)

    few, three = sum(0 < _heads(m) <= m.shape[0] * m.shape[1] // 3 for m in models), _papers(models)
    first = _of_three([_heads(model) == 4 for model in three], count(three), "a circuit has another number of heads")
    return general("C7", few, len(models), first, spread=f"heads {count(models)}", scale=scale)


def _ties_first(model: Studied) -> bool:
    """Return whether the circuit's first useful layer links the members of every pair and does nothing else."""
    if model.working is None:
        return False
    pairs = {(f">x{hop}", f"x{hop - 1}>") for hop in range(1, model.shape[2] + 1)}
    return pairs == {(path.query, path.key) for path in model.working.paths if path.layer == model.working.first_layer}


def _first_ties(models: Sequence[Studied], scale: str) -> Finding:
    three = _papers(models)
    numbers = ", ".join(f"{model.name.upper()} does{'' if _ties_first(model) else ' not'}" for model in three)
    first = _of_three([*map(_ties_first, three)], numbers, "a first layer leaves a pair to a later one")
    return general("C8", sum(map(_ties_first, models)), len(models), first, scale=scale)


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Return the query and key roles of the paths after the first useful layer, whatever their layer and head (C9)."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def overlap(one: set[Any], other: set[Any]) -> float:
    """Return the size of the intersection divided by the size of the union; 1 if both sets are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0


def _differ(models: Sequence[Studied], scale: str) -> Finding:
    def shared(some: Sequence[Studied]) -> dict[tuple[str, str], float]:
        steps = {m.name: steps_beyond_first([path.where for path in m.working.paths]) for m in some if m.working}
        return {pair: overlap(*(steps[name] for name in pair)) for pair in combinations(steps, 2)}

    three, every = shared(_papers(models)), shared(models)
    alike = {name for pair, share in every.items() if share > 0.5 for name in pair}
    names = {name for pair in every for name in pair}
    words = ", ".join(f"{first.upper()} and {second.upper()} {share:.2f}" for (first, second), share in three.items())
    differ = max(three.values(), default=0.0) <= 0.5
    first = yes_or_no(bool(three), differ, f"steps shared: {words}", "they are one serial plan in different layers")
    spread = f"pairs share {ranged([*every.values()])} of their steps, median {median(every.values() or [0]):.2f}"
    return general("C9", len(names - alike), len(names), first, spread=spread, scale=scale)


def _work_alone(models: Sequence[Studied], scale: str) -> Finding:
    def below(some: Sequence[Studied], fill: Fill) -> list[bool]:
        return [model.imposed is not None and model.imposed.losses[fill].mean < MAX_LOSS for model in some]

    three, counts = _papers(models), {fill: sum(below(models, fill)) for fill in FILLS}
    numbers = "; ".join(
        f"{fill} {losses([model.imposed.losses[fill].mean for model in three if model.imposed])}" for fill in FILLS
    )
    first = _of_three(below(three, "zero"), numbers, "a circuit alone does not stay below 0.05 with other rows zero")
    spread = "below 0.05 by filling: " + ", ".join(f"{fill} {count}" for fill, count in counts.items())
    return general("C10", max(counts.values()), len(models), first, spread=spread, scale=scale)


def _needed(models: Sequence[Studied], scale: str) -> Finding:
    def costs(some: Sequence[Studied]) -> list[list[float]]:
        circuits = [model.working for model in some if model.working]
        return [[path.without.mean for path in c.paths if path.layer > c.first_layer] for c in circuits]

    def within(some: Sequence[Studied]) -> tuple[int, int, str]:
        flat = [loss for row in costs(some) for loss in row]
        uniform = [model.working.first_layer_uniform.mean for model in some if model.working]
        met = sum(NEEDED[0] <= loss <= NEEDED[1] for loss in flat)
        first = sum(FIRST_LAYER[0] <= loss <= FIRST_LAYER[1] for loss in uniform)
        words = f"without a path {ranged(flat)}, {met} of {len(flat)} in the paper's range; first layer uniform "
        return met, len(flat), f"{words}{ranged(uniform)}, {first} of {len(uniform)} in its range"

    three = _papers(models)
    met, of, words = within(three)
    why_not = "some paths cost less, and some first layers cost more or less"
    first = _of_three([place < met for place in range(of)], words, why_not)
    rows = [min(row, default=0.0) >= NEEDED[0] for row in costs(models)]
    return general("C11", sum(rows), len(rows), first, spread=within(models)[2], scale=scale)


def _three_suffice(models: Sequence[Studied], scale: str) -> Finding:
    asked = [model for model in models if model.shape[2] == 3]
    small = [model for model in asked if 0 < _heads(model) <= 3]
    if not asked:
        return Finding("C21")
    words = "; ".join(f"seed {model.seed} has {_three(model.working)}" for model in small if model.working)
    said: General = "holds" if small else "open"
    first = _mergeable([model for model in asked if model.setup == recipes.A])
    if not small and not first[2]:
        first = (*first[:2], "no model's circuit has three heads")
    return Finding("C21", *first, in_general=said, share=(len(small), len(asked)), spread=words, scale=scale)


def _three(circuit: ImposedCircuit) -> str:
    """Describe a circuit of three heads or fewer in words: its loss, and whether it can carry the answer in theory."""
    heads = counted(len({(path.layer, path.head) for path in circuit.paths}), "head")
    own = f", {circuit.own.mean:.2f} with its own" if circuit.own else ""
    problem = RetrievalProblem(hops=3)
    paths = [AttentionPath.named(*path.where, problem.roles) for path in circuit.paths]
    carries = "" if arrives(problem_scene(problem), paths) else "; by theory its paths cannot carry the answer"
    return f"{heads}, loss {circuit.loss:.3f} with imposed patterns{own}{carries}"


def _mergeable(a: Sequence[Studied]) -> FirstColumn:
    """Return the first column of C21: `no` if theory rules out every merge of two heads in A, else `not run`."""
    circuit = a[0].working if a else None
    if circuit is None:
        return NOT_RUN, "", ""
    problem = a[0].setup.problem
    paths = [AttentionPath.named(*path.where, problem.roles) for path in circuit.paths]
    if possible := _merges(paths, problem_scene(problem)):
        return NOT_RUN, "", f"{counted(possible, 'merge')} of two heads of A may work by theory, and none was tried"
    layers = ", ".join(str(path.layer + 1) for path in paths if path.query == query_role(problem.hops))
    why = f"the query itself attends to one place in each of the layers {layers}"
    return "no", f"no two of A's {_heads(a[0])} heads can be merged", why


def section(result: StudiedModels) -> Section | None:
    """Return the section with the circuits of A, B and C, else of the first model; None if no circuit was found."""
    found = [(model, model.circuit) for model in result.compared if model.circuit and model.circuit.found]
    if not found:
        return None
    papers = [(model.name.upper(), circuit) for model, circuit in found if model.setup in PAPERS]
    joint = figure_5(*(circuit for _, circuit in papers), names=[name for name, _ in papers]) if papers else None
    drawn = [PageFigure("figure-5", joint, f"Figure 5. {_NUMBERS}")] if joint else []
    for model, circuit in [] if joint else found[:1]:
        caption = f"Circuit of seed {circuit.seed} (as Figure 5): {circuit.verdict}. {_NUMBERS}"
        drawn.append(PageFigure(f"circuit-{model.name}", figure_5(circuit), caption))
        if circuit.card is not None:
            caption = f"The card of the circuit of seed {circuit.seed}, explained in `docs/circuits.md`."
            drawn.append(PageFigure(f"circuit-{model.name}-card", card(circuit), caption))
    certified = sum(circuit.certified for _, circuit in found)
    return Section(
        "Circuits (Section 8, Appendix E)",
        paragraphs=[
            f"We found {counted(len(found), 'circuit')} in {found[0][0].shape[0]}-layer models. On sequences "
            f"that the search never saw, {certified} passed all six checks. `hopscope circuit RUN --show` prints "
            "a circuit with its paths and checks, and `docs/circuits.md` explains the checks."
        ],
        figures=drawn,
    )


def _merges(paths: Sequence[AttentionPath], scene: Scene) -> int:
    """Count the merges of two heads that leave one path per row and can carry the answer in theory."""

    def works(source: HeadNumbers, target: HeadNumbers) -> bool:
        merged = [path._replace(layer=target[0], head=target[1]) if path.row[:2] == source else path for path in paths]
        return len({path.row for path in merged}) == len(paths) and arrives(scene, merged)

    return sum(works(*heads) for heads in permutations({path.row[:2] for path in paths}, 2))
