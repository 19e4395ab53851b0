"""The data of the page about each model, as plain values; arrays are packed separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import card_rows, imposed_words
from hopscope.emergence.history import STEPS_PER_EPOCH, Emergence, MapsOverTime
from hopscope.emergence.timing import hop_of
from hopscope.explorer.arrays import PROMPTS, Chunk, circuit_alone, half, pack, prompts, weights
from hopscope.explorer.exhibit import Exhibit
from hopscope.model.skipped_heads import those_that_write
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import position_codes
from hopscope.records import plain
from hopscope.theory.depth import minimum_in_order, theorem_1_bound
from hopscope.theory.information_flow import simulate
from hopscope.training.metrics import Metrics

MOST_ROWS = 400
"""The largest number of rows of metrics that are drawn; more rows would overlap."""

Arrays = dict[str, Chunk]
"""The packed arrays of a page, by name."""


def manifest(exhibits: Sequence[Exhibit], arrays: Arrays) -> dict[str, Any]:
    """Return the data of the page as plain values, and add the packed arrays to `arrays`."""
    return {"schema": 1, "models": [_model(shown, f"m{place}", arrays) for place, shown in enumerate(exhibits)]}


def _model(shown: Exhibit, prefix: str, arrays: Arrays) -> dict[str, Any]:
    run, problem = shown.run, shown.run.problem
    shape = run.recipe.architecture(problem) if shown.transformer is None else shown.transformer.shape
    flow = simulate(replace(problem, chains=1), run.recipe.layers)
    result = shown.result
    end = result.models[shown.number] if result else None
    return {
        "name": shown.name,
        "facts": shown.facts,
        "folder": run.path.as_posix(),
        "seed": run.seeds[shown.number],
        "number": shown.number,
        "missing": list(shown.missing),
        "steps": shown.steps,
        "steps_per_epoch": STEPS_PER_EPOCH,
        "problem": _problem(problem),
        "shape": plain(shape) | {"d_head": shape.d_head, "divisor": shape.divisor},
        "gone": _gone(shown.transformer) if shown.transformer else [],
        "theory": {
            "theorem_1": theorem_1_bound(problem.hops),
            "least": None if problem.position == "none" else minimum_in_order(problem),
            # the pieces that every role of a chain could hold after each layer, each set as one number
            "holdings": [[str(holding) for holding in after] for after in flow.holdings],
        },
        "held_out": {"n": result.held_out, "loss": end.held_out_loss, "partial": list(end.held_out_partial_losses)}
        if result and end
        else None,
        "metrics": shown.metrics and _metrics(shown, shown.metrics, f"{prefix}-metrics", arrays),
        "circuit": shown.circuit and _circuit(shown.circuit),
        "emergence": shown.emergence and _emergence(shown.emergence),
        "maps": shown.maps and _maps(shown.maps, f"{prefix}-maps", arrays),
        "live": shown.transformer and _live(shown, shown.transformer, prefix, arrays),
    }


def _problem(problem: RetrievalProblem) -> dict[str, Any]:
    known: dict[str, Any] = plain(problem)
    return known | {
        "roles": list(problem.roles),
        "blocks": list(problem.blocks),
        "codes": position_codes(problem).double().numpy().round(9).tolist(),
        "target_hops": list(problem.target_hops),
    }


def _gone(transformer: Transformer) -> list[int]:
    """Return the numbers, counted from 0 across layers, of the heads that write nothing because they were pruned."""
    writes = those_that_write(transformer)[0].flatten()
    return [number for number, some in enumerate(writes.tolist()) if not some]


def _metrics(shown: Exhibit, every: Metrics, name: str, arrays: Arrays) -> dict[str, Any]:
    """Return the steps that are drawn, and add to `arrays`, by step, the validation loss and the partial losses. A loss
    that is not a number is NaN."""
    metrics, number = every.every(shown.run.recipe.log_every), shown.number  # the last steps are all logged
    kept = np.unique(np.linspace(0, len(metrics) - 1, min(MOST_ROWS, len(metrics))).round().astype(int))
    losses = np.concatenate([metrics.validation_loss[:, number, None], metrics.partial_losses[:, number]], axis=1)
    arrays[name] = pack(losses[kept].astype(np.float32))
    return {"steps": metrics.steps[kept].tolist(), "chunk": name}


def _circuit(circuit: Circuit) -> dict[str, Any]:
    return {
        "found": circuit.found,
        "verdict": circuit.verdict,
        "max_loss": circuit.max_loss,
        "losses": circuit.losses,
        "paths": [
            {
                **path.path._asdict(), "weight": path.weight, "hop": hop_of(path.path, circuit.hops),
                "without": path.without.mean, "without_imposed": path.without_imposed.mean,
                "feeds": list(path.uses(circuit.roles)),
            }
            for path in circuit.paths
        ],
        "card": [list(row) for row in card_rows(circuit.card)] if circuit.card else [],
        "imposed": imposed_words(circuit.imposed) if circuit.imposed else "",
        "checks": [
            {"name": check.name, "outcome": check.outcome, "says": check.says} for check in circuit.checks.values()
        ],
    }  # fmt: skip


def _emergence(history: Emergence) -> dict[str, Any]:
    known = plain(history)
    names = ("sequences", "steps", "losses", "partial_losses", "order")
    paths = [
        {name: path[name] for name in ("attention", "foremost", "change", "change_interval", "crossing")}
        for path in known["paths"]
    ]
    return {name: known[name] for name in names} | {"paths": paths}


def _maps(maps: MapsOverTime, name: str, arrays: Arrays) -> dict[str, Any]:
    """Add the bytes of the record to `arrays`, as [step, layer, head, own or other chains, query role, key role]."""
    arrays[name] = pack(maps.weights, delta=True)
    return {"steps": list(maps.steps), "chunk": name}


def _live(shown: Exhibit, transformer: Transformer, prefix: str, arrays: Arrays) -> dict[str, Any]:
    names, packed = weights(transformer)
    live: dict[str, Any] = {"step": max(shown.run.checkpoints), "names": list(map(list, names)), "count": PROMPTS}
    chunks = {"weights": packed, **prompts(shown.run.problem)}
    if shown.circuit is not None and shown.circuit.found:
        live["alone"], fixed = circuit_alone(shown.circuit, half(transformer))
        chunks |= {"fixed": fixed} if fixed is not None else {}
    for name, chunk in chunks.items():
        live[name] = f"{prefix}-{name}"
        arrays[live[name]] = chunk
    return live
