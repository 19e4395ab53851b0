"""What the verbs' options are made of: fields of dataclasses, lists of numbers, paths, seeds."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from hopscope.checks import MOST_SEED, check_path
from hopscope.errors import InputError

SEED = click.IntRange(0, MOST_SEED)
"""The type of an option that is a seed."""

_MOST_NUMBERS = 100_000
"""The most numbers in one list; a longer one, by a slip of the finger, would fill the memory."""


def field_options(record: type, *, skip: tuple[str, ...] = (), show_defaults: bool = False) -> Callable[[Any], Any]:
    """Options for the fields of a dataclass, with their entries in its docstring as help; `given` collects them."""
    hints, texts = get_type_hints(record), _argument_texts(record)

    def decorate(function: Any) -> Any:
        for field in reversed(dataclasses.fields(record)):
            if field.name in skip:
                continue
            name, text = field.name.replace("_", "-"), texts.get(field.name, "")
            if show_defaults and field.default not in (None, dataclasses.MISSING):
                text += f"  [default: {field.default}]"
            if bool in _members(hints[field.name]):
                option = click.option(f"--{name}/--no-{name}", field.name, default=None, help=text)
            else:
                read, metavar = value_reader(hints[field.name])
                option = click.option(f"--{name}", field.name, type=read, metavar=metavar, default=None, help=text)
            function = option(function)
        return function

    return decorate


def given(record: type) -> dict[str, Any]:
    """The fields of `record` that were given as options of the running command."""
    context = click.get_current_context()
    names = [field.name for field in dataclasses.fields(record)]
    return {name: context.params[name] for name in names if name in context.params and any_given(name)}


def any_given(*names: str) -> bool:
    """Whether one of the options with these parameters was given on the command line."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in names)


def refuse_given(why: str, *names: str) -> None:
    """Refuse options that would do nothing, those of the parameters `names`; the sentence begins with `why`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and any_given(parameter.name):
            off = parameter.secondary_opts if context.params[parameter.name] is False else []
            raise InputError(f"{why}; leave {(off or parameter.opts)[0]} out")


def value_reader(hint: Any) -> tuple[Callable[[str], Any], str]:
    """The function that reads an option of this type, and what the help shows for its value.

    It takes a number, a word, `none` where the type has None, or a list, split at commas, of numbers or of what a class
    can `parse`. Whether a value is in range is for the dataclass to check.
    """
    members = _members(hint)
    words = [word for member in members if get_origin(member) is Literal for word in get_args(member)]
    items = [get_args(member)[0] for member in members if get_origin(member) is tuple]
    plain = next((kind for kind in (int, float, str) if kind in members), None)
    may_be_none = type(None) in members

    def read(text: str) -> Any:
        if text == "none" and may_be_none:
            return None
        try:
            if items:
                return tuple(map(getattr(items[0], "parse", items[0]), text.split(",")))
            return text if plain is None else plain(text)
        except InputError as error:
            raise click.BadParameter(str(error)) from None
        except ValueError:
            rule = "a list of numbers, as in 1,3" if items else "a whole number, as in 3200"
            raise click.BadParameter(f"{text!r} is not {'a number' if plain is float else rule}") from None

    shown = ["LIST"] if items else [plain.__name__.upper()] if plain else []
    return read, "|".join([*words, *shown, *(["none"] if may_be_none else [])])


def numbers(text: str, what: str, least: int = 1, *, different: bool = False) -> list[int]:
    """The whole numbers of at least `least` that `5`, `1-8` or `1,2,4-6` lists, in that order and each once.

    With `different` a number that is listed twice is refused; `what` is listed, for the sentence of a refusal.
    """
    rule = f"{what} must be whole numbers of at least {least}, a range or a list, as in 5, 1-64 or 1,2,4"
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+)(?:\s*-\s*([0-9]+))?\s*", part)
        if match is None:
            raise InputError(f"{rule}; got {text!r}")
        if max(map(len, match.groups(""))) > len(str(MOST_SEED)) or int(match[2] or match[1]) > MOST_SEED:
            raise InputError(f"{what} must be at most {MOST_SEED}, got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if first < least:
            raise InputError(f"{rule}; got {text!r}")
        if last < first:
            raise InputError(f"a range of {what} goes upwards, as in {last}-{first}; got {text!r}")
        if last - first >= _MOST_NUMBERS - len(found):
            raise InputError(f"at most {_MOST_NUMBERS} {what} at once, got {text!r}; ask for fewer")
        if different and (again := found.keys() & {*range(first, last + 1)}):
            raise InputError(f"{what} must be different, got {min(again)} twice in {text!r}; name it once")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


class GivenPath(click.Path):
    """A path that is not empty, which would mean the current folder, and no file where a folder is meant."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path; one that is empty, as from a variable that was not set, is refused."""
        named = "a path" if param is None else param.human_readable_name.rstrip(".")
        check_path(param.opts[0] if isinstance(param, click.Option) else named, value)
        if not self.file_okay and os.path.isfile(value):
            raise InputError(f"{os.fspath(value)} is a file; give a folder")
        return super().convert(value, param, ctx)


