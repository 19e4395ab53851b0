"""Records on disk: JSON files that state their kind, read into typed values or refused in one sentence.

A record is a frozen dataclass. On disk it is an object with the dataclass's fields after three of ours: `kind`, what it
is a record of; `schema`, the version of its form; and `seal`, its run and a checksum (`hopscope.seals`). Reading is
strict: no field may be missing, unknown or of another type. Values that the dataclass's `__post_init__` refuses are
refused here, with the file and the field, and so is a content that differs from what was written.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_bytes, read_json, write_json
from hopscope.seals import ends_whole, say_unsealed, seal, sealed_row, unseal, unsealed_row

T = TypeVar("T")

Upgrade = Callable[[dict[str, Any], int], dict[str, Any]]
"""A function that turns the fields of an older schema into today's: `upgrade(fields, schema)`. Schema 0 is a file that
does not state its kind. It refuses by an `InputError`."""


def _nothing(fields: dict[str, Any]) -> None:
    """The check of records whose type says it all."""


def unmarked(fields: dict[str, Any], schema: int) -> dict[str, Any]:
    """The `Upgrade` of records that did not state their kind before schema 1, and are otherwise unchanged."""
    return fields


@dataclass(frozen=True)
class RecordForm(Generic[T]):
    """The form of a kind of record: what its files state, and the type that they hold.

    Args:
        holds: the dataclass that a file holds.
        kind: the kind that a file states.
        what: what a file is, in words for people, with the command that makes one if there is one.
        schema: the version that is written, and the newest that is understood.
        upgrade: turns older versions into today's; without it they are refused.
        always_named: whether every version states its kind, so that a file which does not is of something else.
        bare: the field whose value alone the file held before it was a record: a list, or null.
        check: called with the fields as the file has them, once they are known to be of that type; it refuses by an
            `InputError`.
    """

    holds: type[T]
    kind: str
    what: str
    schema: int = 1
    upgrade: Upgrade | None = None
    always_named: bool = False
    bare: str | None = None
    check: Callable[[dict[str, Any]], None] = _nothing

    def read(self, path: Path, run: str | None = None) -> T:
        """Read a record.

        Args:
            path: path of the file.
            run: the run that the file must belong to, if it names one; `None` for any.

        Raises:
            InputError: the file is missing, damaged, of another kind or run, of a newer or too old schema, or has a
                field that is missing, unknown, or not what it should be. It is left untouched.
        """
        fields = read_json(path, self.what)
        if self.bare is not None and not isinstance(fields, dict):
            fields = {self.bare: fields}
        unnamed = self.kind if self.upgrade and not self.always_named else None
        if not isinstance(fields, dict) or fields.get("kind", unnamed) != self.kind:
            raise InputError(f"{path} is not {self.what}; it was left untouched")
        whole = dict(fields)
        # Older runs have `format` where all records have `schema` now.
        name = "format" if "format" in fields and "schema" not in fields else "schema"
        version = fields.pop(name, None) if fields.pop("kind", None) else 0
        if isinstance(version, bool) or not isinstance(version, int) or version > self.schema or version < 0:
            raise InputError(
                f"{path} has schema {version!r} and this hopscope reads {self.schema} at most; it was left untouched, "
                "update hopscope or make it anew"
            )
        sealed = unseal(path, whole, run)
        fields.pop("seal", None)
        if version < self.schema:
            if self.upgrade is None:
                raise InputError(
                    f"{path} has the old schema {version} and {self.schema} is read; move it away, make it anew"
                )
            fields = self.upgrade(fields, version)
        try:
            made = convert(fields, self.holds, self.what)
            self.check(fields)
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}; {UNTOUCHED}") from None
        if not sealed:  # not before it is known to be a record at all
            say_unsealed(path)
        return made

    def write(self, path: Path, value: T, run: str = "") -> None:
        """Write a record of a run, atomically.

        Raises:
            ValueError: a number is NaN or infinite, which JSON lacks; values that may diverge are `float | None`.
        """
        fields = plain(value)
        wrong = _not_finite(fields, "")
        if wrong:
            raise ValueError(f"{path} cannot hold {wrong}, a number that is not finite; write None for it")
        write_json(path, {**self.named, "seal": seal({**self.named, **fields}, run), **fields})

    @property
    def named(self) -> dict[str, Any]:
        """The first fields of every file, which name its form."""
        return {"kind": self.kind, "schema": self.schema}

    def check_replaces(self, path: Path, run: str = "") -> None:
        """Check that a new record would replace no file, or a record of its own kind, of the same run or of none.

        Raises:
            InputError: the file there is something else, or belongs to another run, or cannot be read.
        """
        if not path.exists():
            return
        there = read_json(path, self.what)
        if not isinstance(there, dict) or there.get("kind") != self.kind:
            raise InputError(
                f"{path} is not {self.what}, which would replace it; it was left untouched, choose another place"
            )
        seal = there.get("seal")
        if isinstance(seal, dict) and seal.get("run", "") not in ("", run):
            raise InputError(f"{path} belongs to another run; it was left untouched, choose another place")


def row_lines(rows: Iterable[Any], run: str) -> str:
    """Dataclasses as records of a run, one per line."""
    return "".join(sealed_row(plain(row), run) for row in rows)


def read_rows(path: Path, type: type[T], what: str, run: str) -> list[T]:
    """Read one record per line. A last line that a killed writer left unfinished is not counted.

    Raises:
        InputError: the file is missing, or a finished line is not such a record of that run.
    """
    decode = msgspec.json.Decoder(type).decode
    *lines, tail = read_bytes(path, what).split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = unsealed_row(line, run)
            rows.append(decode(line if row is None else row))
            if row is None:
                say_unsealed(path)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} of {path} is not {what} ({error}); {UNTOUCHED}") from None
    if ends_whole(tail):
        raise InputError(f"line {len(lines) + 1} of {path} is not {what} (its end is damaged); {UNTOUCHED}")
    return rows


def convert(value: Any, type: type[T], what: str) -> T:
    """A typed value from plain ones: objects, lists, numbers, words.

    Raises:
        InputError: a field is missing, unknown or not what it should be; the message begins with `what` or the field.
    """
    try:
        made = msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        rule, _, where = str(error).partition(" - at ")
        raise InputError(f"{_named(value, where.strip('`'), what)}: {rule.replace('`', '')}") from None
    except RecursionError:
        raise InputError(f"{what} is nested too deeply") from None
    unknown = _unknown(value, plain(made), "")
    if unknown:
        raise InputError(f"{what} has no field {unknown}")
    return made


def plain(value: Any) -> Any:
    """A typed value as objects, lists, numbers and words, fit for JSON except for numbers that are not finite."""
    # msgspec alone would leave out fields that were not in the file a dataclass was read from.
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif isinstance(value, list | tuple):
        value = [plain(one) for one in value]
    return msgspec.to_builtins(value)


def as_before(told: Any, added: Mapping[str, Any]) -> Any:
    """The fields that are hashed: without those that were added later and have the value that holds where they lack.

        >>> as_before({"steps": 5, "clip": None}, {"clip": None})
        {'steps': 5}

    Args:
        told: the fields, which may be nested or in lists.
        added: the added fields, with the values that hold where they are missing.
    """
    if isinstance(told, Mapping):
        return {
            name: as_before(value, added) for name, value in told.items() if name not in added or value != added[name]
        }
    return [as_before(one, added) for one in told] if isinstance(told, list | tuple) else told


def content_hash(value: Any) -> str:
    """A short hash of a JSON value: the start of the SHA-256 of its canonical text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named(value: Any, where: str, what: str) -> str:
    """The field at a path such as `$.a.b[0]`, and its value if that can be found."""
    if not where:
        return what
    for step in re.findall(r"\.(\w+)|\[(\d+)\]", where):
        try:
            value = value[step[0] or int(step[1])]
        except (KeyError, IndexError, TypeError):
            return where.removeprefix("$.")
    shown = repr(value)
    return f"{where.removeprefix('$.')} is {shown if len(shown) <= 60 else shown[:57] + '...'}"


def _unknown(given: Any, made: Any, where: str) -> str | None:
    """The first given field that the made value does not have."""
    if isinstance(given, dict) and isinstance(made, dict):
        for name, inner in given.items():
            here = f"{where}.{name}" if where else str(name)
            if name not in made:
                return here
            if found := _unknown(inner, made[name], here):
                return found
    elif isinstance(given, list | tuple) and isinstance(made, list | tuple):
        for place, (inner, other) in enumerate(zip(given, made, strict=False)):
            if found := _unknown(inner, other, f"{where}[{place}]"):
                return found
    return None


def _not_finite(value: Any, where: str) -> str | None:
    """The field and value of the first number that is not finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{where} = {value}"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (_not_finite(inner, f"{where}.{name}" if where else str(name)) for name, inner in items)
    return next((one for one in found if one), None)
