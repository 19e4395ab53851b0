"""What verbs share: options made from a dataclass, lists of numbers, and progress for people."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from hopscope.checks import MOST_SEED, check_path
from hopscope.errors import InputError

SEED = click.IntRange(0, MOST_SEED)
"""The type of an option that is a seed."""

_DIGITS = len(str(MOST_SEED))

_MOST = 100_000
"""The most numbers in one list; a longer one, by a slip of the finger, would fill the memory."""


def field_options(record: type, *, skip: tuple[str, ...] = (), show_defaults: bool = False) -> Callable[[Any], Any]:
    """Options for every field of a dataclass, each absent by default: `--learning-rate 3e-3`, `--no-mlp`.

    Each option's help is the field's entry in the dataclass's docstring, with the default where it will be the value.
    """
    hints = get_type_hints(record)
    texts = _argument_texts(record)

    def decorate(function: Any) -> Any:
        for field in reversed(dataclasses.fields(record)):
            if field.name in skip:
                continue
            name = field.name.replace("_", "-")
            kinds = _members(hints[field.name])
            text = texts.get(field.name, "")
            if show_defaults and field.default not in (None, dataclasses.MISSING):
                text += f"  [default: {field.default}]"
            if bool in kinds:
                option = click.option(f"--{name}/--no-{name}", field.name, default=None, help=text)
            else:
                option = click.option(f"--{name}", field.name, type=FieldType(kinds), default=None, help=text)
            function = option(function)
        return function

    return decorate


def given(values: dict[str, Any], record: type) -> dict[str, Any]:
    """The parsed options that belong to `record` and that the user gave; `none` becomes None where a field may be
    None."""
    hints = get_type_hints(record)
    kinds = {field.name: _members(hints[field.name]) for field in dataclasses.fields(record)}
    chosen = {name: value for name, value in values.items() if name in kinds and value is not None}
    return {
        name: None if value == "none" and types.NoneType in kinds[name] else value for name, value in chosen.items()
    }


def refuse_given(why: str, *names: str) -> None:
    """Check that options that would do nothing were not given.

    Args:
        why: the reason why they would do nothing.
        names: the names of their parameters.

    Raises:
        InputError: one of them was given.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            off = parameter.secondary_opts if context.params[parameter.name] is False else []
            raise InputError(f"{why}; leave {(off or parameter.opts)[0]} out")


def any_given(*names: str) -> bool:
    """Whether one of the options with these parameters was given on the command line."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in names)


def numbers(text: str, what: str, least: int = 1, *, different: bool = False) -> list[int]:
    """The whole numbers that `5`, `1-8` or `1,2,4-6` lists, in that order and each once.

    Args:
        text: the list.
        what: what is listed.
        least: the least that each may be.
        different: whether none may be listed twice.

    Raises:
        InputError: the text is something else, a range falls, a number is below `least`, too large or listed twice,
            or there are more than a list is meant for.
    """
    rule = f"{what} must be whole numbers of at least {least}, a range or a list, as in 5, 1-64 or 1,2,4"
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+)(?:\s*-\s*([0-9]+))?\s*", part)
        if match is None or int(match[1]) < least:
            raise InputError(f"{rule}; got {text!r}")
        if max(len(end or "") for end in match.groups()) > _DIGITS or int(match[2] or match[1]) > MOST_SEED:
            raise InputError(f"{what} must be at most {MOST_SEED}, got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"a range of {what} goes upwards, as in {last}-{first}; got {text!r}")
        if last - first >= _MOST - len(found):
            raise InputError(f"at most {_MOST} {what} at once, got {text!r}; ask for fewer")
        if different and (again := [one for one in range(first, last + 1) if one in found]):
            raise InputError(f"{what} must be different, got {again[0]} twice in {text!r}; name it once")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


def for_people() -> bool:
    """Whether progress on standard error reaches a person's terminal."""
    return sys.stderr.isatty()


class GivenPath(click.Path):
    """A path that is not empty, which would mean the current folder, and no file where a folder is meant."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Convert the path.

        Raises:
            InputError: the path is empty, as from a variable that was not set, or a file where a folder is meant.
        """
        named = "a path" if param is None else param.human_readable_name.rstrip(".")
        check_path(param.opts[0] if isinstance(param, click.Option) else named, value)
        if not self.file_okay and os.path.isfile(value):
            raise InputError(f"{os.fspath(value)} is a file; give a folder")
        return super().convert(value, param, ctx)


class FieldType(click.ParamType[Any]):
    """A number, a word, `none`, or a list of numbers or of what a class can `parse`, as the field's type allows."""

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self._kinds = kinds
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        parts = [get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple]
        self._parsers: list[Callable[[str], Any]] = [getattr(part, "parse", part) for part in parts]
        plain = next((kind.__name__.upper() for kind in kinds if kind in (int, float, str)), "")
        plain = "LIST" if self._parsers else plain
        self.name = "|".join([*words, *([plain] if plain else []), *(["none"] if type(None) in kinds else [])])

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What the help shows for a value."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a value; whether it is in range is for the dataclass to check."""
        if value == "none" and type(None) in self._kinds:
            return "none"
        if self._parsers and isinstance(value, str):
            try:
                return tuple(self._parsers[0](part) for part in value.split(","))
            except InputError:
                raise
            except ValueError:
                self.fail(f"{value!r} is not a list of numbers, as in 1,3")
        for kind in (int, float):
            if kind in self._kinds:
                try:
                    return kind(value)
                except ValueError:
                    continue
        if int in self._kinds or float in self._kinds:
            self.fail(f"{value!r} is not a {'number' if float in self._kinds else 'whole number, as in 3200'}")
        return value


def _members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: for `int | None`, int and NoneType."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _argument_texts(record: type) -> dict[str, str]:
    """What a docstring's `Args:` section says about each argument, as help text."""
    section = (inspect.getdoc(record) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, flags=re.MULTILINE)
    texts = {name: " ".join(text.split()).rstrip(".") for name, text in entries}
    told = {name: re.sub(r"`?\bNone\b`?", "none", text) for name, text in texts.items()}  # as it is typed here
    return {name: text[:1].upper() + text[1:] for name, text in told.items()}
