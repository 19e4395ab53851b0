"""Properties of every question, with any address and extensions, by a second reader."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_reader import solve

from hopscope.errors import InputError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question, question, questions

GOLDEN = Path(__file__).parent / "golden"
PUBLISHED = json.loads((GOLDEN / "published.json").read_text())
many = settings(deadline=None, max_examples=60)


@st.composite
def drawn(draw: st.DrawFn, plain: bool = False) -> Question:
    """A question of any formulation, in the paper's format or any other."""
    name = draw(st.sampled_from(list(FORMULATIONS)))
    allowed = FORMULATIONS[name].allowed
    changes: dict[str, object] = {"lines": draw(st.sampled_from(["blocks", "reversed", "shuffled"]))}
    hops, chains = FORMULATIONS[name].paper_hops, 4
    if "names" in allowed:
        changes["names"] = draw(st.sampled_from(["paper", "extended", "random"]))
        paper = changes["names"] == "paper"
        hops = draw(st.integers(1, len(FORMULATIONS[name].published) // 4 if paper else 9))
        chains = 4 if paper else draw(st.integers(1, 12))
    if "latin" in allowed:
        changes["latin"] = draw(st.booleans())
    if not plain:
        changes |= {"repeat": draw(st.integers(1, 3)), "filler": draw(st.integers(0, 5))}
        changes |= draw(st.sampled_from([{"shots": 0}, {"shots": 2}, {"think": True}]))
    seed, index = draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 10**6))
    return question(name, hops, seed, index, chains, Extensions(**changes))  # type: ignore[arg-type]


def frozen(value: object) -> object:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_question_from_its_structure(name: str) -> None:
    """The five questions of Appendix A, byte for byte."""
    published, form = PUBLISHED[name], FORMULATIONS[name]
    latent = type(question(name).latent)(**{key: frozen(value) for key, value in published["latent"].items()})
    item = Question(name, form.paper_hops, 4, 0, 0, latent, Extensions())
    assert item.prompt == (GOLDEN / f"{name}.txt").read_bytes().decode()
    assert item.answer == solve(item.prompt) == published["correct"]
    assert ", ".join(item.acceptable) == published["acceptable"]
    assert json.loads(json.dumps(item.record()))["latent"] == published["latent"]
    assert list(PUBLISHED) == list(FORMULATIONS)[:5], "F1 ... F5 of the paper"


@many
@given(drawn())
def test_the_second_reader_agrees(item: Question) -> None:
    asked = item.prompt.rsplit("\n\n", 1)[-1]
    assert solve(asked) == item.answer
    assert item.answer in item.acceptable
    assert len(set(item.acceptable)) == len(item.acceptable)
    for solved in item.prompt.split("\n\n")[:-1]:
        example, answer = solved.rsplit("\n", 1)
        assert solve(example) == answer


@many
@given(drawn(plain=True))
def test_the_answer_needs_exactly_its_lines(item: Question) -> None:
    rows = item.prompt.split("\n")
    for number in range(1, len(rows)):
        left = solve("\n".join(rows[: number - 1] + rows[number:]))
        assert (left == item.answer) == (number not in item.lines)
    assert len(item.lines) == item.hops


