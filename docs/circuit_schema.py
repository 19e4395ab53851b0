"""Writes `docs/circuit.schema.json`, the JSON schema of `circuit.json`, from the dataclasses that it holds.

`make schema` runs it. On disk a circuit differs from `hopscope.circuits.circuit.Circuit`: a path is its layer, head,
query and key, from 1 and by name; a row is text; interventions are a list; a few more fields come first.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from hopscope.circuits.circuit import FORM, Circuit
from hopscope.circuits.evaluate.ablations import AblationKind
from hopscope.problem.prompts import PromptRoles
from hopscope.problem.retrieval import Problem, RetrievalProblem
from hopscope.records import SCHEMA

FILE = Path(__file__).with_name("circuit.schema.json")

TEXT: dict[str, Any] = {"type": "string"}
PLACE: dict[str, Any] = {"type": "integer", "minimum": 1}
ROW = {"layer": PLACE, "head": PLACE, "query": TEXT}
PATH = ROW | {"key": TEXT}
NO_PATH = {name: value | {"type": [value["type"], "null"]} for name, value in PATH.items()}


def circuit_schema() -> dict[str, Any]:
    """The schema, in JSON Schema 2020-12."""
    problems = [RetrievalProblem, PromptRoles]
    hooks: dict[type, dict[str, Any]] = {
        Problem: {"anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in problems]}
    }
    _, parts = msgspec.json.schema_components([Circuit, *problems], schema_hook=hooks.__getitem__)
    for kind in _dataclasses(Circuit, *problems):
        if kind.__name__ in parts:
            _describe(parts[kind.__name__], kind)
    parts["AttentionPath"] = _object(PATH, "A path: layer and head from 1, query and key role by name.")
    parts["HeadRow"] = TEXT | {"description": "A row of attention, as `L3.H1 x0?`."}
    for name, place, where in (("CircuitPath", "path", PATH), ("Feed", "reader", NO_PATH)):
        parts[name]["properties"] = where | parts[name]["properties"]
        del parts[name]["properties"][place]
        parts[name]["required"] = [*PATH, *(field for field in parts[name]["required"] if field != place)]
    parts["AblationKind"]["description"] = inspect.cleandoc(AblationKind.__doc__ or "").split("\n")[0]  # no example
    circuit, _ = parts.pop("Circuit"), parts.pop("Ablation")
    form = {"form": {"enum": sorted(kind.value for kind in AblationKind)}}
    row = ROW | form | {"keys": _list(TEXT), "weights": _list({"type": "number"})}
    said = circuit["properties"]["interventions"]["description"]
    circuit["properties"]["interventions"] = _list(_object(row, "What replaces a row.")) | {"description": said}
    first = {
        "kind": {"const": FORM.kind}, "schema": {"const": SCHEMA},
        "seal": _object({"run": TEXT, "checksum": TEXT}, "The run that the file belongs to, and a checksum of both."),
        "hops": {"type": "integer", "minimum": 0}, "found": {"type": "boolean"}, "certified": {"type": "boolean"},
    }  # fmt: skip
    circuit["properties"] = first | circuit["properties"]
    circuit["required"] = [*first, *circuit["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORM.kind, **circuit, "$defs": parts}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(properties: dict[str, Any], description: str) -> dict[str, Any]:
    every = {"properties": properties, "required": [*properties], "additionalProperties": False}
    return {"description": description, "type": "object", **every}


def _describe(part: dict[str, Any], kind: type) -> None:
    """Take the descriptions of a part and its fields from a docstring; a field that is not named is refused."""
    words = inspect.cleandoc(kind.__doc__ or "")
    said = dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", words, re.MULTILINE))
    part.pop("title")
    part |= {"description": " ".join(words.partition("\n\n")[0].split()), "additionalProperties": False}
    for name, value in part["properties"].items():
        part["properties"][name] = value | ({"description": " ".join(said[name].split())} if name in said else {})


def _dataclasses(*kinds: Any) -> set[type]:
    """Dataclasses, and those in their fields."""
    found: set[type] = set()
    left = [*kinds]
    while left:
        kind = left.pop()
        left += getattr(kind, "__args__", ())
        if isinstance(kind, type) and is_dataclass(kind) and kind not in found:
            found.add(kind)
            left += get_type_hints(kind).values()
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(circuit_schema(), indent=1) + "\n")
