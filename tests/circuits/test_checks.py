"""The six checks decide on measured losses: each on hand-written ones, on both sides of its rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopscope.circuits.checks import no_circuit
from hopscope.circuits.checks.completeness import Rises, completeness
from hopscope.circuits.checks.delivery import delivery
from hopscope.circuits.checks.evidence import Lost
from hopscope.circuits.checks.necessity import necessity
from hopscope.circuits.checks.outside import outside
from hopscope.circuits.checks.right_keys import ImposedRow, right_keys
from hopscope.circuits.checks.sufficiency import ALIKE_ROWS, BLIND, sufficiency
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.statistics import Measured
from hopscope.theory.path_flow import deliver

LIMIT = 0.05


def loss(mean: float, half: float = 0.005) -> Measured:
    return Measured(mean, (mean - half, mean + half))


GOOD = {
    "max_loss": LIMIT,
    "model": loss(0.01),
    "circuit": loss(0.03),
    "controls": {BLIND: loss(0.031), ALIKE_ROWS: loss(0.032)},
}


@pytest.mark.parametrize(
    ("change", "passed", "says"),
    [
        ({}, True, "the circuit alone has a loss of 0.030, the model 0.010"),
        ({"circuit": loss(0.046)}, False, "0.046"),  # its interval reaches beyond the threshold
        ({"model": loss(0.06)}, False, "the model 0.060"),
        ({"controls": {ALIKE_ROWS: loss(0.2)}}, False, "but for named keys, it has 0.200"),
        ({"spread": 2}, False, "2 rows are neither ablated nor one-hot at a key"),
    ],
)
def test_sufficiency(change: dict[str, object], passed: bool, says: str) -> None:
    check = sufficiency(**(GOOD | change))  # type: ignore[arg-type]
    assert (check.name, check.passed) == ("sufficiency", passed)
    assert says in check.says


def without(mean: float, rise: float = 0.5) -> Lost:
    return Lost(loss(mean), loss(rise), 0.01)


@pytest.mark.parametrize(
    ("parts", "pair", "not_needed"),
    [
        ({"a": without(0.3), "b": without(0.2)}, ("a and b", loss(0.4)), ""),
        ({"a": without(0.3), "b": without(0.052)}, None, "1 of 2 parts not surely needed: b"),  # in its interval
        ({"a": without(0.3), "b": without(0.2, rise=0.012)}, None, "1 of 2 parts not surely needed: b"),  # hardly rises
        ({"a": without(0.3), "b": without(0.2)}, ("a and b", loss(0.02)), "a pair of rows not surely needed: a and b"),
    ],
)
def test_necessity(parts: dict[str, Lost], pair: tuple[str, Measured] | None, not_needed: str) -> None:
    check = necessity(LIMIT, parts, pair)
    assert check.passed is (not not_needed)
    assert check.numbers["not_needed"] == (1 if not_needed else 0)
    if not_needed:
        assert check.says.startswith(not_needed)
    assert check.numbers["least"] == min(part.loss.mean for part in parts.values())


def test_an_empty_circuit_is_not_needed() -> None:
    assert not necessity(LIMIT, {}).passed


@pytest.mark.parametrize(
    ("rows", "keys", "passed", "whole"),
    [
        ({"a": Rises(0.4, 0.5), "b": Rises(0.2, 0.5)}, {"a -> k": Rises(0.4, 0.5)}, True, 0.6),
        ({"a": Rises(0.4, 0.5), "b": Rises(0.05, 0.5, enough=False)}, {}, False, 0.45),
        ({"a": Rises(0.4, 0.5)}, {"a -> k": Rises(0.0, 0.5, enough=False)}, False, 0.8),  # another key of its row
        ({"a": Rises(0.2, 0.5), "b": Rises(0.2, 0.5)}, {}, False, 0.4),  # half in all, though each a quarter
        ({"a": Rises(0.4, 0.5), "b": Rises(0.0, 0.005, enough=False)}, {}, True, 0.4 / 0.505),  # b does no damage
        ({"a": Rises(0.3, 0.001)}, {}, False, 0.0),  # the circuit does not feel it
    ],
)
def test_completeness(rows: dict[str, Rises], keys: dict[str, Rises], passed: bool, whole: float) -> None:
    check = completeness(LIMIT, rows, keys)
    assert check.passed is passed
    assert check.numbers["whole"] == pytest.approx(whole)
    names = [name for name, rise in (*rows.items(), *keys.items()) if not rise.enough and rise.circuit > 0.01]
    assert all(name in check.says for name in names)


@pytest.mark.parametrize(
    ("half", "keys", "passed"), [(0.03, None, True), (0.049, None, False), (0.03, 0.04, True), (0.03, 0.3, False)]
)
def test_outside(half: float, keys: float | None, passed: bool) -> None:
    check = outside(LIMIT, loss(half), 32, None if keys is None else ("L1.H1 x0? -> >x1", loss(keys)))
    assert check.passed is passed
    assert check.interval == loss(keys or half).interval


ROW = ImposedRow("layer 1 head 1 x0?", 0.98, others=4, as_good=1)


@pytest.mark.parametrize(
    ("rows", "passed"),
    [
        ((ROW,), True),
        ((replace(ROW, faithfulness=0.8),), False),
        ((replace(ROW, better=("x1>",)),), False),
        ((replace(ROW, as_good=3),), False),
        ((replace(ROW, as_good=2), ROW), True),
        ((), False),
    ],
)
def test_right_keys(rows: tuple[ImposedRow, ...], passed: bool) -> None:
    assert right_keys(rows).passed is passed


def test_delivery() -> None:
    roles = RetrievalProblem(hops=1).roles
    tie, retrieve = (AttentionPath.parse(path, roles) for path in ("L1.H1 >x1 -> x0>", "L2.H1 x0? -> >x1"))
    check = delivery(deliver(1, [tie, retrieve]), "x1", 2, 2)
    assert check.passed
    assert check.says == "the paths carry x1 to the query under Assumptions 1 and 2, in 2 layers; 2 would do"
    broken = delivery(deliver(1, [retrieve]), "x1", 1, 2, idle=1)
    assert broken.outcome == "failed"
    assert broken.says.endswith("; 1 paths change nothing")
    assert delivery(None).outcome == "not asked"


def test_a_model_without_a_circuit_fails_sufficiency_and_says_why() -> None:
    assert "does not solve the problem" in no_circuit(0.3, LIMIT)["sufficiency"].says
    assert "so close to the threshold" in no_circuit(0.0499, LIMIT)["sufficiency"].says
    given_up = no_circuit(0.01, LIMIT, rows_left=70)["sufficiency"]
    assert given_up.says.startswith("70 rows of attention are left")
    assert given_up.numbers["rows_left"] == 70
