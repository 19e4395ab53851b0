"""What once passed a certificate and was false: idle keys, patterns nobody imposed, verdicts on a few sequences."""

from __future__ import annotations

import sys
from typing import get_args

import pytest
import torch
from loud_background import FLAT, LOUD, loud_background
from planted_models import LAST_OF_TWO, evidence_of, witness
from resting_head import resting
from sink_on_a_key import sink
from torch import Tensor
from two_keys import two_keys
from two_that_cancel import LAYER, at_rest, little_looks

from hopscope.circuits.checks import PARTS, Evidence, certify, claimed
from hopscope.circuits.checks.attended import _Moved
from hopscope.circuits.checks.certificate import Sense
from hopscope.circuits.checks.sampling import Measured
from hopscope.circuits.evaluate import apply
from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    KEEP,
    POSITIONAL,
    UNIFORM,
    Ablation,
    AblationKind,
    Interventions,
    knock_out,
)
from hopscope.circuits.evaluate.evaluator import Evaluator

_LOOKS = (">x1", "x0>"), ("x0?", ">x1"), (">x2", "x1>"), (">x2", "x0>")
"""Rows, each with a role that it might look at: of its own pair, of any pair, and of one that stands behind it."""

PLACES, OUTSIDE = (sys.modules[f"hopscope.circuits.checks.{name}"] for name in ("attended", "outside"))


@pytest.mark.slow
def test_the_key_of_a_row_that_rests_elsewhere_must_be_needed_itself() -> None:
    """Planted: a head that rests where it reads nothing, and looks at x0> with a seventh of its weight, for no use."""
    evidence, head = resting(0.15)
    assert evidence.paths.count(head) == 1
    assert evidence.partial == [head]
    lost = evidence.lost[head.row]
    assert float(lost.without.mean()) > 4 * evidence.bar  # the row is needed, to rest
    part = PARTS["necessity"](evidence)
    assert not part.passed
    spare = [number["row"] for number in (*part.numbers["rows"], *part.numbers["keys"]) if not number["needed"]]
    assert spare == [head.describe(evidence.evaluator.names)]


@pytest.mark.slow
@pytest.mark.parametrize("form", [KEEP, POSITIONAL])
def test_the_only_key_of_a_whole_pattern_is_needed_where_it_is_used(form: Ablation) -> None:
    evidence = evidence_of(witness(2), {LAST_OF_TWO.row: form})
    assert evidence.partial == [LAST_OF_TWO]
    part = PARTS["necessity"](evidence)
    assert part.passed
    assert [number["needed"] for number in part.numbers["keys"]] == [True] * 4


