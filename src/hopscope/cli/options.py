"""Options for the fields of dataclasses, and the types of options that are lists of numbers or paths."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec
from click.core import ParameterSource

from hopscope.checks import MOST_SEED, check_folder, check_path
from hopscope.errors import InputError

_MOST_NUMBERS = 100_000
"""The largest length of a list of numbers, so that a typing error cannot fill the memory."""


def field_options(
    record: type, name: str, *only: str, skip: tuple[str, ...] = (), defaults: bool = False
) -> Callable[[Any], Any]:
    """Add an option for each field of a dataclass; the command gets a dict of the given values as argument `name`.

    Help texts come from the `Args:` section of the dataclass's docstring. The dataclass checks the ranges of values.
    Fields get an option if they are in `only` (all if it is empty) and not in `skip`; `defaults` shows their defaults.
    """
    hints, texts = get_type_hints(record), _argument_texts(record)
    wanted = [field for field in dataclasses.fields(record) if field.name in (only or hints) and field.name not in skip]

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in wanted}
            return function(**values, **{name: {field: own[field] for field in own if given(field)}})

        made: Any = command
        for field in reversed(wanted):
            option, text = field.name.replace("_", "-"), texts.get(field.name, "")
            if defaults and field.default not in (None, dataclasses.MISSING):
                text += f"  [default: {field.default}]"
            how: dict[str, Any] = {"default": None, "help": text}
            if bool in _members(hints[field.name]):
                made = click.option(f"--{option}/--no-{option}", field.name, **how)(made)
            else:
                value = FieldValue(hints[field.name])
                made = click.option(f"--{option}", field.name, type=value, metavar=value.name, **how)(made)
        return made

    return decorate


def given(name: str) -> bool:
    """Whether the option of this parameter was given on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_given(why: str, *names: str) -> None:
    """Raise an `InputError` that begins with `why` if an option in `names`, which would do nothing, was given."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and given(parameter.name):
            off = parameter.secondary_opts if context.params[parameter.name] is False else []
            raise InputError(f"{why}; leave {(off or parameter.opts)[0]} out")


class FieldValue(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic in click 8.5 alone
    """A value of a field's type: a number, a word, `none` for None, or a list that is split at commas."""

    def __init__(self, hint: Any) -> None:
        members = _members(hint)
        words = [word for member in members if get_origin(member) is Literal for word in get_args(member)]
        plain = [kind.__name__.upper() for kind in (int, float, str) if kind in members]
        self.is_list = any(get_origin(member) is tuple for member in members)
        self.hint, self.may_be_none = hint, type(None) in members
        self.name = "|".join([*words, *(["LIST"] if self.is_list else plain), *["none"] * self.may_be_none])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value that a text states."""
        if value == "none" and self.may_be_none:
            return None
        try:
            return msgspec.convert(value.split(",") if self.is_list else value, self.hint, strict=False)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return self.fail(f"{value!r} is not of the kind {self.name}")


def _members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: for `int | None`, int and NoneType."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _argument_texts(record: type) -> dict[str, str]:
    """What a docstring's `Args:` section says about each argument, as help text."""
    section = (inspect.getdoc(record) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, flags=re.MULTILINE)
    texts = {name: re.sub(r"`?\bNone\b`?", "none", " ".join(text.split()).rstrip(".")) for name, text in entries}
    return {name: text[:1].upper() + text[1:] for name, text in texts.items()}


class NumberList(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic in click 8.5 alone
    """Different whole numbers from `least`, such as `1-8` or `1,2,4-6`; if `empty`, `none` stands for no numbers."""

    name = "list"

    def __init__(self, least: int = 1, *, empty: bool = False) -> None:
        self.least, self.empty = least, empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers, in their order."""
        if not isinstance(value, str) or (value == "none" and self.empty):
            return () if value == "none" else tuple(value)
        found: dict[int, None] = {}
        for part in value.split(","):
            match = re.fullmatch(r"\s*([0-9]{1,19})(?:\s*-\s*([0-9]{1,19}))?\s*", part)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (-1, -1)
            most = min(MOST_SEED, first + _MOST_NUMBERS - len(found) - 1)
            if not self.least <= first <= last <= most or any(number in found for number in range(first, last + 1)):
                what = str(param.name).replace("_", " ") if param else "numbers"
                rule = f"{what} must be up to {_MOST_NUMBERS:,} different whole numbers of at least {self.least}"
                raise InputError(f"{rule}, as in 5, 1-64 or 1,2,4; got {value!r}")
            found |= dict.fromkeys(range(first, last + 1))
        return tuple(found)


class GivenPath(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic in click 8.5 alone
    """A path that is not empty, as an empty one would mean the current folder; with `folder`, files are refused too."""

    name = "path"

    def __init__(self, *, folder: bool = False) -> None:
        self.folder = folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path that was given."""
        path = check_path(param.human_readable_name.rstrip(".") if param else "a path", value)
        return check_folder(path) if self.folder else path


PATH, FOLDER = GivenPath(), GivenPath(folder=True)
SEED, COUNT, STEP = click.IntRange(0, MOST_SEED), click.IntRange(min=1), click.IntRange(min=0)


def json_option(what: str) -> Callable[[Any], Any]:
    """Add the option `--json`, which prints the record that a verb returns, described by `what`, instead of its text.

    The verb returns the record, the text and, if it is not 0, the exit status.
    """

    def decorate(function: Any) -> Any:
        @click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")
        @functools.wraps(function)
        def command(as_json: bool, **values: Any) -> int:
            record, text, *status = function(**values)
            click.echo(json.dumps(record) if as_json else text)
            return sum(status)

        return command

    return decorate


def all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options that several verbs share, in this order."""
    return lambda function: functools.reduce(lambda made, option: option(made), reversed(options), function)
