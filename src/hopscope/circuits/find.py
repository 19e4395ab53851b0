"""From a trained run to a certified circuit: search, certificate, and why each path is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hopscope.circuits.certificate import certify, no_circuit
from hopscope.circuits.evaluator import single
from hopscope.circuits.evidence import Effort, Evidence, by_sequence, measured, tidy
from hopscope.circuits.form import UNIFORM
from hopscope.circuits.hypotheses import Rows
from hopscope.circuits.patching import Patcher, Use
from hopscope.circuits.programs import to_json
from hopscope.circuits.record import Circuit, CircuitPath, Feed
from hopscope.circuits.search import Found, Search, Searcher, Settings, Standing
from hopscope.errors import InputError
from hopscope.files import read_json, write_json
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash
from hopscope.training.run import Run

_LEAST_ATTENTION = 0.1
"""Fall of a later path's attention, from which it counts as fed."""

_LEAST_CHANGE = 0.2
"""Rise of the loss, as a share of the bar, from which a use counts."""

_WAYS_TO_SEARCH = ("orders", "growing", "sequences", "confirming", "seed", "every_subset", "prefilter")


def find_circuit(
    transformer: Transformer,
    problem: RetrievalProblem,
    *,
    model: str,
    seed: int = 0,
    number: int = 0,
    settings: Settings | None = None,
    effort: Effort | None = None,
    watch: Callable[[Standing], None] | None = None,
    memory: dict[str, Any] | None = None,
    remember: Callable[[dict[str, Any]], None] | None = None,
) -> Circuit:
    """The circuit of one model, certified; a record without paths where there is none.

    Args:
        transformer: one model.
        problem: what it was trained on.
        model: its hash.
        seed: it was trained from.
        number: its number in its run.
        settings: of the search.
        effort: of the certificate.
        watch: told where things stand.
        memory: of an interrupted search.
        remember: called with the memory after each order.
    """
    settings, effort = settings or Settings(), effort or Effort()
    searcher = Searcher(transformer, problem, settings, watch, memory, remember)
    search = searcher.run()
    shape = transformer.shape
    known: dict[str, Any] = {
        "model": model,
        "seed": seed,
        "number": number,
        "problem": problem,
        "layers": shape.layers,
        "heads": shape.heads,
        "bar": settings.bar,
        "search": _described(search, settings),
    }
    certificate_seed = settings.seed + 1
    if not search.found:
        certificate = no_circuit(search.full_mse, settings.bar, settings.seed)
        losses = {"full": tidy(search.full_mse)}
        return Circuit(**known, losses=losses, paths=(), program=(), others=(), certificate=certificate)
    first = search.found[0]
    evidence = Evidence(searcher.evaluator, searcher.hypotheses, first.program, settings.bar, certificate_seed, effort)
    stages = settings.orders + settings.growing + 1
    certificate = certify(
        evidence,
        search.minimality,
        lambda part: watch(Standing(f"certificate: {part}", stages, stages)) if watch else None,
    )
    sufficient = certificate["sufficiency"]
    paths, helpers = _paths(evidence)
    circuit = Circuit(
        **known,
        losses={name: sufficient[f"{name}_mse"] for name in ("full", "imposed", "natural", "nothing")},
        paths=paths,
        helpers=helpers,
        program=tuple(to_json(first.program, problem)),
        others=tuple(_other(searcher, found, first) for found in search.found[1:]),
        certificate=certificate,
    )
    # As it will be read again: lists for tuples.
    return Circuit.from_json(json.loads(json.dumps(circuit.to_json())))


