"""Commands with odd options, and damaged files: cut, emptied, flipped, nested, replaced, or with another value."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

ODD = (
    "", " ", "-1", "0", "1", "2", "3.5", "1e400", "-1e400", "nan", "inf", "1" + "0" * 400, "9" * 5000, "-" + "9" * 5000,
    "9999999999999999999", "9223372036854775808", "0x10", "1_000", "\u0661", "None", "none", "true", "null", "[]", "{}",
    "a" * 100_000, "\u202eevil", "\x1b[31mred", "\udcff", "../..", "/dev/zero", "/dev/full", "/dev/null",
    "fifo", "file", "folder", "folder/x/y", "n" * 300, "1-999999999", "999999999-1", "1,1,1", "0-0", "1;2", "--help",
    "-", "%s%n", "/proc/self/mem", "1.1=previous", "9.9=uniform", "cpu", "meta", "cuda:99", "1000000", "1000000000",
    "1000000000000", "a=b", "a=", "=", "1,2", "equations", "functions", "laptop", "2,1", "1e-300", "0.5",
)  # fmt: skip
ODD_VALUES = [None, True, -1, 0, 10**30, 0.9, 1e300, "", "x", "\u202e", "9" * 5000, [], {}, [[]], [0.9], {"a": 1}]


def with_odd_value(arguments: list[str], rng: random.Random) -> list[str]:
    """Arguments with an option of the verb set to an odd value, or an argument replaced by one."""
    options = [parameter for parameter in _command(arguments).params if isinstance(parameter, click.Option)]
    places = [place for place, argument in enumerate(arguments) if place and not argument.startswith("-")]
    if places and (not options or rng.random() < 0.25):
        place = rng.choice(places)
        return [*arguments[:place], rng.choice(ODD), *arguments[place + 1 :]]
    if not options:
        return arguments
    option = rng.choice(options)
    name = rng.choice([*option.opts, *option.secondary_opts])
    if name == "--compiled":  # minutes of work of a compiler that cannot be stopped
        return arguments
    return [*arguments, name] if option.is_flag else [*arguments, name, rng.choice(ODD)]


def _command(arguments: list[str]) -> click.Command:
    """The command that a command line calls: `circuit RUN` is `circuit find RUN`."""
    from hopscope.cli import program

    found: click.Command = program
    context = click.Context(program)
    for argument in [*arguments, "find"]:
        if isinstance(found, click.Group):
            found = found.get_command(context, argument) or found.get_command(context, "find") or found
    return found


def damage(path: Path, rng: random.Random) -> str:
    """Damage a file in one of many ways; returns which."""
    data = path.read_bytes()

    def instead(make: Callable[[], object]) -> Callable[[], object]:
        return lambda: (path.unlink(), make())

    ways: dict[str, Callable[[], object]] = {
        "truncation": lambda: path.write_bytes(data[: rng.randrange(len(data) + 1)]),
        "emptying": lambda: path.write_bytes(b""),
        "a flipped bit": lambda: flip(path, rng.randrange(8 * len(data))) if data else None,
        "noise": lambda: path.write_bytes(rng.randbytes(200)),
        "deep nesting": lambda: path.write_bytes(b"[" * 200_000 + b"]" * 200_000),
        "removal": path.unlink,
        "a folder": instead(path.mkdir),
        "a pipe": instead(lambda: os.mkfifo(path)),
        "/dev/zero": instead(lambda: path.symlink_to("/dev/zero")),
        "other fields": lambda: _other_fields(path, rng, sealed=False),
        "other fields, sealed": lambda: _other_fields(path, rng, sealed=True),
    }
    name = rng.choice([*ways, "other fields", "other fields, sealed", "other fields, sealed"])
    ways[name]()
    return name


def _other_fields(path: Path, rng: random.Random, sealed: bool) -> None:
    """A value somewhere inside replaced; with a seal that fits, as whoever wrote it on purpose would have it."""
    from hopscope.records import seal

    text = path.read_bytes().split(b"\n")[0] if path.suffix == ".jsonl" else path.read_bytes()
    try:
        record = json.loads(text)
    except ValueError:
        return
    if not isinstance(record, dict):
        return
    holder: Any = record
    while True:
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.3:
            break
        holder = holder[key]
    holder[key] = rng.choice(ODD_VALUES)
    if sealed and isinstance(record.get("seal"), dict):
        run = str(record.pop("seal").get("run"))
        record["seal"] = seal(record, run)
    path.write_text(json.dumps(record) + "\n")


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def flips(folder: Path, count: int, seed: str) -> Iterator[tuple[Path, bytes]]:
    """Flip single bits of a folder's records, one at a time: yields the file, and what it held before."""
    rng = random.Random(f"flips {seed}")
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".json", ".jsonl", ".safetensors"})
    for _ in range(count):
        path = rng.choice(files)
        before = path.read_bytes()
        flip(path, rng.randrange(8 * len(before)))
        yield path, before
        path.write_bytes(before)
