"""The learning study: what counts as learned, what was never learned, and budgets that are longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_arms import ARM, ARMS, MIXED, THREE, arm, learns

from hopscope.errors import InputError
from hopscope.paper.recipes import LAPTOP, PLAIN
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.schedule import Schedule
from studies import learning
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms
from studies.tools.work import Work

LONGER = "3-layers-twice-the-steps"


def verdict(one: ArmLearned) -> str:
    return learning.judge(Arms((one,)))[0].verdict


def test_as_asked():
    """Nine in ten must learn x3 with three layers."""
    good, bad = learns(3, 9), learns(3, 1, 2)
    assert verdict(arm("a", THREE, good + bad, layers=3)) == "as asked"
    assert verdict(arm("a", THREE, learns(3, 8) + bad + bad, layers=3)) == "not as asked"
    assert verdict(arm("a", THREE, good[:2], layers=3, missing=8)) == "inconclusive"
    assert verdict(arm("a", THREE, [], layers=3)) == "not run"


def test_an_answer_says_which_recipe_it_is_of():
    study = learning.LearningStudy(PLAIN, (0, 1))
    asked = [learning.judge(Arms((ArmLearned(one, (), ()),)))[0].asked for one in study.arms]
    assert asked[2:6] == [
        "2 layers: x1 in 2 of 2 seeds",
        "3 layers, twice the steps: x3 in 2 of 2 seeds",
        "2 layers, twice the steps: x1 in 2 of 2 seeds",
        "4 layers, 16 heads: x3 in 2 of 2 seeds",
    ]
    recipe = study.arms[5].recipe
    assert (recipe.heads, recipe.head_dim, recipe.d_model, recipe.weight_decay) == (16, 8, 64, 0.03)
    assert asked[8:10] == [
        "3 layers, 16 heads gain 2: x3 in 2 of 2 seeds",
        "4 layers, 16 heads dropout: x3 in 2 of 2 seeds",
    ]
    assert {(one.recipe.layers, one.recipe.head_dropout, one.recipe.qk_gain) for one in study.arms[9:]} == {
        (4, 0.1, 4.0),
        (3, 0.1, 4.0),
        (2, 0.1, 4.0),
    }
    assert (study.arms[8].recipe.qk_gain, study.arms[8].recipe.weight_decay) == (2.0, 0.1)


def test_what_was_asked_of_every_depth_is_the_laptops_recipe():
    """Heads go only when all hops are learned, so until then it is the same training."""
    *before, four, three, two = learning.standard(PLAIN).arms
    assert [one.recipe.layers for one in (four, three, two)] == [4, 3, 2]
    for one in (four, three, two):
        assert replace(one.recipe, prune_every=LAPTOP.prune_every, steps=LAPTOP.steps, layers=4) == LAPTOP
        assert Schedule(LAPTOP).decay_start == one.recipe.steps
        assert {*one.seeds}.isdisjoint(seed for other in before for seed in other.seeds)


def test_what_can_no_longer_come_true_is_said_before_all_seeds_are_finished():
    assert verdict(arm("a", THREE, learns(3, 2, 2), layers=3, missing=8)) == "not as asked"


def test_what_theory_rules_out_is_never_as_asked():
    shallow = arm("2-layers", THREE, MIXED, layers=2)
    assert shallow.beyond_theory == 3
    assert verdict(shallow) == "not as asked"
    assert verdict(arm("2-layers", THREE, learns(3, 4, 1), layers=2)) == "as asked"
    assert ARM.beyond_theory == 0


def test_a_study_goes_on_from_its_record_alone(tmp_path):
    """Seeds that the record has are not trained again, unless it is of another recipe; what is trained now counts."""
    asked = []

    class Watched(Work):
        def train(self, setups, folder, then=None, *, in_order=False):
            asked.extend((setup.name.split("/")[0], setup.seeds[0]) for setup in setups)

    study = learning.LearningStudy(LAPTOP, (0, 1, 2))
    deep, other = study.arms[0], replace(study.arms[1], recipe=replace(study.arms[1].recipe, clip=7.0))
    kept = Arms(tuple(ArmLearned(one, (0, 2), ((20, 40, None), (20, 40, 60))) for one in (deep, other)))
    ARMS.write(tmp_path / "learning.json", kept)
    found = learning.run(study, tmp_path, Watched())
    assert [seed for name, seed in asked if name == deep.name] == [1]
    assert [seed for name, seed in asked if name == other.name] == [0, 1, 2]
    assert (found.arms[0].seeds, found.arms[0].learned) == ((0, 2), ((20, 40, None), (20, 40, 60)))
    assert found.arms[1].seeds == ()
    (longer,) = [arm for arm in found.arms if arm.name == LONGER]
    assert (longer.budget, longer.seeds) == (2 * deep.recipe.steps, ())
    assert learning.run(replace(study, seeds=(2,)), tmp_path, Watched()).arms[0].seeds == (2,)
    ARMS.write(tmp_path / "learning.json", found)  # with arms not begun
    assert learning.run(study, tmp_path, Work(judge_only=True)) == found
    (tmp_path / "learning.json").write_text("{")
    with pytest.raises(InputError, match=r"learning\.json"):
        learning.run(study, tmp_path, Watched())


def test_a_longer_budget_trains_those_alone_that_had_not_learned(tmp_path):
    """The others have the same run, to the bit; a shorter one takes none that learned later."""
    study = learning.LearningStudy(PLAIN, (0, 1))
    (three,) = [arm for arm in study.arms if arm.name == "3-layers"]
    kept = Arms((ArmLearned(three, (0, 1), ((20, 40, 2000), (20, 40, None))),))
    ARMS.write(tmp_path / "learning.json", kept)
    all_found = learning.run(study, tmp_path, Work(judge_only=True)).arms
    (found,) = [arm for arm in all_found if arm.name == LONGER]
    assert (found.seeds, found.learned) == ((0,), ((20, 40, 2000),))
    assert not any(arm.seeds for arm in all_found if "heads" in arm.name)  # of another recipe
    assert learning.judge(Arms((found,)))[0].asked == "3 layers, twice the steps: x3 in 2 of 2 seeds"
    shorter = learning.LearningStudy(replace(LAPTOP, steps=800), (0, 1))
    assert all(arm.seeds == () for arm in learning.run(shorter, tmp_path, Work(judge_only=True)).arms)


def test_a_run_is_the_same_with_a_longer_budget(tmp_path):
    """On which that rests: the same rows of metrics, as far as the shorter one goes."""
    recipe = replace(LAPTOP, layers=1, heads=2, d_model=8, batch_size=4, validation_size=4, log_every=5)
    rows = []
    for steps in (20, 40):
        arm = Setup(f"to-{steps}", RetrievalProblem(hops=1), replace(recipe, steps=steps), (3,))
        Work(workers=1).train(arms.runs_of(arm), tmp_path)
        rows.append(list(RunFolder(tmp_path / arm.name / "seed-003").rows()))
    assert rows[0][:-1] == rows[1][: len(rows[0]) - 1]