PATH, FILE = GivenPath(path_type=Path), GivenPath(dir_okay=False, path_type=Path)
FOLDER = GivenPath(file_okay=False, path_type=Path)
COUNT, STEP = click.IntRange(min=1), click.IntRange(min=0)


def choice(*words: str, default: str | None, help: str | None = None) -> dict[str, Any]:
    """What makes an option one of some words; its default is shown where it is a word."""
    return {"type": click.Choice(words), "default": default, "show_default": default is not None, "help": help}


def json_option(what: str) -> Callable[[Any], Any]:
    """The option `--json`, as `as_json`: print `what` as JSON."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


def all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options that several verbs share, in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def recipe_option(function: Any) -> Any:
    """The option `--recipe` as `name`."""
    from hopscope.paper import recipes

    how = choice(*recipes.BY_NAME, default="laptop", help="The recipe to start from.")
    return click.option("--recipe", "name", **how)(function)


_PRECISION = "Precision of matrix products and stream; auto for bf16 where the processor has a unit for it."
engine_options = all_of(
    click.option("--device", help="cpu, cuda, ... [default: a GPU if there is one]"),
    click.option("--precision", **choice("auto", "fp32", "bf16", default="auto", help=_PRECISION)),
    click.option("--compile/--no-compile", "compiled", default=None, help="[default: long runs of wide heads]"),
)
"""The options `device`, `precision` and `compiled`."""


def say_precision(device: str | None, precision: str) -> None:
    """Say on standard error in which precision matrix products are computed, and settle the process for it."""
    from hopscope.kernels import best_precision, bf16_unit
    from hopscope.processes import tune_process
    from hopscope.training.execution import Execution, default_device

    tune_process()
    device = device or default_device()
    Execution(device).check()
    precision, why = best_precision(device) if precision == "auto" else precision, ""
    if precision == "bf16":
        unit = bf16_unit(device)
        lacks = ", for which this device has no unit; --precision fp32 is faster"
        why = lacks if unit is None else f" ({unit}); --precision fp32 is the reference"
    click.echo(f"matrix products on {device} in {precision}{why}", err=True)


def _members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: for `int | None`, int and NoneType."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _argument_texts(record: type) -> dict[str, str]:
    """What a docstring's `Args:` section says about each argument, as help text."""
    section = (inspect.getdoc(record) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, flags=re.MULTILINE)
    texts = {name: " ".join(text.split()).rstrip(".") for name, text in entries}
    typed = {name: re.sub(r"`?\bNone\b`?", "none", text) for name, text in texts.items()}  # as it is typed here
    return {name: text[:1].upper() + text[1:] for name, text in typed.items()}
