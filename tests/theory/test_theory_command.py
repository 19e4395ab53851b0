"""`hopscope theory`: its contract, its drawings, its errors; and the claims it feeds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["theory", *arguments])
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


def test_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--hops", "1-64", "--json")
    rows = json.loads(out)
    assert status == 0
    assert [row["hops"] for row in rows] == list(range(1, 65))
    names = ["hops", "theorem_1", "no_mask", "causal", "causal_one_head", "causal_head_a_row"]
    assert [list(row) for row in rows] == [names] * 64
    assert [list(rows[number].values()) for number in (0, 63)] == [[1, 1, 2, 2, 2, 1], [64, 5, 6, 8, 8, 7]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--hops", "0"],
            "hops must be whole numbers of at least 1, a range or a list, as in 5, 1-64 or 1,2,4; got '0'",
        ),
        (["--hops", "-5"], "got '-5'"),
        (["--hops", "3-1"], "a range of hops goes upwards, as in 1-3; got '3-1'"),
        (["--hops", "1-999999999"], "at most 100000 hops at once"),
        (["--hops", "1-4", "--show"], "take one chain, got hops '1-4'"),
        (["--hops", "900", "--show"], "go up to 256 hops, got 900"),
        (["--hops", "99", "--witness"], "goes up to 16 hops, got 99"),
        (["--hops", "5", "--show", "--order", "sideways"], "order must be deepest-first, shallowest-first"),
        (["--hops", "5", "--figure", "flow.gif"], "must end in .png, .svg or .pdf, got 'flow.gif'"),
        (["--graph", "no-such-file"], "no-such-file does not exist"),
        (["--graph", "functions", "--best-order"], "a graph's facts stand in the order of its text"),
        (["--graph", "functions", "--hops", "3"], "--graph tells its depth alone; leave --hops out"),
        (["--hops", "3", "--one-head"], "--one-head is for --show"),
        (["--hops", "3", "--no-mask"], "the table has both masks; leave --no-mask out"),
        (["--hops", "3", "--no-mask", "--figure", "flow.svg"], "the figure has both masks; leave --no-mask out"),
        (["--hops", "4", "--order", "1,2,4,3", "--best-order"], "leave out either"),
        (["--hops", "4", "--order", "1,2,4,3", "--no-mask"], "the order of the pairs makes no difference"),
        (["--hops", "3-4", "--order", "1,2,4,3"], "each of the pairs 1 to 3 once, first to last, as in 1,2,3"),
        (["--hops", "300", "--best-order"], "orders are written out up to 256 hops, got 300"),
        (["--hops", "5", "--order", "5,1,2,4,3", "--witness"], "a witness is known for deepest-first"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_the_best_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(capsys, "--hops", "1-16", "--best-order", "--json")[1])
    assert [row["layers"] for row in rows] == [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5]
    assert [row["fewest"] for row in rows] == [row["layers"] for row in rows]
    assert [row["most"] for row in rows] == [2, 3, 3, *[4] * 4, *[5] * 8, 6]
    assert rows[3]["order"] == "1,2,4,3"
    out = run(capsys, "--hops", "4", "--best-order")[1]
    assert ["4", "1,2,4,3", "3", "2", "3", "4"] in [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()
    ]
    shown = run(capsys, "--hops", "4", "--best-order", "--show")[1]
    assert shown.startswith("4 hops under a causal mask, pairs in the order 1,2,4,3 and any number of heads: 3 layers")


def test_show_draws_growth_and_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--hops", "3", "--show", "--one-head")
    lines = out.splitlines()
    assert lines[0].startswith(
        "3 hops under a causal mask, deepest first and one head a layer: 3 layers (Theorem 1 asks"
    )
    assert [line.count("█") for line in lines if "as far as" in line] == [1, 2, 4, 7]
    assert "layer 3  x0? -> >x2" in lines
    assert "in 6 attentions" in out


def test_show_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, "--hops", "2", "--show", "--no-mask", "--json")[1])
    assert record["layers"] == 2
    assert record["growth"][-1] == ["p0", "x0", "p1", "x1", "p2", "x2"]
    assert len(record["schedule"]) == 4


def test_witness(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, "--hops", "2", "--witness", "--json")[1])
    assert record["layers"] == 3
    assert max(record["losses"]) < 0.01
    assert all(missing["loss"] > 0.3 for missing in record["without"])
    out = run(capsys, "--hops", "2", "--witness", "--no-mask")[1]
    assert "2 layers, 2 heads a layer" in out
    assert "without layer 2: loss of x2 1.00; the query gets as far as" in out


@pytest.mark.parametrize(("name", "magic"), [("f.png", b"\x89PNG"), ("f.svg", b"<?xml")])
def test_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, magic: bytes) -> None:
    status, out, _ = run(capsys, "--hops", "5", "--figure", str(tmp_path / "deep" / name))
    assert status == 0
    assert name in out
    assert (tmp_path / "deep" / name).read_bytes().startswith(magic)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == [name]


def test_graph(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, "--graph", "relatives", "--json")[1])
    assert record["causal"]["layers"] == 4
    assert record["no_mask"]["layers"] == 3
    assert "functions, causal mask: 3 layers until the answer, 3, is known" in run(capsys, "--graph", "functions")[1]


def test_the_table_needs_neither_torch_nor_matplotlib() -> None:
    program = (
        "import sys, contextlib\n"
        "from hopscope.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['theory', '--hops', '1-64', *sys.argv[1:]])\n"
        "sys.exit(sorted({'torch', 'matplotlib', 'numpy'} & set(sys.modules)) or 0)\n"
    )
    for extra in (["--json"], []):
        assert subprocess.run([sys.executable, "-c", program, *extra], capture_output=True).returncode == 0
