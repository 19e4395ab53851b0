"""Roles of tokens against a reading of the text by regular expressions, in tokenizers that cut it in different ways."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers_made import ending, tokenizer

from examples.text_model.text import make_tokenizer
from hopscope.errors import InputError
from hopscope.problem.roles import text_role_names
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import Question, question
from hopscope.problem.text.tokens import tokens, written

KINGDOMS = {  # how a symbol is written at the head of a sentence
    "Novaria": "Novarians", "Silvania": "Silvanians", "Aurora": "Aurorans", "Florinia": "Florinians",
    "harmonianism": "Harmonianists", "celestianism": "Celestianists", "elysianism": "Elysianists",
    "luminism": "Luminists", "lamb": "Lamb", "chicken": "Chicken", "pork": "Pork", "beef": "Beef",
}  # fmt: skip


def links(item: Question) -> dict[str, str]:
    """What leads to what, from the text alone."""
    text = item.prompt.removeprefix("".join(f"{shot.prompt}\n{shot.answer}\n\n" for shot in item.shots))
    if item.formulation == "equations":
        return dict(re.findall(r"^(\w+) = (\w+)$", text, re.M))
    if item.formulation == "lives-with":
        return dict(re.findall(r"^(\w+) lives (?:with|in) (\w+)$", text, re.M))
    plain = {head: word for word, head in KINGDOMS.items()}
    found = re.findall(r"^(\w+) (?:lives in|believe in|eat|contains|causes) (\w+)\.$", text, re.M)
    return {value: plain.get(head, head) for head, value in found}


def asked(item: Question) -> str:
    """The symbol of the question."""
    return re.findall(r"(?:value of|Where does|Who has) (\w+)", item.prompt)[-1]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Of any chain formulation, with what may be added to it."""
    name = draw(st.sampled_from(["equations", "lives-with", "kingdoms"]))
    added: dict[str, Any] = {"filler": draw(st.sampled_from([0, 3])), "shots": draw(st.sampled_from([0, 1]))}
    added["lines"] = draw(st.sampled_from(["blocks", "reversed", "shuffled"]))
    if name == "equations":
        added["names"] = draw(st.sampled_from(["paper", "random"]))
    hops = 5 if name == "kingdoms" else draw(st.integers(1, 5))
    return question(name, hops, draw(st.integers(0, 99)), draw(st.integers(0, 99)), extensions=Extensions(**added))


@given(item=questions(), kind=st.sampled_from(["characters", "short", "long", "chat"]))
def test_roles_agree_with_the_text(item: Question, kind: str) -> None:
    made = tokenizer(kind)
    try:
        read = tokens(item, made)
    except InputError as error:
        assert "begin with the same token" in str(error)  # noqa: PT017 - where two answers begin alike
        assert item.formulation != "equations"
        return
    text, start = written(item, made)
    offsets = made(text, return_offsets_mapping=True, add_special_tokens=made.chat_template is None)["offset_mapping"]
    names = text_role_names(item.hops)
    ends: dict[int, dict[str, str]] = {}
    for (_, end), role, chain in zip(offsets, read.role, read.chain, strict=True):
        assert (chain < 0) == (names[role] == "text")
        if chain >= 0:
            assert names[role] not in ends.setdefault(chain, {})
            ends[chain][names[role]] = text[start:end]
    leads = links(item)
    assert len(ends) == 4
    for chain in ends.values():
        for k in range(1, item.hops + 1):
            (first, second) = (_word(chain[role], item) for role in (f"x{k - 1}>", f">x{k}"))
            assert leads[first] == second
        for k, after in pairwise(range(1, item.hops + 1)):
            assert _word(chain[f">x{k}"], item) == _word(chain[f"x{after - 1}>"], item)
    (own,) = [chain for chain in ends.values() if "x0?" in chain]
    assert _word(own["x0?"], item) == asked(item) == _word(own["x0>"], item)
    assert own["answer"] == text[start:]
    assert all("answer" not in chain for chain in ends.values() if chain is not own)
    value = asked(item)
    for _ in range(item.hops):
        value = leads[value]
    assert value == item.answer
    first = made.decode([read.candidates[read.right]]).strip()
    assert value.startswith(first)
    assert first == value or item.formulation != "equations"


def _word(before: str, item: Question) -> str:
    """The word that text ends in, as it is written as a key."""
    word = re.findall(r"\w+", before)[-1]
    plain = {head: name for name, head in KINGDOMS.items()}
    return plain.get(word, word) if item.formulation == "kingdoms" else word


def test_links_and_line_ends_have_roles_where_they_are_tokens() -> None:
    item = question("equations", 2, index=3)
    names = text_role_names(2)
    read = tokens(item, tokenizer("characters"))
    text = item.prompt + "\n"
    by_role: dict[str, set[str]] = {}
    for token, role in zip(text, read.role, strict=True):
        by_role.setdefault(names[role], set()).add(token)
    assert by_role["x0="] == by_role["x1="] == {" "}
    assert by_role["x1."] == by_role["x2."] == by_role["answer"] == {"\n"}
    whole = {names[role] for role in tokens(item, make_tokenizer()).role}
    assert whole == {"x0>", ">x1", "x1>", ">x2", "x0?", "text", "answer"}


def test_end_tokens_of_the_tokenizer_are_left_out() -> None:
    item, plain = question("equations", 2, index=3), make_tokenizer()
    other = ending(make_tokenizer(), plain.eos_token)
    assert other(item.prompt)["input_ids"][-1] == plain.eos_token_id
    assert tokens(item, other) == tokens(item, plain)


def test_questions_without_roles_are_refused() -> None:
    made = tokenizer("characters")
    for name, extensions, why in (
        ("functions", Extensions(), "functions has no chains"),
        ("equations", Extensions(repeat=2), "circuits need repeat=1, .*, got 2"),
    ):
        with pytest.raises(InputError, match=why):
            tokens(question(name, extensions=extensions), made)

    class Slow:
        is_fast, chat_template = False, None

    with pytest.raises(InputError, match="circuits need a fast tokenizer"):
        tokens(question("equations"), Slow())
