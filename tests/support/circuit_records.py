"""Records of circuits made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopscope.circuits.form import Form, Intervention, one_hot
from hopscope.circuits.programs import to_json
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import AttentionPath, Row


def imposed(paths: Iterable[AttentionPath], problem: RetrievalProblem) -> tuple[dict[str, Any], ...]:
    """The program of a record that imposes these paths."""
    keys: dict[Row, tuple[int, ...]] = {}
    for path in paths:
        keys[path.row] = tuple(dict.fromkeys((*keys.get(path.row, ()), path.key)))
    return tuple(to_json({row: looking_at(*some) for row, some in keys.items()}, problem))


def form_in(paths: Iterable[AttentionPath], path: AttentionPath) -> str:
    """The form that `imposed` gives the row of one of these paths."""
    return looking_at(*{other.key for other in paths if other.row == path.row}).kind.value


def looking_at(*keys: int) -> Form:
    """The form of a row that looks at these roles, at all alike."""
    return one_hot(*keys) if len(keys) == 1 else Form(Intervention.MIXTURE, keys, (1 / len(keys),) * len(keys))
