"""Section 7: its presets and its runs, which become groups, are gone on from, and are no other preset's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.errors import InputError
from hopscope.paper.presets import FIGURE_4, LAPTOP, PAPER, PAPER_SHORT
from hopscope.paper.recipes import A
from hopscope.paper.section_7 import SUMMARY, made, read, run
from hopscope.training.execution import Execution
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import train_all


def test_presets_have_a_run_for_each_seed_and_a_twin_for_every_run_without_the_curriculum():
    study = FIGURE_4.depth
    assert (study.layers, study.hops, study.plain_hops) == (PAPER.depth.layers, 5, 3)
    assert study.seeds == study.plain_seeds
    assert {(setup.recipe.prune_every, setup.recipe.steps) for setup in study.setups()} == {(None, 4_800)}
    assert len({setup.name for setup in study.setups()}) == 2 * len(study.layers) * len(study.seeds)
    runs = LAPTOP.depth.runs(True, 4)
    assert [(setup.name, setup.seeds) for setup in runs] == [(f"ic-layers-4-seed-{n}", (n,)) for n in range(4)]
    assert LAPTOP.circuits.setups == LAPTOP.emergence.setups == tuple(runs)


def test_the_short_preset_is_of_as_shape_and_lets_every_claim_on_circuits_be_judged():
    setups = PAPER_SHORT.circuits.setups
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
def test_runs_of_a_depth_are_one_panel(tmp_path):
    study = replace(LAPTOP.depth, recipe=RECIPE, layers=(1, 2), hops=1, plain_hops=1, plain_seeds=(), followed=None)
    assert read(study, tmp_path).models == ()
    train_all(study.runs(True, 1)[:1], tmp_path / "sweep", execution=EXECUTION)
    assert [model.seed for model in read(study, tmp_path).models] == [0]
    run(study, tmp_path, EXECUTION)
    found = read(study, tmp_path)
    assert [(model.layers, model.seed) for model in found.models] == [
        (layers, seed) for layers in (1, 2) for seed in study.seeds_at(True, layers)
    ]
    assert found.models == SUMMARY.read(tmp_path / "summary.json").models
    for model in found.models:
        alone = RunFolder(tmp_path / "sweep" / f"ic-layers-{model.layers}-seed-{model.seed}")
        assert model.held_out_loss == alone.result.models[0].held_out_loss
        assert model.crossings == alone.metrics.first_below()[0]
    assert [(layers, metrics.seeds) for layers, metrics in found.curves] == [(1, study.seeds), (2, study.seeds)]


def test_a_study_by_depth_goes_on_from_its_summary(tmp_path):
    """Runs that are gone are not trained again, and stand beside those that are trained now, in the order of the seeds.

    Another recipe's are no part of it, and a followed depth is trained: its circuits need the weights.
    """
    few = replace(
        LAPTOP.depth, recipe=RECIPE, layers=(1,), hops=1, plain_hops=1, seeds=(2, 1), plain_seeds=(), followed=None
    )
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
    known = {(model.made, model.seed) for model in found.models}
    assert more.left(known) == []
    other = replace(more, recipe=replace(RECIPE, learning_rate=0.1))
    assert other.left(known) == other.setups()
    followed = replace(more, layers=(1,), followed=1, seeds_followed=())
    assert followed.left({(made(setup), setup.seeds[0]) for setup in followed.setups()}) == followed.setups()


def test_the_summary_of_another_preset_is_refused_and_kept(tmp_path):
    """Planted: what small models came to, presented as the paper's exact recipe."""
    summary = tmp_path / "summary.json"
    shutil.copy(Path(__file__).parents[2] / "results" / "figure-4" / "summary.json", summary)
    models = read(FIGURE_4.depth, tmp_path).models
    assert len(models) == 128
    before = summary.read_bytes()
    for study in (PAPER.depth, LAPTOP.depth, replace(FIGURE_4.depth, layers=(1, 2))):
        with pytest.raises(InputError, match=r"summary\.json holds models of . layers? and D = . that .*untouched"):
            read(study, tmp_path)
        with pytest.raises(InputError, match=r"summary\.json holds models"):
            run(study, tmp_path, EXECUTION)
        assert summary.read_bytes() == before
    few = replace(FIGURE_4.depth, seeds=FIGURE_4.depth.seeds[:2])
    assert {model.seed for model in read(few, tmp_path).models if model.curriculum} == {0, 1}
