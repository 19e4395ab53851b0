"""A search at several bars: which circuit is taken, what is remembered of each, what the record says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unchecked import unchecked

from hopscope.circuits.certificate import Proof
from hopscope.circuits.evaluate.form import one_hot
from hopscope.circuits.evaluate.on_vectors import VectorEvaluator
from hopscope.circuits.find import circuit_of_run, find_circuit
from hopscope.circuits.journal import Journal
from hopscope.circuits.search.bars import budgets_at, search_at
from hopscope.circuits.search.budget import Budget
from hopscope.circuits.search.orders import Orders, Outcome
from hopscope.circuits.search.units import Units
from hopscope.errors import InputError
from hopscope.paper.recipes import LAPTOP
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import Row
from hopscope.theory.witness import build_witness
from hopscope.training.data import held_out
from hopscope.training.engine import Engine
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup
from hopscope.training.trainer import train

FEW = Budget(orders=1, growing=0, sequences=8, confirming=16, deciding=16, every_subset=2, pairs=2)
LITTLE = Proof(sequences=32, deciding=32, few=16, rough=4, draws=4, halves=4)
BARS = (0.05, 0.1, 0.2)
AT = budgets_at(FEW, BARS)


@pytest.fixture(scope="module")
def known() -> VectorEvaluator:
    """A transformer built by hand, of two layers, whose circuit has two paths."""
    witness = build_witness(hops=1)
    return VectorEvaluator(witness.transformer, witness.problem, held_out(witness.problem, 16, 0, "bars"))


def test_one_circuit_at_every_bar_stands_clearest_of_the_lowest(known: VectorEvaluator) -> None:
    found = search_at(known, Units.of(known), AT, 0, Journal())
    assert found.budget.bar == 0.05
    assert [one.bar for one in found.tried] == [*BARS]
    assert len({(one.paths, one.mse, one.least) for one in found.tried}) == 1
    assert found.tried[0].gap == pytest.approx(2 * found.tried[1].gap)


def test_a_row_that_does_little_sends_the_search_to_another_bar(
    known: VectorEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: at the lowest bar a circuit with a row that does nothing, at the next the right one, then none."""
    units, searched = Units.of(known), Orders.run

    def run(orders: Orders) -> Outcome:
        outcome, bar = searched(orders), orders._budget.bar
        if bar == 0.05:
            (first,) = outcome.found
            idle = next(row for row in known.live_rows if units.hypotheses.is_off(row, first.program[row]))
            planted = replace(first, program={**first.program, Row(*idle): one_hot(0)}, paths=first.paths + 1)
            return replace(outcome, found=(planted,))
        return outcome if bar == 0.1 else replace(outcome, found=())

    monkeypatch.setattr(Orders, "run", run)
    found = search_at(known, units, AT, 0, Journal())
    assert (found.budget.bar, found.outcome.found[0].paths) == (0.1, 2)
    assert [one.paths for one in found.tried] == [3, 2, 0]
    assert found.tried[0].gap < 0.01 < 1 < found.tried[1].gap
    assert search_at(known, units, budgets_at(FEW, (0.2, 0.3)), 0, Journal()).outcome.found == ()


def test_every_bar_has_its_own_memory_and_an_interrupted_search_goes_on(known: VectorEvaluator) -> None:
    units, memory, kept = Units.of(known), {}, []
    journal = Journal(memory=memory, remember=lambda all_of_it: kept.append(json.dumps(all_of_it)))
    whole = search_at(known, units, AT, 0, journal)
    assert [*memory] == ["bar 0.05", "bar 0.1", "bar 0.2"]
    for cut in kept:
        again = search_at(known, units, AT, 0, Journal(memory=json.loads(cut)))
        assert (again.tried, again.budget) == (whole.tried, whole.budget)
    resumed = Journal(memory=json.loads(kept[-1]), remember=lambda _: pytest.fail("nothing was left to do"))
    search_at(known, units, AT, 0, resumed)


def test_what_no_bar_can_be() -> None:
    for wrong in ((), (0.05, 0.05)):
        with pytest.raises(InputError, match="a number or several different ones"):
            budgets_at(FEW, wrong)
    witness = build_witness(hops=1)
    with pytest.raises(InputError, match=r"below 0.5, got 0.9"):
        find_circuit(witness.transformer, witness.problem, effort=FEW, bar=(0.05, 0.9))


@pytest.mark.parametrize("seed", [1.5, -1, True, "a"])
def test_what_no_seed_can_be(seed: Any, run: RunFolder) -> None:
    witness = build_witness(hops=1)
    for asked in (
        lambda: find_circuit(witness.transformer, witness.problem, effort=FEW, seed=seed),
        lambda: circuit_of_run(run, effort=FEW, seed=seed),
    ):
        with unchecked(), pytest.raises(InputError, match=r"seed must be a whole number from 0 to 2\^63 - 1, got"):
            asked()
    assert not (run.path / "circuit.json").exists()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Of a model that has learned nothing."""
    recipe = replace(LAPTOP, layers=2, heads=2, d_model=32, steps=20, schedule="constant", prune_every=None)
    return train(Setup("run", RetrievalProblem(hops=1), recipe, (0,)), tmp_path / "run", engine=Engine())


def test_bars_that_differ_in_the_seventh_digit_are_remembered_apart(known: VectorEvaluator) -> None:
    memory: dict[str, Any] = {}
    search_at(known, Units.of(known), budgets_at(FEW, (0.05, 0.05000001)), 0, Journal(memory=memory))
    assert [*memory] == ["bar 0.05", "bar 0.05000001"]


def test_the_record_says_which_were_tried_and_is_not_made_twice(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    few: dict[str, Any] = {"effort": FEW, "proof": LITTLE}
    none = circuit_of_run(run, bar=(0.1, 0.05), **few)
    assert (none.found, none.bar) == (False, 0.1)
    assert [(one["bar"], one["paths"]) for one in none.search["bars"]] == [(0.05, 0), (0.1, 0)]
    assert "searched for at 0.05 (none), 0.1 (none)" in str(none)
    told = ", ".join(f"{name} {getattr(LITTLE, name)} ({usual})" for name, usual in vars(Proof()).items())
    assert f"on less than the usual proof: {told}" in str(none)
    assert "usual proof" not in str(replace(none, search=none.search | {"proof": vars(Proof())}))
    monkeypatch.setattr("hopscope.circuits.find.search_at", lambda *_: pytest.fail("it is there"))
    assert circuit_of_run(run, bar=(0.05, 0.1), **few) == none


def test_a_circuit_certified_at_other_bars_stays(run: RunFolder) -> None:
    witness = build_witness(hops=1)
    found = find_circuit(witness.transformer, witness.problem, effort=FEW, bar=(0.05, 0.1))
    assert found.certified
    known = replace(found, model=run.model_hashes[0], problem=run.problem)
    known.save(run.path / "circuit.json", run.record.content_hash)
    assert circuit_of_run(run, effort=FEW, bar=(0.1, 0.05)) == known
    for other, told in ((None, "0.05"), ((0.05, 0.2), "0.05, 0.2")):
        with pytest.raises(InputError, match=f"certified at bar 0.05, 0.1, not {told}; pass --anew"):
            circuit_of_run(run, effort=FEW, bar=other)
