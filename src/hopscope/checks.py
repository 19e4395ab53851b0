"""Checks of single values, made where they come in; each raises an `InputError` with the value and its rule."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from hopscope.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST = 2**53
"""The largest count: JSON readers elsewhere keep whole numbers up to here."""

MOST_SEED = 2**63 - 1
"""The largest seed that a generator takes."""


@dataclass(frozen=True)
class Range:
    """The range of a number, as an annotation of a dataclass's field for `check_fields`."""

    least: float
    below: float = math.inf


Count = Annotated[int, Range(1)]
Whole = Annotated[int, Range(0)]
Seed = Annotated[int, Range(0, MOST_SEED + 1)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]


def check_count(name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """Check that a value is a whole number, one of Python's own, from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if value > most:
        raise InputError(f"{name} must be at most {most}, got {value if value < 10**30 else 'far more'}")


def check_seed(value: Any, name: str = "a seed") -> None:
    """Check that a value is a whole number from 0 to 2^63 - 1."""
    check_count(name, value, least=0, most=MOST_SEED)


def check_number(name: str, value: Any, least: float, below: float = math.inf) -> None:
    """Check that a value is a finite number of at least `least` and below `below`."""
    if isinstance(value, int) and not isinstance(value, bool):
        check_count(name, value, least=-MOST)
    elif not isinstance(value, float):
        raise InputError(f"{name} must be a number, got {value!r}")
    if not least <= value < below:
        raise InputError(f"{name} must be a number of at least {least:g} and below {below:g}, got {value!r}")


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Check that a value is one of the words that are allowed."""
    allowed = list(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def check_type(name: str, value: Any, kind: Any, example: str) -> None:
    """Check the type of a value; the example begins with what it must be: `an hs.Execution, as hs.Execution(...)`."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {example}, got {value!r}")


def check_items(name: str, value: Any, of: str) -> tuple[Any, ...]:
    """The items of a list, tuple or range; sets, which have no order, and text are refused."""
    if not isinstance(value, list | tuple | range):
        raise InputError(f"{name} must be a list or tuple of {of}, got {value!r}")
    return tuple(map(plain_value, value))


def make_plain(values: DataclassInstance) -> None:
    """Make numpy's numbers and text in a frozen dataclass Python's own: records take no others."""
    for field in fields(values):
        object.__setattr__(values, field.name, plain_value(getattr(values, field.name)))


def check_fields(values: DataclassInstance) -> None:
    """Make the fields of a frozen dataclass plain; check flags, literals and annotated numbers against their types."""
    make_plain(values)
    for name, kinds in _kinds(type(values)).items():
        value = getattr(values, name)
        if value is None and NoneType in kinds:
            continue
        for kind in kinds:
            plain, *limits = get_args(kind) if get_origin(kind) is Annotated else (kind,)
            if plain is bool:
                check_type(name, value, bool, "true or false")
            elif get_origin(plain) is Literal:
                check_choice(name, value, get_args(plain))
            elif limits and plain is int:
                most = MOST if math.isinf(limits[0].below) else int(limits[0].below) - 1
                check_count(name, value, int(limits[0].least), most)
            elif limits:
                check_number(name, value, limits[0].least, limits[0].below)
                object.__setattr__(values, name, float(value))  # 1 and 1.0 are hashed differently


@cache
def _kinds(record: type) -> dict[str, tuple[Any, ...]]:
    """The types that each field of a dataclass may have."""
    hints = get_type_hints(record, include_extras=True).items()
    return {name: get_args(hint) if NoneType in get_args(hint) else (hint,) for name, hint in hints}


def plain_value(value: Any) -> Any:
    """A number or text of numpy as Python's own; any other value as it is."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def finite_or_none(value: float) -> float | None:
    """A number fit for JSON: None where a diverged model gives NaN or infinity."""
    return value if math.isfinite(value) else None


def check_path(what: str, value: Any) -> Path:
    """The path that a text or a `Path` states; it is not empty and has no null character."""
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{what} is given by its path, as text or a pathlib.Path, got {value!r}")
    path = os.fspath(value)
    if not path or "\0" in path:
        raise InputError(f"{what} needs a path that is not empty and has no null character in it, got {path!r}")
    return Path(path)


def check_folder(value: Any, what: str = "a folder") -> Path:
    """The path of a folder that is there or can be made: neither it nor one of its parents is a file."""
    path = check_path(what, value)
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file; give a folder")
    return path


def check_outside_runs(path: Path) -> None:
    """Check that a path is no run folder, nor inside one."""
    path = path.resolve()
    for folder in (path, *path.parents):
        if (folder / "run.json").exists():
            raise InputError(f"{folder} is a run folder, which holds only files of its run; choose a place outside it")
