"""`python -m studies`: studies run quick and go on; nothing is judged, replaced or lost that should not be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from planted_studies import THREE, condition, learns

from studies.__main__ import main
from studies.catalogue import STUDIES
from studies.tools import records
from studies.tools.conditions import Conditions

RESULTS = Path(__file__).parents[2] / "results" / "studies"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 64)
    monkeypatch.setattr("hopscope.plot.style.FORMATS", ("svg",))


def said(arguments: list[str], capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    """What a command prints, which ends with that status."""
    capsys.readouterr()
    assert main(arguments) == status
    streams = capsys.readouterr()
    return streams.err if status else streams.out


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "depth" else [pytest.mark.slow]) for name in STUDIES]
)
def test_every_study_runs_quick_and_goes_on(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [name, str(tmp_path / name), "--quick", "--workers", "1"]
    once = said(arguments, capsys)
    monkeypatch.setattr("studies.tools.work._Lines.report", lambda *_: None)
    assert said(arguments, capsys) == once
    assert said([*arguments, "--judge"], capsys) == once
    assert "|" in once
    again = json.loads(said([*arguments, "--judge", "--json"], capsys))
    assert again["result"] == json.loads((tmp_path / name / f"{name}.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/judgements.json")), ids=lambda path: path.parent.name)
def test_stored_results_are_judged_as_they_were(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **_: Path(path).touch())
    name = path.parent.name
    shutil.copytree(path.parent, tmp_path / name)
    said([name, str(tmp_path / name), "--judge"], capsys)
    assert (tmp_path / name / "judgements.json").read_text() == path.read_text()
    assert (tmp_path / name / f"{name}.json").read_text() == (path.parent / f"{name}.json").read_text()


def test_a_stored_record_is_judged_without_its_runs_and_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = Conditions((condition("4-layers", THREE, learns(3, 39) + learns(3, 1, 2), layers=4),))
    records.write(tmp_path / "learning.json", stored)
    assert "4 layers: x3 in 38 of 40 seeds | confirmed | 39 of 40 (87% to 100%)" in said(
        ["learning", str(tmp_path), "--judge"], capsys
    )
    assert records.read(tmp_path / "learning.json", Conditions) == stored
    assert "so it can only be judged; add --judge" in said(["learning", str(tmp_path), "--quick"], capsys, 2)
    assert records.read(tmp_path / "learning.json", Conditions) == stored


@pytest.mark.parametrize(
    ("file", "arguments", "words"),
    [
        ("run.json", [], "is a run folder"),
        ("depth.json", [], "belongs to another study; choose another folder for heads"),
        ("letter.txt", ["--judge"], "has no results of the study heads; leave out --judge"),
        ("letter.txt", ["--conditions", "K/*"], "heads has no condition 'K/*'; leave out --conditions"),
    ],
)
def test_a_study_goes_into_no_folder_of_something_else(
    file: str, arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).write_text("{}")
    assert words in said(["heads", str(tmp_path), *arguments], capsys, 2)
    assert [path.name for path in tmp_path.iterdir()] == [file]


@pytest.mark.slow
def test_some_conditions_alone_are_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plateau", str(tmp_path), "--quick", "--workers", "1", "--conditions", "learning*"]
    said([*arguments[:-1], "nothing"], capsys, 2)
    said(arguments, capsys)
    found = records.read(tmp_path / "plateau.json", Conditions).conditions
    assert [(condition.name, len(condition.seeds)) for condition in found] == [
        ("unchanged", 0),
        ("learning-rate/0.003", 2),
    ]
