"""Options of every verb fill the dataclasses, machines can read the output, and progress goes to standard error."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from command_line import call
from text_reader import solve

import hopscope as hs
from hopscope import display
from hopscope.cli import VERBS, program
from hopscope.cli.training_verbs import train
from hopscope.display import Display, stages_display
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.questions import FORMULATIONS, questions
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import progress_of, runs_display
from hopscope.training.trainer import Progress

TINY = ["--layers", "1", "--steps", "1", "--batch-size", "2", "--validation-size", "2", "--device", "cpu"]


def commands(name: str, command: click.Command | None) -> Iterator[tuple[str, click.Command]]:
    assert command is not None
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            yield from commands(f"{name} {part}", inner)
    else:
        yield name, command


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json_examples_and_a_help_text_for_each_option(verb: str) -> None:
    for name, command in commands(verb, program.get_command(click.Context(program), verb)):
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        assert "--json" in [spelling for option in options for spelling in (*option.opts, *option.secondary_opts)], name
        assert "Examples:" in (command.help or ""), name
        assert [
            option.name for option in options if not option.help and not isinstance(option.type, click.Choice)
        ] == []


def test_every_field_of_recipe_and_problem_is_an_option_of_train() -> None:
    there = {parameter.name for parameter in train.params}
    assert {field.name for record in (Recipe, RetrievalProblem) for field in fields(record)} - there == {"initial"}


def trained(folder: Path, *options: str) -> RunFolder:
    result = CliRunner().invoke(train, [str(folder), *TINY, *options])
    assert result.exit_code == 0, result.output
    return RunFolder(folder)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--asked 1,3", {"asked": (1, 3)}),
        ("--no-mlp --no-causal --clip none --symbols unit", {"mlp": False, "causal": False, "clip": None}),
        (
            "--examples none --no-decay-all --score-scale d_model",
            {"examples": None, "decay_all": False, "score_scale": "d_model"},
        ),
    ],
)
def test_options_become_fields_of_the_run(tmp_path: Path, options: str, expected: dict[str, Any]) -> None:
    run = trained(tmp_path / "run", *options.split())
    made = vars(run.problem) | vars(run.recipe)
    assert {name: made[name] for name in expected} == expected


def test_only_the_hops_asked_for_are_printed(tmp_path: Path) -> None:
    result = CliRunner().invoke(train, [str(tmp_path / "run"), *TINY, "--asked", "1,3"])
    assert "x1 " in result.stdout
    assert "x2 " not in result.stdout


@pytest.mark.parametrize(
    ("options", "seeds"),
    [("--recipe a", (0,)), ("--recipe b", (1,)), ("--recipe c", (2,)), ("--recipe b --seeds 4-5", (4, 5))],
)
def test_recipes_bring_their_seeds(tmp_path: Path, options: str, seeds: tuple[int, ...]) -> None:
    assert trained(tmp_path / "run", *options.split()).seeds == seeds


def test_a_run_that_continues_says_which_options_it_does_not_take(tmp_path: Path) -> None:
    trained(tmp_path / "run", "--precision", "fp32")
    again = CliRunner().invoke(train, [str(tmp_path / "run"), *TINY, "--precision", "bf16"])
    assert "continues with precision fp32; another folder starts afresh" in again.stderr


@pytest.mark.parametrize("name", FORMULATIONS)
def test_a_sample_is_lines_of_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    hops = str(FORMULATIONS[name].paper_hops)
    assert call("sample", name, "--hops", hops, "--count", "7", "--seed", "9") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["id"] for r in records] == [q.id for q in questions(name, count=7, seed=9)]
    for record in records:
        assert record["formulation"] == name
        assert record["hops"] == int(hops)
        assert record["guess"] == 1 / len(record["acceptable"])
        assert solve(record["prompt"]) == record["answer"]


def test_places_of_a_sample_are_those_of_its_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("sample", "equations", "--count", "3", "--roles", "--names", "random", "--json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["extensions"] for record in records] == [{"names": "random"}] * 3
    first = records[0]["mentions"][0]
    assert records[0]["prompt"][first["start"] : first["end"]] == records[0]["prompt"].split(" ")[0]


RECIPE = Recipe(1, 1, 8, 1, 4, final_steps=1, validation_size=4, mlp=False)
SETUPS = [Setup(name, RetrievalProblem(hops=1), RECIPE) for name in ("a", "b", "c")]
HALF, ENDED = Progress(5, 10, ((0.5,),)), Progress(10, 10, ((0.1,),))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.05)


def test_a_log_has_regular_lines_even_without_updates(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with Display("run", "steps") as shown:
        shown(0, 3000)
        time.sleep(0.01)
        shown(1000, 3000, "x1 0.400")
        time.sleep(0.2)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) >= 2
    assert all(re.fullmatch(r"run: 1000 of 3000 steps, \S+ steps/s, \S+ s left; x1 0\.400", line) for line in lines)


def test_a_log_of_many_runs_names_those_under_way(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with runs_display(SETUPS) as show:
        show({"a": HALF, "b": HALF, "c": HALF})
        show({"a": ENDED, "b": HALF, "c": HALF})
        time.sleep(0.08)
    err = capsys.readouterr().err
    assert "training: 67%" in err
    assert "1 of 3 runs finished" in err
    assert "; b at step 5 of 10: x1 0.500\n" in err


def test_a_log_of_a_search_names_its_stage(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with stages_display() as show:
        show("growing-1", 1, 3)
        time.sleep(0.08)
        show("card", 3, 3)
        time.sleep(0.08)
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("circuit: 1 of 3 stages; growing-1", "circuit: card")


def test_python_shows_progress_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, often: None, tmp_path: Path
) -> None:
    """Here in a notebook: one output, which is rewritten."""
    said: list[dict[str, str]] = []
    output = SimpleNamespace(update=lambda data, raw: said.append(data))
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=lambda *a, **k: output))
    run = hs.train(SETUPS[0], tmp_path / "shown")
    assert '<progress value="100.0" max="100"></progress> training: 100%' in said[-1]["text/html"]
    quick = hs.CertificateConfig(sequences=8, few=8, draws=1)
    run[0].check(["L1.H1 x0? -> >x1"], proof=quick)
    assert said[-1]["text/plain"].startswith("circuit: own patterns")
    said.clear()
    hs.train(SETUPS[0], tmp_path / "silent", progress=False)
    run[0].check(["L1.H1 x0? -> >x1"], proof=quick, progress=False)
    assert not said


def test_a_terminal_gets_bars(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(display, "for_people", lambda: True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "result.json").touch()  # a finished run whose metrics are missing is no trouble for bars
    with runs_display(SETUPS) as show:
        show(progress_of(SETUPS, tmp_path))
        show({"a": ENDED, "b": ENDED, "c": HALF})
    with Display("circuits", "jobs") as count:
        count(1, 4)
    with runs_display(SETUPS[:1]) as show:
        show({"a": Progress(5, 10, ((0.1,),))})
    err = capsys.readouterr().err
    for part in ("2 of 3 runs", "1 of 4 jobs", "x1 0.100"):
        assert part in err
