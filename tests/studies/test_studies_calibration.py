"""Planted circuits: labels that are right, certificates that say so, and a study that goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import get_args

import pytest
import torch
from click.testing import CliRunner

from hopscope.circuits.certificate import RULES, Evidence, Sense, certify
from hopscope.circuits.form import KEEP, POSITIONAL, UNIFORM, Form, Intervention, knock_out, one_hot
from hopscope.circuits.hypotheses import Draft
from hopscope.circuits.on_vectors import VectorEvaluator
from hopscope.circuits.search.units import Units
from hopscope.cli.study import command
from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.lab import train
from hopscope.model.initial import initialise
from hopscope.model.transformer import Transformer
from hopscope.problem.graph import CONDITIONAL
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import plain
from hopscope.studies import calibration
from hopscope.studies.calibration import CalibrationStudy, Certified, run
from hopscope.studies.calibration_summary import keep_summary, kept_summary, summarised, summary, table
from hopscope.studies.planted.backup import Backup, may_have_backup, with_backup
from hopscope.studies.planted.hosts import Deaf, Host, cut_down, hand_built
from hopscope.studies.planted.planting import KINDS, TRUE, Kind, Planted, label, plant
from hopscope.studies.planted.resting import Rest, resting
from hopscope.studies.tools.work import Work
from hopscope.theory.path import Row
from hopscope.training.data import held_out
from hopscope.training.engine import Engine
from hopscope.training.recipe import Recipe

ONE_HOP = tuple(kind for kind in KINDS["natural"] if kind not in ("at rest", "idle key"))
"""What there is to plant in models of one hop."""

TINY = CalibrationStudy(built=((1, 0), (1, 1)), kinds=ONE_HOP, each=2, sequences=64, proof=calibration.QUICK)


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
def test_what_is_planted_is_what_it_is_called_by_measure(kind: Kind, hosts: list[Host]) -> None:
    host, generator = hosts[0], torch.Generator().manual_seed(3)
    planted = plant(kind, host, hosts, generator)
    assert planted is not None
    assert label(kind, host, planted) == ("true" if kind in TRUE else "false")
    assert (planted.program == host.circuit) == (kind in ("true", "deaf tool", "backup key"))


def test_a_head_that_rests_is_needed_and_what_it_looks_at_is_not(hosts: list[Host]) -> None:
    """Two hops: the second members of pair 1 look at the first ones, and rest at the start."""
    (host, _), rest = hosts, Rest(0, 1, 0.2, 3)
    evaluator, path = resting(host.evaluator, rest), rest.path(host.evaluator.problem, 3)
    assert path.describe(evaluator.names) == "layer 1 head 4: >x1 -> x0>"
    units = Units.of(evaluator)
    assert units.hypotheses.weights(path.row)[path.key] == pytest.approx(0.2)
    at_rest = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, path.row: KEEP}
    without = {**at_rest, path.row: Form(Intervention.KNOCK_OUT, (path.key,))}
    with_it, idle, broken = evaluator.mse([at_rest, without, {**at_rest, path.row: UNIFORM}])
    assert idle < 1e-3
    assert idle < with_it < broken
    untrained = evaluator.with_untrained([(0, 3)], 0)
    assert untrained.mse([at_rest])[0] == pytest.approx(broken, rel=0.01)  # it looks everywhere alike


def test_a_head_at_rest_leaves_a_model_as_it_is() -> None:
    """One with norms and MLPs, which no hand built."""
    problem = RetrievalProblem(hops=2)
    model = Transformer(Recipe(layers=2, heads=2, d_model=16, steps=1, batch_size=4).architecture(problem))
    initialise(model, [0])
    known = VectorEvaluator(model.requires_grad_(False), problem, held_out(problem, 8))
    for weight, same in ((0.0, True), (0.2, False)):
        found = resting(known, Rest(0, 1, weight, 3)).plain_errors()
        assert torch.allclose(found, known.plain_errors(), atol=1e-6) == same


@pytest.mark.parametrize(("kind", "form"), [("idle key", KEEP), ("at rest", POSITIONAL)])
def test_only_a_whole_pattern_with_one_key_is_an_idle_key(kind: Kind, form: Form, hosts: list[Host]) -> None:
    """Nothing is planted with a label where the head looks nowhere, or where what it looks at breaks the circuit."""
    host = hosts[0]
    labels = {}
    for weight in (0.03, 0.13, 0.9):
        rest = Rest(0, 1, weight, 3)
        evaluator, path = resting(host.evaluator, rest), rest.path(host.evaluator.problem, 3)
        program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, path.row: form}
        labels[weight] = label(kind, host, Planted(program, "", path.row, evaluator))
    assert labels == {0.03: "true" if kind == "at rest" else "undecided", 0.13: "false" if kind == "idle key" else
                      "undecided", 0.9: "undecided"}  # fmt: skip


def test_a_backup_takes_weight_and_changes_no_answer() -> None:
    """Of the query's look at >x1 a quarter stays there; either of the two places would do, and no third one."""
    host = hand_built(1, 0, 64, 0.05)
    first, last = sorted(host.units.paths(host.circuit))
    problem = host.evaluator.problem
    assert [may_have_backup(problem, path) for path in (first, last)] == [False, True]
    backup = Backup(last, 0.25)
    made = with_backup(host.evaluator, backup)
    assert torch.allclose(made.plain_errors(), host.evaluator.plain_errors(), atol=1e-5)
    weights = Units.of(made).hypotheses.weights(last.row)
    assert (weights[last.key], weights[backup.key]) == (pytest.approx(0.25, abs=0.01), pytest.approx(0.75, abs=0.01))
    other = last.row._replace(head=(last.head + 1) % 3)
    assert Units.of(made).hypotheses.weights(other) == pytest.approx(host.units.hypotheses.weights(other), abs=1e-5)
    without = [(last.key,), (backup.key,), (last.key, backup.key)]
    *holds, breaks = made.mse([host.circuit, *({last.row: knock_out(*keys)} for keys in without)])
    assert max(holds) < 1e-3
    assert breaks > 0.3
    untrained = made.with_untrained([(last.layer, last.head)], 0)
    assert untrained.mse([{}])[0] > 0.3
    weights = Units.of(untrained).hypotheses.weights(last.row)
    assert weights[backup.key] < 2 * weights[last.key]  # a head with initial weights has no backup; it would be 7 times


