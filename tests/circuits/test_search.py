"""The search against models that know their own circuit: witnesses with noise, and decoys beside them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import disguised_witness, random_model, some_batch, without_layer

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.resume import SavedSearch, run_search
from hopscope.circuits.search.appendix_e import FILLS, appendix_e
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.circuits.search.gradients import estimated_order, row_scores
from hopscope.circuits.search.own_patterns import SearchResult, own_pattern_search
from hopscope.lab.model import Model
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_names
from hopscope.theory.witness import Witness
from hopscope.training.data import held_out

QUICK = SearchBudget(orders=2, growing=1, sequences=16, confirming=32, deciding=32)
LITTLE = CertificateConfig(sequences=32, deciding=32, few=16, draws=6)


def found_in(witness: Witness, **options: Any) -> Circuit:
    effort, seed = options.get("budget", QUICK), options.get("seed", 0)
    return Model(witness.transformer, witness.problem).find_circuit(effort=effort, seed=seed, proof=LITTLE)


def searched(witness: Witness, budget: SearchBudget = QUICK) -> tuple[Evaluator, Units]:
    """What a search works on."""
    batch = held_out(witness.problem, budget.confirming, 0, "circuit search")
    evaluator = VectorEvaluator(witness.transformer, witness.problem, batch)
    return evaluator, Units.of(evaluator)


def paths_of(circuit: Circuit) -> set[tuple[int, int, str, str]]:
    return {path.path.names(circuit.roles) for path in circuit.paths}


def built_in(witness: Witness) -> set[tuple[int, int, str, str]]:
    return {path.names(witness.problem.roles) for path in witness.circuit}


@pytest.mark.parametrize("hops", [1, *(pytest.param(hops, marks=pytest.mark.slow) for hops in (2, 3))])
def test_search_finds_exactly_the_built_in_circuit(hops: int) -> None:
    witness = disguised_witness(hops)
    circuit = found_in(witness)
    assert paths_of(circuit) == built_in(witness)
    assert {path.ablation for path in circuit.paths} == {"one_hot"}
    assert circuit.failed == ()
    assert circuit.certified
    assert circuit.others == ()


@pytest.mark.slow
@pytest.mark.parametrize(("hops", "causal"), [(4, True), (2, False)])
def test_search_of_deeper_models_and_without_a_mask(hops: int, causal: bool) -> None:
    witness = disguised_witness(hops, causal=causal)
    circuit = found_in(witness)
    assert paths_of(circuit) == built_in(witness)


@pytest.mark.slow
def test_every_order_of_another_seed_ends_in_the_same_circuit() -> None:
    witness = disguised_witness(2)
    circuit = found_in(witness, budget=replace(QUICK, orders=3, growing=2), seed=5)
    assert paths_of(circuit) == built_in(witness)
    assert list(circuit.search.orders_ending_here) == ["least-cost", "random-1", "random-2", "growing-1", "growing-2"]


@pytest.mark.slow
def test_feeds_and_losses_of_each_path() -> None:
    """The uses that the construction was made for, and that explain the paper's exception (C11)."""
    circuit = found_in(disguised_witness(3))
    strongest = {}
    for path in circuit.paths:
        layer, _, query, key = path.path.names(role_names(3))
        strongest[layer, query, key] = path.feeds[0].describe(role_names(3))
    assert strongest == {
        (1, ">x1", "x0>"): "K of layer 2 (x0? -> >x1)",
        (1, ">x2", "x1>"): "K of layer 3 (x0? -> >x2)",
        (1, ">x3", "x2>"): "K of layer 2 (>x2 -> >x3)",
        (2, ">x2", ">x3"): "V of layer 3 (x0? -> >x2)",
        (2, "x0?", ">x1"): "Q of layer 3 (x0? -> >x2)",
        (3, "x0?", ">x2"): "the answer",
    }
    for path in circuit.paths:
        # With later patterns imposed the first layer is idle; left to the model, it is not.
        assert (path.without_imposed.mean < 0.05) == (path.path.layer == 0)
        assert path.without.mean > 0.2
        assert path.without_imposed.interval[0] <= path.without_imposed.mean <= path.without_imposed.interval[1]
    assert circuit.strategy == "doubling"


def test_model_without_a_layer_has_no_circuit() -> None:
    circuit = found_in(without_layer(disguised_witness(2), 1))
    assert not circuit.found
    assert circuit.paths == ()
    assert circuit.failed == ("sufficiency",)
    assert "does not solve the problem" in circuit.checks["sufficiency"].says


@pytest.mark.slow
def test_search_is_given_up_where_too_many_rows_are_left() -> None:
    """As many rows as the budget allows are searched on; with one less there is no circuit, and the record says why."""
    made = disguised_witness(2)
    evaluator, units = searched(made)
    left = run_search(own_pattern_search(evaluator, units, SearchConfig(replace(QUICK, most_rows=1)))).left
    assert found_in(made, budget=replace(QUICK, most_rows=left)).found
    circuit = found_in(made, budget=replace(QUICK, most_rows=left - 1))
    assert not circuit.found
    assert not circuit.certified
    assert circuit.imposed is None
    assert circuit.losses["full"] < 0.05
    part = circuit.checks["sufficiency"]
    assert part.numbers["rows_left"] == left
    assert f"{left} rows of attention are left" in part.says
    assert "given up" in part.says


