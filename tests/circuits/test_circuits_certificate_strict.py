"""The strict sense of the certificate: what a strict circuit claims is asked of it, and no more."""

from __future__ import annotations

import pytest
import torch
from planted_models import LAST_OF_TWO, attention, cancelling_heads, columns, copy_head, evidence_of, louder, witness

from hopscope.circuits.checks import PARTS, Evidence
from hopscope.circuits.evaluate.ablations import IDENTITY, POSITIONAL, UNIFORM, ZERO, one_hot
from hopscope.problem.paths import HeadRow
from hopscope.theory.witness import Witness


@pytest.mark.slow
def test_rows_at_their_mean_are_no_part_of_a_strict_circuit() -> None:
    made = witness(2)
    first = made.circuit[0].row
    idle = HeadRow(0, 1, 4)
    natural, strict = (evidence_of(made, {idle: POSITIONAL}, sense=sense) for sense in ("natural", "strict"))
    assert natural.background == strict.background == [idle]
    assert PARTS["sufficiency"](natural).passed
    part = PARTS["sufficiency"](strict)
    assert not part.passed
    assert part.says.endswith("it stands on 1 rows at their mean beside its paths")
    assert strict.exempt == {path.row for path in made.circuit if path.layer == 0}
    assert first in strict.exempt
    assert natural.exempt == frozenset()


def half_tied(made: Witness) -> Evidence:
    """The look-up by which keys are found is shared by two heads, one of which is claimed, in the strict sense."""
    copy_head(made.transformer, 0, 0, 1, 0.8)
    louder(made.transformer, 0, 0, 0.2)
    return evidence_of(made, sense="strict")


@pytest.mark.slow
def test_a_model_that_does_not_do_it_has_no_circuit_that_explains_it() -> None:
    """Its last look-up is lost: imposed, where it should look would do. A search does not begin there; a certificate
    that is asked for by itself says so too."""
    made = witness(2)
    at, head = attention(made.transformer, LAST_OF_TWO.layer), columns(made.transformer, LAST_OF_TWO.head)
    with torch.no_grad():
        at.query.weight[..., head] = 0.0
    evidence = evidence_of(made, sense="strict")
    full, imposed, _, _ = evidence.alone.mean(dim=(1, 2)).tolist()
    assert imposed < evidence.bar < full
    part = PARTS["sufficiency"](evidence)
    assert not part.passed
    assert f"the model has {full:.3f}" in part.says
    assert part.numbers["least_bar"] > full


@pytest.mark.slow
def test_a_wrong_key_of_an_exempt_row_is_seen() -> None:
    """Imposed patterns make it idle, so that no loss of the imposed circuit could tell."""
    made = witness(2)
    tie = min(path for path in made.circuit if path.layer == 0)
    for key in (other for other in range(tie.query) if other != tie.key):
        evidence = evidence_of(made, {tie.row: one_hot(key)}, sense="strict")
        assert tie.row in evidence.exempt
        assert float(evidence.alone[1].mean()) < evidence.bar
        assert not PARTS["random_keys"](evidence).passed


@pytest.mark.slow
def test_heads_that_cancel_outside_are_seen_in_the_strict_sense_too() -> None:
    made = witness(2, 6)
    cancelling_heads(made)
    assert not PARTS["outside"](evidence_of(made, sense="strict")).passed


@pytest.mark.slow
def test_the_only_row_of_a_head_is_switched_off_as_the_idle_head_that_costs_least() -> None:
    """Planted: a head whose other rows are nothing (`zero`). As a whole it may be uniform or at itself too."""
    made = witness(2)
    rows = [HeadRow(LAST_OF_TWO.layer, LAST_OF_TWO.head, query) for query in range(LAST_OF_TWO.query)]
    evidence = evidence_of(made, dict.fromkeys(rows, ZERO), sense="strict")
    assert evidence._ways_off(LAST_OF_TWO.row) == [ZERO, UNIFORM, IDENTITY]
    losses = evidence.few.mse([{**evidence.program, LAST_OF_TWO.row: off} for off in (ZERO, UNIFORM, IDENTITY)])
    measured = float(evidence.lost[LAST_OF_TWO.row].without.mean())
    assert measured == pytest.approx(min(losses), rel=0.1)
    assert max(losses) > 1.2 * min(losses)