def test_a_backup_is_false_only_where_the_key_can_be_done_without() -> None:
    """In a model whose look is not shared, the same circuit and row are no falsehood."""
    host = hand_built(1, 0, 64, 0.05)
    planted = plant("backup key", host, [host], torch.Generator().manual_seed(0))
    assert planted is not None
    assert planted.evaluator is not None
    assert label("backup key", host, planted) == "false"
    assert label("backup key", host, planted._replace(evaluator=host.evaluator)) == "undecided"


@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_a_circuit_whose_key_has_a_backup_fails_completeness_alone(hosts: list[Host], sense: Sense) -> None:
    """The circuit feeds the backup, so that in the natural sense it stands in within the circuit as well."""
    host = hosts[0]
    path = max(host.units.paths(host.circuit))
    evaluator = with_backup(host.evaluator, Backup(path, 0.5))
    hypotheses = Units.of(evaluator).hypotheses
    evidence = Evidence(evaluator, hypotheses, host.circuit, host.bar, 1, calibration.QUICK, sense)
    found = certify(evidence)
    assert found.failed == ("completeness",)
    assert found.number("completeness", "keys")[path.describe(evaluator.names)] < 0.1


def test_nothing_of_chains_is_planted_where_look_ups_meet(hosts: list[Host]) -> None:
    """Conditional retrieval has other roles: no head rests at a pair of a chain, and no pair is a key's backup."""
    problem = RetrievalProblem(graph="functions", hops=len(CONDITIONAL["functions"].steps))
    model = Transformer(Recipe(layers=2, heads=2, d_model=16, steps=1, batch_size=4).architecture(problem))
    evaluator = VectorEvaluator(model.requires_grad_(False), problem, held_out(problem, 8))
    last = len(problem.roles) - 1
    circuit = dict.fromkeys(evaluator.rows, UNIFORM) | {Row(1, 0, last): one_hot(0)}
    host = replace(hosts[0], evaluator=evaluator, circuit=circuit)
    kinds: tuple[Kind, ...] = ("at rest", "idle key", "backup key")
    assert [plant(kind, host, [host], torch.Generator().manual_seed(0)) for kind in kinds] == [None] * 3


