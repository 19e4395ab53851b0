"""`hopscope theory`: its contract, its drawings, its errors; and the claims it feeds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import call


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return call("theory", *arguments), *capsys.readouterr()


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(run(capsys, *arguments, "--json")[1])


def cells(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()[2:] if "|" in line]


def test_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    rows = read(capsys, "--hops", "1-64")
    assert [row["hops"] for row in rows] == list(range(1, 65))
    names = ("hops", "theorem_1", "no_mask", "causal", "causal_one_head", "causal_head_a_row")
    assert rows[0] == dict(zip(names, (1, 1, 2, 2, 2, 1), strict=True))
    assert rows[63] == dict(zip(names, (64, 5, 6, 8, 8, 7), strict=True))
    assert cells(run(capsys, "--hops", "3,64")[1]) == [["3", "2", "3", "3", "3", "2"], ["64", "5", "6", "8", "8", "7"]]


@pytest.mark.parametrize(
    ("text", "numbers"), [("5", [5]), ("1,2,4", [1, 2, 4]), ("4,1-3", [1, 2, 3, 4]), ("3-3", [3]), (" 2 , 7", [2, 7])]
)
def test_hops_are_written_in_several_ways(capsys: pytest.CaptureFixture[str], text: str, numbers: list[int]) -> None:
    assert [row["hops"] for row in read(capsys, "--hops", text)] == numbers


@pytest.mark.parametrize("order", ["1,2,4,3", "deepest-first", "3,1,4,2"])
def test_an_order_has_its_own_minimum(capsys: pytest.CaptureFixture[str], order: str) -> None:
    written, layers = {"1,2,4,3": ("1,2,4,3", 3), "deepest-first": ("4,3,2,1", 4)}.get(order, (order, 4))
    [row] = read(capsys, "--hops", "4", "--order", order)
    assert row == {"hops": 4, "order": written, "layers": layers, "head_a_row": layers - 1, "fewest": 3, "most": 4}


def test_the_best_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = read(capsys, "--hops", "1-6", "--best-order")
    assert [row["layers"] for row in rows] == [row["fewest"] for row in rows] == [2, 3, 3, 3, 4, 4]
    assert [row["most"] for row in rows] == [2, 3, 3, 4, 4, 4]
    out = run(capsys, "--hops", "4-6", "--best-order")[1]
    assert cells(out) == [[str(value) for value in row.values()] for row in rows[3:]]
    shown = run(capsys, "--hops", "4", "--best-order", "--show")[1]
    assert shown.startswith("4 hops under a causal mask, pairs in the order 1,2,4,3 and any number of heads: 3 layers")


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--hops", "3", "--show")
    lines = out.splitlines()
    assert lines[0].startswith("3 hops under a causal mask, deepest first and any number of heads: 3 layers (Theorem 1")
    assert [line.count("█") for line in lines if "as far as" in line] == [1, 2, 4, 7]
    assert "layer 3  x0? -> >x2" in lines
    assert "in 6 attentions" in out
    record = read(capsys, "--hops", "2", "--show", "--no-mask")
    assert record["layers"] == 2
    assert record["growth"][-1] == ["p0", "x0", "p1", "x1", "p2", "x2"]
    assert len(record["schedule"]) == 4
    long = run(capsys, "--hops", "40", "--show")[1].splitlines()
    assert max(len(line) for line in long if "█" in line) < 120


def test_figure_draws_an_edge_for_every_shared_piece() -> None:
    from matplotlib.colors import to_hex

    from hopscope.paper.section_5 import PLACE, SYMBOL, figure_3
    from hopscope.problem.retrieval import RetrievalProblem

    shared, without, causal = figure_3(RetrievalProblem(hops=5)).axes
    edges = [to_hex(patch.get_edgecolor()).upper() for patch in shared.patches]
    assert (edges.count(SYMBOL), edges.count(PLACE)) == (5, 5)
    assert [len(shared.texts) - 2, len(without.patches), len(causal.patches)] == [11, 11 * 4, 11 * 5]
    filled = [to_hex(patch.get_facecolor()).upper() in (SYMBOL, PLACE) for patch in causal.patches]
    assert [sum(filled[row * 11 : row * 11 + 11]) for row in range(5)] == [1, 2, 4, 8, 11]
