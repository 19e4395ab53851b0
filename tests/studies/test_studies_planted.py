"""Calibration plants what its labels say, and moved rows cost position-based models alone."""

from __future__ import annotations

import pytest
import torch
from false_studies import refused

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


def test_a_circuit_is_refused_by_the_first_check_that_it_fails() -> None:
    """With imposed patterns a circuit may do without its first path, and yet does not pass without it."""
    host = Host.build(1, 3)
    assert refused(host.model, host.circuit, 0.05, 0) == {"own": (), "imposed": ()}
    assert refused(host.model, host.circuit[1:], 0.05, 0) == {"own": ("sufficiency",), "imposed": ("necessity",)}


def test_a_circuit_that_does_as_well_is_not_false(host: Host) -> None:
    assert label("missing", host, Planted(host.circuit, "nothing"), 0.05) == "equivalent"


def test_a_content_based_model_loses_nothing_where_rows_are_moved() -> None:
    made = hs.theory.build_witness(2)
    found = measure_position_test("witness", made.transformer, made.problem, (1, 2), 64)
    assert max(found.losses) < 1e-3
    assert len(found.moved) == 2 * made.transformer.shape.layers
    assert not found.is_position_based(1)
    assert not found.is_position_based(2)
    assert max(moved.by_pattern[1] for moved in found.moved) < 1e-3