def test_another_key_of_the_same_symbol_is_not_false(hosts: list[Host]) -> None:
    """A planted path that holds the bar by the margin is equivalent, whatever was meant by planting it."""
    host = hosts[0]
    planted = plant("twin", host, hosts, torch.Generator().manual_seed(0))
    assert planted is not None
    same = planted._replace(program=host.circuit)
    assert label("twin", host, same) == "equivalent"


def test_tools_that_are_deaf_where_nothing_is_said_are_good_enough(hosts: list[Host]) -> None:
    """As in a layer all of whose heads training took away."""
    host = hosts[0]
    planted = plant("deaf tool", host, hosts, torch.Generator().manual_seed(3))
    assert planted is not None
    deaf = int(planted.what.split()[1]) - 1
    assert label("deaf tool", host, planted) == "false"
    mute = Deaf.copy(host.evaluator.transformer, -1)
    mute.blocks[deaf].attention.out.weight.zero_()
    without = replace(host, evaluator=VectorEvaluator(mute, host.evaluator.problem, host.evaluator.batch))
    assert label("deaf tool", without, planted) == "equivalent"


def test_a_trained_model_is_cut_down_to_what_is_clear(hosts: list[Host]) -> None:
    """Rows that do nothing go, those that do stay, and the bar stands in the gap."""
    host = hosts[0]
    paths = [path for path in host.heavy if path.row not in host.units.on(host.circuit)][:2]
    padded = host.circuit | {path.row: one_hot(path.key) for path in paths}
    made = cut_down("t", "trained", host.evaluator.transformer, host.evaluator.problem, padded, 64)
    assert made.units.on(made.circuit) == host.units.on(host.circuit)
    assert made.clear
    assert 0.02 <= made.bar <= 0.1


@pytest.mark.parametrize(
    ("kind", "sense", "failed"),
    [
        ("at rest", "natural", ()),
        ("idle key", "natural", ("necessity", "completeness")),
        ("not imposed", "strict", ("sufficiency",)),
    ],
)
def test_only_these_parts_stand_against_it(
    kind: Kind, sense: Sense, failed: tuple[str, ...], hosts: list[Host]
) -> None:
    """Against what rules 3 certified, and nothing against a head at rest: all other parts pass."""
    study = replace(TINY, sense=sense)
    made = (calibration._certified(study, hosts[0], hosts, kind, number) for number in range(9))
    found = next(one for one in made if one is not None and one.label in ("true", "false"))
    assert found.failed == failed


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
    assert not [one for one in check(tmp_path) if one.trouble or not one.sealed]
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
    path = train(recipe, RetrievalProblem(hops=1), tmp_path / "a", engine=Engine()).path
    study = replace(TINY, runs=(path,))
    calibration._keep_hosts(study, tmp_path, path)
    assert calibration._trained(path, 8, tmp_path) == []  # it has learned nothing
    [kept] = (tmp_path / "hosts").iterdir()
    assert [(one.sealed, one.trouble) for one in check(tmp_path / "hosts")] == [(True, "")]
    record = kept.read_text()
    kept.write_text(record.replace("null", "[]"))
    with pytest.raises(InputError, match="does not fit its checksum"):
        calibration._trained(path, 8, tmp_path)
    other = train(recipe, RetrievalProblem(hops=1), tmp_path / "c", seeds=[1], engine=Engine())
    kept.write_text(record)
    kept.rename(kept.with_name(f"{tmp_path.name}-c-1.json"))
    with pytest.raises(InputError, match="belongs to another run"):
        calibration._trained(other.path, 8, tmp_path)


def test_a_trained_model_is_the_same_from_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Circuit, bar and labels, in either sense; one that is not clear gets no strict certificate."""
    recipe = Recipe(layers=1, heads=1, d_model=8, steps=1, batch_size=4, mlp=False, validation_size=4)
    path = train(recipe, RetrievalProblem(hops=1), tmp_path / "a", engine=Engine()).path

    def found(evaluator: VectorEvaluator, sense: object) -> Draft:
        return dict.fromkeys(evaluator.rows, UNIFORM) | {Row(0, 0, 2): one_hot(0)}

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
