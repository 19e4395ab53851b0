"""The answer rules: what counts, and what must not."""

from __future__ import annotations

import pytest

from hopscope.benchmark.answers import RULES, Reply, Trial, exact, hopeful, last_line, lenient
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import question

CITIES = ("Amsterdam", "Berlin", "Cairo", "Delhi")


@pytest.mark.parametrize(
    ("text", "strictly", "leniently"),
    [
        ("Berlin", "Berlin", "Berlin"),
        (" \nBerlin\t", "Berlin", "Berlin"),
        ("Berlin.", None, "Berlin"),
        ("**Berlin**", None, "Berlin"),
        ("**Berlin.**", None, "Berlin"),
        ("`Berlin`.", None, "Berlin"),
        ('"Berlin."', None, "Berlin"),
        ("“berlin”", None, "Berlin"),
        ("BERLIN", None, "Berlin"),
        ("Berlin..", None, None),
        ("Berlin!", None, None),
        ("Not Berlin", None, None),
        ("Rose lives in Berlin", None, None),
        ("Berlin or Cairo", None, None),
        ("Paris", None, None),
        ("", None, None),
        ("**", None, None),
        (".", None, None),
        ('"', None, None),
    ],
)
def test_rules(text: str, strictly: str | None, leniently: str | None) -> None:
    assert exact(text, CITIES) == strictly
    assert lenient(text, CITIES) == leniently


def test_a_longer_number_is_another_number() -> None:
    for text in ("12", "1 2", "-1", "1.0", "01"):
        assert lenient(text, ("0", "1", "2", "3")) is None


SPACES = "\u00a0\u3000\u2028\u0085\x1f\u2009 \t\n"
"""White space to `str.strip`, most of it beyond ASCII."""


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("space", SPACES)
def test_no_white_space_ends_hope(name: str, space: str) -> None:
    """Around an answer, and within its wrappers, at any point of its writing."""
    texts = [f"{space}Berlin{space}", f"{space}\n{space}Cairo"]
    if name == "lenient":
        texts += [f"**{space}berlin{space}**.{space}", f"“{space}`BERLIN{space}.`{space}”", f"'{space}Delhi.{space}'"]
    for text in texts:
        assert RULES[name](text, CITIES) is not None
        assert all(hopeful(name, text[:end], CITIES) for end in range(len(text) + 1))
    for text in (f"{space}Paris", f"Berlin{space}x", f"Ber{space}l"):
        assert not hopeful(name, text, CITIES)


def test_trial_keeps_attempts_and_rejected_texts() -> None:
    item = question("equations")
    wrong = next(answer for answer in item.acceptable if answer != item.answer)
    trial = Trial(item, "exact", 5)
    for text in ("I think 3", f"{item.answer}."):
        trial.replies.append(Reply(text))
        assert not trial.settled
    trial.replies.append(Reply(wrong, reasoned=True))
    assert trial.settled
    record = trial.record("m")
    assert record.attempts == 3
    assert record.rejected == ("I think 3", f"{item.answer}.")
    assert (record.accepted, record.correct, record.p_acceptable) == (wrong, False, 0)
    assert record.reasoned


def test_cut_off_text_is_no_answer_and_the_limit_ends_a_trial() -> None:
    item = question("equations")
    trial = Trial(item, "exact", 2)
    trial.replies += [Reply(item.answer, finished=False)] * 2
    assert trial.settled
    assert trial.accepted is None
    assert trial.record("m").rejected == (item.answer,) * 2


def test_thinking_models_answer_on_the_last_line() -> None:
    assert last_line("a\n\n 3 \n\n") == " 3 "
    assert last_line("") == ""
    item = question("equations", extensions=Extensions(think=True))
    trial = Trial(item, "exact", 1, [Reply(f"s = p\np = l\n{item.answer}\n")])
    assert trial.accepted == item.answer
