"""Section 8: C6 to C11 and C21 by circuits in which they are false, true and open; which records count."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_results import (
    ALL,
    BACKWARD,
    DOUBLING,
    SERIAL,
    TIES,
    NamedPath,
    abc,
    imposed,
    judge_circuits,
    loss,
    many,
    searched,
    studied,
)

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.units import Units
from hopscope.errors import InputError
from hopscope.lab.run import Run
from hopscope.paper.models import Learned, StudiedModels, read_models
from hopscope.paper.presets import PAPER_SHORT
from hopscope.paper.section_8 import section
from hopscope.records import content_hash
from hopscope.training.run import RunFolder


def test_the_papers_own_description_would_hold() -> None:
    found = judge_circuits(*abc(zero=loss(0.03)))
    columns = {claim: found[claim].as_the_paper for claim in ("C6", *ALL)}
    assert columns == dict.fromkeys(("C6", "C7", "C8", "C10"), "3 of 3") | {"C9": "yes", "C11": "9 of 9"}
    assert all(found[claim].share == (3, 3) for claim in columns)
    assert all(finding.scale == "paper: D = 3, 12 layers x 1 head, 3 seeds" for finding in found.values())
    assert {finding.run for finding in found.values() if finding.known} == {"transformers"}


def test_other_models_are_not_as_the_paper_did_it() -> None:
    found = judge_circuits(*many(40, imposed(SERIAL)))
    assert {finding.as_the_paper for finding in found.values()} == {"not run"}
    assert {claim: found[claim].in_general for claim in ("C6", "C7", "C8", "C10", "C11")} == dict.fromkeys(
        ("C6", "C7", "C8", "C10", "C11"), "holds"
    )
    assert found["C9"].in_general == "does not hold", "all are one plan"
    two = judge_circuits(*abc()[:2])
    without_c = {finding.as_the_paper for claim, finding in two.items() if claim != "C21"}
    assert without_c == {"not run"}, "C is missing; C21 is of A alone"


def test_the_last_steps_decide_and_the_best_are_shown() -> None:
    spiked = Learned(0.058, 0.003, (0.01, 0.012))
    models = [*abc()[:2], replace(abc()[2], learned=spiked)]
    found = judge_circuits(*models)["C6"]
    assert (found.as_the_paper, found.share) == ("2 of 3", (2, 3))
    assert found.numbers == "0.0080, 0.0080, 0.0580; over their best 100 steps 3 of 3"
    assert (
        "diverged"
        in judge_circuits(*(replace(model, learned=Learned(None, None, None)) for model in abc()))["C6"].numbers
    )


@pytest.mark.parametrize(
    ("paths", "paper", "share"),
    [
        (SERIAL, "3 of 3", (3, 3)),
        ((*TIES, (11, 1, "x0?", ">x3"), (4, 1, "x0?", ">x1")), "0 of 3", (3, 3)),
        ((*SERIAL, (9, 1, "x0?", ">x3")), "0 of 3", (0, 3)),
    ],
)
def test_few_is_four_in_the_paper_and_a_third_in_general(paths: Any, paper: str, share: Any) -> None:
    found = judge_circuits(*(replace(model, circuit=studied(imposed(paths)).circuit) for model in abc()))["C7"]
    assert (found.as_the_paper, found.share) == (paper, share)


@pytest.mark.parametrize("paths", [(TIES[0], *SERIAL[3:]), (*SERIAL, (1, 1, "x0?", "x0>"))])
def test_the_first_layer_ties_every_pair_and_does_nothing_else(paths: tuple[NamedPath, ...]) -> None:
    models = [*abc()[:2], replace(abc()[2], circuit=studied(imposed(paths)).circuit)]
    found = judge_circuits(*models)["C8"]
    assert (found.as_the_paper, found.share, found.numbers) == ("2 of 3", (2, 3), "A does, B does, C does not")


def test_the_same_steps_in_other_layers_and_heads_are_the_same() -> None:
    moved = tuple((layer + 1, 1, query, key) for layer, _, query, key in SERIAL)
    a, b, c = abc()
    found = judge_circuits(a, b, replace(c, circuit=studied(imposed(moved)).circuit))["C9"]
    assert (found.as_the_paper, found.share) == ("no", (1, 3))
    assert "A and C 1.00" in found.numbers
    differ = judge_circuits(*many(3, imposed(SERIAL), imposed(DOUBLING), imposed(BACKWARD)))["C9"]
    assert differ.share == (3, 3)


def test_other_rows_are_zero_in_the_paper_and_filled_by_what_serves_most_in_general() -> None:
    bad = judge_circuits(*abc(zero=loss(0.2), identity=loss(0.2)))["C10"]
    assert (bad.as_the_paper, bad.share) == ("0 of 3", (3, 3))
    assert bad.spread == "below 0.05 by filling: zero 0, uniform 3, identity 0"
    high = dict.fromkeys(("zero", "uniform", "identity"), loss(0.2))
    each = [imposed(**high | {good: loss(0.01)}) for good in high]
    assert judge_circuits(*many(3, *each))["C10"].share == (1, 3), "one filling must serve all"


def test_every_later_path_must_cost_what_the_paper_reports() -> None:
    found = judge_circuits(*many(4, imposed(), imposed(without=0.16)))["C11"]
    assert found.share == (2, 4)
    assert "6 of 12 in the paper's range; first layer uniform 0.08 to 0.08, 4 of 4 in its range" in found.spread


def test_one_circuit_of_three_heads_is_enough() -> None:
    paths = (*TIES, (4, 1, "x0?", ">x1"), (11, 1, ">x2", ">x3"))
    three = imposed(paths)
    found = judge_circuits(*many(4, imposed(), imposed(), imposed(), three))["C21"]
    assert (found.in_general, found.share) == ("holds", (1, 4))
    assert judge_circuits(*many(4, imposed()))["C21"].in_general == "open"
    weak = imposed(paths, zero=loss(0.2), uniform=loss(0.2), identity=loss(0.2))
    assert judge_circuits(*many(4, weak))["C21"].share == (0, 4), "it does not work alone"


def test_heads_of_a_serial_circuit_cannot_be_merged() -> None:
    serial, *others = abc()
    found = judge_circuits(serial, *others)["C21"]
    assert (found.as_the_paper, found.reason) == (
        "no",
        "the query itself attends to one place in each of the layers 4, 7, 11",
    )
    doubling = (*TIES, (4, 1, "x0?", ">x1"), (7, 1, ">x2", ">x3"), (11, 1, "x0?", ">x2"))
    possible = judge_circuits(replace(serial, circuit=studied(imposed(doubling)).circuit), *others)["C21"]
    assert possible.as_the_paper == "not run"
    assert possible.reason.startswith("2 merges of two heads of A may work")


def test_a_model_that_solves_and_has_no_circuit_counts_against() -> None:
    found = judge_circuits(*many(3, imposed()), studied(None, "d"))
    assert {claim: found[claim].share for claim in ("C7", "C8", "C10", "C9", "C11")} == {
        "C7": (3, 4), "C8": (3, 4), "C10": (3, 4), "C9": (0, 3), "C11": (3, 3)
    }  # fmt: skip
    weak = imposed(zero=loss(0.2), uniform=loss(0.2), identity=loss(0.2))
    assert judge_circuits(*many(3, imposed()), studied(weak, "d"))["C7"].share == (3, 4), "nor one that does not work"


@pytest.mark.parametrize("how", [{"given_up": True}, {"max_loss": 0.4}])
def test_models_whose_search_decides_nothing_are_named_and_in_no_share(how: dict[str, Any]) -> None:
    found = judge_circuits(*many(3, imposed()), searched(studied(None, "d"), **how))
    assert {found[claim].share for claim in ALL if claim != "C9"} == {(3, 3)}
    assert "1 model not searched to the end" in found["C7"].spread
    unsearched = judge_circuits(*many(3, imposed()), replace(studied(None, "d"), circuit=None))
    assert "1 model not searched to the end" in unsearched["C7"].spread


def test_models_that_did_not_learn_are_left_out() -> None:
    assert judge_circuits(*many(3, imposed()), studied(None, "d", full=0.6))["C10"].share == (3, 3)
    nobody = judge_circuits(studied(None, "a", full=0.6))
    assert not any(nobody[claim].known for claim in ALL)
    assert nobody["C7"].reason == "no model that solves the task was searched for its circuit"


def test_models_that_lost_heads_in_training_say_nothing_of_how_few_matter() -> None:
    setup = many(1, imposed())[0].setup
    lean = replace(setup, recipe=replace(setup.recipe, schedule="decay-when-learned", prune_every=8))
    found = judge_circuits(*many(4, imposed(), setup=lean))
    assert {claim for claim in ALL if not found[claim].known} == {"C7", "C9"}
    assert "heads were pruned" in found["C7"].reason
    assert found["C10"].spread.endswith("heads were pruned in training")


STORED = Path(__file__).parents[2] / "results" / "paper-short" / "transformers"
STUDY = PAPER_SHORT.models


def stored(folder: Path, *seeds: int) -> Path:
    """The stored transformers of those seeds."""
    for seed in seeds:
        shutil.copytree(STORED / f"seed-{seed}", folder / STUDY.at / f"seed-{seed}")
    return folder / STUDY.at


def read(folder: Path) -> StudiedModels:
    return read_models(STUDY, folder)


def test_the_circuit_of_another_seed_is_refused_and_kept(tmp_path: Path) -> None:
    folder = stored(tmp_path, 1, 2)
    assert [model.seed for model in read(tmp_path).compared] == [1, 2]
    there = folder / "seed-1" / "circuit.json"
    shutil.copy(folder / "seed-2" / "circuit.json", there)
    with pytest.raises(InputError, match=r"seed-1/circuit\.json belongs to another run.*untouched"):
        read(tmp_path)
    assert there.read_bytes() == (STORED / "seed-2" / "circuit.json").read_bytes()


def test_the_circuit_of_other_weights_of_the_run_is_refused(tmp_path: Path) -> None:
    """It was looked for while the run was still training."""
    folder = stored(tmp_path, 1) / "seed-1"
    run, path = RunFolder(folder), folder / "circuit.json"
    young = content_hash([run.model_hashes[0], 1000])
    replace(Circuit.load(path), model=young).save(path, run.hash)
    with pytest.raises(InputError, match=r"circuit\.json"):
        read(tmp_path)


@pytest.mark.slow
def test_circuits_are_called_certified_only_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(STORED.parent)
    monkeypatch.setattr(Circuit, "certified", property(lambda circuit: circuit.seed == 1))
    for models, words in ((result.models[:2], "1 passed"), (result.models[:1], "0 passed")):
        shown = section(replace(result, models=models))
        assert shown is not None
        assert f"the search never saw, {words} all six checks" in shown.paragraphs[0]


def test_the_report_shows_the_first_circuit_and_its_card(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    result = read(tmp_path)
    circuit = Circuit.load(STORED.parents[1] / "explorers" / "a" / "circuit.json")
    shown = section(replace(result, models=(replace(result.models[0], circuit=circuit),)))
    assert shown is not None
    assert [figure.name for figure in shown.figures] == ["circuit-seed-1", "circuit-seed-1-card"]


@pytest.mark.parametrize("folder", ["explorers/a", "paper/transformers/d"])
def test_stored_weights_have_the_losses_of_the_circuits_record(folder: str) -> None:
    run = Run(STORED.parents[1] / folder)
    circuit, evaluator = Circuit.load(run.path / "circuit.json", run.hash), run[0].evaluator
    imposed = dict.fromkeys(evaluator.rows, UNIFORM) | circuit.interventions
    seed, proof = circuit.search.seed + 1, CertificateConfig()
    evidence = Evidence(evaluator, Units.of(evaluator), imposed, circuit.max_loss, seed, proof)
    wanted = [circuit.losses[of] for of in ("full", "imposed", "own")]
    assert evidence.evaluator.mse([{}, imposed, evidence.own]) == pytest.approx(wanted, rel=1e-3)
    assert run.result.models[0].held_out_loss == pytest.approx(wanted[0], rel=0.5)
