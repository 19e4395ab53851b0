"""What a certificate rests on: sequences where there is doubt, draws, bars; the same each time, and an end to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from planted_models import (
    LAST_OF_TWO,
    LITTLE,
    also,
    copy_head,
    evidence_of,
    louder,
    shared_answer,
    softer,
    witness,
)

from hopscope.circuits.checks import (
    PARTS,
    Certificate,
    CertificateConfig,
    Evidence,
    alone,
    certify,
    no_circuit,
)
from hopscope.circuits.evaluate.ablations import IDENTITY, KEEP, UNIFORM
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow


@pytest.mark.slow
def test_minimality_measures_no_more_than_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: six heads that do nothing, all claimed. Whichever of them go, the bar holds."""
    made, measured = witness(2, 6), []
    measure = Evidence.sure
    monkeypatch.setattr(Evidence, "sure", lambda *asked: measured.append(1) or measure(*asked))
    for head in range(1, 7):
        copy_head(made.transformer, LAST_OF_TWO.layer, 0, head, 0.0)
    part = PARTS["minimality"](evidence_of(made, also(*range(1, 7))))
    assert (part.passed, len(part.numbers["holding"]), len(measured)) == (False, 3, 3)
    assert alone._holds(evidence_of(made, also(*range(1, 7))))
    monkeypatch.setattr(alone, "_holds", lambda evidence: False)
    PARTS["minimality"](evidence_of(made, also(*range(1, 7))))
    assert len(measured) == 4  # of a circuit that does not hold the bar no more than the best
    monkeypatch.undo()
    assert not alone._holds(evidence_of(made, {made.circuit[-1].row: UNIFORM}))


@pytest.mark.slow
def test_the_bars_at_which_a_circuit_would_pass() -> None:
    """From the upper end of its loss to the lower end of the loss without any row; a bar beyond fails as said."""
    made = witness(2)
    softer(made.transformer, LAST_OF_TWO.layer, 0, 0.03)
    louder(made.transformer, LAST_OF_TWO.layer, 0, 1.5)
    parts = {name: PARTS[name](evidence_of(made, bar=0.2)) for name in ("sufficiency", "necessity")}
    least, most = parts["sufficiency"].numbers["least_bar"], parts["necessity"].numbers["most_bar"]
    assert 0.12 < least < 0.2 < most < 1
    for bar, passed in ((least * 1.01, True), (least * 0.99, False)):
        assert PARTS["sufficiency"](evidence_of(made, bar=bar)).passed == passed
    for bar, passed in ((most * 0.97, True), (most * 1.03, False)):
        assert PARTS["necessity"](evidence_of(made, bar=bar)).passed == passed


@pytest.mark.slow
def test_rows_are_switched_off_in_the_way_that_costs_least() -> None:
    """A row that identity serves as well as its path is not needed, however much uniform hurts."""
    made = witness(2)
    evidence = evidence_of(made, {HeadRow(LAST_OF_TWO.layer, 1, 4): IDENTITY})
    assert set(evidence.off.values()) <= {UNIFORM, IDENTITY}
    assert HeadRow(LAST_OF_TWO.layer, 1, 4) not in evidence.rows


def test_a_certificate_in_json_and_none() -> None:
    found = certify(evidence_of(witness(1)))
    values = found.to_json()
    assert values["sufficiency"]["passed"] is True
    assert values["sufficiency"]["seed"] == 1
    assert values["sufficiency"]["sense"] == "natural"
    lost = no_circuit(0.3, 0.05, 0)
    assert isinstance(lost, Certificate)
    assert not lost.passed
    assert "does not solve the problem" in lost.parts["sufficiency"].says


