"""The study of pretrained circuits: kinds of paths by hand, every stored circuit taken, shares of the way."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopscope as hs
from examples.text_model.text import make_tokenizer
from studies.__main__ import main
from studies.addresses import Property, edited
from studies.knockouts import groups, removed, windows
from studies.pretrained import KnownCircuit, kind_of
from studies.tools.fresh import Share, random_others, shares

RESULTS = Path(__file__).parents[2] / "results"
INDUCTION = RESULTS / "pretrained" / "smollm2-induction" / "circuit.json"


@pytest.mark.parametrize(
    ("query", "key", "kind"),
    [
        (">x1", "x0>", "binds"), ("x1.", "x0=", "binds"), ("x1>", ">x1", "joins"), ("x0>", ">x2", "joins"),
        ("x0?", ">x1", "reads"), ("answer", "x0?", "fetches"), ("answer", "x1=", "reads"), ("B1", "A1", "binds"),
        ("before2", "A1", "reads"), ("A2", "before2", "fetches"), ("text", "A1", None), (">x1", "text", None),
        ("x2-1", "x1=", "binds"), ("x1-1", ">x2", "joins"), ("answer", "x1-1", "reads"),
    ],
)  # fmt: skip
def test_kinds_of_paths(query: str, key: str, kind: str | None) -> None:
    assert kind_of(query, key) == kind


def test_a_circuit_binds_and_reads_where_it_loses_most() -> None:
    circuit = hs.Circuit.load(INDUCTION)
    known = KnownCircuit.of(circuit, "")
    assert (known.at("binds"), known.at("reads"), known.between, known.at("joins")) == (17, 19, 2, None)
    needless = [path for path in circuit.paths if path.without.mean < 1]  # without that of layer 17
    assert KnownCircuit.of(replace(circuit, paths=tuple(needless)), "").between == 19 - 20
    (first,) = [path for path in known.paths if path.loss > 1]
    assert (first.kind, first.feeds) == ("binds", "K of reads")


def test_shares_of_the_way_by_hand() -> None:
    losses = np.array([[1.0, 0.6], [0.0, 0.2], [0.0, 0.2], [1.0, 0.6], [0.5, 0.4], [0.0, 0.6]])
    assert shares(losses) == [Share(1, (1, 1)), Share(0, (0, 0)), Share(0.5, (0.5, 0.5)), Share(0.7143, (0, 1))]


def test_random_heads_are_others_of_the_same_layers() -> None:
    assert sorted(random_others({(0, 1), (3, 0)}, [*product(range(4), range(2))], random.Random(1))) == [(0, 0), (3, 1)]


def test_every_stored_circuit_is_in_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrained", str(tmp_path)]) == 2
    assert "has no folder with a circuit.json" in capsys.readouterr().err
    for name in ("pretrained/one", "pretrained/other", "paper/transformers/d"):
        (tmp_path / name).mkdir(parents=True)
        of = RESULTS / name / "circuit.json" if name.endswith("/d") else INDUCTION
        shutil.copy(of, tmp_path / name / "circuit.json")
    assert main(["pretrained", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.strip() == (tmp_path / "pretrained" / "tables.md").read_text().strip()
    assert text.count("| SmolLM2-135M-Instruct | induction | 19 | 16 of 270 | 24 of 1575 | not measured") == 2
    assert "| other | 1 uncertified | 30 | 17 | 19 | 2 | 3 | 0 | 2 | 14 |" in text
    assert "| transformer D | 1 uncertified | 24 | 3 | 14 | 11 | 4 | 4 | 0 | 5 |" in text
    assert (tmp_path / "pretrained" / "kinds.svg").exists()


def test_an_edit_changes_one_property_of_the_line_of_the_value() -> None:
    prompt = hs.prompts.code_chains(make_tokenizer(), 8, hops=2).prompts[0]
    asked, another = (prompt.prompt[slice(*of["x0>"])] for of in (prompt.roles, prompt.other_chains[2]))

    def found(text: str, start: str) -> tuple[str, int, str]:
        rows = dict(line.split(" = ") for line in text.split("\n")[1:9])
        return rows[start], [*rows].index(rows[start]), rows[rows[start]]

    (name, place, value), other = found(prompt.prompt, asked), found(prompt.prompt, another)
    wanted: dict[Property, Any] = {"value": (name, place, other[2]), "place": (name, other[1], value)}
    wanted |= {"name": (other[0], place, value), "place and name": (*other[:2], value)}
    for changed, says in wanted.items():
        new = edited(prompt, 2, 2, changed)
        assert (found(new.prompt, asked), new.answers[new.right].strip()) == (says, says[2])


def test_knockouts_remove_every_key_of_a_group_but_the_token_itself() -> None:
    roles = ("x0>", "x0=", ">x1", "x1.", "x1>", "x1=", "x2-1", ">x2", "x2.", "x0?", "text", "answer")
    made = removed([groups(2)["binds 1"], groups(2)["joins 1"]], range(3, 5), 2, roles)
    cut = {row: ablation.keys for row, ablation in made.items()}
    assert {tuple(row) for row in cut} == {*product((3, 4), (0, 1), range(4))}
    assert cut[hs.HeadRow(4, 1, 2)] == (0, 1, 3, 4, 5, 6, 7, 8)
    assert {*removed([groups(2)["fetches"]], range(1), 1, roles)} == {(0, 0, 11)}
    assert [windows(28)[number] for number in (0, 1, -1)] == [range(28), range(4), range(24, 28)]