def test_resumed_search_finds_the_same_and_repeats_no_stage() -> None:
    """Random orders too, whose generator goes on in the state that it had."""
    config = SearchConfig(replace(QUICK, growing=2))

    def found(saved: SavedSearch, save: Callable[[SavedSearch], None]) -> tuple[SearchResult, list[Interventions]]:
        evaluator, units = searched(disguised_witness(1), config.budget)
        result = run_search(own_pattern_search(evaluator, units, config), saved=saved, save=save)
        return result, run_search(appendix_e(evaluator, units, config), saved=saved, save=save)

    whole, computed = SavedSearch(), list[str]()

    def note(saved: SavedSearch) -> None:
        computed.append(list(saved.stages)[-1])

    expected = found(whole, note)
    for done in range(0, len(whole.stages), 2):
        computed.clear()
        assert found(SavedSearch(stages=dict(list(whole.stages.items())[:done])), note) == expected
        assert computed == list(whole.stages)[done:]


@pytest.mark.parametrize(
    ("effort", "down", "up", "subsets", "pairs", "fills"), [("quick", 1, 1, 6, 12, 1), ("thorough", 3, 2, 10, 30, 3)]
)
@pytest.mark.slow
def test_effort_sets_orders_subsets_and_fills(
    effort: Any, down: int, up: int, subsets: int, pairs: int, fills: int
) -> None:
    """As docs/circuits.md says: so many ways down and up, parts of so many rows, fills; the sequences are the same."""
    config = SearchConfig(effort)
    assert (config.budget.sequences, config.budget.confirming) == (64, 256)
    smallest = [config.budget.smallest(rows) for rows in (subsets, subsets + 1, pairs, pairs + 1)]
    assert smallest == [0, subsets - 1, pairs - 2, pairs + 1]
    small = SearchConfig(replace(config.budget, sequences=8, confirming=8, deciding=8))
    evaluator, units = searched(disguised_witness(1), small.budget)
    saved = SavedSearch()
    run_search(own_pattern_search(evaluator, units, small), saved=saved)
    orders = list(dict.fromkeys(name.partition(":")[0] for name in saved.stages if ":" in name))
    assert [re.sub("-[0-9]$", "", name) for name in orders] == [
        "least-cost",
        *["random"] * (down - 1),
        *["growing"] * up,
    ]
    saved = SavedSearch()
    run_search(appendix_e(evaluator, units, small), saved=saved)
    ends = [name.removeprefix("Appendix E: ") for name in saved.stages][1:-1]
    assert [name in FILLS for name in ends] == [True] * fills + [False] * (down - 1)


def test_removed_rows_are_recorded_in_order(tmp_path: Path) -> None:
    """A curve over circuit size needs it: each row once, and at no time was the loss too high."""
    witness = disguised_witness(1)
    circuit = found_in(witness)
    evaluator, units = searched(witness)
    removed = circuit.search.removed
    assert sorted([*removed, *circuit.rows]) == sorted(units.rows)
    assert list(removed) != sorted(removed), "not in the order of the model"
    assert max(evaluator.mse([dict.fromkeys(removed[:count], UNIFORM) for count in range(len(removed))])) < 0.05
    circuit.save(tmp_path / "c.json")
    assert Circuit.load(tmp_path / "c.json").search.removed == removed


def test_gradient_order_of_heads_agrees_with_exact_scores() -> None:
    witness = disguised_witness(3)
    evaluator, _ = searched(witness)
    order, agreement = estimated_order(evaluator)
    assert agreement >= 0.5
    heads = {path.layer * evaluator.shape.heads + path.head for path in witness.circuit}
    assert set(order[-len(heads) :]) == heads, "the heads that matter most come last"


def test_gradient_scores_are_exact_where_the_loss_is_linear() -> None:
    """Where a head hardly matters the loss is linear in its pattern: the estimate is then the exact change."""
    problem = RetrievalProblem(hops=2, chains=3, symbol_dim=3)
    model = random_model(problem, layers=1, heads=2, mlp=False, spread=1.0)
    with torch.no_grad():
        model.blocks[0].attention.out.weight.mul_(0.02)
    evaluator = VectorEvaluator(model, problem, some_batch(problem, 32))
    estimate = row_scores(evaluator)[0].sum(dim=-1)
    off = [{HeadRow(0, head, query): UNIFORM for query in range(5)} for head in range(2)]
    full, *exact = evaluator.errors([{}, *off]).double().mean(dim=(1, 2)).tolist()
    torch.testing.assert_close(estimate.double(), torch.tensor(exact).double() - full, rtol=0.02, atol=1e-8)
    assert sorted(estimated_order(evaluator)[0]) == [0, 1]


def test_hypotheses_come_simplest_first() -> None:
    witness = disguised_witness(2)
    _, units = searched(witness)
    first = HeadRow(0, 0, 1)  # >x1, which attends to x0>
    kinds = [edit.kind.value for edit in units.hypotheses(first)]
    assert kinds == ["one_hot", "mean", "positional", "keep"]
    assert units.hypotheses(first)[0].keys == (0,)
    assert not units.chainless(first)
    assert units.chainless(HeadRow(0, 0, 4)) == all(w < 0.5 for w in units.weights(HeadRow(0, 0, 4))[:4])
    assert [edit.kind.value for edit in units.offs(first)] == ["uniform", "identity"]
    assert units.keys(first, KEEP)[0] == 0


def test_search_leaves_the_global_random_state_unchanged() -> None:
    before = torch.random.get_rng_state()
    found_in(disguised_witness(1))
    assert torch.equal(torch.random.get_rng_state(), before)
