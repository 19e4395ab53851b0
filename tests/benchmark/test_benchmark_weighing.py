"""Exact mode is the limit of sampling: constructed models where one spelling, or one reading, would not be."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from small_decoders import END, START, Table, bigram

from hopscope.benchmark.answers import Record
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.points import summarise
from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.benchmark.weighing import WHOLE_TREE
from hopscope.problem.text.formulation import Extensions

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports

CELL = Cell("equations", 1)
DONE = {END: 1.0}

SPACES: Table = {START: {"1": 0.4, "2": 0.2, " ": 0.4}, " ": {"2": 1.0}, "1": DONE, "2": DONE}
"""One spelling: 0.4 / 0.6 for "1"; with white space stripped, as every reply's is, 0.4."""

LEADING: Table = {
    START: {"1": 0.3, "2": 0.3, "\n": 0.2, "x": 0.2},
    "\n": {"1": 0.5, "\n": 0.5},
    "1": {"\n": 0.5, END: 0.25, "2": 0.25},
    "2": DONE,
    "x": DONE,
}
"""Line breaks before the answer without end: half as likely each time; behind it they end nothing, and "12" is none."""

ADDED: Table = {
    START: {"▁1": 0.1, "1": 0.6, "▁2": 0.1, "2": 0.1, "3": 0.1},
    **dict.fromkeys(["▁1", "1", "▁2", "2"], DONE),
    "3": {"3": 1.0},
}
"""The tokenizer spells "1" as "▁1": 0.1 / 0.2 in its spelling, 0.7 / 0.9 in truth; "3" never ends."""

LINES: Table = {
    START: {"1\n": 0.2, "1": 0.3, " ": 0.1, "2": 0.2, "\n": 0.2},
    " ": {"1\n": 0.5, "2\n": 0.5},
    "1": {" \n": 0.5, ".": 0.5},
    "2": {"\n": 1.0},
    ".": {"\n": 1.0},
}
"""Without a chat template a line break ends the reply, alone, behind a space, or in one token with the answer."""


def records(model: LocalModel, settings: BenchmarkSettings, count: int) -> list[Record]:
    found: list[Record] = []
    model.ask(settings.questions(CELL, count), settings, found.append)
    return sorted(found, key=lambda record: record.index)


@pytest.mark.parametrize(
    ("table", "metaspace", "chat", "rule", "weights"),
    [
        (SPACES, False, True, "exact", {"1": 0.4, "2": 0.6}),
        pytest.param(LEADING, False, True, "exact", {"1": (0.3 + 0.2) * 0.25, "2": 0.3}, marks=pytest.mark.slow),
        pytest.param(ADDED, True, True, "exact", {"1": 0.7, "2": 0.2}, marks=pytest.mark.slow),
        pytest.param(LINES, False, False, "exact", {"1": 0.2 + 0.15 + 0.05, "2": 0.05 + 0.2}, marks=pytest.mark.slow),
        pytest.param(LINES, False, False, "lenient", {"1": 0.2 + 0.3 + 0.05, "2": 0.05 + 0.2}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_both_modes_agree_where_spellings_differ(
    table: Table, metaspace: bool, chat: bool, rule: str, weights: dict[str, float], tmp_path: Path
) -> None:
    model = LocalModel(bigram(tmp_path / "model", table, metaspace, chat), "cpu")
    exact = records(model, BenchmarkSettings(mode="exact", exact_tree=True, rule=rule, max_tokens=12), 10)
    for record in exact:
        assert record.weights == pytest.approx({"0": 0.0, "3": 0.0, **weights}, abs=1e-3)
        assert record.unweighed <= WHOLE_TREE.share
    tried = records(model, BenchmarkSettings(rule=rule, max_tokens=12, attempts=50), 400)
    replies = sum(record.attempts for record in tried)
    accepted = Counter(record.accepted for record in tried)
    total = sum(weights.values())
    for answer, weight in weights.items():
        share = weight / total
        assert abs(accepted[answer] - 400 * share) <= 5 * (400 * share * (1 - share)) ** 0.5 + 1e-9
    assert abs(400 - replies * total) <= 5 * (replies * total * (1 - total)) ** 0.5 + 1e-9
    point = summarise("m", CELL, exact, BenchmarkSettings(mode="exact", attempts=50))
    assert point.share == pytest.approx(sum(weights.get(r.answer, 0) / total for r in exact) / 10, abs=1e-3)


@pytest.mark.parametrize("chat", [True, False])
def test_a_model_that_is_to_think_may_write_lines_before_its_answer(chat: bool, tmp_path: Path) -> None:
    """Forty tokens of them, where a direct answer has 32, and one that ends with its first line never comes to it."""
    steps = [f"s{number}" for number in range(40)]
    table: Table = {one: {after: 1.0} for one, after in pairwise([START, *steps, "#\n", "1"])}
    table |= {"\n": table[START], "1": DONE}
    model = LocalModel(bigram(tmp_path / "model", table, False, chat), "cpu")
    thinking = BenchmarkSettings(extensions=Extensions(think=True), attempts=1)
    assert [record.accepted for record in records(model, thinking, 2)] == ["1", "1"]
    assert [record.accepted for record in records(model, BenchmarkSettings(attempts=1), 2)] == [None, None]
    assert (thinking.max_tokens, BenchmarkSettings().max_tokens, BenchmarkSettings().longest) == (1024, 32, 32)
