"""What calibration plants is what its label says, and rows moved about cost those alone who choose by place."""

from __future__ import annotations

import pytest
import torch

import hopscope as hs
from studies.calibration.kinds import KINDS, Host, Planted, label, plant
from studies.tools.position_based import measure_position_test


@pytest.fixture(scope="module")
def host() -> Host:
    return Host.build(2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_answers_as_the_model_did_and_is_false_or_true(kind: str, host: Host) -> None:
    planted = plant(kind, host, torch.Generator().manual_seed(5))
    assert planted is not None
    assert (planted.model or host.model).loss < 1e-3
    assert label(kind, host, planted, 0.05) == ("true" if kind == "true" else "false")


def test_a_circuit_that_does_as_well_is_not_false(host: Host) -> None:
    assert label("missing", host, Planted(host.circuit, "nothing"), 0.05) == "equivalent"


def test_a_model_that_looks_for_what_rows_hold_loses_nothing_by_their_places() -> None:
    """The control takes all that a layer attends to from sequences of other chains, and loses what it looks up."""
    made = hs.theory.build_witness(2)
    found = measure_position_test("witness", made.transformer, made.problem, (1, 2), 64)
    assert max(found.losses) < 1e-3
    assert len(found.moved) == 2 * made.transformer.shape.layers
    assert not found.is_position_based(1)
    assert not found.is_position_based(2)
    assert max(one.by_pattern[1] for one in found.moved) < 1e-3
