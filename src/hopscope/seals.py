"""Seals: a checksum of a file's content and of the run that it belongs to, so that damaged and foreign files are
refused.

A record has its seal as a field, a row as its last field, a table in every row, a file of tensors in its metadata.
Files from before there were seals have none: they are read as they are, and a line in the log says so, once per folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from hopscope.errors import UNTOUCHED, InputError

_ROW_SEAL = b', "seal": "'
_CHECKSUM = 16
"""Number of hexadecimal digits of a row's checksum, 64 bits."""

_LIKE_A_SEAL = re.compile(rb', ".{4}": "[0-9a-f]{16}"\}$', re.DOTALL)


def checksum(*parts: bytes | memoryview) -> str:
    """The start of the SHA-256 of the parts, each with its length before it."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()[:32]


def seal(fields: dict[str, Any], run: str) -> dict[str, str]:
    """The seal of a record's fields, which are JSON values: its run, and a checksum of run and fields.

    Spaces, line breaks and the order of fields do not count as content.
    """
    read_back = msgspec.json.decode(json.dumps(fields, allow_nan=False))
    return {"run": run, "checksum": checksum(run.encode(), _canonical(read_back))}


def unseal(path: Path, fields: dict[str, Any], run: str | None) -> bool:
    """Check that a record's fields are those that were sealed; returns False if it has no seal to check.

    Args:
        path: path of the record.
        fields: its fields, as read.
        run: the run that the record must belong to; `None` for any.

    Raises:
        InputError: the content is not what was written, or belongs to another run.
    """
    if "seal" not in fields:
        if any(isinstance(value, dict) and "checksum" in value for value in fields.values()):
            raise InputError(f"{path} is damaged: the name of its checksum is; {UNTOUCHED}")
        return False
    rest = {name: value for name, value in fields.items() if name != "seal"}
    there = fields["seal"]
    if not isinstance(there, dict) or there != {
        "run": there.get("run"),
        "checksum": checksum(str(there.get("run")).encode(), _canonical(rest)),
    }:
        raise InputError(f"{path} is damaged: its content does not fit its checksum; {UNTOUCHED}")
    check_run(path, there["run"], run)
    return True


def check_run(path: Path, found: str, run: str | None) -> None:
    """Check that a file belongs to `run`, unless that is None.

    Raises:
        InputError: the file belongs to another run.
    """
    if run is not None and found != run:
        raise InputError(f"{path} belongs to another run; it was left untouched, move it away")


def sealed_table(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a table that must remain a list, each with the checksum of all rows as its last field."""
    whole = _table_checksum(rows)
    return [{**row, "checksum": whole} for row in rows]


def unsealed_table(path: Path, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the checksum, which is checked.

    Raises:
        InputError: the rows are not what was written.
    """
    bare = [{name: value for name, value in row.items() if name != "checksum"} for row in rows]
    if not any("checksum" in row for row in rows):
        say_unsealed(path)
    elif any(row.get("checksum") != _table_checksum(bare) for row in rows):
        raise InputError(f"{path} is damaged: its content does not fit its checksum; {UNTOUCHED}")
    return bare


def sealed_row(row: dict[str, Any], run: str) -> str:
    """A row as a line of JSON, with its seal as the last field."""
    text = json.dumps(row, allow_nan=False)[:-1]
    return f'{text}, "seal": "{_row_checksum(text.encode(), run)}"}}\n'


def unsealed_row(line: bytes, run: str) -> bytes | None:
    """A row's line without its seal, which is checked; None if it has none.

    Raises:
        ValueError: the line is not what was written for that run.
    """
    text, marked, rest = line.rpartition(_ROW_SEAL)
    if not marked:
        if _LIKE_A_SEAL.search(line):
            raise ValueError("the name of its checksum is damaged")
        return None
    if rest != f'{_row_checksum(text, run)}"}}'.encode():
        raise ValueError("its content does not fit its checksum")
    return text + b"}"


def ends_whole(tail: bytes) -> bool:
    """Whether a last line without a line break is more than a whole row: damage, which no killed writer leaves."""
    return re.search(rb'"seal": "[0-9a-f]{%d}"\}.' % _CHECKSUM, tail, re.DOTALL) is not None


def say_unsealed(path: Path) -> None:
    """Log, once per folder, that a file there was written before there were checksums."""
    _say_unsealed(path.parent)


@cache
def _say_unsealed(folder: Path) -> None:
    logging.getLogger("hopscope").warning(
        f"{folder} was written before files had checksums; it is read as it is, and damage may go unnoticed"
    )


def _table_checksum(rows: Sequence[dict[str, Any]]) -> str:
    return seal({"rows": list(rows)}, "")["checksum"]


def _row_checksum(text: bytes, run: str) -> str:
    return checksum(run.encode(), text)[:_CHECKSUM]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
