"""Commands bent: an option set to an odd value, or an argument replaced by one."""

from __future__ import annotations

import random

import click

ODD = (
    "", " ", "-1", "0", "1", "2", "3.5", "1e400", "-1e400", "nan", "inf", "1" + "0" * 400, "9" * 5000, "-" + "9" * 5000,
    "9999999999999999999", "9223372036854775808", "0x10", "1_000", "\u0661", "None", "none", "true", "null", "[]", "{}",
    "a" * 100_000, "\u202eevil", "\x1b[31mred", "\udcff", "../..", "/dev/zero", "/dev/full", "/dev/null",
    "fifo", "file", "folder", "folder/x/y", "n" * 300, "1-999999999", "999999999-1", "1,1,1", "0-0", "1;2", "--help",
    "-", "%s%n", "/proc/self/mem", "1.1=previous", "9.9=uniform", "cpu", "meta", "cuda:99", "1000000", "1000000000",
    "1000000000000", "a=b", "a=", "=", "1,2", "equations", "functions", "laptop", "2,1", "1e-300", "0.5",
)  # fmt: skip


def bent(arguments: list[str], rng: random.Random) -> list[str]:
    """Arguments with an option of the verb set to an odd value, or an argument replaced by one."""
    options = [parameter for parameter in _parameters(arguments) if isinstance(parameter, click.Option)]
    places = [place for place, argument in enumerate(arguments) if place and not argument.startswith("-")]
    if places and (not options or rng.random() < 0.25):
        place = rng.choice(places)
        return [*arguments[:place], rng.choice(ODD), *arguments[place + 1 :]]
    if not options:
        return arguments
    option = rng.choice(options)
    name = rng.choice([*option.opts, *option.secondary_opts])
    if name == "--compile":  # nothing odd, and minutes of work, of a compiler that hears nothing
        return arguments
    if option.is_flag:
        return [*arguments, name]
    return [*arguments, name, rng.choice(ODD)]


def _parameters(arguments: list[str]) -> list[click.Parameter]:
    from hopscope.cli import program

    found: click.Command = program
    context = click.Context(program)
    for argument in arguments:
        if not isinstance(found, click.Group):
            break
        inner = found.get_command(context, argument)
        if inner is None:
            inner = found.get_command(context, "find")
            found = inner if inner is not None else found
            break
        found = inner
    if isinstance(found, click.Group) and (inner := found.get_command(context, "find")) is not None:
        found = inner
    return found.params