@many
@given(drawn())
def test_mentions_name_the_characters_of_the_prompt(item: Question) -> None:
    found = item.mentions()
    lines = item.prompt.split("\n\n")[-1].split("\n")
    offset = len(item.prompt) - len("\n".join(lines))
    starts = [offset + sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
    for mention in found:
        start = starts[mention.line - 1]
        assert start <= mention.start < mention.end <= start + len(lines[mention.line - 1])
    text = {(m.chain, m.role): item.prompt[m.start : m.end] for m in found}
    if item.formulation in {"equations", "lives-with"}:
        for chain in range(item.chains):
            for k in range(1, item.hops):
                assert text[chain, f">x{k}"] == text[chain, f"x{k}>"]
        asked = next(m.chain for m in found if m.role == "x0?")
        assert text[asked, "x0?"] == text[asked, "x0>"]
        assert text[asked, f">x{item.hops}"] == item.answer
    if item.formulation == "relatives":
        person = next(m.chain for m in found if m.role == "person?")
        assert text[person, ">place"] == item.answer
        assert text[person, ">relative"] == text[person, "relative>"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULATIONS)
def test_draws_are_uniform(name: str) -> None:
    """Answers, the asked symbol and the number of its line, to five standard deviations."""
    count = 4000
    items = list(questions(name, count=count, seed=1))
    queries = Counter(item.prompt.rsplit("\n", 1)[1] for item in items)
    first_line = Counter(item.lines[0] for item in items)
    last_line = Counter(item.lines[-1] for item in items)
    last = {"functions": 16, "relatives": 16}.get(name, 4)
    for counts, kinds in (
        (Counter(item.answer for item in items), 1 / items[0].guess),
        (queries, 16 if name == "functions" else 4),
        (first_line, 4),
        (last_line, last),
    ):
        assert len(counts) == kinds
        p = 1 / kinds
        assert all(abs(n - count * p) < 5 * (count * p * (1 - p)) ** 0.5 for n in counts.values())


def test_extensions_keep_the_structure() -> None:
    orders = ("blocks", "shuffled")
    plain, mixed = (question("equations", 4, 7, 3, extensions=Extensions(lines=lines)) for lines in orders)  # type: ignore[arg-type]
    assert plain.latent.links == mixed.latent.links  # type: ignore[attr-defined]
    assert plain.answer == mixed.answer
    assert plain.prompt != mixed.prompt
    assert plain.id != mixed.id


def test_random_names_hide_the_level() -> None:
    """The last level's names are as early in the alphabet as any."""
    extensions = Extensions(names="random")
    heads = Counter(item.prompt.split("\n")[-2][0] for item in questions("equations", 5, 2600, extensions=extensions))
    assert len(heads) == 26
    assert all(abs(n - 100) < 50 for n in heads.values())


def test_prompts_of_an_address_never_change() -> None:
    """A change of what a seed draws must come with a new `FORMAT`, or ids on disk are wrong."""
    assert {name: question(name).prompt_hash[:16] for name in FORMULATIONS} == {
        "equations": "799c9ed0be09c46d",
        "lives-with": "566eb1299271ed9c",
        "kingdoms": "50e0bdb8e65aee6a",
        "functions": "a58dfecfed55787d",
        "relatives": "6c621462a8b61b1f",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        (
            "equations",
            {"hops": 7},
            "hops must be 1..6 and chains 4 for equations in the paper's format (26 names), got 7",
        ),
        ("lives-with", {"hops": 6}, "must be 1..5 and chains 4 for lives-with in the paper's format (20 names), got 6"),
        ("kingdoms", {"hops": 4}, "hops is 5 for kingdoms, whose words are fixed, got 4; leave it out"),
        ("relatives", {"chains": 5}, "chains is 4 for relatives"),
        ("equations", {"chains": 3}, "got 5 and 3; extended names"),
        ("equations", {"hops": 0}, "hops must be a whole number of at least 1, got 0"),
        ("functions", {"extensions": Extensions(names="random")}, "names does not apply to functions"),
        ("sums", {}, "there is no formulation 'sums'; there are equations, lives-with"),
        ("equations", {"count": 0}, "count must be a whole number of at least 1, got 0"),
        ("equations", {"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ("equations", {"extensions": {"shots": 1}}, "extensions must be Extensions, as Extensions(shots=1), got {"),
    ],
)
def test_bad_input_is_named(name: Any, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        questions(name, **arguments)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"chains": 10**8, "hops": 1}, "100,000,000"),
        ({"hops": 10**9, "chains": 10**9}, "1,000,000,000,000,000,000"),
        ({"extensions": Extensions(names="extended", repeat=10_000, shots=10)}, "2,200,000"),
    ],
)
def test_prompts_of_too_many_lines_are_refused(arguments: dict[str, Any], lines: str) -> None:
    asked = {"extensions": Extensions(names="extended")} | arguments
    with pytest.raises(InputError, match=f"a prompt may have 250,000 lines, .*, got {lines}; ask for fewer"):
        question("equations", **asked)
