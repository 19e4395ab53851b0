"""Options of every verb: they fill the dataclasses, they are read as these say, and machines can read the output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from command_line import call
from text_reader import solve

from hopscope.cli import VERBS, program
from hopscope.cli.training_verbs import train
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.questions import FORMULATIONS, questions
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder

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
