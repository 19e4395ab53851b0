"""Checks of single input values; each check raises an `InputError` that states the value and the rule it breaks."""

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
"""The largest count: other JSON readers may round larger whole numbers."""

MOST_SEED = 2**63 - 1
"""The largest seed that is allowed."""


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
    """Check that a value is a Python `int` from `least` to `most`; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r:.200}")
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
        raise InputError(f"{name} must be a number, got {value!r:.200}")
    if not least <= value < below:
        raise InputError(f"{name} must be a number of at least {least:g} and below {below:g}, got {value!r:.200}")


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Check that a value is one of the words that are allowed."""
    allowed = list(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {value!r:.200}")


def check_type(name: str, value: Any, kind: Any, example: str) -> None:
    """Raise an `InputError` that asks for `example`, e.g. `true or false`, if a value is not of type `kind`."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {example}, got {value!r:.200}")


def check_items(name: str, value: Any, of: str) -> tuple[Any, ...]:
    """Return the items of a list, tuple or range as a tuple; strings, and sets, which have no order, are refused."""
    if not isinstance(value, list | tuple | range):
        raise InputError(f"{name} must be a list or tuple of {of}, got {value!r:.200}")
    return tuple(map(plain_value, value))


def check_fields(values: DataclassInstance) -> None:
    """Convert the NumPy scalars in the fields of a frozen dataclass to Python values, as records require, then check
    its flags, literals and annotated numbers."""
    for field in fields(values):
        object.__setattr__(values, field.name, plain_value(getattr(values, field.name)))
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
    """Return a NumPy scalar as a Python value, and any other value unchanged."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def finite_or_none(value: float) -> float | None:
    """Return a number for JSON: None instead of the NaN or infinity of a diverged model."""
    return value if math.isfinite(value) else None


def check_path(what: str, value: Any) -> Path:
    """Return a string or path object as a `Path`; an empty path, or one with a null character, is refused."""
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{what} is given by its path, as text or a pathlib.Path, got {value!r:.200}")
    path = os.fspath(value)
    if not path or "\0" in path:
        raise InputError(f"{what} needs a path that is not empty and has no null character in it, got {path!r}")
    return Path(path)


def check_folder(value: Any, what: str = "a folder") -> Path:
    """Return the path of a folder that exists or can be made; a file, or a path below a file, is refused."""
    path = check_path(what, value)
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file; give a folder")
    return path


def check_outside_runs(path: Path) -> None:
    """Check that a path is neither a run folder nor inside a run folder."""
    path = path.resolve()
    for folder in (path, *path.parents):
        if (folder / "run.json").exists():
            raise InputError(f"{folder} is a run folder, which holds only files of its run; choose a place outside it")
