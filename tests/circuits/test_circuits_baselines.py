"""The baselines find circuits that hold the bar, by their own rules, and no more is claimed of them."""

from __future__ import annotations

from small_models import disguised_witness

from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.search.baselines import acdc, attribution
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.training.data import held_out

CONFIG = SearchConfig(SearchBudget(sequences=16, confirming=32, deciding=32))


def parts(hops: int) -> tuple[Evaluator, Units, set]:
    witness = disguised_witness(hops)
    evaluator = VectorEvaluator(witness.transformer, witness.problem, held_out(witness.problem, 32, 0, "baselines"))
    return evaluator, Units.of(evaluator), {path.row for path in witness.circuit}


def test_acdc_holds_the_bar_and_keeps_the_known_rows() -> None:
    evaluator, units, known = parts(2)
    program = acdc(evaluator, units, CONFIG, None)
    kept = set(units.on(program))
    assert evaluator.mse([program])[0] < CONFIG.max_loss
    assert known <= kept
    assert len(kept) < len(units.rows)


def test_acdc_asks_each_row_once_in_order_given_those_gone_before() -> None:
    """By hand, for the threshold that it used: nothing kept could have gone at its turn, nothing gone had to stay."""
    evaluator, units, _ = parts(1)
    program = acdc(evaluator, units, CONFIG, None)
    part = evaluator.part(CONFIG.budget.sequences)
    for threshold in (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0):
        by_hand = dict(units.base)
        for row in sorted(units.rows, reverse=True):
            without = {**by_hand, row: UNIFORM}
            if part.mse([without])[0] - part.mse([by_hand])[0] < threshold * CONFIG.max_loss:
                by_hand = without
        if by_hand == program:
            return
    raise AssertionError("no threshold gives this outcome")


def test_attribution_takes_the_fewest_first_rows_of_its_order() -> None:
    evaluator, units, known = parts(2)
    program = attribution(evaluator, units, CONFIG, None)
    kept = units.on(program)
    assert evaluator.mse([program])[0] < CONFIG.max_loss
    assert known <= set(kept)
    assert len(kept) < len(units.rows)
