"""A run on disk: plain files that outlive the program.

    run.json                            problem, recipe, seeds, execution, versions
    metrics.jsonl                       one row per logged step and model
    checkpoints/step-NNNNNN.safetensors weights of all models, leading axis `model`
    state.safetensors                   the latest state to resume from: weights, moments, step
    result.json                         written when the run is finished

A row is a `MetricsRow`; `pandas.read_json(path, lines=True)` reads all rows. Every file contains the content hash and a
checksum (`hopscope.records`), which are checked whenever the file is read.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import SupportsIndex

import torch
from torch import Tensor

from hopscope.checks import check_count, check_path, plain_value
from hopscope.errors import UNTOUCHED, InputError
from hopscope.model.fast import FastTransformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import (
    RecordFormat,
    content_hash,
    load_tensors,
    lock,
    read_rows,
    row_lines,
    save_tensors,
    sync,
    write_text,
)
from hopscope.training.execution import Execution
from hopscope.training.metrics import Metrics, MetricsRow, learned_below
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.schedule import Schedule
from hopscope.version import VERSION


@dataclass(frozen=True)
class RunRecord:
    """The contents of run.json: what is trained, the execution, and the software versions when the run began."""

    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...]
    execution: Execution
    versions: dict[str, str]


@dataclass(frozen=True)
class ModelResult:
    """The result of one model of a finished run. A loss that is not a number is None.

    Attributes:
        model: number of the model, from 0, in the order of the run's seeds.
        seed: the seed of its weights and data.
        hash: hash of the run's content hash and the model's seed, which identifies the model.
        final_validation_loss: mean validation loss over the last steps, see `Schedule.final_from`.
        final_partial_losses: the same mean for each target hop.
        held_out_loss: loss on a fixed set of sequences, the same for every run on the problem.
        held_out_standard_error: standard error of that loss over sequences.
        held_out_partial_losses: losses on the same set, by target hop.
    """

    model: int
    seed: int
    hash: str
    final_validation_loss: float | None
    final_partial_losses: tuple[float | None, ...]
    held_out_loss: float | None
    held_out_standard_error: float | None
    held_out_partial_losses: tuple[float | None, ...]

    @property
    def diverged(self) -> bool:
        """Whether the trained model's held-out loss is not a number."""
        return self.held_out_loss is None


@dataclass(frozen=True)
class Result:
    """The contents of result.json.

    Attributes:
        steps: number of updates done.
        held_out: number of sequences in the held-out set.
        models: the result of each model, one per seed.
    """

    steps: int
    held_out: int
    models: tuple[ModelResult, ...]


_RUN = RecordFormat(RunRecord, "hopscope run", "the record of a run (`hopscope train` makes one)")
_RESULT = RecordFormat(Result, "hopscope result", "the result of a finished run")


