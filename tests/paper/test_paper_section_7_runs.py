"""Section 7: its presets and its runs, which become groups, are gone on from, and are no other preset's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.errors import InputError
from hopscope.paper.groups import read_summary
from hopscope.paper.presets import FIGURE_4, LAPTOP, PAPER, PAPER_SHORT
from hopscope.paper.recipes import A
from hopscope.paper.section_7 import made, read, run
from hopscope.training.execution import Execution
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import train_all


def test_figure_4_has_the_papers_depths_and_hops_and_a_twin_for_every_run_without_the_curriculum():
    study = FIGURE_4.depth
    assert (study.layers, study.hops, study.plain_hops) == (PAPER.depth.layers, 5, 3)
    assert study.seeds == study.plain_seeds
    assert {setup.recipe.prune_every for setup in study.setups()} == {None}
    assert len({setup.recipe.steps for setup in study.setups()}) == 1
    assert len(study.setups()) == 2 * len(study.layers) * len(study.seeds)
    assert FIGURE_4.alone == ()


def test_the_short_preset_is_of_as_shape_and_lets_every_claim_on_circuits_be_judged():
    assert PAPER_SHORT.depth.setups() == []
    setups = PAPER_SHORT.alone
    assert sorted(setup.seeds for setup in setups) == [(seed,) for seed in range(10)]
    for setup in setups:
        assert setup.problem == A.problem
        assert setup.recipe.prune_every is None
        same = {"steps", "schedule", "checkpoint_every"}
        assert {name for name, value in vars(A.recipe).items() if value != getattr(setup.recipe, name)} == same


def test_each_seed_is_a_run():
    study = LAPTOP.depth
    runs = study.runs(True, 4)
    assert [(one.name, one.seeds) for one in runs] == [(f"ic-layers-4-seed-{seed}", (seed,)) for seed in range(4)]
    assert {one.recipe.layers for one in runs} == {4}
    constant = replace(study, recipe=replace(study.recipe, schedule="constant"))
    assert [(one.name, one.seeds) for one in constant.runs(True, 4)] == [(one.name, one.seeds) for one in runs]
    assert LAPTOP.circuits.setups == LAPTOP.emergence.setups == tuple(runs)
    assert len({setup.name for setup in study.setups()}) == len(study.setups())


@pytest.mark.slow
def test_runs_of_a_depth_are_one_group_and_one_panel(tmp_path):
    recipe = Recipe(
        1,
        1,
        8,
        steps=8,
        batch_size=2,
        schedule="decay-when-learned",
        decay_fraction=0.25,
        log_every=2,
        final_steps=2,
        mlp=False,
    )
    study = replace(LAPTOP.depth, recipe=recipe, layers=(1, 2), hops=1, plain_hops=1, plain_seeds=(), followed=None)
    assert read(study, tmp_path).groups == ()
    train_all(study.runs(True, 1)[:1], tmp_path / "sweep", execution=Execution(precision="fp32", workers=1))
    (some,) = read(study, tmp_path).groups
    assert (some.seeds, some.run) == ((0,), "sweep/ic-layers-1-seed-0")
    found = run(study, tmp_path, Execution(workers=1, precision="fp32"))
    assert [(group.layers, group.seeds, group.run) for group in found.groups] == [
        (1, study.seeds, "sweep"),
        (2, study.seeds_at(True, 2), "sweep"),
    ]
    assert found.groups == read_summary(tmp_path / "summary.json")
    for one in found.groups:
        for place, seed in enumerate(one.seeds):
            alone = RunFolder(tmp_path / "sweep" / f"ic-layers-{one.layers}-seed-{seed}")
            assert one.held_out_loss[place] == alone.result.models[0].held_out_loss
            assert one.crossings[place] == alone.metrics.first_below()[0]
    assert [(layers, metrics.seeds) for layers, metrics in found.curves] == [
        (group.layers, group.seeds) for group in found.groups
    ]


def test_a_study_by_depth_goes_on_from_its_summary(tmp_path):
    """Runs that are gone are not trained again, and stand beside those that are trained now, in the order of the seeds.

    Another recipe's are no part of it, and a followed depth is trained: its circuits need the weights.
    """
    recipe = Recipe(
        1,
        1,
        8,
        steps=8,
        batch_size=2,
        schedule="decay-when-learned",
        decay_fraction=0.25,
        log_every=2,
        final_steps=2,
        mlp=False,
    )
    few = replace(
        LAPTOP.depth, recipe=recipe, layers=(1,), hops=1, plain_hops=1, seeds=(2, 1), plain_seeds=(), followed=None
    )
    work = Execution(workers=1, precision="fp32")
    (first,) = run(few, tmp_path, work).groups
    shutil.rmtree(tmp_path / "sweep")
    more = replace(few, seeds=(0, 1, 2), layers=(1, 2))
    found = run(more, tmp_path, work)
    trained = {f"ic-layers-{name}" for name in ("1-seed-0", "2-seed-0", "2-seed-1", "2-seed-2")}
    assert {entry.name for entry in (tmp_path / "sweep").iterdir()} == trained
    one, two = found.groups
    assert (one.seeds, two.seeds) == ((0, 1, 2), (0, 1, 2))
    assert (one.held_out_loss[2], one.held_out_loss[1]) == first.held_out_loss
    assert (one.final_partial_losses[2], one.crossings[1]) == (first.final_partial_losses[0], first.crossings[1])
    fresh = RunFolder(tmp_path / "sweep" / "ic-layers-1-seed-0")
    assert one.held_out_loss[0] == fresh.result.models[0].held_out_loss
    assert read(more, tmp_path).groups == found.groups == read_summary(tmp_path / "summary.json")
    known = {group.made: group for group in found.groups}
    assert more.left(known) == []
    other = replace(more, recipe=replace(recipe, learning_rate=0.1))
    assert other.left(known) == other.setups()
    followed = replace(more, layers=(1,), followed=1, seeds_followed=())
    assert followed.left({made(followed.setups()[0]): one}) == followed.setups()


def test_the_summary_of_another_preset_is_refused_and_kept(tmp_path):
    """Planted: what small models came to, told as the paper's exact recipe."""
    summary = tmp_path / "summary.json"
    shutil.copy(Path(__file__).parents[2] / "results" / "figure-4" / "summary.json", summary)
    groups = read(FIGURE_4.depth, tmp_path).groups
    assert len(groups) == 16
    before = summary.read_bytes()
    for study in (PAPER.depth, LAPTOP.depth, replace(FIGURE_4.depth, layers=(1, 2))):
        with pytest.raises(InputError, match=r"summary\.json holds models of . layers? and D = . that .*untouched"):
            read(study, tmp_path)
        with pytest.raises(InputError, match=r"summary\.json holds models"):
            run(study, tmp_path)
        assert summary.read_bytes() == before
    few = replace(FIGURE_4.depth, seeds=FIGURE_4.depth.seeds[:2])
    assert {len(group.seeds) for group in read(few, tmp_path).groups if group.curriculum} == {2}
    assert len({group.layers for group in groups}) == 8
