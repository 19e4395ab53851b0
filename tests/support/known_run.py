"""Runs whose emergence is known, the weights of a witness set layer by layer at known steps; and circuits by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import torch

from hopscope.circuits.checks.card import CHECKS, Check
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath, SearchRecord
from hopscope.circuits.evaluate.ablations import Ablation, AblationKind, one_hot, to_json
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import text_role_names
from hopscope.records import seal
from hopscope.statistics import Measured
from hopscope.theory.witness import build_witness
from hopscope.training.execution import REFERENCE
from hopscope.training.metrics import MetricsRow
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder

WITNESS = build_witness(3)
STEPS, EVERY = 600, 100
SWITCHED_ON = {1: 200, 2: 300, 3: 500}
"""The step from which on each layer attends as the witness does; before, it attends uniformly and writes nothing."""


def recipe() -> Recipe:
    shape = WITNESS.transformer.shape
    return Recipe(
        layers=shape.layers, heads=shape.heads, d_model=shape.d_model, head_dim=shape.head_dim, mlp=False,
        steps=STEPS, batch_size=1, checkpoint_every=EVERY, log_every=EVERY, final_steps=1,
    )  # fmt: skip


def weights_at(step: int, schedule: dict[int, int]) -> dict[str, torch.Tensor]:
    weights = {name: tensor.clone() for name, tensor in WITNESS.transformer.state_dict().items()}
    for layer, since in schedule.items():
        if step < since:
            for name, tensor in weights.items():
                if name.startswith(f"blocks.{layer - 1}.attention."):
                    tensor.zero_()
    return weights


def known_run(path: Path, models: int = 1, on: list[dict[int, int]] | None = None) -> RunFolder:
    """A run folder with the checkpoints and metrics of a schedule; tests patch `Recipe.architecture`."""
    problem = WITNESS.problem
    schedules = on or [SWITCHED_ON] * models
    run = RunFolder.create(path, Setup("known", problem, recipe(), tuple(range(len(schedules)))), REFERENCE)
    for step in range(0, STEPS + 1, EVERY):
        parts = [weights_at(step, schedule) for schedule in schedules]
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
    fields = {**record, **changes}
    path.write_text(json.dumps({**fields, "seal": seal(fields, run.hash)}))
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


SERIAL = ((3, 1, ">x1", "x0>"), (3, 1, ">x2", "x1>"), (3, 1, ">x3", "x2>"))
SERIAL += ((6, 1, "x0?", ">x1"), (7, 1, "x0?", ">x2"), (9, 1, "x0?", ">x3"))
DOUBLING = ((1, 1, ">x1", "x0>"), (1, 2, ">x2", "x1>"), (1, 1, ">x3", "x2>"))
DOUBLING += ((2, 1, ">x2", ">x3"), (2, 1, "x0?", ">x1"), (3, 2, "x0?", ">x2"))


def imposed(paths: Iterable[AttentionPath], problem: RetrievalProblem) -> dict[HeadRow, Ablation]:
    """The interventions that impose these paths."""
    keys: dict[HeadRow, tuple[int, ...]] = {}
    for path in paths:
        keys[path.row] = tuple(dict.fromkeys((*keys.get(path.row, ()), path.key)))
    return {row: attending(*of_row) for row, of_row in keys.items()}


def attending(*keys: int) -> Ablation:
    """The ablation that imposes equal attention to these roles."""
    return one_hot(*keys) if len(keys) == 1 else Ablation(AblationKind.MIXTURE, keys, (1 / len(keys),) * len(keys))


def made(*paths: tuple[int, int, str, str], hops: int = 3, layers: int = 12, heads: int = 2) -> Circuit:
    """A circuit of these paths, with numbers that do not matter."""
    numbers = 0.9, Measured(0.3, (0.2, 0.4)), Measured(0.4, (0.3, 0.5))
    problem, named = RetrievalProblem(hops=hops), [AttentionPath.named(*path, text_role_names(hops)) for path in paths]
    rows = imposed(named, problem)
    return Circuit(
        model="m",
        seed=0,
        number=0,
        problem=problem,
        layers=layers,
        heads=heads,
        max_loss=0.05,
        losses={"full": 0.01, "imposed": 0.03, "own": 0.02},
        paths=tuple(CircuitPath(path, rows[path.row].kind.value, *numbers) for path in named),
        interventions=rows,
        others=(),
        search=SearchRecord(),
        checks={"sufficiency": Check("sufficiency", "passed", "", {"circuit": 0.02}, (0.01, 0.03))},
    )
