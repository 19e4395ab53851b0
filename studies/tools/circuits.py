"""Circuits of many models: found in parallel, and summarised for a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import hopscope as hs
from studies.tools.conditions import finished
from studies.tools.inference import share_in_words, spread_in_words
from studies.tools.work import Work

NamedPath = tuple[int, int, str, str]
"""An attention path: layer and head from 1, query and key role by name."""


@dataclass(frozen=True)
class CircuitSummary:
    """The circuit of one model, as a study counts it.

    Attributes:
        model: the name of the model's run, which contains the name of its condition.
        seed: the seed that the model was trained from.
        layers: the number of layers of the model.
        step: the step of the checkpoint; None for the last.
        hops: D.
        loss: the loss of the unchanged model; None if the model diverged. A model that diverged has no circuit.
        certified: the patterns (`own`, `imposed` or both) with which the circuit passed all checks. Records that are
            older than the six checks use the earlier rules, which had twelve parts.
        delivers: whether, by theory, the circuit's paths carry x{D} to the query.
        strategy: `doubling`, `serial`, ..., see `hs.Circuit`; `none` if there is no circuit.
        paths: the paths of the circuit with the model's own patterns; empty if there is no circuit.
        again: the paths of the circuits that searches in other orders found, with one entry for each order.
        imposed: the paths of the circuit with imposed patterns (the paper's Appendix E procedure); empty if there is no
            such circuit or its loss is too high.
    """

    model: str
    seed: int
    layers: int
    step: int | None
    hops: int
    loss: float | None
    certified: tuple[str, ...] = ()
    delivers: bool = False
    strategy: str = "none"
    paths: tuple[NamedPath, ...] = ()
    again: tuple[tuple[NamedPath, ...], ...] = ()
    imposed: tuple[NamedPath, ...] = ()

    def solves(self, max_loss: float) -> bool:
        """Whether the loss of the unchanged model is below `max_loss`; False if the model diverged."""
        return self.loss is not None and self.loss < max_loss

    @property
    def repeated(self) -> int:
        """The number of paths minus the number of distinct retrieval steps: steps that a head or layer repeats."""
        return len(self.paths) - len({(query, key) for *_, query, key in self.paths})

    @property
    def heads(self) -> int:
        """The number of heads that have a path."""
        return len({path[:2] for path in self.paths})

    @property
    def shared_heads(self) -> int:
        """The number of heads beyond the first useful layer whose paths make more than one retrieval step."""
        first = min((layer for layer, *_ in self.paths), default=0)
        steps: dict[tuple[int, int], set[tuple[str, str]]] = {}
        for layer, head, query, key in self.paths:
            if layer > first:
                steps.setdefault((layer, head), set()).add((query, key))
        return sum(len(of_head) > 1 for of_head in steps.values())

    @property
    def within(self) -> float | None:
        """The mean overlap of the retrieval steps beyond the first useful layer, over all pairs of searches of this
        model; None if there is no pair."""
        searches = [steps_beyond_first(paths) for paths in (self.paths, *self.again)]
        pairs = [overlap(*pair) for pair in combinations(searches, 2)]
        return sum(pairs) / len(pairs) if pairs and self.paths else None

    @classmethod
    def of(cls, circuit: hs.Circuit, model: str, step: int | None = None) -> CircuitSummary:
        """Return the summary of a circuit."""
        paths, *again = ends(circuit)
        imposed = circuit.imposed
        if imposed and imposed.loss > circuit.max_loss:
            imposed = None
        return cls(
            model=model,
            seed=circuit.seed,
            layers=circuit.layers,
            step=step,
            hops=circuit.hops,
            loss=circuit.losses["full"],
            certified=("own",) * circuit.certified + ("imposed",) * bool(circuit.imposed and circuit.imposed.passed),
            delivers=delivers(circuit),
            strategy=circuit.strategy,
            paths=paths,
            again=tuple(again),
            imposed=tuple(path.where for path in imposed.paths) if imposed else (),
        )


def delivers(circuit: hs.Circuit) -> bool:
    """Whether, by theory, the paths of a circuit carry the target symbol to the query."""
    return "delivery" in circuit.checks and circuit.checks["delivery"].passed


def ends(circuit: hs.Circuit) -> list[tuple[NamedPath, ...]]:
    """Return the paths of the circuit that each order of the search found, starting with the paths of `circuit`."""
    found = [([path.path for path in circuit.paths], max(1, len(circuit.search.orders_ending_here)))]
    found += [([*other.paths], len(other.orders)) for other in circuit.others]
    return [tuple(path.names(circuit.roles) for path in paths) for paths, times in found for _ in range(times)]


@dataclass(frozen=True)
class Search:
    """The settings of the search for circuits (`budget`) and of their checks (`proof`)."""

    budget: hs.SearchConfig = field(default_factory=lambda: hs.SearchConfig("quick"))
    proof: hs.CertificateConfig = field(default_factory=lambda: hs.CertificateConfig())


HASTY = Search(
    hs.SearchConfig(hs.SearchBudget(1, 1, sequences=16, confirming=32, deciding=32, every_subset=2, pairs=2)),
    hs.CertificateConfig(sequences=32, deciding=32, few=16, draws=4, halves=4),
)
"""The search of the quick versions of studies. The results of its checks mean nothing."""


def find_circuits(setups: Sequence[hs.Setup], folder: Path, work: Work, search: Search) -> tuple[CircuitSummary, ...]:
    """Train the models that are not trained yet, and return a summary of the circuit of each model.

    A circuit that exists is not searched for again. A model that diverged counts as a model without a circuit.

    Args:
        setups: runs of one model each.
        folder: the folder that contains the run folders.
        work: the settings for training and parallel work.
        search: the settings of the search.

    Raises:
        InputError: a run or a circuit in the folder is damaged or belongs to something else.
    """
    work.train(setups, folder)
    runs = finished(setups, folder)
    work.each("circuits", search_circuit, [(run.path, None, search) for run in runs.values()])
    summaries = []
    for name, run in runs.items():
        if diverged(run):
            summaries.append(CircuitSummary(name, run.seeds[0], run.recipe.layers, None, run.problem.hops, None))
        elif (run.path / "circuit.json").exists():
            summaries.append(CircuitSummary.of(hs.Circuit.load(run.path / "circuit.json", run.hash), name))
    return tuple(summaries)


def circuit_at(path: Path, step: int | None, search: Search) -> Any:
    """Return the circuit of a run's first model at a step (None: the last step); None if the model had diverged."""
    run = hs.Run(path)
    if diverged(run, step):
        return None
    model = run[0] if step is None else run[0].at(step)
    return model.find_circuit(effort=search.budget, proof=search.proof, progress=False)


def search_circuit(path: Path, step: int | None, search: Search) -> None:
    """Find the circuit that `circuit_at` returns, and store it in the run folder."""
    circuit_at(path, step, search)


def diverged(run: hs.Run, step: int | None = None) -> bool:
    """Whether the first model of a finished run had diverged at a checkpoint, or at the end if `step` is None."""
    if not run.result.models[0].diverged:
        return False  # nor had it diverged at any earlier step, since NaN stays NaN
    weights = () if step is None else run.transformer(step).state_dict().values()
    return step is None or not all(bool(torch.isfinite(weight).all()) for weight in weights)


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Return the query and key roles of all paths beyond the first useful layer, without their layers and heads."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def overlap(first: set[Any], second: set[Any]) -> float:
    """Return the overlap of two sets as a share of their union (Jaccard index); 1 if both sets are empty."""
    return len(first & second) / len(first | second) if first | second else 1.0


def between(models: Sequence[CircuitSummary]) -> list[float]:
    """Return, for each model, the mean overlap of its steps beyond the first useful layer with other models' steps."""
    steps = [steps_beyond_first(model.paths) for model in models]
    return [
        mean(overlap(step, other) for place, other in enumerate(steps) if place != number)
        for number, step in enumerate(steps)
        if len(steps) > 1
    ]


ROWS: Mapping[str, Callable[[Sequence[CircuitSummary]], str]] = {
    "with a circuit": lambda models: str(len(models)),
    "certified, own patterns": lambda models: share_in_words(sum("own" in m.certified for m in models), len(models)),
    "certified, imposed patterns": lambda models: share_in_words(
        sum("imposed" in m.certified for m in models), len(models)
    ),
    "theory delivers x{D}": lambda models: share_in_words(sum(m.delivers for m in models), len(models)),
    "paths, own patterns": lambda models: spread_in_words([len(m.paths) for m in models]),
    "paths, imposed patterns": lambda models: spread_in_words([len(m.imposed) for m in models if m.imposed]),
    "paths that repeat a step": lambda models: spread_in_words([m.repeated for m in models]),
    "heads": lambda models: spread_in_words([m.heads for m in models]),
    "heads of several steps": lambda models: spread_in_words([m.shared_heads for m in models]),
    "doubling": lambda models: share_in_words(sum(m.strategy == "doubling" for m in models), len(models)),
    "overlap with another model": lambda models: spread_in_words(between(models)),
    "overlap of two searches": lambda models: spread_in_words([m.within for m in models if m.within is not None]),
}
"""The rows of a table of circuits, by name: each function reports on the models of a group that have a circuit."""


def rows_by_group(groups: Sequence[Sequence[CircuitSummary]]) -> list[list[str]]:
    """Return the rows of `ROWS`, with a cell for each group of models."""
    solved = [[model for model in group if model.paths] for group in groups]
    return [[name, *map(report, solved)] for name, report in ROWS.items()]
