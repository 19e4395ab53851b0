"""Folders that are read while a run is trained: what is told is of one moment."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from seeds_apart import PROBLEM, RECIPE, runs

from hopscope.integrity import check
from hopscope.tensor_files import load_tensors, save_tensors
from hopscope.training import together, trainer
from hopscope.training.execution import REFERENCE, Execution
from hopscope.training.many import train_all
from hopscope.training.progress import Progress
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup
from hopscope.training.trainer import train

FP32 = Execution(precision="fp32", threads=1, device="cpu")
ENGINE = REFERENCE
SETUP = Setup("run", PROBLEM, RECIPE, (0,))


class Stopped(Exception):
    pass


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(trainer, "HELD_OUT", 8)
    monkeypatch.setattr(trainer, "_SECONDS_BETWEEN_STATES", 0.0)


def begun(folder: Path, until: int) -> RunFolder:
    """A run that was stopped when it had its row of that step."""

    def stop(progress: Progress) -> None:
        if progress.step >= until:
            raise Stopped

    with pytest.raises(Stopped):
        train(SETUP, folder, execution=ENGINE, watch=stop)
    return RunFolder(folder)


def troubles(folder: Path) -> list[str]:
    return [one.trouble for one in check(folder) if one.trouble]


def test_tensors_are_those_of_their_mark(monkeypatch, tmp_path):
    """The file is replaced whenever it has been opened."""
    path, versions = tmp_path / "state.safetensors", iter(range(2, 100))

    def save(step: int) -> None:
        save_tensors(path, {"weight": torch.full((4,), float(step))}, step, "run")

    def opened(of: Path) -> bytes:
        data = plain_open(of)
        if of == path:
            save(next(versions))
        return data

    save(1)
    plain_open = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", opened)
    for expected in (1, 2, 3):
        step, tensors = load_tensors(path, "run")
        assert step == expected
        assert tensors["weight"].tolist() == [float(step)] * 4


def test_a_run_that_ends_while_its_rows_are_read_lacks_none(monkeypatch, tmp_path):
    run = begun(tmp_path / "run", until=8)
    plain, once = RunFolder.rows, [True]

    def rows(self: RunFolder):
        read = plain(self)
        if once:
            once.clear()
            train(SETUP, run.path, execution=ENGINE)
        return read

    monkeypatch.setattr(RunFolder, "rows", rows)
    assert run.metrics.steps.tolist() == [4, 8]
    assert RunFolder(run.path).metrics.steps.tolist() == [4, 8, 12]


@pytest.mark.parametrize("name", ["rows", "load_state"])
def test_a_run_that_goes_on_while_it_is_looked_through_is_whole(name, monkeypatch, tmp_path):
    """It goes on right before, or right after, its rows or its state are read."""
    for after in (False, True):
        run = begun(tmp_path / f"{name}-{after}", until=8)
        with monkeypatch.context() as patch:
            plain, once = getattr(RunFolder, name), [True]

            def read(self: RunFolder, plain=plain, once=once, run=run, after=after):
                def go_on() -> None:
                    if once:
                        once.clear()
                        train(SETUP, run.path, execution=ENGINE)

                if not after:
                    go_on()
                found = plain(self)
                go_on()
                return found

            patch.setattr(RunFolder, name, read)
            assert troubles(run.path) == []
            assert not once
        assert troubles(run.path) == []


def test_a_state_that_is_first_written_while_it_is_looked_for_is_not_lost(monkeypatch, tmp_path):
    run = begun(tmp_path / "run", until=4)
    plain, once = RunFolder.require_no_lost_state, [True]

    def go_on(self: RunFolder) -> None:
        if once:
            once.clear()
            train(SETUP, run.path, execution=ENGINE)
            (run.path / "result.json").unlink()
        plain(self)

    (run.path / "state.safetensors").unlink(missing_ok=True)
    monkeypatch.setattr(RunFolder, "require_no_lost_state", go_on)
    assert troubles(run.path) == []
    assert not once


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_being_laid_apart_is_not_looked_at(number, monkeypatch, tmp_path):
    """It is not whole, and made anew if it never becomes so. The ensemble itself is looked at."""
    plain, results = RunFolder.finish, []

    def finish(self: RunFolder, result: object) -> None:
        if len(results) == number:
            raise Stopped
        results.append(self.path)
        plain(self, result)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", finish)
        with pytest.raises(Stopped):
            train_all(runs(), tmp_path, execution=replace(FP32, workers=1), as_ensembles=True)
    (apart,) = tmp_path.glob(f"{together.ASIDE}/*/{together._APART}")
    assert len(list(apart.rglob("run.json"))) > 0
    assert troubles(tmp_path) == []
    assert {Path(one.file).parent for one in check(tmp_path) if one.file.endswith("run.json")} == {apart.parent}
    (apart.parent / "metrics.jsonl").write_text("{}\n")
    assert troubles(tmp_path) != []
