"""Claims C6 to C11, judged by made-up models."""

from __future__ import annotations

from typing import Any

from report_data import BACKWARD, DOUBLING, SERIAL, circuits, strict, studied

from hopscope.paper.claims import Finding
from hopscope.paper.models import Studied
from hopscope.paper.section_8 import judge

ALL = ("C7", "C8", "C9", "C10", "C11")


def judged(*models: Studied, scale: str = "paper") -> dict[str, Finding]:
    return {finding.id: finding for finding in judge(circuits(*models, scale=scale))}


def abc(**changes: Any) -> list[Studied]:
    """Three models as the paper describes them, all with the same changes."""
    return [
        studied(strict(paths, **changes), name) for name, paths in zip("abc", (SERIAL, DOUBLING, BACKWARD), strict=True)
    ]
