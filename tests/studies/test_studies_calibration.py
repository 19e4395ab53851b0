"""The calibration study: it goes on where it was, and takes no certificate of another study, proof or rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest
from click.testing import CliRunner
from tiny_calibration import ONE_HOP, TINY

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.lab import train
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import plain
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe
from hopscope.training.work import Work
from studies.__main__ import command
from studies.calibration import study as calibration
from studies.calibration.hosts import Host, cut_down
from studies.calibration.kinds import TRUE, Kind
from studies.calibration.study import CalibrationStudy, Certified, run
from studies.calibration.summary import keep_summary, kept_summary, summarised, summary, table
from studies.tools.circuits import RULES


def test_the_study_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(TINY, tmp_path)
    kinds = {kind: found.of(kind) for kind in ONE_HOP}
    assert all(len(some) == 2 for some in kinds.values())
    assert all(one.failed == () for one in kinds["true"])
    assert all(one.failed for kind in kinds for one in kinds[kind] if kind != "true")
    assert all("harness" in one.failed for one in kinds["deaf tool"])

    def never(*args: object) -> Certified:
        raise AssertionError("done before")

    monkeypatch.setattr(calibration, "_certified", never)
    assert run(replace(TINY, each=300), tmp_path, Work(idle=True)) == found, "judged without running"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert run(TINY, tmp_path) == found
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}, "what is there is not written anew"
    counted = summary(found)
    assert counted.rules == RULES
    assert (counted.false_passes, counted.false) == (0, 2 * (len(kinds) - 1))
    assert not counted.holds  # 0 of 14 does not show that fewer than 5% pass
    assert counted.upper == pytest.approx(1 - 0.025 ** (1 / counted.false))
    assert plain(counted)["counts"][0]["passed"]["harness"] >= 0
    lines = table(counted).splitlines()
    assert [line for line in lines if "true (" in line] == lines[:1]
    assert lines[0].startswith("| hand-built | true (2) |")
    assert any(line.startswith("| every part | 100% | 0% |") for line in lines)
    assert not [one for one in check(tmp_path) if one.trouble]
    path = next(tmp_path.glob("*-true-000.json"))
    path.write_text(path.read_text().replace('"failed": []', '"failed": ["harness"]'))
    with pytest.raises(InputError, match=f"{path.name} is damaged"):
        run(TINY, tmp_path)


def labelled(study: object, host: Host, hosts: object, kind: Kind, number: int) -> Certified:
    """As if it had been planted and certified."""
    return Certified(host.name, host.family, kind, number, "", "true" if kind in TRUE else "false", 0.05, (), 0.0)


def test_every_model_gets_as_many_until_there_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models for five of a kind: three in each. A kind that a model has none of is made up for by the others."""
    monkeypatch.setattr(calibration, "_certified", labelled)
    study = replace(TINY, each=5)
    found = run(study, tmp_path)
    for kind in ONE_HOP:
        by_host = [
            sum(one.host == name for one in found.of(kind)) for name in ("hand-built-1-hops-0", "hand-built-1-hops-1")
        ]
        assert by_host == [3, 3], kind

    def none_in_the_first(study: object, host: Host, hosts: object, kind: Kind, number: int) -> Certified | None:
        return None if host.name == "hand-built-1-hops-0" else labelled(study, host, hosts, kind, number)

    monkeypatch.setattr(calibration, "_certified", none_in_the_first)
    found = run(study, tmp_path / "other")
    assert {one.host for one in found.certified} == {"hand-built-1-hops-1"}
    assert all(5 <= len(found.of(kind)) <= 6 for kind in ONE_HOP)
    monkeypatch.setattr(calibration, "_certified", labelled)
    names = {path.name for path in tmp_path.iterdir()}
    calibration._fill(study, tmp_path, "hand-built-1-hops-0", ("true",), 4)
    assert {path.name for path in tmp_path.iterdir()} - names == {"hand-built-1-hops-0-true-003.json"}


def test_a_model_that_gives_no_labels_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def unclear(study: object, host: Host, hosts: object, kind: Kind, number: int) -> Certified:
        asked.append(number)
        return Certified(host.name, host.family, kind, number, "", "undecided", 0.05, (), 0.0)

    monkeypatch.setattr(calibration, "_certified", unclear)
    calibration._fill(TINY, tmp_path, "hand-built-1-hops-0", ("twin",), 20)
    assert asked == list(range(5))
    found = run(replace(TINY, built=TINY.built[:1]), tmp_path)
    assert summary(found).false == 0
    assert summary(found).left_out["undecided"] == len(found.certified) > 0


