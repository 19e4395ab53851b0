"""The census: counts by hand, and verdicts that data in which the claim is false do not get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planted_studies import DOUBLING, SERIAL, TIES, summary

from hopscope.circuits.circuit import Circuit
from hopscope.errors import InputError
from hopscope.paper.recipes import LAPTOP
from hopscope.statistics import Measured
from studies import census, codes
from studies.census import CensusResult
from studies.figures.census import census as figure
from studies.tools.circuits import CircuitSummary
from studies.tools.judgements import Judgement
from studies.tools.position_based import PositionTest, RowsMoved

pytestmark = pytest.mark.slow


def verdicts(models: list[CircuitSummary], further: list[CircuitSummary] | None = None) -> list[str]:
    return [judgement.verdict for judgement in census.judge(CensusResult(tuple(models), tuple(further or ())))]


def alike(n: int, **changes: object) -> list[CircuitSummary]:
    """Models of half serial and half doubling circuits, each of which is found again as it is."""
    circuits = [(SERIAL, DOUBLING)[seed % 2] for seed in range(n)]
    return [summary(paths, seed, [paths], imposed=paths, **changes) for seed, paths in enumerate(circuits)]


def test_rules_of_most_models():
    assert verdicts(alike(20)) == ["confirmed", "confirmed", "confirmed", "not run", "not run"]


def test_circuits_with_a_path_too_many_are_not_as_small_as_theory_allows():
    larger = (*DOUBLING, (3, 2, "x0?", ">x3"))
    models = [summary(DOUBLING, seed, [DOUBLING], imposed=larger) for seed in range(20)]
    assert verdicts(models)[0] == "refuted"
    assert verdicts(alike(9) + models[:10])[0] == "inconclusive"


def test_a_circuit_above_the_threshold_is_not_small():
    """A circuit with imposed patterns has few paths, at a loss of 0.64: such models are not small ones."""
    record = Path(__file__).parents[2] / "results" / "paper-short" / "transformers" / "seed-0" / "circuit.json"
    circuit = Circuit.load(record)
    assert circuit.imposed is not None
    high, low = Measured(0.64, (0.6, 0.68)), Measured(circuit.max_loss, (0.01, 0.06))
    lost, held = (
        replace(circuit, imposed=replace(circuit.imposed, losses=dict.fromkeys(circuit.imposed.losses, loss)))
        for loss in (high, low)
    )
    bad, good = CircuitSummary.of(lost, "bad"), CircuitSummary.of(held, "good")
    assert (bad.imposed, len(good.imposed)) == ((), len(circuit.imposed.paths))
    assert (bad.paths, len(bad.paths)) == (good.paths, len(circuit.paths))
    models = [summary(DOUBLING, seed, [DOUBLING], imposed=bad.imposed) for seed in range(20)]
    assert verdicts(models)[0] == "refuted"
    (few, *_) = census.judge(CensusResult((*alike(12), *models), ()))
    assert few.verdict == "inconclusive"  # though all twelve that have one are small
    assert few.observed.endswith("in 20 none with imposed patterns is below the threshold")


def test_models_that_all_have_one_circuit_do_not_differ():
    """Nor do models whose own searches end in as different circuits as other models have."""
    same = [summary(DOUBLING, seed, again=[DOUBLING]) for seed in range(20)]
    assert verdicts(same)[2] == "refuted"
    restless = [summary(DOUBLING, seed, again=[SERIAL]) for seed in range(20)]
    assert verdicts(restless)[2] == "refuted"
    once = [summary((SERIAL, DOUBLING)[seed % 2], seed) for seed in range(20)]
    assert verdicts(once)[2] == "not run"


def test_models_without_a_circuit_do_not_count():
    lost = [summary((), seed, strategy="none", delivers=False, loss=0.6) for seed in range(50)]
    assert verdicts(alike(20) + lost)[:3] == ["confirmed"] * 3
    assert verdicts(lost) == ["not run"] * 5
    assert verdicts([]) == ["not run"] * 2


def test_drift_is_distinguished_from_none_and_from_too_little():
    more = (*DOUBLING, (3, 2, "x0?", ">x3"), (3, 3, "x0?", ">x3"))
    before = alike(20)
    assert verdicts(before, [summary(more, seed) for seed in range(20)])[3] == "confirmed"
    assert verdicts(before, alike(20))[3] == "refuted"
    assert verdicts(before, alike(5))[3] == "inconclusive"
    up_and_down = [summary(more if seed % 2 else TIES, seed) for seed in range(20)]
    assert verdicts(before, up_and_down)[3] == "inconclusive"


def test_imposed_paths_are_compared_where_both_exist():
    """Not with the none of a model whose circuit is above the threshold, as if it had lost them all."""
    before, later = alike(10), [replace(model, imposed=()) for model in alike(10)]
    assert "imposed +0.0 paths, where both exist (5)" in drift(before, [*before[:5], *later[5:]])
    assert "imposed" not in drift(before, later)


def drift(models: list[CircuitSummary], further: list[CircuitSummary]) -> str:
    return census.judge(CensusResult(tuple(models), tuple(further)))[-2].observed


def test_a_position_based_certified_model_refutes():
    """At whichever hop; models without a certified circuit, and those that were not tested, do not count."""
    low = (0.04,) * 3
    hold = (RowsMoved(1, 2, (0.1, 1.4, 0.1), (0.0, 0.04, 0.0), (0.0,) * 3, 2.0),)
    place = RowsMoved(1, 1, low, low, low, 2.0), RowsMoved(3, 2, (0.1, 0.6, 0.1), (0.0, 0.4, 0.0), (0.0,) * 3, 2.0)

    def judged(certified: int, tested: int, position_based: int, others: bool = False) -> Judgement:
        models = [summary(DOUBLING, n, certified=("imposed",) if n < certified else ()) for n in range(50)]
        models = [replace(model, model=f"m{n}") for n, model in enumerate(models)]
        numbers = range(certified, 50) if others else range(tested)
        moved = [place if others or n < position_based else hold for n in numbers]
        places = tuple(PositionTest(f"m{n}", (0.0,) * 3, also) for n, also in zip(numbers, moved, strict=True))
        return census.judge(CensusResult(tuple(models), (), places))[-1]

    assert judged(40, 40, 0).verdict == "confirmed"
    assert judged(40, 20, 0).verdict == "inconclusive"  # none of 20: up to 17%
    assert judged(40, 50, 1).verdict == "refuted"
    assert judged(40, 0, 0).verdict == "not run"
    assert judged(40, 0, 0, others=True).verdict == "not run"
    assert judged(40, 50, 0).observed == "0 of 40; of those without 0 of 10"  # which are tested is chosen: no interval


def test_counts_by_hand():
    one = summary((*DOUBLING, (3, 1, "x0?", ">x1"), (4, 2, "x0?", ">x3")), again=[DOUBLING])
    assert (one.repeated, one.heads, one.shared_heads) == (2, 5, 1)
    assert one.within == pytest.approx(1.0)
    assert summary(DOUBLING, again=[SERIAL]).within == pytest.approx(2 / 4)
    assert census.between([summary(DOUBLING), summary(SERIAL), summary(SERIAL)]) == pytest.approx([0.5, 0.75, 0.75])
    assert census.between([summary(DOUBLING)]) == []


def test_the_same_model_is_trained_on():
    """Same seeds, data and rate until the shorter run falls: or drift would be a difference of seeds."""
    study = census.standard(LAPTOP)
    assert len(study.models) == 210
    short = {setup.seeds: setup for setup in study.models if setup.recipe.layers == 4}
    for longer in study.trained_on:
        twin = short[longer.seeds]
        assert longer.problem == twin.problem
        assert longer.recipe.steps * (1 - longer.recipe.decay_fraction) > twin.recipe.steps
        same = {"steps", "decay_fraction", "schedule"}
        differs = {name for name, value in vars(twin.recipe).items() if value != getattr(longer.recipe, name)}
        assert differs == same


def test_tables_and_figures():
    result = CensusResult(tuple(alike(6)), tuple(alike(3)))
    assert "| paths, imposed patterns | 6 (6 to 6) |" in census.table(result)
    left, middle, right = figure(result).axes
    assert left.lines[0].get_xydata().tolist() == [[6, 1]]
    assert middle.lines[1].get_xdata().tolist() == [0, *[1] * 6]
    assert len(right.lines) == 3
    larger = summary(SERIAL, 9, [SERIAL], imposed=(*SERIAL, (3, 2, "x0?", ">x3"), (3, 3, "x0?", ">x3")))
    sizes, _, _ = figure(replace(result, models=(*result.models, larger))).axes
    assert sizes.lines[0].get_xydata().tolist() == [[6, 6 / 7], [7, 0], [8, 1 / 7]]  # none has seven
    with pytest.raises(InputError, match="no model has a circuit"):
        figure(CensusResult((), ()))


@pytest.mark.parametrize(
    ("pair", "token", "first"), [(16, 9, "confirmed"), (9, 16, "refuted"), (16, 12, "inconclusive")]
)
def test_position_codes_are_compared_by_how_many_double(pair: int, token: int, first: str):
    kinds = [
        (code, "doubling" if seed < n else "serial")
        for code, n in (("pair", pair), ("token", token))
        for seed in range(16)
    ]
    models = [summary(SERIAL, seed, strategy=kind, model=f"{code}/{seed}") for seed, (code, kind) in enumerate(kinds)]
    assert codes.judge(codes.CodesResult(tuple(models), ()))[0].verdict == first
