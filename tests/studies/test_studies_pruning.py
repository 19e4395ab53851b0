"""Pruned models beside whole ones: verdicts that data in which the claim is false do not get."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_studies import DOUBLING, SERIAL, summary

from hopscope.errors import InputError
from hopscope.paper.recipes import LAPTOP, PLAIN
from studies import pruning
from studies.figures.pruning import pruning as figure
from studies.pruning import UNSEEN, PruningResult
from studies.tools.circuits import CircuitSummary

pytestmark = pytest.mark.slow


def models(condition: str, certified: int, n: int, loss: float = 0.01, first: int = 0) -> list[CircuitSummary]:
    """The first ones certified with own patterns; the others with imposed ones, which do not count."""
    return [
        replace(
            summary(SERIAL if seed % 2 else DOUBLING, seed, model=f"{condition}/seed-{seed}", loss=loss),
            certified=("own",) if seed - first < certified else ("imposed",),
        )
        for seed in range(first, first + n)
    ]


def verdicts(pruned: list[CircuitSummary], whole: list[CircuitSummary]) -> list[str]:
    found = PruningResult(0.05, tuple(pruned), tuple(whole), tuple(5 for _ in pruned))
    return [judgement.verdict for judgement in pruning.judge(found)]


def test_certified_when_pruned_alone_is_confirmed():
    assert verdicts(models("pruned", 30, 40), models("all-heads", 0, 36)) == ["confirmed"] * 3 + ["not run"]
    assert verdicts(models("pruned", 30, 40), models("all-heads", 0, 35))[2] == "inconclusive"  # up to a tenth may lose


def test_few_certified_are_not_most():
    assert verdicts(models("pruned", 4, 20), [])[0] == "refuted"
    assert verdicts(models("pruned", 12, 20), [])[0] == "inconclusive"
    assert verdicts([], []) == ["not run"] * 4


def test_the_laptops_models_are_judged_by_themselves():
    new = tuple(models("laptop", 16, 20, first=UNSEEN))
    found = PruningResult(0.05, (), (), (), new, tuple([5] * 20))
    assert [judgement.verdict for judgement in pruning.judge(found)] == ["not run"] * 3 + ["confirmed"]
    few = tuple(models("laptop", 4, 20, first=UNSEEN))
    worse = replace(found, pruned=tuple(models("pruned", 20, 20)), laptop=few)
    assert [judgement.verdict for judgement in pruning.judge(worse)][::3] == ["confirmed", "refuted"]


def test_models_that_did_not_learn_do_not_count_as_certified_or_not():
    lost = [replace(model, loss=0.6, certified=(), paths=()) for model in models("pruned", 0, 20)]
    assert verdicts(models("pruned", 16, 20) + lost, [])[0] == "confirmed"
    assert verdicts(lost, [])[0] == "not run"


def test_pruning_does_not_get_what_whole_models_have_as_well():
    assert verdicts(models("pruned", 10, 10), models("all-heads", 10, 10))[1] == "inconclusive"
    assert verdicts(models("pruned", 5, 10), models("all-heads", 1, 10))[1] == "inconclusive"  # 4 of 4: p = 0.125
    assert verdicts(models("pruned", 0, 10), models("all-heads", 8, 10))[1] == "refuted"


def test_seeds_are_paired():
    """Nine of ten in either condition by other seeds are no difference; a seed of one condition alone is no pair."""
    whole = [replace(model, seed=100 + model.seed) for model in models("all-heads", 0, 10)]
    assert verdicts(models("pruned", 10, 10), whole)[1:3] == ["not run", "not run"]


def test_a_model_above_the_threshold_when_pruned_refutes():
    whole = models("all-heads", 0, 10)
    pruned = models("pruned", 10, 10)
    assert verdicts([replace(pruned[0], loss=0.05), *pruned[1:]], whole)[2] == "refuted"
    assert verdicts(pruned[:9], whole)[2] == "inconclusive"
    never = [replace(whole[0], loss=0.5), *whole[1:]]  # had nothing to lose, so only nine are left
    assert verdicts([replace(pruned[0], loss=0.5), *pruned[1:]], never)[2] == "inconclusive"


def test_the_conditions_differ_by_pruning_alone():
    study = pruning.standard(PLAIN)
    pruned = {setup.seeds: setup for setup in study.pruned_models}
    assert (len(pruned), len(study.whole_models)) == (20, 10)
    for setup in study.whole_models:
        twin = pruned[setup.seeds]
        assert replace(twin.recipe, prune_every=None) == setup.recipe
        assert twin.problem == setup.problem
    assert pruned[(7000,)].recipe == replace(PLAIN, prune_every=LAPTOP.prune_every)
    assert {setup.recipe for setup in study.laptop_models} == {LAPTOP}
    assert pruned.keys().isdisjoint(setup.seeds for setup in study.laptop_models)


def test_table_and_figure():
    result = PruningResult(0.05, tuple(models("pruned", 3, 4)), tuple(models("all-heads", 0, 2)), (5, 5, 6, 7))
    new = models("laptop", 1, 2, first=UNSEEN)
    result = replace(result, laptop=(*models("laptop", 1, 1), *new), laptop_left=(4, 6, 8))
    table = pruning.table(result)
    assert "| certified, own patterns | 3 of 4 (19% to 99%) | 0 of 2 (0% to 84%) | 1 of 1 (3% to 100%) |" in table
    assert "| heads left | 5.5 (5 to 7) | all | 4 (4 to 4) | 7 (6 to 8) |" in table
    left, right = figure(result).axes
    assert right.get_yscale() == "log"  # of losses a hundredth and a half apart
    assert [line.get_xydata().tolist() for line in right.lines[:2]] == [[[0, 0.01], [1, 0.01]]] * 2
    filled = [line.get_markerfacecolor() for line in left.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert filled.count("white") == 4
    with pytest.raises(InputError, match="no model has a circuit"):
        figure(PruningResult(0.05, (), (), ()))
