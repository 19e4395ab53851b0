"""A run on disk: plain files that outlive the program.

    run.json                            problem, recipe, seeds, execution, versions, content hash
    metrics.jsonl                       one row per logged step and model
    checkpoints/step-NNNNNN.safetensors weights of all models, leading axis `model`
    state.safetensors                   the latest point to resume from: weights, moments, step
    result.json                         written when the run is finished

Rows hold `step`, `model` (from 0), `train_loss` and `train_partial_losses` (means over the steps since the row before),
`validation_loss` and `partial_losses` (on fresh sequences), the lists by hop asked for. A loss that is not a number is
null. `pandas.read_json(path, lines=True)` and `polars.read_ndjson(path)` read them.

Every file carries the content hash and a checksum (`hopscope.records`), which are checked whenever it is read.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import SupportsIndex

import torch
from torch import Tensor

from hopscope.checks import check_count, check_path, plain_value
from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import lock, sync, write_text
from hopscope.model.fast import FastTransformer
from hopscope.records import RecordFormat, content_hash, read_rows, row_lines
from hopscope.tensor_files import load_tensors, save_tensors
from hopscope.training.execution import Execution
from hopscope.training.metrics import Metrics, MetricsRow, learned_below
from hopscope.training.recipe import Setup
from hopscope.training.run_records import Result, RunRecord, hash_of
from hopscope.training.schedule import Schedule
from hopscope.version import VERSION

_RUN = RecordFormat(RunRecord, "hopscope run", "the record of a hopscope run")
_RESULT = RecordFormat(Result, "hopscope result", "the result of a finished run")

_DRAFT = ".run.json.new"
"""The name of run.json until it is complete."""


class RunFolder:
    """One run: an ensemble of models that share problem and recipe and differ by their seeds.

    Args:
        path: a folder that holds a run.

    Raises:
        InputError: the folder holds no run, or one that cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = check_path("a run", path)
        self.record = _RUN.read(self.path / "run.json")
        self.problem, self.recipe, self.seeds = self.record.problem, self.record.recipe, self.record.seeds
        self.execution = self.record.execution

    @classmethod
    def create(cls, path: Path | str, setup: Setup, execution: Execution) -> RunFolder:
        """Begin a run in a folder that is new or empty, or find the same run there.

        Raises:
            InputError: the folder holds something else: a run with another recipe, problem or seeds, or other files.
        """
        path = Path(path)
        if path.exists() and (not path.is_dir() or any(not name.name.startswith(".") for name in path.iterdir())):
            if (path / "run.json").exists():  # another process may have begun it just now
                return cls(path).require(setup)
            raise InputError(f"{path} is in use and holds no hopscope run; choose a new or empty folder")
        problem, recipe, seeds = setup.problem, setup.recipe, setup.seeds
        named = hash_of(setup)
        versions = {
            "hopscope": VERSION,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        }
        _RUN.write(path / _DRAFT, RunRecord(named, problem, recipe, seeds, execution, versions), run=named)
        _publish(path / _DRAFT, path / "run.json")
        return cls(path).require(setup)  # as it was begun: another process may have come first

    def require(self, setup: Setup) -> RunFolder:
        """This run, if it has that setup, whatever the setup's name.

        Raises:
            InputError: the run has another setup; the message names the first difference.
        """
        asked = {**asdict(setup.problem), **asdict(setup.recipe), "seeds": list(setup.seeds)}
        here = {**asdict(self.problem), **asdict(self.recipe), "seeds": list(self.seeds)}
        for name, value in asked.items():
            if here[name] != value:
                raise InputError(
                    f"{self.path} holds a run with {name} = {here[name]}, not {value}; choose another folder, "
                    "or ask for the run that is there"
                )
        return self

    @contextmanager
    def writing(self, patience: float = 10.0) -> Iterator[None]:
        """A context in which this process is the folder's only writer; if the process dies, the folder is free again.

        Args:
            patience: seconds to wait for another writer to finish.

        Raises:
            InputError: another process is still training this run.
        """
        busy = f"another process is training in {self.path}; wait for it, or stop it"
        with lock(self.path / ".writer", busy, patience):
            (self.path / _DRAFT).unlink(missing_ok=True)  # left by a process that was killed in between
            yield

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
        return _RESULT.read(self.path / "result.json", self.record.content_hash)

    def finish(self, result: Result) -> None:
        """Write the result, which marks the run as finished."""
        _RESULT.write(self.path / "result.json", result, self.record.content_hash)

    @property
    def hash(self) -> str:
        """The content hash, which the run's files carry."""
        return self.record.content_hash

    def owns(self, path: Path) -> bool:
        """Whether a file in the folder must be one of the run, going by its name: figures are not."""
        return path.suffix in (".json", ".jsonl", ".safetensors")

    def check_complete(self) -> None:
        """Check what needs the run as a whole; each of its files by itself must have been found good.

        Rows and checkpoints come to the disk before the state that counts on them, so the state is read first: another
        process may be training the run.

        Raises:
            InputError: rows, checkpoints or the state are missing, or the result is of other models.
        """
        state = self.load_state()
        step = state[0] if state else 0
        if self.metrics.steps.size or step:
            self.require_rows(step)
        if lost := self.lost_checkpoints(step) if step else []:
            raise InputError(
                f"{', '.join(map(str, lost))} missing, and the run has come past step {step}; restore them"
            )
        if not state and not self.finished:
            try:
                self.require_no_lost_state()
            except InputError:
                if not self.finished and not (self.path / "state.safetensors").exists():
                    raise
        if self.finished and len(self.result.models) != len(self.seeds):
            raise InputError(f"{self.path / 'result.json'} must tell of {len(self.seeds)} models; {UNTOUCHED}")

    @cached_property
    def model_hashes(self) -> tuple[str, ...]:
        """A hash for each model, of the run's content hash and the model's seed."""
        hashed = self.record.content_hash
        return tuple(content_hash([hashed, seed]) for seed in self.seeds)

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics so far, as one table; it has no rows before the first is logged.

        Raises:
            InputError: the file is damaged, or a finished run lacks rows.
        """
        finished = self.finished  # asked first: once it is, all rows are there
        try:
            learned = learned_below(self.problem.chains)
            metrics = Metrics.of_rows(self.rows(), self.seeds, self.problem.target_hops, learned)
        except InputError as error:
            if str(self.path) in str(error):
                raise
            raise InputError(f"{self.path / 'metrics.jsonl'} is damaged: {error}; {UNTOUCHED}") from None
        if finished:
            self._require(metrics, Schedule.of(self.recipe, metrics).end)
        return metrics

    @property
    def regular_metrics(self) -> Metrics:
        """The rows at multiples of `log_every`, by which is said when something was first so: the last steps, each of
        which has a row, would give a loss a hundred more chances of being low once."""
        return self.metrics.every(self.recipe.log_every)

    def require_rows(self, step: int) -> None:
        """Check that the metrics have all rows up to a step.

        Raises:
            InputError: rows are missing, or there are rows that should not be there.
        """
        self._require(self.metrics, step)

    def _require(self, metrics: Metrics, step: int) -> None:
        planned, there = Schedule.of(self.recipe, metrics).rows(step), metrics.steps[metrics.steps <= step].tolist()
        if planned != there:
            wrong = min(set(planned) ^ set(there))
            how = "lacks the" if wrong in planned else "has a wrong"
            raise InputError(
                f"{self.path / 'metrics.jsonl'} is damaged: it {how} row of step {wrong}, and the run has come to step "
                f"{step}; {UNTOUCHED}, or train into another folder"
            )

    @property
    def schedule(self) -> Schedule:
        """The schedule of this run, as far as its metrics decide it."""
        return Schedule.of(self.recipe, self.metrics)

    def append_metrics(self, rows: Iterable[MetricsRow]) -> None:
        """Append rows to the metrics."""
        with (self.path / "metrics.jsonl").open("ab") as file:  # as text, line breaks would be others on Windows
            file.write(row_lines(rows, self.record.content_hash).encode())
        self.__dict__.pop("metrics", None)

    def drop_metrics_after(self, step: int) -> None:
        """Drop the rows that a resumed run will write again, and what a killed run left unfinished."""
        if (self.path / "metrics.jsonl").exists():
            kept = [row for row in self.rows() if row.step <= step]
            write_text(self.path / "metrics.jsonl", row_lines(kept, self.record.content_hash))
        self.__dict__.pop("metrics", None)

    def drop_checkpoints_after(self, step: int) -> None:
        """Delete the checkpoints after `step`: a resumed run will write them again, or end before them.

        Raises:
            InputError: one of them is damaged or not this run's; then none is deleted.
        """
        later = [path for number, path in self.checkpoints.items() if number > step]
        for path in later:
            self._load_checkpoint(path)
        for path in later:
            path.unlink()

    def require_no_lost_state(self) -> None:
        """Check that a run without a state to resume from has not come far: a state is written with every checkpoint.

        Raises:
            InputError: there are two or more checkpoints after step 0.
        """
        later = [step for step in self.checkpoints if step]
        if len(later) > 1:
            raise InputError(
                f"{self.path} has checkpoints up to step {max(later)}, but no state.safetensors to go on from; put it "
                "back, or train into another folder"
            )

    def rows(self) -> list[MetricsRow]:
        """The rows of metrics so far.

        Raises:
            InputError: the file is damaged.
        """
        path = self.path / "metrics.jsonl"
        what = "the metrics of a run"
        return read_rows(path, MetricsRow, what, self.record.content_hash) if path.exists() else []

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoint files, by step."""
        found = {}
        for path in sorted((self.path / "checkpoints").glob("step-*.safetensors")):
            number = path.stem.removeprefix("step-")
            if number.isdigit():
                found[int(number)] = path
        return found

    def find_checkpoint(self, step: SupportsIndex | None = None) -> Path:
        """The file of weights after `step` updates, by default the last.

        Raises:
            InputError: there is none, or the last one of a finished run is lost.
        """
        checkpoints = self.checkpoints
        if not checkpoints:
            raise InputError(f"{self.path} has no checkpoint yet; let the run come to one")
        end = None
        with suppress(InputError):  # who needs the result says that it is damaged
            end = self.result.steps if step is None and self.finished else None
        if end is not None and end not in checkpoints:
            raise InputError(
                f"{self.checkpoint_path(end)} is missing, and the run has come to step {end}; put it back, or name an "
                f"earlier step, the last of which is {max(checkpoints)}"
            )
        wanted: int = max(checkpoints) if step is None else plain_value(step)
        check_count("the step of a checkpoint", wanted, least=0)
        if wanted not in checkpoints:
            near = min(checkpoints, key=lambda known: abs(known - wanted))
            raise InputError(f"{self.path} has no checkpoint at step {wanted}; the nearest is at step {near}")
        return checkpoints[wanted]

    def checkpoint_path(self, step: int) -> Path:
        """Where the weights after `step` updates are kept."""
        return self.path / "checkpoints" / f"step-{step:06d}.safetensors"

    def lost_checkpoints(self, step: int) -> list[Path]:
        """The checkpoint files up to `step` that a run which has come there must have written and that are missing."""
        schedule = self.schedule
        kept = [self.checkpoint_path(index) for index in range(step + 1) if schedule.checkpoints(index)]
        return [path for path in kept if not path.exists()]

    def save_checkpoint(self, step: int, weights: dict[str, Tensor], *, last: bool = False) -> None:
        """Save the weights after `step` updates, marked as this run's; all but the last in the recipe's precision."""
        if self.recipe.checkpoint_precision == "bf16" and not last:
            weights = {name: tensor.bfloat16() for name, tensor in weights.items()}
        save_tensors(self.checkpoint_path(step), weights, step, self.record.content_hash)

    def save_state(self, step: int, state: dict[str, Tensor]) -> None:
        """Replace the state to resume from; the rows of metrics up to it are brought to the disk first."""
        if (self.path / "metrics.jsonl").exists():
            sync(self.path / "metrics.jsonl")
        save_tensors(self.path / "state.safetensors", state, step, self.record.content_hash)

    def load_state(self) -> tuple[int, dict[str, Tensor]] | None:
        """The step and the state to resume from, if there is one.

        Raises:
            InputError: the state is damaged, or belongs to another run.
        """
        path = self.path / "state.safetensors"
        return load_tensors(path, self.record.content_hash) if path.exists() else None

    def transformer(self, step: SupportsIndex | None = None) -> FastTransformer:
        """The models as they were after `step` updates (the last checkpoint by default), on the CPU.

        Raises:
            InputError: there is no such checkpoint, it is damaged, or it belongs to another step or another run.
        """
        path = self.find_checkpoint(step)
        weights = self._load_checkpoint(path)
        transformer = FastTransformer(self.recipe.architecture(self.problem), len(self.seeds))
        try:
            transformer.load_state_dict(weights)
        except RuntimeError:
            raise InputError(f"{path} does not hold the weights of this run; it was left untouched") from None
        return transformer.requires_grad_(False)

    def _load_checkpoint(self, path: Path) -> dict[str, Tensor]:
        return load_tensors(path, self.record.content_hash)[1]


def _publish(draft: Path, path: Path) -> None:
    """Give a complete file its name, unless another process was first: then that process's file stays."""
    try:
        os.link(draft, path)
    except (FileExistsError, FileNotFoundError):
        pass
    except OSError:  # a file system without hard links
        os.replace(draft, path)
    draft.unlink(missing_ok=True)
    if sys.platform != "win32":  # Windows cannot open folders
        sync(path.parent)
