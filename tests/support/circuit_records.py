"""Records of circuits made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopscope.circuits.checks import Check
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath, SearchRecord
from hopscope.circuits.evaluate.ablations import Ablation, AblationKind, one_hot
from hopscope.circuits.evaluate.bootstrap import Measured
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import text_role_names

SERIAL = ((3, 1, ">x1", "x0>"), (3, 1, ">x2", "x1>"), (3, 1, ">x3", "x2>"))
SERIAL += ((6, 1, "x0?", ">x1"), (7, 1, "x0?", ">x2"), (9, 1, "x0?", ">x3"))
DOUBLING = ((1, 1, ">x1", "x0>"), (1, 2, ">x2", "x1>"), (1, 1, ">x3", "x2>"))
DOUBLING += ((2, 1, ">x2", ">x3"), (2, 1, "x0?", ">x1"), (3, 2, "x0?", ">x2"))


def imposed(paths: Iterable[AttentionPath], problem: RetrievalProblem) -> dict[HeadRow, Ablation]:
    """The program of a record that imposes these paths."""
    keys: dict[HeadRow, tuple[int, ...]] = {}
    for path in paths:
        keys[path.row] = tuple(dict.fromkeys((*keys.get(path.row, ()), path.key)))
    return {row: looking_at(*some) for row, some in keys.items()}


def form_in(paths: Iterable[AttentionPath], path: AttentionPath) -> str:
    """The form that `imposed` gives the row of one of these paths."""
    return looking_at(*{other.key for other in paths if other.row == path.row}).kind.value


def looking_at(*keys: int) -> Ablation:
    """The form of a row that looks at these roles, at all alike."""
    return one_hot(*keys) if len(keys) == 1 else Ablation(AblationKind.MIXTURE, keys, (1 / len(keys),) * len(keys))


def made(*paths: tuple[int, int, str, str], hops: int = 3, layers: int = 12, heads: int = 2) -> Circuit:
    """A circuit of these paths, with numbers that do not matter."""
    numbers: dict[str, Any] = {
        "weight": 0.9,
        "without_imposed": Measured(0.3, (0.2, 0.4)),
        "without": Measured(0.4, (0.3, 0.5)),
    }
    problem, there = RetrievalProblem(hops=hops), [AttentionPath.named(*path, text_role_names(hops)) for path in paths]
    return Circuit(
        model="m",
        seed=0,
        number=0,
        problem=problem,
        layers=layers,
        heads=heads,
        max_loss=0.05,
        losses={"full": 0.01, "imposed": 0.03, "own": 0.02},
        paths=tuple(CircuitPath(path, form_in(there, path), **numbers) for path in there),
        interventions=imposed(there, problem),
        others=(),
        search=SearchRecord(),
        checks={"sufficiency": Check("sufficiency", "passed", "", {"circuit": 0.02}, (0.01, 0.03))},
    )
