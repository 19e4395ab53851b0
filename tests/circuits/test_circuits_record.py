"""The record: round trips, damaged and newer files, what its certificate must have, text, drawing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from circuit_records import DOUBLING, SERIAL, made
from small_models import disguised_witness

from hopscope.circuits.checks import Certificate, CertificateConfig, Part
from hopscope.circuits.checks.certificate import PART_NAMES
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Asked
from hopscope.circuits.compare import compare
from hopscope.circuits.evaluate.ablations import (
    IDENTITY,
    POSITIONAL,
    Ablation,
    AblationKind,
    from_json,
    one_hot,
    to_json,
)
from hopscope.circuits.evaluate.apply import check
from hopscope.circuits.evaluate.role_maps import coordinates
from hopscope.circuits.find import Origin, find_circuit
from hopscope.circuits.search.config import SearchConfig
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.witness import build_witness
from hopscope.training.data import held_out


@cache
def found(hops: int = 2) -> Circuit:
    witness = disguised_witness(hops)
    budget = SearchConfig(orders=1, growing=0, sequences=16, confirming=16, deciding=16)
    proof = CertificateConfig(sequences=16, deciding=16, few=8, draws=4)
    return find_circuit(witness.transformer, witness.problem, origin=Origin(f"w{hops}"), effort=budget, proof=proof)


def test_the_contract() -> None:
    values = json.loads(json.dumps(found().to_json(), allow_nan=False))
    assert values["schema"] == 1
    assert values["hops"] == 2
    assert values["model"] == "w2"
    for path in values["paths"]:
        assert {"layer", "head", "query", "key", "ablation_mse", "interval", "feeds"} <= path.keys()
        assert path["layer"] >= 1
        assert path["head"] >= 1
    for part in values["certificate"].values():
        assert isinstance(part["passed"], bool)
        assert isinstance(part["seed"], int)


def test_round_trip(tmp_path: Path) -> None:
    found().save(tmp_path / "circuit.json")
    assert Circuit.load(tmp_path / "circuit.json") == found()


def test_a_record_replaces_records_of_circuits_alone(tmp_path: Path) -> None:
    path = tmp_path / "circuit.json"
    found().save(path)
    replace(found(), seed=7).save(path)
    assert Circuit.load(path).seed == 7
    for there, words in (('{"kind": "hopscope run"}', "is not the record of a circuit"), ("mine", "is not readable")):
        path.write_text(there)
        with pytest.raises(InputError, match=words):
            found().save(path)
        assert path.read_text() == there
    found().save(path, overwrite=True)
    assert Circuit.load(path) == found()


def test_the_program_in_the_record_replays() -> None:
    witness, circuit = disguised_witness(2), found()
    program = from_json(list(circuit.program), witness.problem)
    shape = witness.transformer.shape
    check(program, coordinates(held_out(witness.problem, 2), shape.causal), shape)
    assert to_json(program, witness.problem) == list(circuit.program)


def test_every_form_of_row_survives_json() -> None:
    problem = RetrievalProblem(hops=2)
    program = {
        HeadRow(0, 0, 1): one_hot(0),
        HeadRow(0, 1, 4): Ablation(AblationKind.MIXTURE, (1, 4), (0.25, 0.75)),
        HeadRow(1, 0, 3): Ablation(AblationKind.MEAN, (), tuple(0.1 * k for k in range(1, 11))),
        HeadRow(1, 0, 4): IDENTITY,
        HeadRow(1, 1, 4): POSITIONAL,
        HeadRow(1, 1, 3): Ablation(AblationKind.KNOCK_OUT, (2,)),
    }
    assert from_json(json.loads(json.dumps(to_json(program, problem))), problem) == program
    with pytest.raises(InputError, match="'spin' is no form of a row"):
        from_json([{**to_json(program, problem)[0], "form": "spin"}], problem)
    with pytest.raises(InputError, match="needs layer, head"):
        from_json([{"form": "uniform"}], problem)


HELPER = {"layer": 1, "head": 1, "query": "x0?", "natural_mse": 0.1, "natural_interval": [0.1, 0.1]}


def test_a_certificate_that_lacks_a_part_certifies_nothing() -> None:
    """Its failed parts left out, a circuit would be certified by what it passes."""
    whole = found()
    assert whole.certified == ("natural", "strict")
    assert whole.strict is not None
    for name in PART_NAMES:
        left = {part: told for part, told in whole.certificate.parts.items() if part != name}
        assert replace(whole, certificate=Certificate("natural", left)).certified == ("strict",)
        strict = replace(whole.strict, certificate=Certificate("strict", left))
        assert replace(whole, strict=strict).certified == ("natural",)
    with pytest.raises(InputError, match="must be natural, and strict of the strict reading, got strict, strict"):
        replace(whole, certificate=whole.strict.certificate)
    parts = {name: Part(True, "", {}) for name in PART_NAMES}
    assert Certificate("natural", parts).passed
    assert not Certificate("natural", {name: parts[name] for name in PART_NAMES[:-1]}).passed


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"schema": 4}, "schema 4 and this hopscope reads 1 at most"),
        ({"kind": "hopscope run"}, "is not the record of a circuit"),
        ({"hops": 4}, "hops is 4, but 2 by the rest of the record"),
        ({"found": False}, "found is False, but True by the rest of the record"),
        ({"bar": "low"}, "bar is 'low': Expected float, got str"),
        ({"layers": True}, "layers is True: Expected int, got bool"),
        ({"paths": {}}, "paths: Expected array, got object"),
        ({"problem": {"hops": 0}}, "hops must be"),
        ({"problem": {"hops": 2, "colour": 1}}, "problem has no field colour"),
        ({"certificate": {"sufficiency": {}}}, "part 'sufficiency' of the certificate lacks `passed` or `says`"),
        (
            {"certificate": {"sufficiency": {"passed": True}}},
            "part 'sufficiency' of the certificate lacks `passed` or `says`",
        ),
        ({"losses": {}}, "losses lack full, imposed, natural"),
        ({"search": {"bars": 3}}, "bars of the search"),
        ({"bar": -1}, "bar must be a number of at least 0"),
        ({"seed": -5}, "seed must be a whole number from 0"),
        ({"helpers": [HELPER | {"query": "zz"}]}, "zz"),
        ({"helpers": [HELPER | {"layer": 99}]}, "layer of a helper row must be at most 3, got 99"),
    ],
)
def test_damaged_records(damage: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "circuit.json"
    path.write_text(json.dumps({**found().to_json(), **damage}))
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        Circuit.load(path)
    assert str(path) in str(caught.value)
    assert "left untouched" in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"layer": 0}, "count from 1, got layer 0"),
        ({"layer": 99}, "has layer 99, but the model has 3"),
        ({"head": 1.5}, "head is 1.5: Expected int"),
        ({"query": ">x7"}, "'>x7' is not a role here; the roles are x0>, >x1"),
        ({"interval": [2, 1]}, "an interval must be its lowest and highest number, got 2"),
        ({"feeds": [{"into": "soul"}]}, "paths[1].feeds[0].into is 'soul'"),
        ({"feeds": [{"into": "key", "colour": 1}]}, "no field paths[1].feeds[0].colour"),
    ],
)
def test_damaged_paths(damage: dict[str, Any], says: str, tmp_path: Path) -> None:
    values = json.loads(json.dumps(found().to_json()))
    values["paths"][1] |= damage
    (tmp_path / "circuit.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=re.escape(says)):
        Circuit.load(tmp_path / "circuit.json")


def test_missing_fields_are_named(tmp_path: Path) -> None:
    path = tmp_path / "circuit.json"
    values = json.loads(json.dumps(found().to_json()))
    path.write_text(json.dumps({name: value for name, value in values.items() if name != "bar"}))
    with pytest.raises(InputError, match="missing required field bar"):
        Circuit.load(path)
    del values["paths"][0]["key"]
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="a path needs layer, head, query and key"):
        Circuit.load(path)


def test_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "circuit.json"
    path.write_text(json.dumps(found().to_json())[:500])
    with pytest.raises(InputError, match="left untouched"):
        Circuit.load(path)
    with pytest.raises(InputError, match="does not exist"):
        Circuit.load(tmp_path / "none.json")


def test_text_says_what_is_there() -> None:
    text = str(found())
    assert text.startswith("certified (natural, strict) circuit: model w2")
    assert re.search(r"2 +1 +x0\? -> >x1 +1\.00", text)
    assert "K of layer 2 (x0? -> >x1)" in text
    assert "FAIL" not in text
    bars = re.findall(r"would hold at any bar from (\S+) to (\S+); the bar is 0.05", text)
    assert [float(least) < 0.05 < float(most) for least, most in bars] == [True, True]  # natural and strict
    of_text = replace(found(), text=Asked("own", "equations", floor=0.25, lowest=0.9))
    assert str(of_text).startswith("certified (natural, strict) circuit: own, D = 2, ")
    none = replace(
        made(), certificate=Certificate("natural", {"sufficiency": Part(False, "it does not solve the problem", {})})
    )
    assert str(none).startswith("no circuit: model m")
    assert "FAIL  sufficiency" in str(none)
    assert "different mechanisms" in compare(made(*SERIAL), made(*DOUBLING)).as_text("a", "b")


def test_drawing(tmp_path: Path) -> None:
    from hopscope.circuits.checks.claimed import silent_heads
    from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
    from hopscope.plot.attention_maps import appendix_c, one_prompt
    from hopscope.plot.circuit import arrows, figure_5
    from hopscope.plot.style import INK, save

    shared = made(*SERIAL, (3, 2, ">x1", "x0>"))
    drawn = arrows(shared)
    assert len(drawn) == 6, "two heads on one path are one arrow"
    assert {arrow.row for arrow in drawn} == {1, 2, 3, 4}, "layers without a path are left out"
    assert next(arrow for arrow in drawn if arrow.query == ">x1").heads == (1, 2)
    files = save(figure_5(found()), tmp_path / "circuit")
    assert [file.suffix for file in files] == [".png", ".svg", ".pdf"]
    first = files[1].read_bytes()
    assert save(figure_5(found()), tmp_path / "circuit")[1].read_bytes() == first
    save(figure_5(made()), tmp_path / "none")
    first_path, *others = found().paths
    unused = replace(found(), paths=(replace(first_path, feeds=()), *others))
    axes = figure_5(unused).axes[0]
    assert {text.get_color() for text in axes.texts if text.get_text()} == {INK}, "pale numbers cannot be read"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][-1] == "no use seen"  # every colour is told
    assert figure_5(shared).axes[0].get_legend() is None  # where no uses were looked for, none is missing
    witness = disguised_witness(2)
    evaluator = VectorEvaluator(witness.transformer, witness.problem, held_out(witness.problem, 8))
    maps = appendix_c(evaluator.role_maps().same[0], witness.problem, found())
    framed = [patch for axes in maps.axes for patch in axes.patches]
    assert len(framed) == len(found().paths)
    save(maps, tmp_path / "maps")
    spare = build_witness(hops=1, spare_heads=1)
    seen = VectorEvaluator(spare.transformer, spare.problem, held_out(spare.problem, 8))
    pale = appendix_c(seen.role_maps().same[0], spare.problem, silent=silent_heads(seen))
    assert [axes.images[0].get_alpha() for axes in pale.axes] == [1.0, 0.25, 1.0, 0.25]
    named = [(bool(axes.get_yticklabels()), bool(axes.get_xticklabels())) for axes in pale.axes]
    assert named == [(True, False), (False, False), (True, True), (False, True)], "roles are named at the edge"
    wrapped = appendix_c(torch.rand(11, 1, 3, 3), spare.problem)  # eight panels in a row, then three
    assert [bool(axes.get_xticklabels()) for axes in wrapped.axes[:11]] == [False] * 3 + [True] * 8
    assert [number for number, axes in enumerate(wrapped.axes[:11]) if axes.get_yticklabels()] == [0, 8]
    title = pale.get_suptitle()
    assert title == "Mean attention by role\npale: heads that write nothing, such as pruned ones"
    patterns = witness.transformer.patterns(evaluator.batch.inputs[None])
    prompt = torch.stack([pattern[0, 0] for pattern in patterns])
    save(one_prompt(prompt), tmp_path / "prompt")
    assert one_prompt(prompt, silent={(1, 0)}).axes[prompt.shape[1]].images[0].get_alpha() == 0.25
    assert len(list(tmp_path.glob("*.png"))) == 4