@pytest.mark.slow
@pytest.mark.parametrize("sense", get_args(Sense))
@pytest.mark.parametrize("brings", [0.0, 20.0])
def test_a_row_that_rests_at_a_key_of_its_chain_is_not_needed_for_that_key(
    sense: Sense, brings: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: it reads nothing there, or the same in every chain. Without a rule that asks that, it passed."""
    evidence, path = sink(sense, brings=brings)
    assert evidence.paths.count(path) == 1
    assert float(evidence.lost[path.row].without.mean()) > 1.5 * evidence.bar  # the row is needed, to rest
    found = certify(evidence)
    assert found.failed == ("necessity",)
    told = found.parts["necessity"].numbers
    spare = [one["row"] for one in (*told["rows"], *told["keys"]) if not one["needed"]]
    assert spare == [path.describe(evidence.evaluator.names)]
    monkeypatch.setattr(claimed, "seen_elsewhere", lambda *what: 0.0)
    assert certify(sink(sense, brings=brings)[0]).passed


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.97, 0.9])
def test_a_strict_circuit_looks_nowhere_but_at_its_keys(weight: float) -> None:
    """Planted: a row that looks at itself, too, a little. In the natural sense it is what the row does."""
    mixed = Ablation(AblationKind.MIXTURE, (LAST_OF_TWO.key, LAST_OF_TWO.query), (weight, 1 - weight))
    made = witness(2)
    assert certify(evidence_of(made, {LAST_OF_TWO.row: mixed})).passed
    found = certify(evidence_of(made, {LAST_OF_TWO.row: mixed}, sense="strict"))
    assert found.failed == ("sufficiency",)
    assert found.parts["sufficiency"].says.endswith("; 1 rows in use are not one at their key")


@pytest.mark.slow
@pytest.mark.parametrize("mean", [False, True])
def test_a_strict_circuit_in_which_nothing_is_imposed_is_none(mean: bool) -> None:
    """Planted: every row of the circuit left as the model has it, or at its mean."""
    made = witness(2)
    rows = [path.row for path in made.circuit]
    forms = {row: evidence_of(made).hypotheses.mean(row) if mean else KEEP for row in rows}
    found = certify(evidence_of(made, forms, sense="strict"))
    assert found.failed == ("sufficiency",)
    assert found.parts["sufficiency"].says.endswith(f"; {len(rows)} rows in use are not one at their key")


@pytest.mark.slow
def test_places_does_not_decide_on_a_few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what is lost shows in one sequence of eight, and in none of the first."""
    evidence = evidence_of(witness(1))

    def moved(evidence: Evidence, evaluator: Evaluator, program: Interventions) -> list[_Moved]:
        rise = torch.zeros(evaluator.sequences).double()
        rise[evidence.proof.rough :: 8] = 0.6
        return [_Moved(1, 0, 1, evidence.measured([rise])[0])]

    monkeypatch.setattr(PLACES, "_moved", moved)
    assert moved(evidence, evidence.rough, {})[0].rise.interval == (0, 0)
    assert not PARTS["places"](evidence).passed


@pytest.mark.slow
def test_outside_holds_the_bar_for_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the worst half has a loss just below the bar, in doubt."""
    evidence = evidence_of(witness(1))
    assert PARTS["outside"](evidence).passed
    monkeypatch.setattr(evidence, "sure", lambda _: Measured(0.98 * evidence.bar, (0.9 * evidence.bar, evidence.bar)))
    assert not PARTS["outside"](evidence).passed


@pytest.mark.slow
@pytest.mark.parametrize("sense", ["natural", "strict"])
@pytest.mark.parametrize("share", [0.5, 0.15, 0.001])
def test_a_key_has_no_backup_in_its_own_row(share: float, sense: Sense) -> None:
    """Planted: the query looks at both members of the pair, and the answer can be read from either."""
    evidence = evidence_of(two_keys(share), sense=sense)
    *_, claimed = evidence.paths
    without = evidence.few.mse([{}, {claimed.row: knock_out(claimed.key)}, evidence.without(claimed)])
    assert without == [pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6), pytest.approx(1.7, abs=0.3)]
    found = certify(evidence)
    assert found.failed == ("completeness",)
    keys = found.number("completeness", "keys")
    assert keys[claimed.describe(evidence.evaluator.names)] == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_a_mixture_of_three_keys_loses_one_and_keeps_its_other_two() -> None:
    three = Ablation(AblationKind.MIXTURE, (LAST_OF_TWO.key, 1, LAST_OF_TWO.query), (0.6, 0.3, 0.1))
    evidence = evidence_of(witness(2), {LAST_OF_TWO.row: three}, sense="strict")
    first, second = evidence.partial
    assert evidence.unclaimed(first) == Ablation(AblationKind.MIXTURE, (second.key, LAST_OF_TWO.query), (0.3, 0.1))
    assert not PARTS["necessity"](evidence).passed  # the second does nothing


@pytest.mark.slow
@pytest.mark.parametrize("sense", ["natural", "strict"])
@pytest.mark.parametrize(("share", "weight"), [(0.5, 0.74), (1e-43, 0.32)])
def test_a_key_is_looked_at_for_every_question(share: float, weight: float, sense: Sense) -> None:
    """Planted: it depends on the symbols at which member of the pair the query looks, and one of them is claimed."""
    evidence = evidence_of(two_keys(share, turns=100.0), sense=sense)
    *_, claimed = evidence.paths
    assert evidence.hypotheses.weights(claimed.row)[claimed.key] == pytest.approx(weight, abs=0.05)
    assert evidence.unnamed == [claimed._replace(key=1)]
    found = certify(evidence)
    assert found.failed == ("outside",)
    assert found.number("outside", "worst_mse") < evidence.bar < 0.2 < found.number("outside", "unnamed_mse")
    assert found.parts["outside"].says.endswith(
        f"; without layer 2 head 1: x0? -> >x1, of which the circuit says nothing, "
        f"{found.number('outside', 'unnamed_mse'):.3f}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("score", "failed"), [(0.56, ("sufficiency",)), (-2.0, ("sufficiency", "outside"))])
def test_rows_at_their_mean_tell_no_chain_from_others(score: float, failed: tuple[str, ...]) -> None:
    """Planted: a row brings a third of the answer with 0.1 more, or less, weight on its own chain, and is background.

    With less weight it reads the second members too, which the circuit leaves out: that is for `outside` to see.
    """
    made = loud_background(0.35, score)
    hypotheses = evidence_of(made).hypotheses
    assert hypotheses.chainless(LOUD)
    evidence = evidence_of(made, {row: hypotheses.mean(row) for row in (LOUD, FLAT)})
    assert evidence.background == [LOUD, FLAT]
    found = certify(evidence)
    assert found.failed == failed
    blind = found.number("sufficiency", "blind_mse")
    assert found.number("sufficiency", "natural_mse") < evidence.bar < 0.1 < blind
    assert found.parts["sufficiency"].says.endswith(
        f"; it stands on 2 rows at their mean beside its paths; where these attend to their own chain as to any other "
        f"it has {blind:.3f}"
    )


@pytest.mark.slow
def test_a_row_at_its_mean_is_put_in_place_by_hand_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: tools whose mean of a row is uniform."""
    made = loud_background(0.35, 0.56)
    mean, factors = evidence_of(made).hypotheses.mean(LOUD), apply.factors
    assert PARTS["harness"](evidence_of(made, {LOUD: mean})).passed

    def flat(form: Ablation, query: int, roles: int) -> Tensor:
        return torch.ones(2 * roles) if form.kind is AblationKind.MEAN else factors(form, query, roles)

    monkeypatch.setattr(apply, "factors", flat)
    part = PARTS["harness"](evidence_of(made, {LOUD: mean}))
    assert not part.passed
    assert part.numbers["natural_difference"] > 0.01


def uniform_alone(evidence: Evidence) -> Interventions:
    """One of the two heads that cancel: all of its rows uniform."""
    last = evidence.evaluator.shape.heads - 1
    return {row: UNIFORM for row in evidence.free if (row.layer, row.head) == (LAYER, last)}


@pytest.mark.slow
@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_outside_takes_away_what_is_known_of_a_chain_and_no_rest(sense: Sense) -> None:
    """Planted: two heads at rest, of which one alone does harm where it is uniform; none knows anything of a chain."""
    evidence = at_rest(sense)
    one = uniform_alone(evidence)
    other = {row._replace(head=row.head - 1): UNIFORM for row in one}
    model, broken, both = evidence.few.mse([{}, one, one | other])
    assert max(model, both) < 1e-3 < 4 * evidence.bar < broken
    assert all(evidence.idle[row] == ALIKE for row in one)
    assert PARTS["outside"](evidence).passed


@pytest.mark.slow
@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_outside_sees_a_look_that_one_can_hardly_see(sense: Sense) -> None:
    """Planted: the same heads write how much they look at the line before, with a twentieth of their weight."""
    evidence = little_looks(sense)
    one = uniform_alone(evidence)
    assert all(evidence.hypotheses.chainless(row) for row in one)
    assert evidence.few.mse([{}])[0] < 1e-3
    assert not PARTS["outside"](evidence).passed
