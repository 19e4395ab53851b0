"""Planted circuits: labels that are right, certificates that say so, and a study that goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch

from hopscope.check import check
from hopscope.circuits.form import UNIFORM, one_hot
from hopscope.errors import InputError
from hopscope.lab import train
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import plain
from hopscope.studies import calibration
from hopscope.studies.calibration import CalibrationStudy, Certified, run, summary, table
from hopscope.studies.hosts import Host, hand_built, trained
from hopscope.studies.planting import Kind, label, plant
from hopscope.training.engine import Engine
from hopscope.training.recipe import Recipe

TINY = CalibrationStudy(built=((1, 0), (1, 1)), each=3, sequences=64)


@pytest.fixture(scope="module")
def hosts() -> list[Host]:
    return [hand_built(2, seed, 64, 0.05) for seed in (0, 2)]


def test_hand_built_models_do_what_their_circuits_say(hosts: list[Host]) -> None:
    for host in hosts:
        assert max(host.losses(host.circuit)) < 1e-4
        for row in host.units.on(host.circuit):
            assert host.losses({**host.circuit, row: UNIFORM})[0] > 0.3
        assert len(host.heavy) > 2 * len(host.units.on(host.circuit))  # others attend as well, and do nothing
    assert hosts[0].circuit != hosts[1].circuit


@pytest.mark.parametrize("kind", get_args(Kind))
def test_what_is_planted_is_false_by_measure(kind: Kind, hosts: list[Host]) -> None:
    host, generator = hosts[0], torch.Generator().manual_seed(3)
    planted = plant(kind, host, hosts, generator)
    assert planted is not None
    assert label(kind, host, planted) == ("true" if kind == "true" else "false")
    assert (planted.program == host.circuit) == (kind in ("true", "deaf tool"))


def test_another_key_of_the_same_symbol_is_not_false(hosts: list[Host]) -> None:
    """A planted path that holds the bar by the margin is equivalent, whatever was meant by planting it."""
    host = hosts[0]
    planted = plant("twin", host, hosts, torch.Generator().manual_seed(0))
    assert planted is not None
    same = planted._replace(program=host.circuit)
    assert label("twin", host, same) == "equivalent"


def test_a_trained_model_is_cut_down_to_what_is_clear(hosts: list[Host]) -> None:
    """Rows that do nothing go, those that do stay, and the bar stands in the gap."""
    host = hosts[0]
    paths = [path for path in host.heavy if path.row not in host.units.on(host.circuit)][:2]
    padded = host.circuit | {path.row: one_hot(path.key) for path in paths}
    made = trained("t", "trained", host.evaluator.transformer, host.evaluator.problem, padded, 64)
    assert made.units.on(made.circuit) == host.units.on(host.circuit)
    assert made.clear
    assert 0.02 <= made.bar <= 0.1


def test_the_study_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(TINY, tmp_path)
    kinds = {kind: found.of(kind) for kind in get_args(Kind)}
    assert all(len(some) == 3 for some in kinds.values())
    assert all(one.failed == () for one in kinds["true"])
    assert all(one.failed for kind in kinds for one in kinds[kind] if kind != "true")
    assert all("harness" in one.failed for one in kinds["deaf tool"])

    def never(*args: object) -> Certified:
        raise AssertionError("done before")

    monkeypatch.setattr(calibration, "_certified", never)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert run(TINY, tmp_path) == found
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}, "what is there is not written anew"
    counted = summary(found)
    assert (counted.false_passes, counted.false) == (0, 3 * (len(kinds) - 1))
    assert not counted.holds  # 0 of 21 does not show that fewer than 5% pass
    assert counted.upper == pytest.approx(1 - 0.025 ** (1 / counted.false))
    assert plain(counted)["counts"][0]["passed"]["harness"] >= 0
    lines = table(counted).splitlines()
    assert lines[0].startswith("| hand-built | true (3) |")
    assert any(line.startswith("| every part | 100% | 0% |") for line in lines)
    assert not [one for one in check(tmp_path) if one.trouble or not one.sealed]
    path = next(tmp_path.glob("*-true-000.json"))
    path.write_text(path.read_text().replace('"failed": []', '"failed": ["harness"]'))
    with pytest.raises(InputError, match=f"{path.name} is damaged"):
        run(TINY, tmp_path)


def test_what_was_found_in_a_trained_model_is_kept_as_its_runs(tmp_path: Path) -> None:
    recipe = Recipe(layers=1, heads=1, d_model=8, steps=1, batch_size=4, mlp=False, validation_size=4)
    path = train(recipe, RetrievalProblem(hops=1), tmp_path / "a", engine=Engine()).path
    assert calibration._trained(path, 8, tmp_path / "hosts") == []  # it has learned nothing
    [kept] = (tmp_path / "hosts").iterdir()
    assert [(one.sealed, one.trouble) for one in check(tmp_path / "hosts")] == [(True, "")]
    record = kept.read_text()
    kept.write_text("null\n")  # as it was before there were checksums
    assert calibration._trained(path, 8, tmp_path / "hosts") == []
    kept.write_text(record.replace("null", "[]"))
    with pytest.raises(InputError, match="does not fit its checksum"):
        calibration._trained(path, 8, tmp_path / "hosts")
    other = train(recipe, RetrievalProblem(hops=1), tmp_path / "c", seeds=[1], engine=Engine())
    kept.write_text(record)
    kept.rename(kept.with_name(f"{tmp_path.name}-c-1.json"))
    with pytest.raises(InputError, match="belongs to another run"):
        calibration._trained(other.path, 8, tmp_path / "hosts")
