"""What lies where a study's own would lie, and is another's, is refused in one sentence, and not counted."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.store import circuit_path
from hopscope.errors import InputError
from hopscope.paper import presets
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.many import train_all
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup
from hopscope.training.work import Work
from studies import pruning, searches, text
from studies.tools.asking import study as ask_study
from studies.tools.circuits import HASTY, find_circuits
from studies.tools.moving_rows import places_of

STORED = Path(__file__).parents[2] / "results"
SMALL = Recipe(layers=2, heads=2, d_model=8, mlp=False, steps=4, batch_size=4, validation_size=4)
SETUP = Setup("seed-0", RetrievalProblem(hops=1), SMALL, (0,))
OTHER = replace(SETUP, recipe=replace(SMALL, heads=1), seeds=(9,))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders with a run of the same name: that of `SETUP`, and another."""
    folder = tmp_path_factory.mktemp("trained")
    train_all([SETUP], folder / "mine", execution=Execution(execution=Execution(workers=1)))
    train_all([OTHER], folder / "theirs", execution=Execution(execution=Execution(workers=1)))
    return folder


@pytest.mark.parametrize("idle", [False, True])
def test_a_run_of_another_setup_has_no_circuit_here(idle: bool, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything is trained."""
    monkeypatch.setattr("hopscope.training.many.train_all", lambda *_, **__: pytest.fail("it is trained"))
    beside = replace(SETUP, name="seed-1")
    with pytest.raises(InputError, match=r"theirs/seed-0 holds a run with heads = 1, not 2; choose another folder"):
        find_circuits([beside, SETUP], trained / "theirs", Work(workers=1, idle=idle), HASTY)
    assert not list((trained / "theirs").rglob("circuit*.json"))


def test_a_run_of_another_setup_is_not_asked(trained: Path) -> None:
    with pytest.raises(InputError, match="holds a run with heads = 1, not 2"):
        places_of([SETUP], trained / "theirs", (), Work(), lambda problem: (1,), 4)
    assert places_of([SETUP], trained / "theirs", (), Work(idle=True), lambda problem: (1,), 4) == ()


def test_the_circuit_of_another_model_is_not_taken_for_its_own(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "mine", tmp_path / "mine")
    path = circuit_path(tmp_path / "mine" / SETUP.name)
    shutil.copy(STORED / "laptop" / "sweep" / "ic-layers-4-seed-0" / "circuit.json", path)
    words = f"{path} holds the circuit of another model; find this one's with `hopscope circuit"
    with pytest.raises(InputError, match=re.escape(words)):
        find_circuits([SETUP], tmp_path / "mine", Work(idle=True), HASTY)


@pytest.mark.parametrize("arm", ["pruned/seed-000", "all-heads/seed-000", f"laptop/seed-{pruning.UNSEEN}"])
def test_pruning_refuses_the_run_of_something_else(arm: str, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "theirs" / OTHER.name, tmp_path / "pruning" / "runs" / arm)
    with pytest.raises(InputError, match=rf"runs/{arm} holds a run with ") as refused:
        ask_study("pruning", tmp_path / "pruning", quick=True, workers=1)
    assert str(refused.value).count("\n") == 0
    study = pruning.quick(presets.TINY.depth.recipe)
    assert arm in {one.name for one in (*study.pruned_models, *study.whole_models, *study.laptop_models)}
    assert [path.name for path in (tmp_path / "pruning").iterdir()] == ["runs"]


def test_searches_tell_runs_of_one_name_apart(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets its own numbers; a record is of one model, whatever its file is called."""
    monkeypatch.setattr(searches, "SEARCHES", {"ACDC's rule": searches.SEARCHES["ACDC's rule"]})
    monkeypatch.setattr(searches, "_FRESH", 8)
    paths = [trained / "mine" / "seed-0", trained / "theirs" / "seed-0"]
    found = searches.run(tmp_path, (), paths)
    assert [one.model for one in found] == ["mine/seed-0", "theirs/seed-0"]
    alone = [searches.run(tmp_path / str(number), (), [path])[0] for number, path in enumerate(paths)]
    assert [one.full for one in found] == [one.full for one in alone]
    assert found[0].full != found[1].full
    first, second = (tmp_path / f"{name}-seed-0-ACDCs-rule.json" for name in ("mine", "theirs"))
    assert searches.run(tmp_path, (), paths) == found
    shutil.copy(first, second)
    with pytest.raises(InputError, match=r"theirs-seed-0-ACDCs-rule\.json belongs to another run"):
        searches.run(tmp_path, (), paths)


def test_what_searches_found_in_built_models_is_read_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(STORED / "search", tmp_path / "search")
    monkeypatch.setattr(searches, "_one", lambda *_: pytest.fail("it is known"))
    assert len(searches.run(tmp_path / "search", (2, 3, 4), ())) == 3 * len(searches.SEARCHES)


def test_a_model_that_diverged_is_not_searched(tmp_path: Path) -> None:
    wild = replace(SETUP, recipe=replace(SMALL, learning_rate=1e30, clip=None))
    train_all([wild], tmp_path, execution=Execution(execution=Execution(workers=1)))
    with pytest.raises(InputError, match=r"seed-0 diverged, so there is nothing to search; leave it out"):
        searches.run(tmp_path / "out", (), [tmp_path / "seed-0"])


def test_the_circuit_of_a_model_of_vectors_answers_no_text(tmp_path: Path) -> None:
    arm = text.ARMS[0]
    path = tmp_path / "circuits" / f"{arm.name}-seed-{arm.seeds[0]}-1-hops.json"
    path.parent.mkdir()
    shutil.copy(STORED / "laptop" / "sweep" / "ic-layers-4-seed-0" / "circuit.json", path)
    assert Circuit.load(path).text is None
    with pytest.raises(InputError, match=r"1-hops\.json holds the circuit of a model of vectors, not of a language"):
        ask_study("text", tmp_path, idle=True)
