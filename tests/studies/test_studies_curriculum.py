"""How little curriculum is enough: what failed with everything asked for proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from planted_studies import Times, condition

import hopscope as hs
from hopscope.paper.recipes import LAPTOP
from studies import curriculum
from studies.figures.curriculum import curriculum as figure
from studies.tools.conditions import Conditions

pytestmark = pytest.mark.slow

STUDY = curriculum.CurriculumStudy(LAPTOP)
CONDITIONS = {setup.name: setup for setup in STUDY.conditions}


def planted(shares: dict[str, float]) -> Conditions:
    """Conditions of which so many of ten seeds learn the last hop, and all every other."""
    found = []
    for name, of_ten in shares.items():
        setup = CONDITIONS[name]
        hops = setup.problem.target_hops
        learned: Times = [[100] * (len(hops) - 1) + [200 if seed < of_ten else None] for seed in range(10)]
        shape = {"layers": setup.recipe.layers, "heads": setup.recipe.heads, "steps": setup.recipe.steps}
        found.append(condition(name, setup.problem, learned, **shape))
    return Conditions(tuple(found))


def verdicts(shares: dict[str, float]) -> dict[str, str]:
    found = planted(shares)
    return {tested.name: made.verdict for tested, made in zip(found.conditions, curriculum.judge(found), strict=True)}


def test_conditions_ask_for_what_their_names_say():
    targets = {name: setup.problem.target_hops for name, setup in CONDITIONS.items()}
    assert targets["3-hops/x3"] == targets["3-hops/x3-alone/10-times-the-steps"] == (3,)
    assert targets["3-hops/x1-x3"] == (1, 3)
    assert len([name for name in targets if name.startswith("4-hops") and "own" not in name]) == 8
    seeds = [seed for name, setup in CONDITIONS.items() if "own" in name for seed in setup.seeds]
    assert len({*seeds} - {*CONDITIONS["3-hops/x3"].seeds}) == len(seeds) == 48
    assert CONDITIONS["3-hops/x3-alone/10-times-the-steps"].recipe.steps == 10 * CONDITIONS["3-hops/x3"].recipe.steps
    assert CONDITIONS["3-hops/weight-0.01"].recipe.hooks == "studies.curriculum:OneHundredth"
    assert {setup.recipe.layers for name, setup in CONDITIONS.items() if "hops/x" in name and name[0] == "4"} == {5}


@pytest.mark.parametrize("name", ["1-2-3", "1-3", "2-3"])
def test_a_mixture_shortens_chains_and_asks_for_their_ends(name):
    setup, seed, numbers = CONDITIONS[f"3-hops/mixture-{name}"], torch.tensor([[7], [8]]), torch.arange(12)[None]
    batch, every = (hs.Examples(problem).at(seed, numbers) for problem in (setup.problem, hs.RetrievalProblem(hops=3)))
    mixed = getattr(curriculum, f"Depths{name.replace('-', '')}")(None, setup.recipe).change(batch)
    depths = [int(hops) for hops in name.split("-")]
    for number in range(12):
        hops = depths[number % len(depths)]
        left = (batch.role[:, number] < 2 * hops) | (batch.role[:, number] == 6)
        assert torch.equal(mixed.inputs[:, number], batch.inputs[:, number] * left[..., None])
        assert torch.equal(mixed.targets[:, number], every.targets[:, number].unflatten(-1, (3, -1))[:, :, hops - 1])


def test_enough_and_not_enough():
    shares = {"3-hops/x1-x2-x3": 10, "3-hops/x1-x3": 9, "3-hops/x2-x3": 5, "3-hops/x3": 0}
    assert list(verdicts(shares).values()) == ["confirmed", "confirmed", "inconclusive", "refuted"]


def test_no_failure_without_a_control():
    """A recipe that never learns x3 shows nothing about what it was asked for."""
    assert verdicts({"3-hops/x1-x2-x3": 2, "3-hops/x3": 0})["3-hops/x3"] == "inconclusive"
    deep = "3-hops/x3-alone/6-layers"
    assert verdicts({"3-hops/x1-x2-x3": 10, deep: 0})[deep] == "inconclusive"
    assert verdicts({"3-hops/all/6-layers": 10, deep: 0})[deep] == "refuted"
    assert verdicts({"4-hops/x1-x2-x3-x4": 10, "3-hops/x3": 0})["3-hops/x3"] == "inconclusive"
    longer = "3-hops/x3-alone/10-times-the-steps"
    assert verdicts({"3-hops/x1-x2-x3": 10, longer: 1})[longer] == "refuted"


def test_one_success_without_a_curriculum_is_not_enough_and_is_reported():
    found = planted({"3-hops/x1-x2-x3": 10, "3-hops/x3": 1})
    assert "1 of 10 (0% to 45%)" in curriculum.judge(found)[1].observed


def test_few_seeds_say_nothing():
    found = planted({"3-hops/x1-x2-x3": 10, "3-hops/x3": 0})
    for count, verdict in ((4, "inconclusive"), (0, "not run")):
        few = [replace(one, seeds=one.seeds[:count], learned=one.learned[:count]) for one in found.conditions]
        assert [judgement.verdict for judgement in curriculum.judge(Conditions(tuple(few)))] == [verdict] * 2


def test_the_figure_has_a_row_a_condition():
    counts, shares = figure(planted({"3-hops/x1-x2-x3": 10, "3-hops/x3": 0})).axes
    assert [text.get_text() for text in shares.texts] == ["200", "-"]
    assert [text.get_text() for text in counts.texts] == ["10/10", "10/10", "10/10", "0/10"]
    assert counts.get_title(loc="left") == "n = 10 seeds each"
    assert [label.get_text() for label in counts.get_yticklabels()] == ["3 hops: x1 x2 x3", "3 hops: x3"]
