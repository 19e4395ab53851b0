"""Some arms of a study alone: what is chosen is trained, the rest is told as far as it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopscope.errors import InputError
from hopscope.training.work import Work
from studies.__main__ import command
from studies.tools.asking import QUESTIONS
from studies.tools.asking import study as ask_study

WITH_ARMS = {"learning", "depth", "places", "rows", "orders", "unsaid", "plateau", "curriculum"}
ASKED = ["plateau", "--quick", "--workers", "1", "--precision", "fp32"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 64)
    monkeypatch.setattr("hopscope.plot.style.FORMATS", ("svg",))


def ask(folder: Path, *more: str) -> str:
    return CliRunner().invoke(command, [*ASKED, str(folder), *more], catch_exceptions=False).stdout


def trained(folder: Path) -> set[str]:
    return {str(path.parent.relative_to(folder / "runs")) for path in (folder / "runs").rglob("result.json")}


def test_the_chosen_arms_first_and_the_others_later_come_to_the_same(tmp_path: Path) -> None:
    some, whole = tmp_path / "some", tmp_path / "whole"
    told = ask(some, "--arms", "learning-rate/*")
    assert trained(some) == {f"learning-rate/0.003/seed-{seed}" for seed in ("000", "001")}
    assert "| unchanged | not run |" in told
    assert "| learning-rate/0.003 | 2 of 2 " in told
    by_name = {arm["setup"]["name"]: arm for arm in json.loads((some / "plateau.json").read_text())["arms"]}
    assert {name: arm["seeds"] for name, arm in by_name.items()} == {"unchanged": [], "learning-rate/0.003": [0, 1]}
    assert ask(some) == ask(whole)
    assert trained(some) == trained(whole)


def test_what_is_known_of_the_others_stays(tmp_path: Path) -> None:
    ask(tmp_path, "--arms", "unchanged")
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert "| unchanged | 2 of 2 " in ask(tmp_path, "--arms", "learning-rate/0.003")
    assert all(name.startswith("learning-rate") for name in trained(tmp_path))


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_study_says_whether_it_has_such_arms(name: str, tmp_path: Path) -> None:
    rule = "has no arm 'nothing like it'; it has " if name in WITH_ARMS else "has no arms to choose among; leave arms"
    with pytest.raises(InputError, match=f"{name} {rule}"):
        ask_study(name, tmp_path / name, quick=True, workers=1, arms=("nothing like it",))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("arms", ["K/*", (1,), {"K/2"}])
def test_arms_are_several_names(arms: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"arms must be a list or tuple of names|plateau has no arm 1"):
        ask_study("plateau", tmp_path / "plateau", arms=arms)
    assert not (tmp_path / "plateau").exists()


def test_a_pattern_is_that_of_file_names() -> None:
    assert [Work(arms=("K/*", "N/8")).wants(name) for name in ("K/2", "K", "N/8", "n/8", "N/88")] == [
        True, False, True, False, False
    ]  # fmt: skip
    assert Work().wants("whatever")
