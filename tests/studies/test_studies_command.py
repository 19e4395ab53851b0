"""`python -m studies`: every study runs quick and goes on; nothing is judged, replaced or lost that should not be."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree

import pytest
from click.testing import CliRunner
from planted_arms import ARMS, THREE, arm, learns

from hopscope.errors import InputError
from hopscope.paper.recipes import PLAIN
from studies import heads
from studies.__main__ import command
from studies.tools.arms import Arms
from studies.tools.asking import QUESTIONS
from studies.tools.asking import study as ask_study
from studies.tools.kept import kept, made_by, study_form

FROM_RECORD = ("learning", "depth", "heads", "plateau", "curriculum", "census", "pruning", "descent")
"""Studies that need no run folder to go on."""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_study_runs_quick_and_goes_on(name, tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 64)
    monkeypatch.setattr("hopscope.plot.style.FORMATS", ("svg",))
    arguments = [name, str(tmp_path / name), "--quick", *([] if name == "searches" else ["--workers", "1"])]
    once = CliRunner().invoke(command, arguments)
    assert once.exception is None, once.output
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **_: Path(path).write_bytes(b"again"))
    again = CliRunner().invoke(command, arguments)
    assert once.stdout == again.stdout
    assert "|" in once.stdout
    assert list((tmp_path / name).glob("*.json"))
    if name in FROM_RECORD:
        rmtree(tmp_path / name / "runs")
        monkeypatch.setattr("hopscope.training.many.train_all", lambda *_, **__: pytest.fail("it is known"))
        assert CliRunner().invoke(command, arguments, catch_exceptions=False).stdout == once.stdout


def refused(arguments: list[str]) -> str:
    """What a command says that is refused."""
    said = CliRunner().invoke(command, arguments).exception
    assert isinstance(said, InputError), said
    return str(said)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "searches"])
def test_where_no_study_is_nothing_is_judged_and_nothing_written(name, tmp_path):
    """Neither in a folder that is not there, nor in an empty one, nor in one of something else."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("Dear")
    for folder in ("new", "empty", "foreign"):
        words = refused([name, str(tmp_path / folder), "--judge"])
        assert f"{folder} holds nothing finished of the study {name}; leave --judge out" in words
    assert list(contents(tmp_path)) == [tmp_path / "foreign" / "letter.txt"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("idle", [[], ["--judge"]])
@pytest.mark.parametrize("there", ["quick", "whole"])
def test_a_record_is_not_replaced_by_one_that_knows_less(there, idle, tmp_path, monkeypatch):
    """Neither the whole study's by the quick one's nor the other way round; nothing is trained before that is seen."""
    known = {"quick": heads.quick(PLAIN), "whole": heads.standard(PLAIN)}[there].models[:2]
    seen_before = tuple(
        heads.OneModel(one.problem.chains, one.recipe.layers, one.recipe.heads, one.seeds[0], 0.3, made_by(one))
        for one in known
    )
    study_form("heads", heads.HeadsResult).write(tmp_path / "heads.json", heads.HeadsResult(seen_before))
    (tmp_path / "runs").mkdir()
    before = contents(tmp_path)
    monkeypatch.setattr("hopscope.training.many.train_all", lambda *_, **__: pytest.fail("it is trained"))
    other = [] if there == "quick" else ["--quick"]
    words = refused(["heads", str(tmp_path), *other, *idle])
    version = "whole" if there == "quick" else "quick"
    assert f"heads.json tells of 2 results, of which the {version} study would keep none" in words
    assert contents(tmp_path) == before


def test_a_study_goes_into_no_folder_of_something_else(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    assert "is a run folder, which holds only" in refused(["heads", str(tmp_path)])
    (tmp_path / "run.json").rename(tmp_path / "depth.json")
    words = f"{tmp_path} holds the study depth; choose another folder for heads"
    assert refused(["heads", str(tmp_path), "--quick"]) == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["heads", "--run", "nope", "--quick"], "heads trains its own models; leave --run out"),
        (["calibration", "--run", "nope", "--quick"], "the quick version asks no run; leave --run out"),
        (["calibration", "--run", "nope", "--judge"], "--judge runs nothing; leave --run out"),
        (["heads", "--judge", "--workers", "2"], "--judge runs nothing; leave --workers out"),
        (["heads", "--judge", "--device", "cpu"], "--judge runs nothing; leave --device out"),
        (["heads", "--judge", "--no-compile"], "--judge runs nothing; leave --no-compile out"),
        (["searches", "--workers", "1"], "searches is one process; leave --workers out"),
        (["text", "--precision", "bf16"], "text does not train by these; leave --precision out"),
    ],
)
def test_options_that_would_do_nothing_are_refused(arguments, words):
    assert words in refused(arguments)


def test_there_are_no_processes_of_a_negative_number():
    assert CliRunner().invoke(command, ["heads", "--workers", "-1", "--judge"]).exit_code == 2


def test_what_cannot_be_judged_alone_says_so(tmp_path):
    told = CliRunner().invoke(command, ["searches", str(tmp_path), "--judge"])
    assert "leave --judge out" in str(told.exception)


def test_what_was_kept_is_judged_without_its_runs(tmp_path):
    """And by the rules of today, whatever was judged then."""
    kept = arm("4-layers", THREE, learns(3, 39) + learns(3, 1, 2), layers=4)
    ARMS.write(tmp_path / "learning.json", Arms((kept,)))
    told = CliRunner().invoke(command, ["learning", str(tmp_path), "--judge"])
    assert told.exception is None, told.output
    assert "4 layers: x3 in 38 of 40 seeds | as asked | 39 of 40 (87% to 100%)" in told.stdout
    assert (tmp_path / "learning.png").exists()
    assert ARMS.read(tmp_path / "learning.json") == Arms((kept,))


def test_from_python_a_study_answers_as_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 64)
    folder = tmp_path / "one"
    answer = ask_study("plateau", folder, quick=True, workers=1)
    shown = CliRunner().invoke(command, ["plateau", str(folder), "--quick", "--judge"], catch_exceptions=False)
    assert shown.stdout == f"{answer.told}\n"
    judging = ["plateau", str(folder), "--quick", "--judge", "--json"]
    told = json.loads(CliRunner().invoke(command, judging, catch_exceptions=False).stdout)
    assert told == json.loads(json.dumps(answer.to_json()))
    assert [one["verdict"] for one in told["judgements"]] == [one.verdict for one in answer.judgements]
    assert told["result"]["arms"] == json.loads((folder / "plateau.json").read_text())["arms"]
    assert (answer.name, answer.folder, answer.result) == ("plateau", folder, kept("plateau", folder, Arms))
    assert answer.judgements[0].asked.startswith("learning-rate/0.003 moves")
    assert ask_study("plateau", folder, quick=True, idle=True) == answer
    with pytest.raises(InputError, match=r"a study is one of learning, .*, got 'nonsense'"):
        ask_study("nonsense")
    with pytest.raises(InputError, match="plateau trains its own models; leave runs out"):
        ask_study("plateau", tmp_path / "two", runs=["run"])
    with pytest.raises(InputError, match="holds the study plateau; choose another folder for depth"):
        ask_study("depth", tmp_path / "one")
