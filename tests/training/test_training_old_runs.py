"""Run folders of older versions: read by new code, and trained anew to the same numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import hopscope as hs
from hopscope.errors import InputError
from hopscope.training.execution import REFERENCE
from hopscope.training.run import RunFolder

GOLDEN = Path(__file__).parent / "golden" / "run"
"""Written when run.json said `format` and result.json said nothing of itself: 1 layer, 3 steps, seeds 1 and 2."""

RESULTS = Path(__file__).parents[2] / "results" / "paper" / "transformers"


def test_an_old_run_folder_is_read():
    run = RunFolder(GOLDEN)
    assert (run.problem.hops, run.recipe.steps, run.seeds) == (1, 3, (1, 2))
    assert run.execution == REFERENCE
    assert run.finished
    assert run.result.models[1].held_out_partial_losses == (1.2678554058074951,)
    assert run.metrics.steps.tolist() == [1, 2, 3]
    assert run.metrics.partial_losses[2, 1, 0] == 0.8761253356933594
    assert run.transformer().embed.weight.shape[0] == 2


def test_an_old_run_is_found_again_and_not_trained(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    hs.train(run.recipe, run.problem, tmp_path / "run", seeds=[1, 2])
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_an_old_run_cut_short_is_continued(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    run = RunFolder(tmp_path / "run")
    hs.train(run.recipe, run.problem, tmp_path / "run", seeds=[1, 2])
    for new, old in zip(run.result.models, RunFolder(GOLDEN).result.models, strict=True):
        assert (new.seed, new.hash, new.final_partial_losses) == (old.seed, old.hash, old.final_partial_losses)
        assert new.held_out_partial_losses == pytest.approx(old.held_out_partial_losses, rel=1e-5)
        assert new.held_out_standard_error == pytest.approx(old.held_out_standard_error, rel=1e-5)


def test_the_same_seeds_give_the_same_numbers_as_then(tmp_path):
    """To the bit on the machine that made it; others round otherwise in the last places."""
    old = RunFolder(GOLDEN)
    new = hs.train(old.recipe, old.problem, tmp_path / "run", seeds=old.seeds, execution=old.execution)
    assert new.record.content_hash == old.record.content_hash
    assert new.model_hashes == old.model_hashes
    then, now = old.transformer().state_dict(), new.transformer().state_dict()
    assert then.keys() == now.keys()
    for name in then:
        if name.endswith("key.bias"):
            continue  # it shifts a row's logits alike: its gradient is rounding alone, which AdamW makes steps of
        torch.testing.assert_close(now[name], then[name], rtol=1e-5, atol=1e-6)
    assert new.metrics.partial_losses == pytest.approx(old.metrics.partial_losses, rel=1e-5)


@pytest.mark.parametrize("name", ["a", "d"])
def test_the_stored_runs_of_the_paper_are_read(name):
    run = RunFolder(RESULTS / name)
    assert run.require(getattr(hs.paper, name.upper())) is run
    assert len(run.result.models) == 1
    assert run.metrics.steps[-1] == run.recipe.steps
    learned = run.metrics.first_below()[0]
    assert list(learned) == sorted(learned)  # C5: hop by hop


def test_a_newer_run_is_refused_in_one_sentence(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "run")
    record = tmp_path / "run" / "run.json"
    for name in ("format", "schema"):
        fields = json.loads((GOLDEN / "run.json").read_text())
        del fields["format"]
        record.write_text(json.dumps({**fields, name: 2}))
        with pytest.raises(InputError, match=r"run\.json has schema 2 and this hopscope reads 1 at most.*untouched"):
            RunFolder(tmp_path / "run")
