"""A model of our own: its training resumes, its heads go, its folder is one like any other."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from safetensors.torch import load_file
from small_decoders import OWN_TINY
from torch import Tensor

from examples.text_model import pruning, training
from examples.text_model.text import IGNORED, Texts, make_tokenizer, structure_of, write
from examples.text_model.training import train_text_model
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.errors import InputError
from hopscope.problem.text.questions import question, questions

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def stopping_at(step: int) -> Any:
    def stop(row: dict[str, Any]) -> None:
        if row["step"] == step:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("saved", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_a_stopped_training_goes_on_and_ends_in_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: int
) -> None:
    monkeypatch.setattr(training, "LOG_EVERY", 1)
    monkeypatch.setattr(training, "SAVE_EVERY", saved)
    recipe, first, second = replace(OWN_TINY, checkpoint_every=4), tmp_path / "first", tmp_path / "second"
    state = torch.random.get_rng_state()
    train_text_model(recipe, first)
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(KeyboardInterrupt):
        train_text_model(recipe, second, stopping_at(5))
    assert not (second / "config.json").exists()
    rows: list[dict[str, Any]] = []
    history = train_text_model(recipe, second, rows.append)
    assert [row["step"] for row in rows] == list(range(5 if saved == 2 else 1, 9))
    assert [row["step"] for row in history] == list(range(1, 9))
    assert [json.loads(line) for line in (second / "training/history.jsonl").open()] == history
    for part in (".", "training/step-000004", "training/step-000008"):
        mine, theirs = weights(first / part), weights(second / part)
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert not list(second.rglob("unfinished*"))
    train_text_model(replace(recipe, seed=1), tmp_path / "other")
    assert any(not torch.equal(weights(tmp_path / "other")[name], tensor) for name, tensor in weights(first).items())


PRUNED = replace(OWN_TINY, layers=2, steps=10, prune_every=2, prune_cost=100.0, learned_above=0.0, checkpoint_every=2)


def outputs(maps: dict[str, Tensor]) -> Tensor:
    """By layer and head, whether it writes anything."""
    every = [maps[f"model.layers.{layer}.self_attn.o_proj.weight"] for layer in range(2)]
    return torch.stack([weights.unflatten(1, (2, -1)).ne(0).any(dim=0).any(dim=1) for weights in every])


@pytest.mark.slow
def test_heads_are_taken_away_and_write_nothing_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time: either head costs little enough, two together do not."""
    monkeypatch.setattr(training, "LOG_EVERY", 1)
    monkeypatch.setattr(training, "SAVE_EVERY", 3)  # between two heads
    monkeypatch.setattr(training, "_loss_on_others", lambda model, _: 60.0 * float((~pruning.heads_left(model)).sum()))
    history = train_text_model(PRUNED, tmp_path / "own")
    assert [row["heads"] for row in history] == [4, 3, 3, 2, 2, 1, 1, 0, 0, 0]  # at 2, 4, 6 and 8, where the rate falls
    there = [outputs(weights(training.checkpoint_path(tmp_path / "own", step))) for step in (2, 4, 6, 8)]
    assert [int(heads.sum()) for heads in there] == [3, 2, 1, 0]
    assert all(not (after & ~before).any() for before, after in pairwise(there))
    with pytest.raises(KeyboardInterrupt):
        train_text_model(PRUNED, tmp_path / "again", stopping_at(5))
    assert train_text_model(PRUNED, tmp_path / "again")[-1]["heads"] == 0
    mine, theirs = weights(tmp_path / "own"), weights(tmp_path / "again")
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_as_many_heads_go_as_together_cost_no_more_and_none_that_costs_too_much() -> None:
    model = training.make_model(PRUNED)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    worth = torch.tensor([[3.0, 1.0], [2.0, 9.0]])

    def loss() -> float:
        return float(worth[~pruning.heads_left(model)].sum())

    assert pruning.prune(model, loss, 0.5).all()
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())  # tried and put back
    assert pruning.prune(model, loss, 3.5).tolist() == [[True, False], [False, True]]
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {f"model.layers.{layer}.self_attn.o_proj.weight" for layer in range(2)}
    assert pruning.heads_left(model).tolist() == [[True, False], [False, True]]
    worth[0, 0] = torch.nan
    assert pruning.prune(model, loss, 100.0).tolist() == [[True, False], [False, False]]  # no number is no reason


def test_it_learns_what_an_answer_is_and_is_benchmarked_like_any_folder(
    tmp_path: Path, trained: tuple[Path, list[dict[str, Any]]]
) -> None:
    folder, history = trained
    shutil.copytree(folder, tmp_path / "own")
    assert history[-1]["lines"] == 1.0  # retrieval itself takes minutes: see results/own-model
    shutil.rmtree(tmp_path / "own" / "training")  # the folder stands without it
    model = LocalModel(tmp_path / "own", "cpu")
    for settings in (BenchmarkSettings(mode="exact"), BenchmarkSettings(max_tokens=4)):
        [point] = benchmark([model], tmp_path / settings.mode, ["equations"], [1], 100, settings).points
        assert point.first_acceptance is not None
        assert point.first_acceptance > 0.9, point
        assert point.accepted == pytest.approx(100)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({"cut": "half"}, "cut must be one of line, word, got 'half'"),
        ({"layers": 1.5}, "layers"),
        ({"most_hops": 7}, "most_hops"),
        ({"least_hops": 3}, "least_hops must be at most most_hops, got 3 and 2"),
        ({"d_model": 20, "heads": 4}, "d_model must be a multiple of 2 x heads"),
        ({"depth": 3}, "a recipe has no field depth; it has layers, heads, d_model, least_hops, most_hops, steps"),
    ],
)
def test_bad_recipes_are_refused_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as error:
        OWN_TINY.varied(changes)
    assert "\n" not in str(error.value)


def test_a_folder_in_use_says_what_differs(tmp_path: Path) -> None:
    train_text_model(OWN_TINY, tmp_path / "own")
    with pytest.raises(InputError, match="own is in use: its model is finished; choose a new or empty folder"):
        train_text_model(OWN_TINY, tmp_path / "own")
    with pytest.raises(
        InputError, match=r"own is in use: its model is of another recipe \(seed is 0 in it and 1 now\)"
    ):
        train_text_model(replace(OWN_TINY, seed=1), tmp_path / "own")


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
    recipe = replace(OWN_TINY, most_hops=4, dense=dense, fewer=fewer)
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
    recipe = replace(OWN_TINY, least_hops=hops, most_hops=2, batch=64)
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
