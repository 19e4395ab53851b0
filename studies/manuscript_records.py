"""The stored results that the manuscript reads, under `results/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from studies.catalogue import STUDIES
from studies.tools import records

Record = dict[str, Any]


def read(root: Path, name: str) -> Any:
    """Return the record `name` under `results/`."""
    return json.loads((root / "results" / name).read_text())


def study(root: Path, name: str) -> Any:
    """Return the result of a study, as the type that the study declares."""
    return records.read(root / "results" / "studies" / name / f"{name}.json", STUDIES[name][0].result)