@pytest.mark.slow
@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_a_circuit_of_nothing_fails_and_one_of_everything(sense: str) -> None:
    """There is nothing to compare with inside the one and outside the other; both must come to an end."""
    made = witness(1)
    nothing = certify(evidence_of(made, paths=(), sense=sense))
    assert {"sufficiency", "necessity", "random_keys", "recovery", "untrained"} <= set(nothing.failed)
    assert nothing.parts["untrained"].says == "with untrained weights in no head the circuit is as good"
    assert nothing.parts["minimality"].says == "it has no part two rows smaller: of 0 rows 0 may go"
    assert nothing.parts["minimality"].numbers["least_mse"] is None, "nothing was tried"
    everything = certify(evidence_of(made, dict.fromkeys(evidence_of(made).evaluator.live_rows, KEEP), sense=sense))
    assert {"necessity", "untrained"} <= set(everything.failed)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rough": 1}, "rough of a certificate must be a whole number of at least 2, got 1"),
        ({"draws": 0}, "draws of a certificate must be a whole number of at least 1, got 0"),
        ({"halves": 1}, "halves of a certificate must be a whole number of at least 4, got 1"),
        ({"few": 4}, r"few must be at least rough \(8\), got 4"),
        ({"sequences": 32}, r"sequences must be at least few \(48\), got 32"),
    ],
)
def test_too_little_to_rest_on(options: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        CertificateConfig(**options)


@pytest.mark.slow
def test_the_same_evidence_gives_the_same_certificate() -> None:
    made = witness(2)
    before = torch.random.get_rng_state()
    assert certify(evidence_of(made)) == certify(evidence_of(made))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.slow
def test_what_is_in_doubt_is_decided_on_more_sequences() -> None:
    """A bar in the midst of a row's losses; and one far below, where a few sequences do."""
    made = shared_answer()
    row, proof = LAST_OF_TWO._replace(head=1).row, replace(LITTLE, deciding=1024)
    loss = float(evidence_of(made, also(1)).lost[row].without.mean())
    for bar, sequences in ((loss, 1024), (loss / 4, LITTLE.few)):
        lost = evidence_of(made, also(1), bar=bar, proof=proof).lost[row]
        assert len(lost.without) == len(lost.own) == len(lost.rise) == sequences


def in_the_midst(proof: CertificateConfig) -> tuple[Evidence, HeadRow, HeadRow]:
    """A bar in the midst of the losses without one row, and evidence with a second row that is spare for sure."""
    made, doubtful = shared_answer(spare_heads=2), LAST_OF_TWO._replace(head=1).row
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 2, 0.0)
    bar = float(evidence_of(made, also(1)).lost[doubtful].without.mean())
    return evidence_of(made, also(1, 2), bar=bar, proof=proof), doubtful, LAST_OF_TWO._replace(head=2).row


@pytest.mark.slow
def test_a_doubt_is_left_where_another_row_is_spare_for_sure() -> None:
    evidence, doubtful, spare = in_the_midst(replace(LITTLE, deciding=1024))
    assert evidence.spare(evidence.lost[spare])
    assert not evidence.spare(evidence.lost[doubtful])
    assert evidence.open(evidence.lost[doubtful])
    assert len(evidence.lost[doubtful].without) == LITTLE.sequences
    part = PARTS["necessity"](evidence)
    assert not part.passed
    assert part.says.startswith("2 of 12 rows and keys can be done without on fresh sequences: layer 3 head 3")


@pytest.mark.parametrize(
    ("at_hand", "on_more", "asked"),
    [
        ("yes yes yes", "yes yes yes", 0),
        ("open yes open", "yes yes yes", 2),
        ("open no open", "yes yes yes", 0),
        ("open yes open", "no yes yes", 1),
        ("open yes open", "open yes open", 2),
    ],
)
def test_nothing_is_decided_once_something_is_refuted(at_hand: str, on_more: str, asked: int) -> None:
    evidence, told = evidence_of(witness(2)), []
    few, more = at_hand.split(), on_more.split()

    def measure(number: int, evaluator: Evaluator) -> str:
        if evaluator is not evidence.more:
            return few[number]
        told.append(number)
        return more[number]

    measures = [partial(measure, number) for number in range(3)]
    found = evidence.all_until_clear(measures, lambda seen: seen == "open", lambda seen: seen == "no")
    assert found == [more[number] if number in told else few[number] for number in range(3)]
    assert len(told) == asked
