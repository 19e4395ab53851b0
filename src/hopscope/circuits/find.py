"""From a trained run to a certified circuit: search, certificate, and why each path is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hopscope.circuits.certificate import Effort as Proof
from hopscope.circuits.certificate import Evidence, certify, no_circuit, tidy
from hopscope.circuits.certificate.evidence import by_sequence
from hopscope.circuits.evaluator import Evaluator, single
from hopscope.circuits.patching import Patcher, Use
from hopscope.circuits.programs import to_json
from hopscope.circuits.record import Circuit, CircuitPath, Feed
from hopscope.circuits.search.budget import ROOM, Budget, Effort
from hopscope.circuits.search.orders import Found, Memory, Orders, Outcome, Watch
from hopscope.circuits.search.units import Units
from hopscope.errors import InputError
from hopscope.files import read_json, write_json
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash
from hopscope.training.data import held_out
from hopscope.training.run import RunFolder

_LEAST_ATTENTION = 0.1
"""Fall of a later path's attention, from which it counts as fed."""

_LEAST_CHANGE = 0.2
"""Rise of the loss, as a share of the bar, from which a use counts."""


@dataclass(frozen=True)
class Origin:
    """Where a model comes from.

    Attributes:
        model: hash of its weights, or of the run and its place there.
        seed: it was trained from.
        number: its number in its run.
    """

    model: str
    seed: int = 0
    number: int = 0


def find_circuit(
    transformer: Transformer,
    problem: RetrievalProblem,
    *,
    effort: Effort | Budget = "thorough",
    bar: float = 0.05,
    seed: int = 0,
    origin: Origin | None = None,
    proof: Proof | None = None,
    watch: Watch | None = None,
    memory: Memory | None = None,
    remember: Callable[[Memory], None] | None = None,
) -> Circuit:
    """The circuit of one model, certified; a record without paths where there is none.

    Args:
        transformer: one model.
        problem: what it was trained on.
        effort: `quick` finds one circuit, `thorough` the different ones that a model holds; or a budget, bar included.
        bar: the loss a circuit may have at most; the paper's 0.05.
        seed: of the search; its sequences and random orders follow from it.
        origin: of the model, for the record; by default a hash of its weights.
        proof: how much stands behind the certificate.
        watch: told where things stand: what is being done, stages finished, stages in all.
        memory: of an interrupted search.
        remember: called with the memory after each order.

    Raises:
        InputError: more than one model, or a value out of range.

    Example:
        >>> from hopscope.theory.witness import build_witness
        >>> witness = build_witness(hops=1)
        >>> circuit = find_circuit(witness.transformer, witness.problem, effort="quick")
        >>> [str(path) for path in circuit.paths]
        ['layer 1 head 1: >x1 -> x0>', 'layer 2 head 1: x0? -> >x1']
    """
    budget = effort if isinstance(effort, Budget) else Budget.of(effort, bar)
    origin = origin or Origin(content_hash({name: w.tolist() for name, w in transformer.state_dict().items()}))
    evaluator = Evaluator(transformer, problem, held_out(problem, budget.confirming, seed, "circuit search"))
    units = Units.of(evaluator)
    outcome = Orders(evaluator, units, budget, seed, watch, memory, remember).run()
    shape = transformer.shape
    known: dict[str, Any] = {
        **asdict(origin),
        "problem": problem,
        "layers": shape.layers,
        "heads": shape.heads,
        "bar": budget.bar,
        "search": _described(outcome, budget, seed),
    }
    if not outcome.found:
        none = no_circuit(outcome.full_mse, budget.bar, seed).to_json()
        losses = {"full": tidy(outcome.full_mse)}
        return Circuit(**known, losses=losses, paths=(), program=(), others=(), certificate=none)
    first = outcome.found[0]
    evidence = Evidence(evaluator, units.hypotheses, first.program, budget.bar, seed + 1, proof or Proof())
    stages = budget.orders + budget.growing + 1
    certificate = certify(
        evidence,
        lambda part: watch(f"certificate: {part}", stages, stages) if watch else None,
    )
    sufficient = certificate.parts["sufficiency"].numbers
    paths, helpers = _paths(evidence)
    circuit = Circuit(
        **known,
        losses={name: sufficient[f"{name}_mse"] for name in ("full", "imposed", "natural", "nothing")},
        paths=paths,
        helpers=helpers,
        program=tuple(to_json(first.program, problem)),
        others=tuple(_other(units, found, first, problem) for found in outcome.found[1:]),
        certificate=certificate.to_json(),
    )
    # As it will be read again: lists for tuples.
    return Circuit.from_json(json.loads(json.dumps(circuit.to_json())))


