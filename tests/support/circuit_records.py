"""Records of circuits made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopscope.circuits.form import one_hot
from hopscope.circuits.programs import to_json
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import AttentionPath


def imposed(paths: Iterable[AttentionPath], problem: RetrievalProblem) -> tuple[dict[str, Any], ...]:
    """The program of a record that imposes these paths."""
    return tuple(to_json({path.row: one_hot(path.key) for path in paths}, problem))
