"""ACDC's rule and attribution find circuits below the threshold by their own rules, on vectors and on text."""

from __future__ import annotations

import pytest
from planted_text import CIRCUIT, planted
from small_models import disguised_witness

from examples.text_model.text import make_tokenizer
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.search.baselines import acdc, attribution
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.circuits.search.own_patterns import Algorithm
from hopscope.language.hooked import HookedDecoder
from hopscope.language.text_batch import TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import text_role_names
from hopscope.training.data import held_out

CONFIG = SearchConfig(SearchBudget(sequences=16, confirming=32, deciding=32))


def on_vectors(hops: int) -> tuple[Evaluator, set[HeadRow]]:
    """A model of vectors, and the rows that it needs."""
    witness = disguised_witness(hops)
    evaluator = VectorEvaluator(witness.transformer, witness.problem, held_out(witness.problem, 32, 0, "baselines"))
    return evaluator, {path.row for path in witness.circuit}


def on_text(hops: int) -> tuple[Evaluator, set[HeadRow]]:
    """A language model, and the rows that it needs."""
    tokenizer, task = make_tokenizer(), TextTask("equations", 1)
    evaluator = TextEvaluator(HookedDecoder(planted()), tokenizer, task, text_batch(task, tokenizer, 32, seed=5))
    return evaluator, {AttentionPath.parse(path, text_role_names(1)).row for path in CIRCUIT}


@pytest.mark.parametrize("algorithm", [acdc, attribution])
@pytest.mark.parametrize("model", [on_vectors, on_text])
def test_baseline_stays_below_the_threshold_and_keeps_needed_rows(algorithm: Algorithm, model) -> None:
    evaluator, needed = model(2)
    units = Units.of(evaluator)
    interventions = algorithm(evaluator, units, CONFIG, None)
    active = set(units.on(interventions))
    assert evaluator.mse([interventions])[0] < CONFIG.max_loss
    assert needed <= active
    assert len(active) < len(units.rows)


def test_acdc_tries_each_row_once_from_the_last_layer() -> None:
    """By hand, for the threshold that it used: no active row could go at its turn, every row that is off could."""
    evaluator, _ = on_vectors(1)
    units = Units.of(evaluator)
    interventions = acdc(evaluator, units, CONFIG, None)
    part = evaluator.part(CONFIG.budget.sequences)
    for threshold in (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0):
        by_hand: Interventions = dict(units.base)
        for row in sorted(units.rows, reverse=True):
            without = {**by_hand, row: UNIFORM}
            if part.mse([without])[0] - part.mse([by_hand])[0] < threshold * CONFIG.max_loss:
                by_hand = without
        if by_hand == interventions:
            return
    raise AssertionError("no threshold gives this outcome")
