"""The record of a circuit: round trips, damaged files, its schema, when it is certified, text, drawing."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from known_run import SERIAL, made

import hopscope as hs
from hopscope.circuits.checks.card import CHECKS, Baselines, Card, Check, Curve, Damage, Faithfulness, Size
from hopscope.circuits.circuit import FORM, Circuit
from hopscope.circuits.circuit_parts import Asked, SearchRecord
from hopscope.circuits.evaluate.ablations import KEEP, one_hot
from hopscope.circuits.resume import Search, Stage
from hopscope.circuits.store import find_stored
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow, PathGroup
from hopscope.problem.retrieval import RetrievalProblem

STORED = Path(__file__).parents[2] / "results" / "paper-short" / "transformers" / "seed-1" / "circuit.json"

PASSED = {name: Check(name, "passed", "it is so") for name in CHECKS}
CARD = Card(
    size=Size(4, 5, 2, 70),
    own=Faithfulness(0.9, 0.95, 0.92, ((0.81, 0.97), (0.93, 0.98), (0.9, 0.94))),
    imposed=Faithfulness(0.8, 0.85, 0.82),
    order=("layer 1 head 1 >x1",),
    curve=Curve(((0, 0.0), (2, 0.5), (4, 1.5))),
    completeness=Damage(0.9, 0.5, 0.4),
    baselines=Baselines(None, 7, 0.5, 0.6, None),
    strategy="serial",
    found_by="position",
)


@cache
def found() -> Circuit:
    """A circuit that is certified."""
    return replace(Circuit.load(STORED), checks=PASSED, card=CARD)


def test_a_record_survives_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "circuit.json"
    found().save(str(path))
    assert Circuit.load(str(path)) == found()
    values, stored = json.loads(path.read_text()), json.loads(STORED.read_text())
    assert (values["kind"], values["schema"], values["certified"]) == ("hopscope circuit", 1, True)
    same = values.keys() - {"seal", "search", "checks", "card", "certified"}
    assert {name: values[name] for name in same} == {name: stored[name] for name in same}
    path.write_text('{"kind": "mine"}')
    with pytest.raises(InputError, match="is not the record of a circuit"):
        found().save(path)
    assert path.read_text() == '{"kind": "mine"}'
    found().save(path, overwrite=True)
    assert Circuit.load(path) == found()


def test_a_circuit_is_certified_by_six_checks_of_six() -> None:
    """A check that is missing certifies nothing; one that makes no sense for the task does not count against."""
    whole = found()
    assert whole.certified
    for name in CHECKS:
        rest = {other: check for other, check in whole.checks.items() if other != name}
        assert not replace(whole, checks=rest).certified
        for outcome, certified in (("failed", False), ("not asked", True)):
            changed = replace(whole, checks=rest | {name: Check(name, outcome, "")})  # type: ignore[arg-type]
            assert changed.certified is certified
            assert changed.failed == (() if certified else (name,))


def test_a_group_is_of_paths_of_the_circuit(tmp_path: Path) -> None:
    whole = found()
    one, two, *_ = (path.path for path in whole.paths)
    grouped = replace(whole, groups=(PathGroup((one, two)),))
    grouped.save(tmp_path / "circuit.json")
    assert Circuit.load(tmp_path / "circuit.json") == grouped
    for paths, needs in (((one,), 1), ((one, one), 1), ((one, two), 2), ((one, two), 0), ((one, two), 1.5)):
        with pytest.raises(InputError, match="a group "):
            PathGroup(paths, needs)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"hops": 4}, "hops is 4, but 3 according to the rest of the record"),
        ({"found": False}, "found is False, but True according to the rest of the record"),
        ({"problem": {"hops": 0}}, "hops must be"),
        ({"interventions": []}, "is one_hot, but not in the interventions"),
        ({"interventions": [{"form": "uniform"}]}, "interventions: Object missing required field layer"),
        ({"helpers": [{"layer": 99, "head": 1, "query": "x0?", "without": {"mean": 0.1, "interval": [0, 1]}}]},
         "L99.H1 x0? is not in a model of 12 layers"),
        ({"paths": {"layer": 0}}, "count from 1, got layer 0"),
        ({"paths": {"layer": 99}}, "is not in a model of 12 layers"),
        ({"paths": {"query": ">x7"}}, "'>x7' is not a role; the roles are x0>, >x1"),
        ({"paths": {"without": {"mean": 1, "interval": [2, 1]}}},
         "an interval must have its lower end first, got (2"),
        ({"paths": {"feeds": [{"into": "soul"}]}}, "feeds[0].into"),
    ],
)  # fmt: skip
def test_damaged_records(damage: dict[str, Any], says: str, tmp_path: Path) -> None:
    path, values = tmp_path / "circuit.json", json.loads(json.dumps(found().to_json()))
    if damage.get("paths"):
        values["paths"][1] |= damage["paths"]
    else:
        values |= damage
    values = {name: value for name, value in values.items() if value is not None or name in ("imposed", "text")}
    FORM.write(path, {name: value for name, value in values.items() if name not in FORM.named})
    with pytest.raises(InputError) as caught:
        Circuit.load(path)
    assert says in str(caught.value).replace("`", "")
    assert str(path) in str(caught.value)
    assert "left untouched" in str(caught.value)


def test_a_record_that_replays_something_else_than_its_paths_is_refused(tmp_path: Path) -> None:
    """Planted: interventions that attend elsewhere than the path, or lie outside the model."""
    circuit, saved = found(), tmp_path / "circuit.json"
    path, rows = circuit.paths[0].path, circuit.interventions
    for changes, says in (
        ({"interventions": {**rows, path.row: one_hot(circuit.roles.index(">x3"))}}, "but not in the interventions"),
        ({"interventions": {**rows, path.row: KEEP}}, "is one_hot, but not in the interventions"),
        ({"interventions": {}}, "is one_hot, but not in the interventions"),
        ({"interventions": {**rows, HeadRow(98, 0, 0): KEEP}}, r"L99\.H1 x0> is not in a model of 12 layers"),
    ):
        replace(circuit, **changes).save(saved)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=says):
            Circuit.load(saved)


def test_a_stored_circuit_is_returned_or_replaced_by_model_and_settings(tmp_path: Path) -> None:
    """The same are returned; others are searched for, and a certified circuit is replaced by `overwrite` alone."""
    certified, path = found(), tmp_path / "circuit.json"
    unchecked_circuit = replace(certified, checks={}, imposed=None)
    searched: list[Circuit] = []

    def stored(circuit: Circuit, draws: int = 200, model: str = certified.model, **how: Any) -> Circuit:
        proof = hs.CertificateConfig(draws=draws)

        def search() -> Search[Circuit]:
            yield from ()
            made = replace(circuit, model=model, search=SearchRecord("thorough", proof=proof))
            searched.append(made)
            return made

        return find_stored(path, search(), model, SearchRecord("thorough", proof=proof), 0.05, **how)

    assert stored(unchecked_circuit) == stored(unchecked_circuit) == searched[-1]
    assert len(searched) == 1
    assert stored(certified, draws=150) == stored(certified, draws=150) == searched[-1]
    for other, words in (({"draws": 500}, "proof "), ({"draws": 150, "model": "m"}, "model \\w+, not m")):
        with pytest.raises(InputError, match=rf"holds a certified circuit, found with {words}.*overwrite=True"):
            stored(certified, **other)
    assert len(searched) == 2
    assert stored(certified, draws=500, overwrite=True) == Circuit.load(path) == searched[2]


def test_an_interrupted_search_of_the_same_settings_resumes(tmp_path: Path) -> None:
    path, computed, problem = tmp_path / "circuit.json", list[str](), RetrievalProblem(hops=3)

    def noted(stage: str) -> int:
        computed.append(stage)
        return len(computed)

    def search(seed: int, stop: str = "") -> Search[Circuit]:
        for name in ("first", "second"):
            yield Stage(name, partial(noted, f"{name} {seed}"), problem, int)
            if name == stop:
                raise KeyboardInterrupt
        return found()

    def stored(seed: int, stop: str = "") -> Circuit:
        return find_stored(path, search(seed, stop), found().model, SearchRecord(seed=seed), run="r")

    for seed, stop in ((0, "first"), (0, "second"), (1, "first")):
        with pytest.raises(KeyboardInterrupt):
            stored(seed, stop)
    assert (tmp_path / ".circuit-search.json").exists()
    assert stored(1) == found()
    assert computed == ["first 0", "second 0", "first 1", "second 1"]
    assert [file.name for file in tmp_path.iterdir()] == ["circuit.json"]


def test_text_is_one_screen() -> None:
    text = str(found())
    assert text.startswith(f"certified circuit: model {found().model} (seed 1)")
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 50
    assert re.search(r"L\d+\.H1 x0\? -> >x\d +0\.\d\d", text)
    assert "FAIL" not in text
    for line in (
        "size          4 paths; 5 active rows and 2 at a mean: 10% of 70",
        "faithfulness  own patterns; rest off 0.900 (0.810 to 0.970), mean 0.950 (0.930",
        "              imposed patterns; rest off 0.800, mean 0.850, resample 0.820",
        "curve         CPR 0.625, CMD 0.625",
        "baselines     best of 7 random circuits not testable, ACDC 0.500,",
        "tags          serial; position-based",
    ):
        assert line in text
    of_text = replace(found(), text=Asked("own", "equations", floor=0.25, lowest=0.9))
    assert str(of_text).startswith("certified circuit: own, D = 3, ")
    check = Check("sufficiency", "failed", "it does not solve the problem")
    none = replace(made(), checks={"sufficiency": check})
    assert str(none).startswith("no circuit: model m")
    assert "FAIL  sufficiency" in str(none)
    assert "neither checks nor card were measured" in str(replace(found(), checks={}, card=None))
    hasty = replace(found(), search=SearchRecord(proof=hs.CertificateConfig(sequences=64)))
    assert "measured on at most 64 sequences, or 1024 if in doubt" in str(hasty)
    assert "given, not searched for" in str(hasty)
    imposed = found().imposed
    assert imposed is not None
    for outcome, says in (("not asked", "passed all checks"), ("failed", "failed delivery")):
        checks = PASSED | {"delivery": Check("delivery", outcome, "")}  # type: ignore[arg-type]
        text = " ".join(str(replace(found(), imposed=replace(imposed, checks=checks))).split())
        assert f"with own patterns; {says}" in text


def test_the_curve_and_its_areas() -> None:
    assert found().faithfulness_curve() is CARD.curve
    assert (CARD.curve.cpr, CARD.curve.cmd) == (0.625, 0.625)
    beyond = Curve(((0, 0.0), (1, 2.0)))
    assert (beyond.cpr, beyond.cmd) == (1.0, 1.0)
    with pytest.raises(InputError, match="the card of this circuit was not measured"):
        made(*SERIAL).faithfulness_curve()


def test_the_card_as_a_figure() -> None:
    circuit = found()
    curve, paths, shares, checks = circuit.plot_card().axes
    assert list(curve.lines[0].get_xdata()) == [rows for rows, _ in CARD.curve.points]
    labels = [text.get_text() for text in curve.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["this circuit", "ACDC's rule 0.50", "attribution 0.60"], "7 random ones are too few"
    drawn = sorted(float(x) for line in shares.lines[:9] for x in line.get_xdata())  # type: ignore[union-attr]
    assert drawn == [0.8, 0.81, 0.82, 0.85, 0.9, 0.9, 0.92, 0.93, 0.94, 0.95, 0.97, 0.98]
    widths = [bar.get_width() for bar in paths.patches]  # type: ignore[attr-defined]
    wanted = [path.without.mean for path in circuit.paths] + [helper.without.mean for helper in circuit.helpers]
    assert widths == wanted + [path.without_imposed.mean for path in circuit.paths]
    assert [text.get_text() for text in checks.texts] == [f"✓ {name.replace('_', ' ')}" for name in CHECKS]
    failed = replace(circuit, checks=PASSED | {"outside": Check("outside", "failed", "")})
    assert failed.plot_card().axes[3].texts[3].get_text() == "✗ outside"
    title = circuit.plot_card().get_suptitle()
    assert circuit.imposed is not None
    assert circuit.imposed.own is not None
    assert f"{circuit.imposed.own.mean:.3f} with own patterns" in title
    with pytest.raises(InputError, match="no card with own patterns was measured"):
        replace(circuit, card=None).plot_card()
    imposed = replace(circuit, imposed=replace(circuit.imposed, card=CARD)).plot_card("imposed").axes[1]
    assert [bar.get_width() for bar in imposed.patches] == [path.without.mean for path in circuit.imposed.paths]  # type: ignore[attr-defined]


def test_drawing(tmp_path: Path) -> None:
    from hopscope.plot.circuit import appendix_c, arrows, figure_5
    from hopscope.plot.style import INK, save

    shared = made(*SERIAL, (3, 2, ">x1", "x0>"))
    drawn = arrows(shared)
    assert len(drawn) == 6, "two heads on one path are one arrow"
    assert {arrow.layer for arrow in drawn} == {3, 6, 7, 9}
    assert next(arrow for arrow in drawn if arrow.query == ">x1").heads == (1, 2)
    files = save(figure_5(found()), tmp_path / "circuit")
    assert [file.suffix for file in files] == [".png", ".svg", ".pdf"]
    first = files[1].read_bytes()
    assert save(figure_5(found()), tmp_path / "circuit")[1].read_bytes() == first
    save(figure_5(made()), tmp_path / "none")
    *unused, last = found().paths
    axes = figure_5(replace(found(), paths=(*(replace(path, feeds=()) for path in unused), last))).axes[1]
    assert {text.get_color() for text in axes.texts if text.get_text()} == {INK}, "pale numbers cannot be read"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][-1] == "no use seen"
    assert figure_5(shared).axes[0].get_legend() is None  # where no uses were looked for, none is missing
    paths = imposed.paths if (imposed := found().imposed) else ()
    with pytest.raises(InputError, match="at least one circuit"):
        figure_5()
    joint = figure_5(found(), shared, names="AB").axes
    titles = [axes.get_title("left").partition("\n")[0] for axes in joint]
    assert titles == [f"{name}: {kind}" for kind in ("patterns imposed (Appendix E)", "own patterns") for name in "AB"]
    drawn_losses, nothing = ({text.get_text() for text in axes.texts} for axes in joint[:2])
    assert drawn_losses >= {f"{path.without.mean:.2f}" for path in paths}
    assert "no circuit" in nothing
    framed = appendix_c(torch.rand(12, 2, 7, 7), shared.problem, found()).axes
    assert sum(len(axes.patches) for axes in framed) == len(paths) + len(found().paths)
    wrapped = appendix_c(torch.rand(15, 1, 3, 3), RetrievalProblem(hops=1))  # twelve panels in a row, then three
    assert [bool(axes.get_xticklabels()) for axes in wrapped.axes[:15]] == [False] * 3 + [True] * 12


jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "circuit.schema.json"
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_schema_is_current_and_takes_all_stored_circuits() -> None:
    today = runpy.run_path(str(FILE.parent / "circuit_schema.py"))["circuit_schema"]()
    assert json.loads(json.dumps(today)) == SCHEMA, "run `make schema`"
    read = (json.loads(file.read_text()) for file in (ROOT / "results").rglob("*.json"))
    stored = [record for record in read if isinstance(record, dict) and record.get("kind") == "hopscope circuit"]
    assert len(stored) > 100
    for record in stored:
        VALIDATOR.validate(record)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: it["paths"][0].update(layer=0), "0 is less than the minimum"),
        (lambda it: it["paths"][0]["feeds"][0].update(into="V"), "'V' is not one of"),
        (lambda it: it["interventions"][0].update(form="off"), "'off' is not one of"),
        (lambda it: it.update(losss=0.1), "'losss' was unexpected"),
        (lambda it: it["card"]["curve"].pop("points"), "is not valid under any"),
    ],
)
def test_a_changed_record_is_not_valid(change: Callable[[Any], Any], why: str) -> None:
    record = json.loads((ROOT / "results" / "explorers" / "a" / "circuit.json").read_text())
    change(record)
    assert any(why in error.message for error in VALIDATOR.iter_errors(record))