def circuit_of_run(
    run: RunFolder,
    number: int = 0,
    step: int | None = None,
    *,
    effort: Effort | Budget = "thorough",
    bar: float = 0.05,
    seed: int = 0,
    proof: Proof | None = None,
    watch: Watch | None = None,
    anew: bool = False,
) -> Circuit:
    """The circuit of a model of a run, kept beside it (see `record_path`).

    A record that is there is returned as it is, unless it was made otherwise than asked or `anew`. A search that was
    interrupted goes on where it was.

    Args:
        run: finished or still training.
        number: of the model, from 0.
        step: of the checkpoint at which to look; `None` for the last.
        effort: as for `find_circuit`, like `bar`, `seed`, `proof` and `watch`.
        bar: as there.
        seed: as there.
        proof: as there.
        watch: as there.
        anew: search whatever is there.

    Raises:
        InputError: no such model or checkpoint, or a run without any.
    """
    budget = effort if isinstance(effort, Budget) else Budget.of(effort, bar)
    if not 0 <= number < len(run.seeds):
        raise InputError(f"model must be from 0 to {len(run.seeds) - 1} (the run has {len(run.seeds)}), got {number}")
    path = record_path(run, number, step)
    at = max(run.checkpoints, default=0) if step is None else step
    model = run.model_hashes[number] if at == run.recipe.steps else content_hash([run.model_hashes[number], at])
    asked = _asked(budget, seed) | {"model": model, "bar": budget.bar}
    if path.exists() and not anew:
        circuit = Circuit.load(path)
        if asked.items() <= (circuit.search | {"model": circuit.model, "bar": circuit.bar}).items():
            return circuit
    state = path.with_name(f".{path.stem}-search.json")
    memory: Memory = {}
    if state.exists() and not anew:
        saved = read_json(state, "an interrupted search")
        if isinstance(saved, dict) and saved.get("asked") == asked:
            memory = saved["memory"]
    circuit = find_circuit(
        single(run.transformer(step), number),
        run.problem,
        effort=budget,
        seed=seed,
        origin=Origin(model, run.seeds[number], number),
        proof=proof,
        watch=watch,
        memory=memory,
        remember=lambda memory: write_json(state, {"asked": asked, "memory": memory}),
    )
    circuit.save(path)
    state.unlink(missing_ok=True)
    return circuit


def record_path(run: RunFolder, number: int, step: int | None = None) -> Path:
    """Where the circuit of a model is kept.

    `circuit.json` (`circuit-N.json` for model N > 0) for the model as it is; for the model as it was at a checkpoint,
    `circuits/step-NNNNNN.json` (`circuits/step-NNNNNN-N.json`).
    """
    model = f"-{number}" if number else ""
    return run.path / (f"circuit{model}.json" if step is None else f"circuits/step-{step:06d}{model}.json")


def _asked(budget: Budget, seed: int) -> dict[str, Any]:
    """What a record must say of its search to be the one that is asked for."""
    return {name: value for name, value in asdict(budget).items() if name != "bar"} | {"room": ROOM, "seed": seed}


def _described(outcome: Outcome, budget: Budget, seed: int) -> dict[str, Any]:
    return _asked(budget, seed) | {
        "minimality": outcome.minimality,
        "evaluations": outcome.evaluations,
        "orders_ending_here": list(outcome.found[0].orders) if outcome.found else [],
    }


def _paths(evidence: Evidence) -> tuple[tuple[CircuitPath, ...], tuple[dict[str, Any], ...]]:
    """The paths with their ablations and uses, and the helper rows."""
    names = evidence.problem.roles
    imposed = evidence.measured(
        list(by_sequence(evidence.evaluator, [evidence.without(path) for path in evidence.paths]))
    )
    natural = dict(zip(evidence.rows, evidence.measured(list(evidence.lost.values())), strict=True))
    patcher = Patcher(evidence.few, evidence.natural)
    uses = {row: patcher.uses(evidence.paths, row) for row in evidence.rows}
    paths = tuple(
        CircuitPath(
            *path.names(evidence.problem.hops),
            form=evidence.program[path.row].kind.value,
            weight=tidy(evidence.hypotheses.weights(path.row)[path.key]),
            ablation_mse=mse,
            interval=interval,
            natural_mse=natural[path.row][0],
            natural_interval=natural[path.row][1],
            feeds=_feeds(uses[path.row], evidence.problem.hops, evidence.bar),
        )
        for path, (mse, interval) in zip(evidence.paths, imposed, strict=True)
    )
    helpers = tuple(
        {
            "layer": row.layer + 1,
            "head": row.head + 1,
            "query": names[row.query],
            "natural_mse": natural[row][0],
            "natural_interval": natural[row][1],
        }
        for row in evidence.helpers
    )
    return paths, helpers


def _feeds(uses: Sequence[Use], hops: int, bar: float) -> tuple[Feed, ...]:
    """The uses that count."""
    feeds = []
    for use in uses:
        if use.change < _LEAST_CHANGE * bar and use.attention < _LEAST_ATTENTION:
            continue
        change, attention = tidy(use.change), tidy(use.attention)
        if use.reader is None:
            feeds.append(Feed("answer", change=change))
            continue
        feeds.append(Feed(use.into, *use.reader.names(hops), change, attention))
    return tuple(feeds)


def _other(units: Units, found: Found, first: Found, problem: RetrievalProblem) -> dict[str, Any]:
    """Another circuit the search ended in, briefly."""
    mine, theirs = set(units.paths(found.program)), set(units.paths(first.program))
    return {
        "paths": [
            dict(zip(("layer", "head", "query", "key"), path.names(problem.hops), strict=True))
            for path in units.paths(found.program)
        ],
        "mse": tidy(found.mse),
        "orders": list(found.orders),
        "overlap": tidy(len(mine & theirs) / len(mine | theirs)),
    }
