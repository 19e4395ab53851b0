"""Read and write the small JSON files of a study, which hold its result and its verdicts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import hopscope as hs

R = TypeVar("R")


def write(path: Path, value: Any) -> None:
    """Write a value of dataclasses, lists and numbers as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".draft-{os.getpid()}")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    draft.replace(path)


def read(path: Path, kind: type[R]) -> R:
    """Read a value of the type `kind`.

    Raises:
        InputError: the file is not a record of this type.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise hs.InputError(f"{path} is not a record of this study ({error}); restore or remove it") from None


def markdown_table(headings: Any, rows: Any) -> str:
    """Return a Markdown table."""
    lines = [list(map(str, headings))]
    lines += [["---"] * len(lines[0]), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. `2 hops`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
