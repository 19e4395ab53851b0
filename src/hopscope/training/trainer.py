"""The training loop: updates, rows of metrics, checkpoints, and a point to resume from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.errors import InputError
from hopscope.files import number_or_null, write_json
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import Data, held_out
from hopscope.training.engine import Engine, choose_engine, using_threads
from hopscope.training.ensemble import Ensemble
from hopscope.training.losses import squared_errors
from hopscope.training.recipe import Recipe
from hopscope.training.run_folder import RunFolder

_SECONDS_BETWEEN_STATES = 20.0
_HELD_OUT = 4096
"""Sequences of the fixed held-out set behind a run's result."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Attributes:
        step: updates done.
        steps: updates in all.
        steps_per_second: since the run started or resumed.
        partial_losses: latest validation losses by model and hop asked for.
    """

    step: int
    steps: int
    steps_per_second: float
    partial_losses: list[list[float]]


def train(
    recipe: Recipe,
    problem: RetrievalProblem,
    folder: Path | str,
    *,
    seeds: Sequence[int] = (0,),
    engine: Engine | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> RunFolder:
    """Train an ensemble, one model a seed, or continue where an earlier call was stopped.

    A run that was killed at any moment and called again gives, on a CPU, the bits of one left alone: its data are a
    function of seed and step, and its state is written whole or not at all.

    Args:
        recipe: how.
        problem: what on.
        folder: where the run is kept; new, empty, or holding this same run.
        seeds: one a model; weights, data and validation all derive from it.
        engine: how steps are computed; `None` for the fastest here. A run that resumes keeps its own.
        watch: told where the run stands after every row of metrics.

    Raises:
        InputError: no seeds, repeated seeds, or a folder that holds something else.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds must be different and at least one, got {list(seeds)}")
    if not (Path(folder) / "run.json").exists():
        engine = engine or choose_engine(
            recipe.architecture(problem),
            models=len(seeds),
            rows=recipe.batch_size * problem.sequence_length,
            steps=recipe.steps,
        )
        RunFolder.create(folder, problem, recipe, seeds, engine)
    run = RunFolder(folder).require(problem, recipe, seeds)
    if not run.finished:
        with run.writing(), using_threads(run.engine):
            if not run.finished:
                _continue(run, watch)
    return run


def _continue(run: RunFolder, watch: Callable[[Progress], None] | None) -> None:
    """Take a run from its last saved state to its end."""
    recipe = run.recipe
    data = Data(run.problem, recipe, run.seeds, run.engine.device)
    ensemble = Ensemble(run.problem, recipe, run.seeds, run.engine)
    saved = run.load_state()
    if saved is None:
        first = 0
        run.drop_metrics_after(-1)
        if recipe.checkpoints(0):
            run.save_checkpoint(0, ensemble.weights())
    else:
        first, state = saved
        ensemble.load_state(state, first)
        run.drop_metrics_after(first)

    began = saved_at = time.monotonic()
    since_row: list[Float[Tensor, "model hop"]] = []
    for step in range(first, recipe.steps):
        since_row.append(ensemble.update(data.training(step), recipe.learning_rate_at(step)))
        done = step + 1
        if recipe.checkpoints(done):
            run.save_checkpoint(done, ensemble.weights())
        if not recipe.logs(done):
            continue
        training = torch.stack(since_row).mean(dim=0)
        since_row.clear()
        validation = ensemble.evaluate(data.validation(done))
        if recipe.checkpoints_in_jump(done) and not recipe.checkpoints(done) and _learning(run.problem, validation):
            run.save_checkpoint(done, ensemble.weights())
        run.append_metrics(_rows(done, training, validation))
        now = time.monotonic()
        if watch is not None:
            watch(Progress(done, recipe.steps, (done - first) / max(now - began, 1e-9), validation.tolist()))
        if now - saved_at > _SECONDS_BETWEEN_STATES or done == recipe.steps:
            run.save_state(done, ensemble.state())
            saved_at = now
    _finish(run)


def _learning(problem: RetrievalProblem, validation: Float[Tensor, "model hop"]) -> bool:
    """Whether a hop has left the plateau, where the candidates are averaged, and is not yet learned."""
    plateau = 1 - 1 / problem.chains
    return bool(((validation > 0.1) & (validation < 0.93 * plateau)).any())


def _rows(
    step: int, training: Float[Tensor, "model hop"], validation: Float[Tensor, "model hop"]
) -> list[dict[str, Any]]:
    """Rows of metrics after `step` updates."""
    return [
        {
            "step": step,
            "model": model,
            "train_loss": number_or_null(sum(seen) / len(seen)),
            "validation_loss": number_or_null(sum(fresh) / len(fresh)),
            "partial_losses": [number_or_null(loss) for loss in fresh],
            "train_partial_losses": [number_or_null(loss) for loss in seen],
        }
        for model, (seen, fresh) in enumerate(zip(training.tolist(), validation.tolist(), strict=True))
    ]


def _finish(run: RunFolder) -> None:
    """Write the result: the paper's mean over the last steps, and the loss on a fixed held-out set."""
    last = run.recipe.steps - run.recipe.final_steps
    rows = [row for row in run.metrics() if row["step"] > last]
    errors = held_out_errors(run, _HELD_OUT)
    models = []
    for model, seed in enumerate(run.seeds):
        mine = [row for row in rows if row["model"] == model]
        by_sequence = errors[model].mean(dim=-1)
        models.append(
            {
                "model": model,
                "seed": seed,
                "hash": run.model_hashes[model],
                "final_validation_loss": _mean([row["validation_loss"] for row in mine]),
                "final_partial_losses": [
                    _mean(list(hop)) for hop in zip(*(row["partial_losses"] for row in mine), strict=True)
                ],
                "held_out_loss": number_or_null(by_sequence.mean().item()),
                "held_out_standard_error": number_or_null((by_sequence.std() / len(by_sequence) ** 0.5).item()),
                "held_out_partial_losses": [number_or_null(loss) for loss in errors[model].mean(dim=0).tolist()],
            }
        )
    write_json(run.path / "result.json", {"steps": run.recipe.steps, "held_out": _HELD_OUT, "models": models})


def held_out_errors(run: RunFolder, size: int, step: int | None = None) -> Float[Tensor, "model sequence hop"]:
    """Squared errors of every model on the fixed held-out set, sequence by sequence, in fp32."""
    batch = held_out(run.problem, size)
    transformer = run.transformer(step)
    errors = []
    for start in range(0, size, 256):
        part = batch[start : start + 256]
        inputs = part.inputs.expand(len(run.seeds), *part.inputs.shape)
        errors.append(squared_errors(transformer(inputs), part.targets, run.problem.symbol_dim))
    return torch.cat(errors, dim=1)


def _mean(values: list[float | None]) -> float | None:
    """The mean, or null if a value is null."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
