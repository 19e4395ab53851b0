"""Every verb: its function takes its options, and machines can read what it prints."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from hopscope.cli import VERBS


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            yield from commands(f"{name} {part}", inner)
    else:
        yield name, command


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_its_options_and_has_json_and_examples(verb: str) -> None:
    for name, command in commands(verb, import_module(f"hopscope.cli.{verb}").command):
        assert command.callback is not None
        takes = inspect.signature(command.callback).parameters.values()
        wanted = {parameter.name for parameter in takes if parameter.kind is not parameter.VAR_KEYWORD}
        given = {parameter.name for parameter in command.params}
        assert wanted <= given, name
        assert given == wanted or any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes), name
        assert "as_json" in given, name
        assert "Examples:" in (command.help or ""), name
