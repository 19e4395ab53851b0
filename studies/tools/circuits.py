"""Circuits of many models: found in parallel, and what a study keeps of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import hopscope as hs
from studies.tools.arms import finished
from studies.tools.records import markdown_table
from studies.tools.work import Work

NamedPath = tuple[int, int, str, str]
"""An attention path: layer and head from 1, query and key role by name."""


@dataclass(frozen=True)
class Seen:
    """What is kept of the circuit of one model.

    Attributes:
        model: the name of its run folder with that of the arm.
        seed: the seed it was trained from.
        layers: the number of layers of the model.
        step: the step of the checkpoint; None for the last.
        hops: D.
        loss: the loss of the unchanged model; None where it diverged, and so has no circuit.
        certified: the senses in which its circuit is certified.
        delivers: whether its paths carry x{D} to the query by theory.
        strategy: `doubling`, `serial`, ..., see `hs.Circuit`; `none` without a circuit.
        paths: the paths of the circuit in the natural reading; empty without a circuit.
        again: the paths of the circuits that searches in other orders ended in, one entry for each order.
        strict: the paths of the circuit in the strict reading; empty without one, and where its loss is too high.
        strict_again: the paths of the strict circuits that searches in other orders ended in.
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
    strict: tuple[NamedPath, ...] = ()
    strict_again: tuple[tuple[NamedPath, ...], ...] = ()

    def holds(self, max_loss: float) -> bool:
        """Whether the model's own loss is below that; not where it diverged."""
        return self.loss is not None and self.loss < max_loss

    @property
    def repeated(self) -> int:
        """How many more paths than steps there are: what a second head, or a later layer, does again."""
        return len(self.paths) - len({(query, key) for *_, query, key in self.paths})

    @property
    def heads(self) -> int:
        """The number of heads with a path."""
        return len({where[:2] for where in self.paths})

    @property
    def shared_heads(self) -> int:
        """The number of heads, beyond those of the first useful layer, with paths of more than one step."""
        first = min((layer for layer, *_ in self.paths), default=0)
        steps: dict[tuple[int, int], set[tuple[str, str]]] = {}
        for layer, head, query, key in self.paths:
            if layer > first:
                steps.setdefault((layer, head), set()).add((query, key))
        return sum(len(done) > 1 for done in steps.values())

    @property
    def within(self) -> float | None:
        """Mean overlap of the steps beyond the first useful layer, over pairs of searches of this model; None without
        any."""
        searches = [steps_beyond_first(paths) for paths in (self.paths, *self.again)]
        pairs = [overlap(one, two) for one, two in combinations(searches, 2)]
        return sum(pairs) / len(pairs) if pairs and self.paths else None

    @classmethod
    def of(cls, circuit: hs.Circuit, model: str, step: int | None = None) -> Seen:
        """What is kept of a circuit."""
        paths, *again = circuit.ends
        strict = circuit.imposed
        if strict and strict.loss(strict.fill).mean > circuit.max_loss:
            strict = None
        return cls(
            model=model,
            seed=circuit.seed,
            layers=circuit.layers,
            step=step,
            hops=circuit.hops,
            loss=circuit.losses["full"],
            certified=("natural",) * circuit.certified + ("strict",) * bool(circuit.imposed and circuit.imposed.passed),
            delivers=circuit.delivers,
            strategy=circuit.strategy,
            paths=paths,
            again=tuple(again),
            strict=tuple(path.where for path in strict.paths) if strict else (),
            strict_again=strict.others if strict else (),
        )


@dataclass(frozen=True)
class Search:
    """How circuits are searched for, and how much stands behind a certificate."""

    budget: hs.SearchConfig = field(default_factory=lambda: hs.SearchConfig("quick"))
    proof: hs.CertificateConfig = field(default_factory=lambda: hs.CertificateConfig())


HASTY = Search(
    hs.SearchConfig(hs.SearchBudget(1, 1, sequences=16, confirming=32, deciding=32, every_subset=2, pairs=2)),
    hs.CertificateConfig(sequences=32, deciding=32, few=16, draws=4, halves=4),
)
"""For the quick versions of studies; its certificates are worth nothing."""


def find_circuits(setups: Sequence[hs.Setup], folder: Path, work: Work, search: Search) -> tuple[Seen, ...]:
    """Train what is not trained yet, and find the circuit of each model.

    A circuit that is there is not searched for again. A model that diverged counts as one without a circuit.

    Args:
        setups: runs of one model each.
        folder: where the run folders are.
        work: how the work is done.
        search: how circuits are searched for.

    Raises:
        InputError: a run or a circuit there is damaged, or is another's.
    """
    work.train(setups, folder)
    runs = finished(setups, folder)
    work.each("circuits", search_circuit, [(run.path, None, search) for run in runs.values()])
    seen = []
    for name, run in runs.items():
        if diverged(run):
            seen.append(Seen(name, run.seeds[0], run.recipe.layers, None, run.problem.hops, None))
        elif (run.path / "circuit.json").exists():
            seen.append(Seen.of(look(run.path, None, search), name))
    return tuple(seen)


def look(path: Path, step: int | None, search: Search) -> Any:
    """The circuit of the first model of the run in `path` at a step, None for the last; None if it had diverged."""
    run = hs.Run(path)
    if diverged(run, step):
        return None
    model = run[0] if step is None else run[0].at(step)
    return model.find_circuit(effort=search.budget, proof=search.proof)


def search_circuit(path: Path, step: int | None, search: Search) -> None:
    """Find the circuit that `look` gives, and store it beside the run."""
    look(path, step, search)


def diverged(run: hs.Run, step: int | None = None) -> bool:
    """Whether the first model of a finished run had diverged, at a checkpoint or in the end."""
    if not run.result.models[0].diverged:
        return False  # it had not diverged before either: NaN stays NaN
    weights = () if step is None else run.transformer(step).state_dict().values()
    return step is None or not all(bool(torch.isfinite(weight).all()) for weight in weights)


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Query and key role of the paths beyond the first useful layer, in whatever layer and head."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def overlap(one: set[Any], other: set[Any]) -> float:
    """What both sets have in common, as a share of all that either has; 1 where both are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0


def between(models: Sequence[Seen]) -> list[float]:
    """For each model, the mean overlap of its steps beyond the first useful layer with those of every other."""
    steps = [steps_beyond_first(model.paths) for model in models]
    return [
        mean(overlap(step, other) for place, other in enumerate(steps) if place != number)
        for number, step in enumerate(steps)
        if len(steps) > 1
    ]


def seen_table(seen: Iterable[Seen]) -> str:
    """A Markdown table with a row for each model."""
    rows = []
    for one in seen:
        step = "" if one.step is None else f" at step {one.step}"
        loss = "diverged" if one.loss is None else f"{one.loss:.4f}"
        paths, delivers = f"{len(one.paths)} ({len(one.strict) or '-'})", "yes" if one.delivers else "no"
        rows.append((f"{one.model}{step}", loss, one.strategy, paths, ", ".join(one.certified) or "no", delivers))
    return markdown_table(("model", "loss", "strategy", "paths (strict)", "certified", "delivers"), rows)
