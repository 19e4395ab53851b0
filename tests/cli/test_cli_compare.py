"""`hopscope circuit` on records that are there: compared, counted, shown without their runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import call
from known_run import known_run
from small_models import disguised_witness

from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.interface import Model
from hopscope.circuits.search.config import SearchBudget


@pytest.fixture(scope="module")
def circuits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of two witnesses."""
    folder = tmp_path_factory.mktemp("circuits")
    for hops in (1, 2):
        witness = disguised_witness(hops)
        found = Model(witness.transformer, witness.problem).find_circuit(
            effort=SearchBudget(1, 0, sequences=16, confirming=16, deciding=16),
            proof=CertificateConfig(sequences=16, deciding=16, few=8, draws=4),
        )
        replace(found, model=f"w{hops}").save(folder / f"{hops}" / "circuit.json")
    return folder


def test_compare_and_census(circuits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = str(circuits / "1"), str(circuits / "2" / "circuit.json")
    whole = Circuit.load(circuits / "2" / "circuit.json")
    part = replace(whole, paths=whole.paths[:1])
    part.save(circuits / "part.json")
    other = str(circuits / "part.json")
    assert call("circuit", "compare", two, other) == 0
    assert "different mechanisms" in capsys.readouterr().out
    assert call("circuit", "compare", two, other, "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["identical"], row["same_mechanism"]) == (False, False)
    assert (row["first"], row["second"]) == (two, other)
    third = str(circuits / "third.json")
    whole.save(third)
    assert call("circuit", "compare", two, other, third, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["first"], row["second"]) for row in rows] == [(two, other), (two, third), (other, third)]
    assert rows[0] == row
    assert call("circuit", "census", one, two, "--json") == 0
    assert json.loads(capsys.readouterr().out)["certified"] == 2


def test_a_census_of_a_sweeps_folder_counts_what_is_there(
    circuits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As runs/sweep/* gives it: runs with a circuit and without, figures and a summary."""
    bare, found = known_run(tmp_path / "a").path, known_run(tmp_path / "b").path
    (tmp_path / "figures").mkdir()
    summary = {"kind": "hopscope depth study", "schema": 1, "groups": []}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    everything = [str(path) for path in sorted(tmp_path.iterdir())]
    assert call("circuit", "census", *everything) == 2
    assert f"{bare} holds no circuit; `hopscope circuit {bare}` finds it" in capsys.readouterr().err
    assert call("circuit", "census", str(tmp_path / "figures")) == 2
    assert "figures holds no circuit and is no run; give" in capsys.readouterr().err
    shutil.copy(circuits / "1" / "circuit.json", found)
    assert call("circuit", "census", *everything) == 0
    out, err = capsys.readouterr()
    assert out.startswith("1 of 1 model has a circuit")
    assert out.endswith(f"  1 run without a record, such as {bare}: not counted\n")
    assert err == f"left out, no run and no circuit: {tmp_path / 'figures'}, {tmp_path / 'summary.json'}\n"
    assert call("circuit", "census", *everything, "--json") == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["models"], counts["without_record"]) == (1, 1)
    (found / "circuit.json").write_text("{")  # what is damaged is not left out
    assert call("circuit", "census", *everything) == 2


def test_a_circuit_is_not_compared_with_itself(circuits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, record = str(circuits / "1"), str(circuits / "1" / "circuit.json")
    for again, verb in ((folder, "compare"), (record, "compare"), (folder, "census"), (record, "census")):
        assert call("circuit", verb, folder, again) == 2
        assert capsys.readouterr() == ("", f"hopscope: {again} is given twice; name each circuit once\n")


def test_what_cannot_be_compared_is_said(circuits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = str(circuits / "1"), str(circuits / "2")
    assert call("circuit", "compare", one, two) == 2
    assert f"{one} is of D = 1 and {two} of D = 2: circuits of one problem are compared" in capsys.readouterr().err
    assert call("circuit", "compare", one, str(tmp_path)) == 2
    assert f"{tmp_path} holds no circuit and is no run; give the folder of a run" in capsys.readouterr().err
    replace(Circuit.load(circuits / "1" / "circuit.json"), paths=()).save(tmp_path / "circuit.json")
    assert call("circuit", "compare", one, str(tmp_path)) == 2
    assert f"{tmp_path} says that its model has no circuit; leave it out" in capsys.readouterr().err


def test_a_record_shows_without_the_run(circuits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As those do that somebody else's runs left behind: the folder or the file."""
    record = circuits / "2" / "circuit.json"
    shown = []
    for name in (record, record.parent):
        assert call("circuit", str(name), "--show") == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "x0? -> >x1" in shown[0]
    assert call("circuit", str(record)) == 2
    assert "is a file" in capsys.readouterr().err
    assert call("circuit", str(record), "--show", "--model", "1") == 2
    assert "is one record" in capsys.readouterr().err
