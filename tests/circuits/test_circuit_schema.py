"""The published JSON schema of `circuit.json`: it is that of today, takes all stored circuits and no changed one."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "circuit.schema.json"
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_schema_is_current_and_takes_all_stored_circuits() -> None:
    today = runpy.run_path(str(FILE.parent / "circuit_schema.py"))["circuit_schema"]()
    assert json.loads(json.dumps(today)) == SCHEMA, "run `make schema`"
    read = (json.loads(file.read_text()) for file in (ROOT / "results").rglob("*.json"))
    stored = [record for record in read if isinstance(record, dict) and record.get("kind") == "hopscope circuit"]
    assert len(stored) > 100
    for record in stored:
        VALIDATOR.validate(record)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: it["paths"][0].update(layer=0), "0 is less than the minimum"),
        (lambda it: it["paths"][0]["feeds"][0].update(into="V"), "'V' is not one of"),
        (lambda it: it["interventions"][0].update(form="off"), "'off' is not one of"),
        (lambda it: it.update(losss=0.1), "'losss' was unexpected"),
        (lambda it: it["card"]["curve"].pop("points"), "is not valid under any"),
    ],
)
def test_a_changed_record_is_not_valid(change: Callable[[Any], Any], why: str) -> None:
    record = json.loads((ROOT / "results" / "explorers" / "a" / "circuit.json").read_text())
    change(record)
    assert any(why in error.message for error in VALIDATOR.iter_errors(record))