def test_what_was_found_in_a_trained_model_is_kept_as_its_runs(tmp_path: Path) -> None:
    recipe = Recipe(layers=1, heads=1, d_model=8, steps=1, batch_size=4, mlp=False, validation_size=4)
    path = train(recipe, RetrievalProblem(hops=1), tmp_path / "a", execution=REFERENCE).path
    study = replace(TINY, runs=(path,))
    calibration._keep_hosts(study, tmp_path, path)
    assert calibration._trained(path, 8, tmp_path) == []  # it has learned nothing
    [kept] = (tmp_path / "hosts").iterdir()
    assert [one.trouble for one in check(tmp_path / "hosts")] == [""]
    record = kept.read_text()
    kept.write_text(record.replace("null", "[]"))
    with pytest.raises(InputError, match="does not fit its checksum"):
        calibration._trained(path, 8, tmp_path)
    other = train(recipe, RetrievalProblem(hops=1), tmp_path / "c", seeds=[1], execution=REFERENCE)
    kept.write_text(record)
    kept.rename(kept.with_name(f"{tmp_path.name}-c-1.json"))
    with pytest.raises(InputError, match="belongs to another run"):
        calibration._trained(other.path, 8, tmp_path)


def test_a_trained_model_is_the_same_from_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Circuit, bar and labels, in either sense; one that is not clear gets no strict certificate."""
    recipe = Recipe(layers=1, heads=1, d_model=8, steps=1, batch_size=4, mlp=False, validation_size=4)
    path = train(recipe, RetrievalProblem(hops=1), tmp_path / "a", execution=REFERENCE).path

    def found(evaluator: VectorEvaluator, sense: object) -> Interventions:
        return dict.fromkeys(evaluator.rows, UNIFORM) | {HeadRow(0, 0, 2): one_hot(0)}

    monkeypatch.setattr(calibration, "_search", found)
    monkeypatch.setattr(calibration, "_certified", labelled)
    study = replace(TINY, runs=(path,))
    run(replace(study, each=1), tmp_path)
    host = calibration._hosts(study, tmp_path)[-1]
    made = cut_down("", "", host.evaluator.transformer, host.evaluator.problem, found(host.evaluator, None), 64)
    assert (host.circuit, host.bar, host.clear) == (made.circuit, made.bar, made.clear)
    assert host.name == f"{tmp_path.name}-a-0"
    assert not host.clear
    assert host.name not in {one.name for one in calibration._hosts(study.strict, tmp_path)}


def test_a_summary_is_not_replaced_by_one_of_fewer_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept without its certificates it is judged as it is, and a study that would begin anew is refused."""
    monkeypatch.setattr(calibration, "_certified", labelled)
    few = replace(TINY, each=1, proof=calibration.PROOF)
    for at, asked in ((tmp_path, few), (tmp_path / "strict", few.strict)):
        keep_summary(at, summarised(asked, at / "runs", Work(workers=1)))
    kept = kept_summary(tmp_path)
    assert kept is not None
    judged = CliRunner().invoke(command, ["calibration", str(tmp_path), "--judge"])
    assert judged.exception is None, judged.output
    for at in (tmp_path, tmp_path / "strict"):
        rmtree(at / "runs")
    told = CliRunner().invoke(command, ["calibration", str(tmp_path), "--judge"])
    assert (told.stdout, told.exception) == (judged.stdout, None)
    for more in ([], ["--quick"]):
        refused = CliRunner().invoke(command, ["calibration", str(tmp_path), *more]).exception
        assert isinstance(refused, InputError)
        assert f"calibration.json tells of {2 * len(ONE_HOP)} results, of which the " in str(refused)
        assert not list(tmp_path.rglob("runs"))
    assert kept_summary(tmp_path) == kept


def test_a_summary_by_other_rules_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by one of as many certificates either: they were asked something else."""
    monkeypatch.setattr(calibration, "_certified", labelled)
    few = replace(TINY, each=1, proof=calibration.PROOF)
    kept = summarised(few, tmp_path / "runs", Work(workers=1))
    for rules in (None, RULES - 1):
        before = replace(kept, rules=rules)
        assert not before.tells_of(planned=False) & kept.tells_of(planned=False)
        assert len(before.tells_of(planned=False)) == len(kept.tells_of(planned=False)) == 2 * len(ONE_HOP)


@pytest.mark.parametrize(
    "other", [replace(TINY, proof=calibration.PROOF), TINY.strict, replace(TINY, proof=replace(TINY.proof, draws=21))]
)
def test_certificates_of_another_proof_or_sense_are_not_taken(
    other: CalibrationStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are they made anew over the others, nor judged as if they were these."""
    monkeypatch.setattr(calibration, "_certified", labelled)
    found = run(TINY, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for idle in (False, True):
        with pytest.raises(InputError, match=r"was certified by another proof, in another sense or by other rules"):
            run(other, tmp_path, Work(workers=1, idle=idle))
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(TINY, tmp_path) == found
    monkeypatch.setattr(calibration, "RULES", calibration.RULES + 1)
    with pytest.raises(InputError, match="by other rules"):
        run(TINY, tmp_path)
