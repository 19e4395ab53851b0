"""Runs whose emergence is known: the weights of a witness, laid on its layers one by one at set steps."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from circuit_records import imposed

from hopscope.circuits.checks import CHECKS
from hopscope.circuits.evaluate.ablations import to_json
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import seal
from hopscope.theory.witness import Witness, build_witness
from hopscope.training.execution import REFERENCE
from hopscope.training.metrics import MetricsRow
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder

WITNESS = build_witness(3)
STEPS, EVERY = 600, 100
SWITCHED_ON = {1: 200, 2: 300, 3: 500}
"""The step from which on each layer attends as the witness does; before, it attends uniformly and writes nothing."""


def recipe(witness: Witness = WITNESS) -> Recipe:
    shape = witness.transformer.shape
    return Recipe(
        layers=shape.layers, heads=shape.heads, d_model=shape.d_model, head_dim=shape.head_dim, mlp=False,
        steps=STEPS, batch_size=1, checkpoint_every=EVERY, log_every=EVERY, final_steps=1,
    )  # fmt: skip


def weights_at(step: int, witness: Witness = WITNESS, on: dict[int, int] | None = None) -> dict[str, torch.Tensor]:
    weights = {name: tensor.clone() for name, tensor in witness.transformer.state_dict().items()}
    for layer, since in (SWITCHED_ON if on is None else on).items():
        if step < since:
            for name, tensor in weights.items():
                if name.startswith(f"blocks.{layer - 1}.attention."):
                    tensor.zero_()
    return weights


def known_run(path: Path, models: int = 1, on: list[dict[int, int]] | None = None) -> RunFolder:
    """A run folder with the checkpoints of that schedule and the metrics that belong to it.

    `on` gives each model a schedule of its own. Tests patch `Recipe.architecture` with `witness_shape`.
    """
    problem = WITNESS.problem
    schedules = on or [SWITCHED_ON] * models
    run = RunFolder.create(path, Setup("known", problem, recipe(), tuple(range(len(schedules)))), REFERENCE)
    for step in range(0, STEPS + 1, EVERY):
        parts = [weights_at(step, on=schedule) for schedule in schedules]
        weights = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        run.save_checkpoint(step, weights, last=step == STEPS)
        if step:
            run.append_metrics([row(step, model, schedule) for model, schedule in enumerate(schedules)])
    return run


def row(step: int, model: int, schedule: dict[int, int]) -> MetricsRow:
    partial = (0.0 if step >= schedule[2] else 0.75, *[0.0 if step >= schedule[3] else 0.75] * 2)
    return MetricsRow(step, model, sum(partial) / 3, sum(partial) / 3, partial, partial)


def witness_shape(self: Recipe, problem: RetrievalProblem):
    return WITNESS.transformer.shape


def circuit_json(run: RunFolder, path: Path, number: int = 0, **changes: object) -> Path:
    """The record of the witness's own circuit, as `hopscope circuit` would write it."""
    without = {"mean": 0.55, "interval": [0.5, 0.6]}
    paths = [
        {"layer": layer, "head": head, "query": query, "key": key, "ablation": "one_hot", "weight": 1.0,
         "without_imposed": without, "without": without, "feeds": []}
        for layer, head, query, key in (path.names(WITNESS.problem.roles) for path in WITNESS.circuit)
    ]  # fmt: skip
    record = {
        "schema": 1, "kind": "hopscope circuit", "model": run.model_hashes[number], "hops": 3, "found": True,
        "certified": changes.get("checks", {}) != {}, "seed": run.seeds[number], "number": number,
        "problem": asdict(run.problem), "layers": 3, "heads": 1, "max_loss": 0.05,
        "losses": {"full": 0.0, "imposed": 0.01, "own": 0.01}, "paths": paths, "others": [], "search": {},
        "interventions": to_json(imposed(WITNESS.circuit, WITNESS.problem), WITNESS.problem),
        "checks": {}, "groups": [], "helpers": [],
    }  # fmt: skip
    fields, hashed = {**record, **changes}, run.hash
    path.write_text(json.dumps({**fields, "seal": seal(fields, hashed)}))
    return path


def scaled(factor: float) -> Transformer:
    """The witness with the scores of its first layer scaled."""
    transformer = Transformer(WITNESS.transformer.shape)
    transformer.load_state_dict(WITNESS.transformer.state_dict())
    with torch.no_grad():
        transformer.blocks[0].attention.query.weight.mul_(factor)
        transformer.blocks[0].attention.query.bias.mul_(factor)
    return transformer.requires_grad_(False)


def all_passed() -> dict[str, dict[str, object]]:
    """The six checks, passed."""
    return {name: {"name": name, "outcome": "passed", "says": "", "numbers": {}, "interval": None} for name in CHECKS}


__all__ = [
    "WITNESS",
    "all_passed",
    "circuit_json",
    "known_run",
    "recipe",
    "row",
    "scaled",
    "weights_at",
    "witness_shape",
]
