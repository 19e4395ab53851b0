"""The training loop: updates, rows of metrics, checkpoints, and states to resume from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.checks import check_outside_runs, finite_or_none
from hopscope.processes import deferred, flushing_denormals
from hopscope.training.data import Data, held_out, squared_errors
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import FASTEST, HELD_OUT, Execution, check_memory, using_threads
from hopscope.training.metrics import rows_of
from hopscope.training.optimiser import training_hooks
from hopscope.training.pruning import head_scales
from hopscope.training.recipe import Setup
from hopscope.training.run import ModelResult, Result, RunFolder, check_empty

_SECONDS_BETWEEN_STATES = 20.0
_HELD_OUT_AT_ONCE = 64
"""Number of held-out sequences that a CPU evaluates together, so that their activations fit into its caches."""

_SINCE_ROW, _LEFT = "losses since the last row", "heads that are left"
"""Keys in a saved state; the first is there if a run stops between two rows of metrics, the second if it prunes."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    Attributes:
        step: number of updates done.
        steps: total number of updates, as far as it is known.
        partial_losses: latest validation losses by model and target hop; None where a model diverged.
    """

    step: int
    steps: int
    partial_losses: tuple[tuple[float | None, ...], ...] = ()

    @property
    def ended(self) -> bool:
        """Whether all updates are done."""
        return self.step == self.steps


def train(
    setup: Setup, folder: Path, *, execution: Execution = FASTEST, progress: Callable[[Progress], None] | None = None
) -> RunFolder:
    """Train an ensemble, one model per seed, or continue where an earlier call was stopped.

    On a CPU, a run that was killed and continued gives the same bits as an uninterrupted run: its data depend only on
    seed and step, and its state is written atomically.

    Weights, data and validation derive from the seeds of the setup. The folder is new, empty, or holds a part of the
    same run, which resumes with its recorded execution (see `Execution.resume`).

    Raises:
        InputError: the folder is inside a run or contains something else, this machine lacks the device, the run does
            not fit into memory, or a file of the run is damaged.
        KeyboardInterrupt: the process received a signal to stop; the state is saved first.
    """
    begun = folder / "run.json"
    if begun.exists():
        if (run := RunFolder(folder).require(setup)).finished:
            return run
    else:
        check_outside_runs(folder.parent)
        check_empty(folder)
        execution = execution.resolve(setup)
        check_memory(setup, execution)
        training_hooks(setup.recipe)  # refuses a class that is not there before the folder belongs to the run
    with RunFolder.writing(folder):
        run = RunFolder(folder).require(setup) if begun.exists() else RunFolder.create(folder, setup, execution)
        if not run.finished:
            execution = run.execution.resume(setup)
            check_memory(setup, execution)

            def work() -> None:
                with using_threads(execution.threads or 1):  # a setting of the thread that computes
                    _train(run, execution, progress, stop)

            with deferred() as stop:
                flushing_denormals(work) if execution.device == "cpu" else work()
                if stop():  # a signal while the result was written: a caller with more runs must stop
                    raise KeyboardInterrupt
    return run


def _train(
    run: RunFolder, execution: Execution, progress: Callable[[Progress], None] | None, stop: Callable[[], bool]
) -> None:
    """Train a run from its last saved state to its end."""
    recipe, device = run.recipe, str(execution.device)
    data = Data(run.problem, recipe, run.seeds, device)
    ensemble = Ensemble(run.problem, recipe, run.seeds, execution)
    step, since_row = _load_state(run, ensemble, device)
    run.return_to(step)
    schedule = run.schedule
    if step == 0 and recipe.checkpoint_every is not None:
        run.save_checkpoint(0, ensemble.weights())

    saved_at = time.monotonic()
    while step < schedule.end:
        if stop():
            _save_state(run, ensemble, since_row, step)
            raise KeyboardInterrupt
        scales = None
        if any(dropping := schedule.drops_heads):
            scales = head_scales(run.seeds, step, recipe.layers, recipe.heads, recipe.head_dropout)
            scales[~torch.tensor(dropping)] = 1.0
        since_row.append(ensemble.update(data.training(step), schedule.learning_rates(step), scales))
        step += 1
        logged = schedule.logs(step)
        if logged:
            training = torch.stack(since_row).mean(dim=0)
            since_row.clear()
            validation = ensemble.evaluate(data.validation(step))
            by_hop = validation.double().numpy(force=True)  # as a resumed run reads them from its rows
            schedule = schedule.after(step, by_hop)
            if any(due := schedule.prunes(step, by_hop)):
                schedule = schedule.after_pruning(step, by_hop, ensemble.prune(data.pruning(step), due))
            heads = None if recipe.prune_every is None else ensemble.left.flatten(1).sum(dim=1).tolist()
            rows = rows_of(step, training.tolist(), validation.tolist(), heads)
            run.append_metrics(rows)
            if progress is not None:
                progress(Progress(step, schedule.end, tuple(row.partial_losses for row in rows)))
        if checkpointed := schedule.checkpoints(step):
            run.save_checkpoint(step, ensemble.weights(), last=step == schedule.end)
        if checkpointed or (logged and time.monotonic() - saved_at > _SECONDS_BETWEEN_STATES):
            # Every checkpoint comes with a state, so two checkpoints without a state show that the state was lost.
            _save_state(run, ensemble, since_row, step)
            saved_at = time.monotonic()
    _finish(run, device)


def _load_state(run: RunFolder, ensemble: Ensemble, device: str) -> tuple[int, list[Float[Tensor, "model hop"]]]:
    """Load the last saved state. Returns its step (0 without a state) and the losses since the last row of metrics."""
    if (saved := run.load_state()) is None:
        return 0, []
    step, state = saved
    since_row, left = state.pop(_SINCE_ROW, torch.empty(0)), state.pop(_LEFT, None)
    ensemble.load_state(state, step, left)
    return step, [*since_row.to(device)]


def _save_state(run: RunFolder, ensemble: Ensemble, since_row: list[Float[Tensor, "model hop"]], step: int) -> None:
    """Save everything on which the rest of the run depends."""
    state = ensemble.state()
    if run.recipe.prune_every is not None:
        state[_LEFT] = ensemble.left
    if since_row:
        state[_SINCE_ROW] = torch.stack(since_row)
    run.save_state(step, state)


def _finish(run: RunFolder, device: str) -> None:
    """Write the result: the mean loss over the last steps, as in the paper, and the loss on a fixed held-out set."""
    metrics, schedule = run.metrics, run.schedule
    errors = held_out_errors(run, HELD_OUT, device)

    def of_model(model: int) -> ModelResult:
        last = metrics.after(schedule.final_from(model), schedule.of_model(model).end)
        by_sequence = errors[model].mean(dim=-1)
        return ModelResult(
            model=model,
            seed=run.seeds[model],
            hash=run.model_hashes[model],
            final_validation_loss=_mean(last.validation_loss[:, model].tolist()),
            final_partial_losses=tuple(map(_mean, last.partial_losses[:, model].T.tolist())),
            held_out_loss=finite_or_none(by_sequence.mean().item()),
            held_out_standard_error=finite_or_none((by_sequence.std() / len(by_sequence) ** 0.5).item()),
            held_out_partial_losses=tuple(map(finite_or_none, errors[model].mean(dim=0).tolist())),
        )

    run.finish(Result(schedule.end, HELD_OUT, tuple(map(of_model, range(len(run.seeds))))))


def held_out_errors(run: RunFolder, size: int, device: str = "cpu") -> Float[Tensor, "model sequence hop"]:
    """Compute every model's squared errors on the fixed held-out set, by sequence and target hop, in fp32."""
    batch = held_out(run.problem, size)
    transformer = run.transformer().to(device)
    on_cpu = torch.device(device).type == "cpu"
    if on_cpu:
        transformer.fuse()
        transformer.fuse_blocks("fp32")
    errors, at_once = [], _HELD_OUT_AT_ONCE if on_cpu else 4 * _HELD_OUT_AT_ONCE
    for start in range(0, size, at_once):
        part = batch[start : start + at_once]
        inputs = part.inputs.to(device).expand(len(run.seeds), *part.inputs.shape)
        errors.append(squared_errors(transformer(inputs), part.targets.to(device), run.problem.symbol_dim))
    return torch.cat(errors, dim=1).cpu()


def _mean(losses: list[float]) -> float | None:
    """Return the mean of the losses, or None if a loss is not a number."""
    return finite_or_none(sum(losses) / len(losses))