class RunFolder:
    """One run: an ensemble of models with the same problem and recipe and different seeds, in the folder `path`.

    Attributes:
        hash: the content hash of problem, recipe and seeds, which all files of the run contain.

    Raises:
        InputError: the folder does not contain a run, or the run cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = check_path("a run", path)
        self.record = _RUN.read(self.path / "run.json")
        self.problem, self.recipe, self.seeds = self.record.problem, self.record.recipe, self.record.seeds
        self.setup = Setup(self.path.resolve().name, self.problem, self.recipe, self.seeds)
        self.execution, self.hash = self.record.execution, self.setup.content_hash

    @classmethod
    def create(cls, path: Path, setup: Setup, execution: Execution) -> RunFolder:
        """Begin a run in a new or empty folder. Raises an `InputError` if the folder contains anything else."""
        check_empty(path)
        versions = {"hopscope": VERSION, "torch": str(torch.__version__), "python": platform.python_version()}
        record = RunRecord(setup.problem, setup.recipe, setup.seeds, execution, versions)
        _RUN.write(path / "run.json", record, setup.content_hash)
        return cls(path)

    def require(self, setup: Setup) -> RunFolder:
        """Return this run if it has the given setup, apart from the name. Raises an `InputError` if not."""
        for name, value in setup.settings.items():
            if (found := self.setup.settings[name]) != value:
                raise InputError(f"{self.path} holds a run of {name} = {found}, not {value}; use that or a new folder")
        return self

    @staticmethod
    def writing(path: Path, patience: float = 10.0) -> AbstractContextManager[None]:
        """A context in which this process is the only writer of a run folder. It waits up to `patience` seconds for
        another writer to finish, then raises an `InputError`. A process that dies frees the folder."""
        return lock(path / ".writer", f"another process is training in {path}; wait for it, or stop it", patience)

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return (self.path / "result.json").exists()

    @cached_property
    def result(self) -> Result:
        """The result of the finished run.

        Raises:
            InputError: the run is not finished, or its result is damaged.
        """
        result = _RESULT.read(self.path / "result.json", self.hash)
        if len(result.models) != len(self.seeds):
            raise InputError(f"{self.path / 'result.json'} must have {len(self.seeds)} models; {UNTOUCHED}")
        return result

    def finish(self, result: Result) -> None:
        """Write the result, which marks the run as finished."""
        _RESULT.write(self.path / "result.json", result, self.hash)

    def owns(self, path: Path) -> bool:
        """Return whether a file belongs to the run, judging by its name. Figures in the folder do not."""
        return path.suffix in (".json", ".jsonl", ".safetensors")

    def check_complete(self) -> None:
        """Raise an `InputError` if rows, checkpoints or the state are missing. Every file must have been checked."""
        step, _ = self.load_state() or (0, {})
        due = [self.checkpoint_path(at) for at in filter(self.schedule.checkpoints, range(step + 1))] if step else []
        if missing := [str(path) for path in due if not path.exists()]:
            raise InputError(f"{', '.join(missing)} missing, although the run is at step {step}; restore them")
        if self.finished:
            _ = self.result, self.metrics

    @cached_property
    def model_hashes(self) -> tuple[str, ...]:
        """The hash of each model, computed from the run's content hash and the model's seed."""
        return tuple(content_hash([self.hash, seed]) for seed in self.seeds)

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics so far, as one table.

        Raises:
            InputError: the file is damaged, or a finished run lacks rows.
        """
        finished, rows = self.finished, self.rows()  # in this order: a finished run has all rows
        try:
            metrics = Metrics.of_rows(rows, self.seeds, self.problem.target_hops, learned_below(self.problem.chains))
        except InputError as error:
            raise InputError(f"{self.path / 'metrics.jsonl'} is damaged: {error}; {UNTOUCHED}") from None
        if finished:
            self._check_rows(metrics)
        return metrics

    @property
    def regular_metrics(self) -> Metrics:
        """The metrics at multiples of `log_every` only: evenly spaced rows, to find the first step of an event."""
        return self.metrics.every(self.recipe.log_every)

    @property
    def schedule(self) -> Schedule:
        """The schedule of this run, as far as its metrics determine it."""
        return Schedule.of(self.recipe, self.metrics)

    def rows(self) -> list[MetricsRow]:
        """Read the rows of metrics so far. Raises an `InputError` if the file is damaged."""
        path = self.path / "metrics.jsonl"
        return read_rows(path, MetricsRow, "the metrics of a run", self.hash) if path.exists() else []

    def append_metrics(self, rows: Iterable[MetricsRow]) -> None:
        """Append rows to the metrics."""
        with (self.path / "metrics.jsonl").open("ab") as file:  # text mode changes line breaks on Windows
            file.write(row_lines(rows, self.hash).encode())
        self.__dict__.pop("metrics", None)

    def _check_rows(self, metrics: Metrics, step: int | None = None) -> None:
        """Check that the metrics have all rows up to `step`; None for the end of the run."""
        schedule = Schedule.of(self.recipe, metrics)
        if missing := schedule.rows(schedule.end if step is None else step) - {*metrics.steps.tolist()}:
            raise InputError(f"{self.path / 'metrics.jsonl'} lacks the row of step {min(missing)}; {UNTOUCHED}")

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoint files, by step."""
        paths = sorted((self.path / "checkpoints").glob("step-*.safetensors"))
        return {int(number): path for path in paths if (number := path.stem.removeprefix("step-")).isdigit()}

    def checkpoint_path(self, step: int) -> Path:
        """Return the path of the checkpoint after `step` updates."""
        return self.path / "checkpoints" / f"step-{step:06d}.safetensors"

    def find_checkpoint(self, step: SupportsIndex | None = None) -> Path:
        """Return the path of the checkpoint after `step` updates; None for the last checkpoint.

        Raises:
            InputError: there is no such checkpoint, or the last checkpoint of a finished run is missing.
        """
        checkpoints = self.checkpoints
        if not checkpoints:
            mend = "the finished run has lost its last one; restore it" if self.finished else "resume training first"
            raise InputError(f"no checkpoint is in {self.path}; {mend}")
        if step is None:
            step = self.result.steps if self.finished else max(checkpoints)
        wanted: int = plain_value(step)
        check_count("the step of a checkpoint", wanted, least=0)
        if wanted not in checkpoints:
            near = min(checkpoints, key=lambda known: abs(known - wanted))
            raise InputError(f"{self.path} has no checkpoint at step {wanted}; the nearest is at step {near}")
        return checkpoints[wanted]

    def transformer(self, step: SupportsIndex | None = None) -> FastTransformer:
        """Load the models as they were after `step` updates (None for the last checkpoint), on the CPU.

        Raises:
            InputError: there is no such checkpoint, it is damaged, or it belongs to another step or another run.
        """
        _, weights = load_tensors(self.find_checkpoint(step), self.hash)
        transformer = FastTransformer(self.recipe.architecture(self.problem), len(self.seeds))
        transformer.load_state_dict(weights)
        return transformer.requires_grad_(False)

    def save_checkpoint(self, step: int, weights: dict[str, Tensor], *, last: bool = False) -> None:
        """Save the weights after `step` updates, in the recipe's `checkpoint_precision` unless `last` is set."""
        if self.recipe.checkpoint_precision == "bf16" and not last:
            weights = {name: tensor.bfloat16() for name, tensor in weights.items()}
        save_tensors(self.checkpoint_path(step), weights, step, self.hash)

    def save_state(self, step: int, state: dict[str, Tensor]) -> None:
        """Replace the state to resume from, after writing all rows of metrics through to the disk."""
        if (self.path / "metrics.jsonl").exists():
            sync(self.path / "metrics.jsonl")
        save_tensors(self.path / "state.safetensors", state, step, self.hash)

    def load_state(self) -> tuple[int, dict[str, Tensor]] | None:
        """Load the step and the state to resume from. Returns None if no state has been saved yet.

        Raises:
            InputError: the state is missing, damaged or of another run, or rows of metrics up to its step are missing.
        """
        checkpoints, path = [step for step in self.checkpoints if step], self.path / "state.safetensors"
        if path.exists():
            step, state = load_tensors(path, self.hash)
            self._check_rows(self.metrics, step)
            return step, state
        if len(checkpoints) > 1 and not self.finished:  # a state follows every checkpoint
            raise InputError(
                f"{self.path} has checkpoints up to step {max(checkpoints)}, but no state.safetensors to resume from; "
                "restore it, or train into another folder"
            )
        return None

    def return_to(self, step: int) -> None:
        """Delete the rows and checkpoints after `step`. A resumed run writes them again if it runs that long."""
        if (self.path / "metrics.jsonl").exists():
            rows = [row for row in self.rows() if row.step <= step]
            write_text(self.path / "metrics.jsonl", row_lines(rows, self.hash))
        self.__dict__.pop("metrics", None)
        for later, path in self.checkpoints.items():
            if later > step:
                path.unlink()


def check_empty(path: Path) -> None:
    """Check that `path` does not exist, or is a folder that is empty apart from hidden files."""
    if path.exists() and (not path.is_dir() or any(not file.name.startswith(".") for file in path.iterdir())):
        raise InputError(f"{path} is in use and holds no hopscope run; choose a new or empty folder")
