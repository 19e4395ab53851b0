"""The small copy of a run: its page is the run's, its files are sealed, and it is never written over something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from explorer_pages import explored, witness_recipes
from known_run import STEPS

from hopscope.cli.folder_verbs import explore as command
from hopscope.errors import InputError
from hopscope.explorer.arrays import half
from hopscope.explorer.exhibit import compact_export, exhibits
from hopscope.explorer.page import build
from hopscope.training.run import ModelResult, Result, RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    with witness_recipes():
        run = explored(tmp_path_factory.mktemp("whole") / "run")
        models = (
            ModelResult(number, seed, name, 0.0, (0.0,) * 3, 0.0, 0.0, (0.0,) * 3)
            for number, (seed, name) in enumerate(zip(run.seeds, run.model_hashes, strict=True))
        )
        run.finish(Result(STEPS, 64, tuple(models)))
        yield RunFolder(run.path)


def page(run: RunFolder) -> str:
    return build(exhibits([run])).html.replace(run.path.as_posix(), "HERE")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_page_of_the_copy_is_that_of_the_run(run: RunFolder, tmp_path: Path) -> None:
    copy = compact_export(run, tmp_path / "run")
    assert page(RunFolder(copy.path)) == page(run)
    assert list(copy.checkpoints) == [max(run.checkpoints)]
    assert size(copy.path / "checkpoints") < 0.6 * run.checkpoints[max(run.checkpoints)].stat().st_size


def test_weights_are_those_of_the_page(run: RunFolder, tmp_path: Path) -> None:
    copied, shown = compact_export(run, tmp_path / "run").transformer(), half(run.transformer())
    for name, weight in shown.state_dict().items():
        torch.testing.assert_close(copied.state_dict()[name], weight, rtol=0, atol=0)


def test_what_is_there_stays(run: RunFolder, tmp_path: Path) -> None:
    copy = compact_export(run, tmp_path / "run")
    before = {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()}
    (copy.path / "result.json").unlink()  # as one that is still being trained
    del before[copy.path / "result.json"]
    for folder in (copy.path, run.path):
        with pytest.raises(InputError, match="is in use; choose a new or empty folder"):
            compact_export(run, folder)
    with pytest.raises(InputError, match=f"lies in the run {run.path}"):
        compact_export(run, run.path / "small")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="in use"):
        compact_export(run, tmp_path / "other")
    assert {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()} == before


def test_the_option(run: RunFolder, tmp_path: Path) -> None:
    small = tmp_path / "small"
    result = CliRunner().invoke(command, [str(run.path), "--out", str(tmp_path / "a.html"), "--compact", str(small)])
    assert result.exit_code == 0, result.output
    assert RunFolder(small).finished
    two = CliRunner().invoke(command, [str(run.path), str(small), "--compact", str(tmp_path / "more")])
    assert "--compact copies one run, got 2" in str(two.exception or two.output)
