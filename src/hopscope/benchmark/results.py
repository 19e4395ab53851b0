"""The results folder: plain JSON, one record a question, appended as it comes and never rewritten.

benchmark.json      the settings, and what each model is
records/MODEL.jsonl one record a question; a later record of a question replaces an earlier one
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopscope import __version__
from hopscope.benchmark.names import file_name, redacted
from hopscope.benchmark.settings import Settings
from hopscope.errors import InputError
from hopscope.files import read_json, read_json_lines, write_json

SCHEMA = 1
WHAT = "a benchmark's results"


class Results:
    """The results of one benchmark, on disk.

    Raises:
        InputError: the folder holds results made with other settings.
    """

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder = folder
        self._header = folder / "benchmark.json"
        if settings is not None and not self._header.exists():
            header = {"schema": SCHEMA, "hopscope": __version__, "settings": settings.record(), "models": {}}
            write_json(self._header, header)
        self.header = read_json(self._header, WHAT)
        if not isinstance(self.header, dict) or self.header.get("schema") != SCHEMA:
            raise InputError(f"{self._header} is not {WHAT} of schema {SCHEMA}; it was left untouched")
        if settings is not None:
            self._check(settings)

    def _check(self, settings: Settings) -> None:
        there, wanted = self.header["settings"], settings.record()
        for name, value in wanted.items():
            if there.get(name) != value:
                raise InputError(
                    f"{self.folder} holds results with {name} {there.get(name)!r}, got {value!r}; "
                    "write to another folder or keep the setting"
                )

    def know(self, model: str, identity: dict[str, Any]) -> None:
        """Note what a model is; refuse another model of the same name.

        Raises:
            InputError: the name stood for something else before.
        """
        known = self.header["models"].setdefault(model, identity)
        if known != identity:
            raise InputError(
                f"in {self.folder} the name {redacted(model)} stands for another model; write to another folder"
            )
        write_json(self._header, self.header)

    @property
    def models(self) -> list[str]:
        """The models asked so far, in the order they came."""
        return list(self.header["models"])

    def path(self, model: str) -> Path:
        """Where a model's records are."""
        return self.folder / "records" / f"{file_name(model)}.jsonl"

    def records(self, model: str) -> dict[str, dict[str, Any]]:
        """The newest record of every question, by id."""
        path = self.path(model)
        return {row["id"]: row for row in read_json_lines(path, WHAT)} if path.exists() else {}

    def settled(self, model: str) -> set[str]:
        """The ids that need not be asked again: a question given up on is asked again."""
        return {key for key, record in self.records(model).items() if record.get("error") is None}

    def append(self, record: dict[str, Any]) -> None:
        """Add a record in one write, without the environment's secrets."""
        line = redacted(json.dumps(record, allow_nan=False)) + "\n"
        with self.path(record["model"]).open("ab", buffering=0) as file:
            file.write(line.encode())

    def mend(self, model: str) -> None:
        """Drop the half line that a killed writer left at the end, so that the next line is whole."""
        path = self.path(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                with path.open("r+b") as file:
                    file.truncate(whole)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder for one writer.

        Raises:
            InputError: another program writes there.
        """
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another program writes to {self.folder}; wait for it or choose another folder"
                ) from None
            yield
