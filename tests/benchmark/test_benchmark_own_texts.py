"""What a model of our own is trained on: texts like the benchmark's, none of its questions, and what of them counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from own_small import TINY

from examples.text_model import training
from examples.text_model.text import ASKED, IGNORED, Texts, make_tokenizer, structure_of, write
from hopscope.problem.text.questions import question, questions

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports


def asked(hops: int, index: int, seed: int = 7) -> Any:
    return question("equations", hops, seed, index)


@pytest.mark.parametrize("hops", [1, 2, 4, 6])
def test_the_texts_are_the_benchmarks_byte_for_byte(hops: int) -> None:
    tokenizer = make_tokenizer()
    for item in (asked(hops, index) for index in range(20)):
        row, _ = write(structure_of(item.latent), {hops: [item.latent.asked]}, [range(4)] * (hops + 1))
        assert tokenizer.decode(row) == f"{item.prompt}\n{item.answer}"
        assert tokenizer(item.prompt + "\n")["input_ids"] == row[:-1]
        assert tokenizer(item.answer, add_special_tokens=False)["input_ids"] == row[-1:]


@pytest.mark.parametrize(("dense", "fewer", "step"), [(0.0, 1.0, 0), (1.0, 0.0, 0), *((1.0, 1.0, i) for i in range(4))])
def test_what_is_asked_is_what_the_lines_before_it_come_to(dense: float, fewer: float, step: int) -> None:
    recipe = replace(TINY, most_hops=4, dense=dense, fewer=fewer)
    (ids, labels), tokenizer = Texts(recipe).batch(step), make_tokenizer()
    counts = []
    for row, called in zip(ids.tolist(), labels.tolist(), strict=True):
        known: dict[str, str] = {}
        letter, asked_of = "", []
        for place, (token, label) in enumerate(zip(row, called, strict=True)):
            text = tokenizer.decode([token])
            if text.startswith(" = "):
                known[letter] = known.get(text[3:-1], text[3:-1])
                assert tokenizer.decode([label]) == known[letter]
            elif text.startswith("? Say"):
                assert tokenizer.decode([label]) == known[letter]
                asked_of.append(letter)
            elif place == len(row) - 1:
                assert (text, label) == (known[asked_of[-1]], 0)  # the answer to the last question, then the end
            else:
                assert label == IGNORED
                letter = text
        counts.append((len(asked_of), len(set(asked_of)), len(known)))
    letters = counts[0][2]
    assert letters == 16 if dense and not fewer else letters in {4, 8, 12, 16}
    assert set(counts) == {(letters, letters, letters)} if dense else {count[:2] for count in counts} == {(1, 1)}


@pytest.mark.parametrize("hops", [1, 2])
def test_no_question_of_the_benchmark_is_trained_on(hops: int) -> None:
    recipe = replace(TINY, least_hops=hops, most_hops=2, batch=64)
    held = {item.prompt.rsplit("\n", 1)[0] for item in questions("equations", hops, recipe.held_count)}
    tokenizer = make_tokenizer()

    def shared(texts: Texts) -> int:
        """Questions whose facts, all the lines before them, are those of a question of the benchmark."""
        found = 0
        for row in (row for step in range(10) for row in texts.batch(step)[0].tolist()):
            facts: list[str] = []
            for line in tokenizer.decode(row).split("\n"):
                if " = " in line:
                    facts.append(line)
                elif line.startswith("What"):
                    found += "\n".join(facts) in held
        return found

    assert shared(Texts(recipe)) == 0
    if hops == 1:  # 576 different facts: without the rule hundreds would be shared
        assert shared(Texts(replace(recipe, held_seed=1))) > 100


def test_keys_tell_facts_apart_and_not_who_is_asked() -> None:
    facts: dict[Any, str] = {}
    for index in range(3000):
        item = asked(1, index)
        text = item.prompt.rsplit("\n", 1)[0]
        assert facts.setdefault(structure_of(item.latent), text) == text
    assert len(set(facts.values())) == len(facts)


def test_texts_are_those_of_seed_and_step_alone() -> None:
    texts = Texts(TINY)
    third = texts.batch(3)[0]
    assert torch.equal(Texts(TINY).batch(3)[0], third)
    others = [texts.batch(4)[0], Texts(replace(TINY, seed=1)).batch(3)[0]]
    assert all(other.shape != third.shape or not torch.equal(other, third) for other in others)


def test_cut_by_the_word_the_texts_are_the_benchmarks_and_lines_are_asked_behind_their_end() -> None:
    tokenizer, recipe = make_tokenizer("word"), replace(TINY, most_hops=3, cut="word", dense=1.0, fewer=0.0)
    for item in (asked(3, index) for index in range(20)):
        row, _ = write(structure_of(item.latent), {3: [item.latent.asked]}, [range(4)] * 4, "word")
        assert tokenizer.decode(row) == f"{item.prompt}\n{item.answer}"
        assert tokenizer(item.prompt + "\n")["input_ids"] == row[:-1]
    ids, labels = Texts(recipe).batch(0)
    for row, called in zip(ids.tolist(), labels.tolist(), strict=True):
        words = [tokenizer.decode([token]) for token in row]
        known: dict[str, str] = {}
        for place, (word, label) in enumerate(zip(words, called, strict=True)):
            if word == "\n":
                name, link, value = words[place - 3 : place]
                known[name] = known.get(value, value)
                assert (link, tokenizer.decode([label])) == (" = ", known[name])
            elif not word.startswith("? Say") and place < len(row) - 1:
                assert label == IGNORED
        assert len(known) == 12


def test_untaught_lines_do_not_count_and_the_rest_does() -> None:
    ids, labels = Texts(replace(TINY, dense=1.0)).batch(0)
    logits = torch.randn(*ids.shape, 90, generator=torch.Generator().manual_seed(0))
    others = logits.clone()
    lines = (labels != IGNORED) & (labels != 0) & (ids != ASKED)
    assert lines.any()
    others[lines] += torch.randn(90, generator=torch.Generator().manual_seed(1))
    assert training.text_loss(logits, ids, labels, 0.0) == training.text_loss(others, ids, labels, 0.0)
    assert training.text_loss(logits, ids, labels) != training.text_loss(others, ids, labels)
    others = logits.clone()
    others[ids == ASKED] += torch.randn(90, generator=torch.Generator().manual_seed(1))
    assert training.text_loss(logits, ids, labels, 0.0) != training.text_loss(others, ids, labels, 0.0)