def circuit_of_run(
    run: Run,
    number: int = 0,
    step: int | None = None,
    *,
    settings: Settings | None = None,
    effort: Effort | None = None,
    watch: Callable[[Standing], None] | None = None,
    anew: bool = False,
) -> Circuit:
    """The circuit of a model of a run, kept beside it (see `record_path`).

    A record that is there is returned as it is, unless it was made with other settings or `anew`. A search that was
    interrupted goes on where it was.

    Args:
        run: finished or still training.
        number: of the model, from 0.
        step: of the checkpoint at which to look; `None` for the last.
        settings: of the search.
        effort: of the certificate.
        watch: told where things stand.
        anew: search whatever is there.

    Raises:
        InputError: no such model or checkpoint, or a run without any.
    """
    settings = settings or Settings()
    if not 0 <= number < len(run.seeds):
        raise InputError(f"model must be from 0 to {len(run.seeds) - 1} (the run has {len(run.seeds)}), got {number}")
    path = record_path(run, number, step)
    at = max(run.checkpoints, default=0) if step is None else step
    model = run.model_hashes[number] if at == run.recipe.steps else content_hash([run.model_hashes[number], at])
    if path.exists() and not anew:
        circuit = Circuit.load(path)
        if circuit.model == model and circuit.bar == settings.bar and _same_search(circuit, settings):
            return circuit
    state = path.with_name(f".{path.stem}-search.json")
    asked = {"model": model, **asdict(settings)}
    memory: dict[str, Any] = {}
    if state.exists() and not anew:
        saved = read_json(state, "an interrupted search")
        if isinstance(saved, dict) and saved.get("asked") == asked:
            memory = saved["memory"]
    circuit = find_circuit(
        single(run.transformer(step), number),
        run.problem,
        model=model,
        seed=run.seeds[number],
        number=number,
        settings=settings,
        effort=effort,
        watch=watch,
        memory=memory,
        remember=lambda memory: write_json(state, {"asked": asked, "memory": memory}),
    )
    circuit.save(path)
    state.unlink(missing_ok=True)
    return circuit


def record_path(run: Run, number: int, step: int | None = None) -> Path:
    """Where the circuit of a model is kept.

    `circuit.json` (`circuit-N.json` for model N > 0) for the model as it is; for the model as it was at a checkpoint,
    `circuits/step-NNNNNN.json` (`circuits/step-NNNNNN-N.json`).
    """
    model = f"-{number}" if number else ""
    return run.path / (f"circuit{model}.json" if step is None else f"circuits/step-{step:06d}{model}.json")


def _same_search(circuit: Circuit, settings: Settings) -> bool:
    return all(circuit.search.get(name) == getattr(settings, name) for name in _WAYS_TO_SEARCH)


def _described(search: Search, settings: Settings) -> dict[str, Any]:
    used = {name: getattr(settings, name) for name in _WAYS_TO_SEARCH}
    found = [list(found.orders) for found in search.found]
    check = None
    if search.prefilter is not None:
        check = {
            "checked": search.prefilter.checked,
            "rank_correlation": tidy(search.prefilter.rank_correlation),
            "used": search.prefilter.agrees,
        }
    return used | {
        "minimality": search.minimality,
        "evaluations": search.evaluations,
        "orders_ending_here": found[0] if found else [],
        "prefilter_check": check,
    }


def _paths(evidence: Evidence) -> tuple[tuple[CircuitPath, ...], tuple[dict[str, Any], ...]]:
    """The paths with their ablations and uses, and the helper rows."""
    names = evidence.problem.roles
    imposed = measured(evidence, by_sequence(evidence.evaluator, [evidence.without(path) for path in evidence.paths]))
    cut: list[Rows] = [{**evidence.natural, row: UNIFORM} for row in evidence.rows]
    natural = dict(zip(evidence.rows, measured(evidence, by_sequence(evidence.evaluator, cut)), strict=True))
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


def _other(searcher: Searcher, found: Found, first: Found) -> dict[str, Any]:
    """Another circuit the search ended in, briefly."""
    mine, theirs = set(searcher.paths(found.program)), set(searcher.paths(first.program))
    return {
        "paths": [
            dict(zip(("layer", "head", "query", "key"), path.names(searcher.evaluator.problem.hops), strict=True))
            for path in searcher.paths(found.program)
        ],
        "mse": tidy(found.mse),
        "orders": list(found.orders),
        "overlap": tidy(len(mine & theirs) / len(mine | theirs)),
    }
