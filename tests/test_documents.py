"""Every example that a reader can copy: commands of README, docs and help, blocks of Python, examples in docstrings.

Every command is parsed as the program would; those that are quick, or quick at a few steps, are run. Blocks of Python
are run as they stand, in a folder that holds the runs they speak of, with a recipe of a few steps.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from known_run import circuit_json, known_run, witness_shape

import hopscope as hs
from hopscope.cli import VERBS, main, program
from hopscope.training.recipe import Recipe

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of the page's fenced blocks."""
    yield from re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Where each `hopscope ...` line stands, and the line without remarks and pipes."""
    lines = [(page.name, line) for page in PAGES for _, text in blocks(page) for line in text.splitlines()]
    rows = re.findall(r"^\|.*", PAGES[0].read_text(), flags=re.MULTILINE)  # of the README's tables
    lines += [(PAGES[0].name, code) for row in rows for code in re.findall(r"`(.*?)`", row)]
    for verb in VERBS:
        command = program.get_command(click.Context(program), verb)
        group = command.commands.values() if isinstance(command, click.Group) else [command]
        lines += [(f"{verb} --help", line) for inner in group for line in (inner.help or "").splitlines()]
    found = [(where, line.strip()) for where, line in lines if line.strip().startswith("hopscope ")]
    return [(where, re.split(r"\s{2,}|\s#|\s\|\s|\s>\s", line)[0]) for where, line in found]


COMMANDS = commands()


def parsed(line: str) -> click.Context:
    """The context of the innermost command, with its arguments parsed and nothing run."""
    context = program.make_context("hopscope", shlex.split(line)[1:])
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def test_examples_are_found():
    """Or all that follows would pass on nothing."""
    assert len(COMMANDS) > 60
    assert {where for where, _ in COMMANDS} >= {"README.md", "circuits.md", "theory.md", "circuit --help"}
    with pytest.raises(click.UsageError, match="No such option"):
        parsed("hopscope train runs/a --recpie a")


@pytest.mark.parametrize("line", sorted({line for _, line in COMMANDS if "VERB" not in line}))
def test_every_command_is_one_that_the_program_knows(line):
    parsed(line)


FEW_STEPS = "--steps 2 --batch-size 2 --validation-size 2 --final-steps 1 --device cpu --threads 1 --no-compiled"


def quick() -> list[str]:
    """Those to run: theory and samples as they are, training with few steps."""
    lines = {line for _, line in COMMANDS}
    as_they_are = {line for line in lines if line.split()[1] in ("theory", "sample")}
    trained = {f"{line} {FEW_STEPS}" for line in lines if line.split()[1] == "train"}
    return sorted(as_they_are | trained)


@pytest.mark.slow
@pytest.mark.parametrize("line", quick())
def test_quick_commands_run(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 16)
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line)[1:])
    assert stop.value.code == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A run of few steps, of two models."""
    recipe = hs.Recipe(layers=2, heads=1, d_model=8, steps=4, batch_size=4, log_every=2, final_steps=2)
    return hs.train(recipe, hs.RetrievalProblem(hops=1), tmp_path_factory.mktemp("tiny") / "run", seeds=[3, 5])


PYTHON = [(page.name, text) for page in PAGES for kind, text in blocks(page) if kind == "python"]


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for _, text in PYTHON], ids=[name for name, _ in PYTHON])
def test_every_block_of_python_runs(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hs.recipes, "LAPTOP", replace(hs.recipes.LAPTOP, steps=2, final_steps=1, batch_size=4))
    if '"runs/first"' in text and "hs.train" not in text:
        hs.train(hs.recipes.LAPTOP, hs.RetrievalProblem(hops=3), "runs/first", seeds=[0, 1])
    if '"runs/d"' in text:
        monkeypatch.setattr(Recipe, "architecture", witness_shape)
        circuit_json(known_run(tmp_path / "runs" / "d"), tmp_path / "runs" / "d" / "circuit.json")
    exec(compile(text, "example", "exec"), {})


@pytest.fixture(scope="module")
def desk(tmp_path_factory, reproduced):
    """The folder in which examples are run, one after the other; the tiny reproduction is there."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(reproduced[0], folder / "runs" / "tiny")
    return folder


def documented(name: str) -> Any:
    """What holds a public name's docstring: of `hs.benchmark`, a room that can be called, the function."""
    if name == "benchmark":
        from hopscope.benchmark.run import benchmark

        return benchmark
    return getattr(hs, name)


@pytest.mark.xdist_group("reproduce")  # one example makes what another reads
@pytest.mark.parametrize("name", hs.__all__)
def test_every_public_name_has_an_example_that_runs(name, tiny, desk, tmp_path, monkeypatch):
    monkeypatch.chdir(desk)
    holder = documented(name)
    around = vars(sys.modules[getattr(holder, "__module__", None) or holder.__name__])
    names = {**around, "hs": hs, "torch": torch, "run": tiny, "folder": tmp_path}
    found = doctest.DocTestFinder().find(holder, name, globs=names)
    assert sum(len(test.examples) for test in found) > 0, f"hs.{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for test in found:
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
