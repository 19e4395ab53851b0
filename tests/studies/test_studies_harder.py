"""Every dress of a question has the answer that Python prints, and what is said instead is sorted by whose it is."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest

import hopscope as hs
from studies.harder import DRESSES, Dress, points

RUNNABLE = [dress for dress in DRESSES if dress.extensions.lines == "blocks"]


def asked(dress: Dress, hops: int) -> list[Any]:
    return hs.questions("equations", hops, 8, chains=dress.chains, extensions=dress.extensions)


@pytest.mark.parametrize("dress", RUNNABLE, ids=lambda dress: dress.name)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_python_prints_the_answer(dress: Dress, hops: int) -> None:
    for question in asked(dress, hops):
        said = io.StringIO()
        with redirect_stdout(said):
            exec(compile(dress.write(question), "prompt", "exec"), {})
        assert said.getvalue().splitlines()[-1] == question.answer
        assert dress.write(question).count(f"print({question.question.pieces[1]})") >= 1


def test_dresses_change_what_they_say() -> None:
    texts = {dress.name: dress.write(asked(dress, 2)[1]) for dress in DRESSES}
    assert len(set(texts.values())) == len(DRESSES)
    lines = {name: text.count("\n") for name, text in texts.items()}
    published = lines["as published"]
    assert lines["earlier values"] == lines["dead ends"] == published + 4
    assert lines["unequal chains"] == published


def test_points_pair_a_dress_with_the_published_one(tmp_path: Any) -> None:
    kinds = dict.fromkeys(("right", "own earlier value", "value of another chain"), 0.25)
    kinds |= dict.fromkeys(("letter of its own chain", "another letter", "another digit", "anything else"), 0.0625)
    for dress, right in ((DRESSES[0], [True] * 8), (DRESSES[1], [False] * 7 + [True])):
        rows = [{"likeliest": value, "share": 0.5, "kinds": kinds} for value in right]
        dress.file(tmp_path, 2).write_text("".join(json.dumps(row) + "\n" for row in rows))
    published, first = points(tmp_path)
    assert (published.likeliest, published.p) == (8, None)
    assert (first.likeliest, first.lost, first.won) == (1, 7, 0)
    assert first.p == pytest.approx(2 / 2**7)
