"""Section 7: C3 to C5 and C20 by data in which they are false, true, open; its presets; its runs read again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from made_results import trained

from hopscope.errors import InputError
from hopscope.paper.claims import Finding
from hopscope.paper.presets import FIGURE_4, LAPTOP, PAPER, PAPER_SHORT
from hopscope.paper.recipes import A
from hopscope.paper.section_7 import SUMMARY, DepthResult, DepthStudy, TrainedModel, made, read, run
from hopscope.paper.section_7_claims import judge
from hopscope.training.execution import Execution
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import train_all

LOW, HIGH = 0.01, 0.75


def judged(*models: list[TrainedModel], study: DepthStudy = PAPER.depth) -> dict[str, Finding]:
    return {finding.id: finding for finding in judge(DepthResult(study, tuple(chain(*models)), "sweep"))}


def plain(layers: int, losses: list[float | None]) -> list[TrainedModel]:
    return trained(layers, curriculum=False, losses=[[loss] for loss in losses])


def learners(layers: int, *hops_learned: int, hops: int = 5, tied: bool = False) -> list[TrainedModel]:
    """A group in which each seed learned so many hops, one after the other."""
    losses = [[LOW if hop < count else HIGH for hop in range(hops)] for count in hops_learned]
    steps = [100 if tied else 100 * (hop + 1) for hop in range(hops)]
    crossings = [[*steps[:count], *[None] * (hops - count)] for count in hops_learned]
    return trained(layers, hops=hops, losses=losses, crossings=crossings)


def changed(models: list[TrainedModel], **changes: Any) -> list[TrainedModel]:
    return [replace(model, **changes) for model in models]


_REACHED = ([0] * 8, [1] * 8, [3] * 6 + [2] * 2, [4] * 6 + [3] * 2, [5] * 6 + [4] * 2, [5] * 8, [5] * 8, [5] * 8)
PAPERS = tuple(learners(layers, *reached) for layers, reached in enumerate(_REACHED, start=1))
"""What the paper says of runs with the curriculum; a few seeds lag."""


def full_sweep() -> list[list[TrainedModel]]:
    return [*PAPERS, *(plain(layers, [0.75] * 8) for layers in range(1, 9))]


def test_the_papers_own_data_would_hold():
    found = judged(*full_sweep())
    assert {finding.as_the_paper for finding in found.values()} == {"yes"}
    assert {finding.in_general for finding in found.values() if finding.id != "C20"} == {"holds"}
    assert found["C3"].share == (46, 46)  # 6 depths that theory allows x 8 seeds, less two that did not learn x3
    assert found["C5"].share == (48, 48)  # one layer learns no hop and two learn one
    assert found["C20"].share == (24, 24)  # 1, 2 and 3 layers
    for finding in found.values():
        assert finding.scale.startswith("paper: D = ")
        assert finding.run == "sweep"


def test_another_recipe_is_not_as_the_paper_did_it():
    found = judged(*full_sweep(), study=FIGURE_4.depth)
    assert {finding.as_the_paper for finding in found.values()} == {"not run"}
    assert found["C3"].in_general == "holds"


class TestC3:
    def test_runs_that_diverged_with_a_curriculum_that_never_learned_show_nothing(self):
        lost = [plain(layers, [None] * 8) for layers in range(1, 9)]
        assert judged(*lost, *(learners(layers, *[0] * 8) for layers in range(1, 9)))["C3"].in_general == "not run"

    def test_depths_that_theory_rules_out_do_not_count(self):
        shallow = [learners(layers, *[5] * 40) for layers in (1, 2)]
        found = judged(*shallow, *(plain(layers, [0.75] * 40) for layers in (1, 2)))["C3"]
        assert (found.in_general, found.share) == ("not run", None)

    def test_a_control_must_have_the_same_depth_seed_and_chains(self):
        other_depth = judged(learners(4, *[5] * 40), plain(5, [0.75] * 40))["C3"]
        other_seeds = judged(changed(learners(4, *[5] * 40), seed=100), plain(4, [0.75] * 40))["C3"]
        easier = judged(changed(learners(4, *[5] * 40), chains=2), plain(4, [0.75] * 40))["C3"]
        assert {found.share for found in (other_depth, other_seeds, easier)} == {None}
        assert judged(learners(4, *[5] * 40), plain(4, [0.75] * 40))["C3"].share == (40, 40)

    def test_one_success_is_an_exception(self):
        found = judged(*PAPERS, plain(8, [0.75] * 7 + [0.69]))["C3"]
        assert (found.as_the_paper, found.share) == ("no", (7, 8))
        assert "the lowest at 0.690" in found.numbers

    @pytest.mark.parametrize(("hops", "loss"), [(1, 0.01), (2, 0.01), (8, 0.75)])
    def test_the_claim_is_of_three_hops(self, hops: int, loss: float):
        """One hop is learned without a curriculum, there being none to leave out; eight may fail for other reasons."""
        others = trained(4, hops=hops, curriculum=False, losses=[[loss]] * 40)
        found = judged(trained(4, hops=8, losses=[[LOW] * 8] * 40), others)["C3"]
        assert (found.known, found.reason) == (False, "no run without the curriculum at D = 3 with a finite loss")
        assert judged(learners(4, *[5] * 40), plain(4, [0.75] * 40), others)["C3"].share == (40, 40)


class TestC4:
    @pytest.mark.parametrize("seeds", [2, 8, 40])
    def test_hops_learned_by_the_same_runs_are_not_told_apart(self, seeds: int):
        """x2 and x3 need three layers both: nothing speaks for the claim, however many runs, and nothing against it."""
        groups = [learners(layers, *[count] * seeds, hops=3) for layers, count in ((1, 0), (2, 1), (3, 3), (4, 3))]
        found = judged(*groups)["C4"]
        assert (found.as_the_paper, found.in_general) == ("no", "open")

    @pytest.mark.parametrize(("turned", "said"), [(6, "open"), (7, "does not hold")])
    def test_a_hop_that_is_easier_than_the_one_before_it_refutes(self, turned: int, said: str):
        """x3 without x2, in six runs of 26 (p = 0.016) and in seven (0.008)."""
        losses = [[LOW, HIGH, LOW]] * turned + [[LOW, LOW, LOW]] * 20
        assert judged(trained(4, hops=3, losses=losses))["C4"].in_general == said

    def test_a_hop_that_theorem_1_forbids_refutes(self):
        impossible = changed(PAPERS[0], partial_losses=(LOW, LOW, HIGH, HIGH, HIGH))
        assert judged(impossible, *PAPERS[1:])["C4"].in_general == "does not hold"

    @pytest.mark.parametrize("least", [1, 3, 4])
    def test_one_depth_for_all_hops_or_all_but_the_first_leaves_it_open(self, least: int):
        """x1 needs `least` layers or two, all others four or `least`, and each is then learned by nine in ten."""
        below = [learners(layers, *[min(layers - 1, 1) if least > 1 else 0] * 8) for layers in range(1, max(least, 4))]
        deep = range(max(least, 4), 9)
        lucky = [learners(layers, 5, 5, 5, 5, 4, 3, 2, 1) for layers in deep]
        assert judged(*below, *lucky)["C4"].in_general == "open"
        early = judged(below[0], learners(2, 1, *[0] * 7), learners(3, 1, 1, 1, 2, *[0] * 4), *lucky)["C4"]
        assert early.in_general == "holds", "x1 with two layers, x2 with three, x4 with four"


class TestC5:
    def test_a_tie_within_one_row_counts_against_it(self):
        found = judged(learners(4, *[3] * 60), learners(5, *[3] * 12, tied=True))["C5"]
        assert (found.share, found.in_general, found.as_the_paper) == ((60, 72), "open", "no")
        assert "12 with two hops at one step" in found.spread

    @pytest.mark.parametrize("crossings", [(200, 100, 300, None, None), (None, 100, None, None, None)])
    def test_a_run_out_of_order_is_an_exception(self, crossings):
        bad = trained(4, hops=5, losses=[[LOW] * 5], crossings=[crossings])
        found = judged(learners(5, *[5] * 60), bad)["C5"]
        assert (found.as_the_paper, found.share) == ("no", (60, 61))
        assert "60 of 61 runs that learned two hops in order, 1 out of order" in found.numbers

    def test_runs_that_learned_one_hop_say_nothing(self):
        assert not judged(learners(2, *[1] * 8))["C5"].known


class TestC20:
    def test_a_loss_that_falls_by_degrees_below_the_least_depth_is_a_mirage(self):
        """Half of x2 comes with two layers, all of it with three."""
        half = trained(2, hops=3, losses=[[LOW, 0.55, HIGH]] * 8)
        found = judged(half, learners(3, *[3] * 8, hops=3))["C20"]
        assert (found.as_the_paper, found.share) == ("yes", (0, 8)), "it was not learned, and yet there in part"

    def test_what_no_deeper_run_learned_is_no_test(self):
        assert not judged(learners(2, *[1] * 8), learners(3, *[1] * 8))["C20"].known


def test_presets_have_a_run_for_each_seed_and_a_twin_for_every_run_without_the_curriculum():
    study = FIGURE_4.depth
    assert (study.layers, study.hops, study.plain_hops) == (PAPER.depth.layers, 5, 3)
    assert study.plain_seeds is None
    assert {(setup.recipe.prune_every, setup.recipe.steps) for setup in study.setups()} == {(None, 4_800)}
    assert len({setup.name for setup in study.setups()}) == 2 * len(study.layers) * len(study.seeds)
    runs = LAPTOP.depth.runs(True, 3)
    assert [(setup.name, setup.seeds) for setup in runs] == [(f"ic-layers-3-seed-{n}", (n,)) for n in range(3)]
    assert LAPTOP.models.setups == LAPTOP.models.followed == tuple(runs)


def test_the_short_preset_is_of_as_shape_and_lets_every_claim_on_circuits_be_judged():
    setups = PAPER_SHORT.models.setups
    assert [setup.seeds for setup in setups] == [(seed,) for seed in range(10)]
    for setup in setups:
        assert setup.problem == A.problem
        changed = {name for name, value in vars(A.recipe).items() if value != getattr(setup.recipe, name)}
        assert changed == {"steps", "schedule", "checkpoint_every"}


RECIPE = Recipe(
    1, 1, 8, steps=8, batch_size=2, schedule="decay-when-learned", decay_fraction=0.25, log_every=2, final_steps=2,
    mlp=False,
)  # fmt: skip
EXECUTION = Execution(workers=1, precision="fp32")


@pytest.mark.slow
def test_finished_runs_are_read_and_the_others_trained(tmp_path):
    study = replace(LAPTOP.depth, recipe=RECIPE, layers=(1, 2), hops=1, plain_hops=1, plain_seeds=(), followed=None)
    assert read(study, tmp_path).models == ()
    train_all(study.runs(True, 1)[:1], tmp_path / "sweep", execution=EXECUTION)
    assert [model.seed for model in read(study, tmp_path).models] == [0]
    run(study, tmp_path, EXECUTION)
    found = read(study, tmp_path)
    assert [(model.layers, model.seed) for model in found.models] == [
        (layers, seed) for layers in (1, 2) for seed in study.seeds
    ]
    assert found.models == SUMMARY.read(tmp_path / "summary.json").models
    for model in found.models:
        alone = RunFolder(tmp_path / "sweep" / f"ic-layers-{model.layers}-seed-{model.seed}")
        assert model.held_out_loss == alone.result.models[0].held_out_loss
        assert model.crossings == alone.metrics.first_below()[0]


def test_a_study_by_depth_goes_on_from_its_summary(tmp_path):
    """Runs that are gone are listed in the order of the seeds; a followed depth is trained again for its circuits."""
    small = {"hops": 1, "plain_hops": 1, "plain_seeds": (), "followed": None}
    few = replace(LAPTOP.depth, recipe=RECIPE, layers=(1,), seeds=(2, 1), **small)
    run(few, tmp_path, EXECUTION)
    first = read(few, tmp_path).models
    shutil.rmtree(tmp_path / "sweep")
    more = replace(few, seeds=(0, 1, 2), layers=(1, 2))
    run(more, tmp_path, EXECUTION)
    found = read(more, tmp_path)
    trained = {f"ic-layers-{name}" for name in ("1-seed-0", "2-seed-0", "2-seed-1", "2-seed-2")}
    assert {path.name for path in (tmp_path / "sweep").iterdir()} == trained
    assert [model.seed for model in found.models] == [0, 1, 2] * 2
    assert (found.models[2], found.models[1]) == first
    fresh = RunFolder(tmp_path / "sweep" / "ic-layers-1-seed-0")
    assert found.models[0].held_out_loss == fresh.result.models[0].held_out_loss
    assert found.models == SUMMARY.read(tmp_path / "summary.json").models
    assert len(read(replace(more, seeds=(1,)), tmp_path).models) == 2
    assert {model.seed for model in SUMMARY.read(tmp_path / "summary.json").models} == {0, 1, 2}  # none is forgotten
    known = {(model.made, model.seed) for model in found.models}
    assert more.left(known) == []
    other = replace(more, recipe=replace(RECIPE, learning_rate=0.1))
    assert other.left(known) == other.setups()
    followed = replace(more, layers=(1,), followed=1)
    assert followed.left({(made(setup), setup.seeds[0]) for setup in followed.setups()}) == followed.setups()


def test_the_summary_of_another_preset_is_refused_and_kept(tmp_path):
    """Planted: what small models came to, presented as the paper's exact recipe."""
    summary = tmp_path / "summary.json"
    shutil.copy(Path(__file__).parents[2] / "results" / "figure-4" / "summary.json", summary)
    models = read(FIGURE_4.depth, tmp_path).models
    assert len(models) == 128
    before = summary.read_bytes()
    for study in (PAPER.depth, LAPTOP.depth, replace(FIGURE_4.depth, layers=(1, 2))):
        with pytest.raises(InputError, match=r"summary\.json holds a model of . layers? and D = . with other settings"):
            read(study, tmp_path)
        with pytest.raises(InputError, match=r"summary\.json holds a model .* it was left untouched"):
            run(study, tmp_path, EXECUTION)
        assert summary.read_bytes() == before
    few = replace(FIGURE_4.depth, seeds=FIGURE_4.depth.seeds[:2])
    assert {model.seed for model in read(few, tmp_path).models if model.curriculum} == {0, 1}
