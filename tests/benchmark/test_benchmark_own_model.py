"""A model of our own: its training resumes, its heads go, its folder is one like any other."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from own_small import TINY
from safetensors.torch import load_file
from torch import Tensor

from examples.text_model import pruning, training
from examples.text_model.text import Texts
from examples.text_model.training import schedule, train_text_model
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_in_bf16_products_are_rounded_and_nothing_else(tmp_path: Path) -> None:
    """The same model on the same texts: logits of bf16 products, near those of fp32; weights are kept in fp32."""
    half = replace(TINY, precision="bf16", steps=2)
    models = [training.make_model(recipe) for recipe in (TINY, half)]
    assert all(torch.equal(a, b) for a, b in zip(*(model.parameters() for model in models), strict=True))
    ids, _ = Texts(TINY).batch(0)
    exact, rounded = (
        training.logits_of(model, ids, recipe.precision) for model, recipe in zip(models, (TINY, half), strict=True)
    )
    assert exact.dtype == rounded.dtype == torch.float32
    assert torch.equal(rounded, rounded.bfloat16().float())
    assert not torch.equal(exact, exact.bfloat16().float())
    torch.testing.assert_close(exact, rounded, atol=0.1 * float(exact.std()), rtol=0.0)
    train_text_model(half, tmp_path / "half")
    assert {weight.dtype for weight in weights(tmp_path / "half").values()} == {torch.float32}


@pytest.mark.parametrize("unit", [None, "amx_bf16"])
def test_the_processor_is_asked_and_the_answer_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str | None
) -> None:
    monkeypatch.setattr("hopscope.kernels.precision.bf16_unit", lambda _: unit)
    found = "bf16" if unit else "fp32"
    for name in ("auto", found):
        train_text_model(replace(TINY, precision=name, steps=2), tmp_path / name)
    assert json.loads((tmp_path / "auto/training/recipe.json").read_text())["precision"] == found
    mine, theirs = weights(tmp_path / "auto"), weights(tmp_path / found)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_rate_rises_then_falls_to_nearly_nothing() -> None:
    recipe = replace(TINY, steps=100, warmup=10)
    rates = [schedule(step, recipe) for step in range(100)]
    assert rates[0] < 0.1
    assert rates[:11] == sorted(rates[:11])
    assert set(rates[10:80]) == {1.0}
    assert rates[80:] == sorted(rates[80:], reverse=True)
    assert 0 < rates[-1] < 0.06


def stopping_at(step: int) -> Any:
    def stop(row: dict[str, Any]) -> None:
        if row["step"] == step:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("saved", [2, 100])
def test_a_stopped_training_goes_on_and_ends_in_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: int
) -> None:
    monkeypatch.setattr(training, "LOG_EVERY", 1)
    monkeypatch.setattr(training, "SAVE_EVERY", saved)
    recipe, first, second = replace(TINY, checkpoint_every=4), tmp_path / "first", tmp_path / "second"
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


PRUNED = replace(TINY, layers=2, steps=10, prune_every=2, prune_cost=100.0, learned_above=0.0, checkpoint_every=2)


def outputs(maps: dict[str, Tensor]) -> Tensor:
    """By layer and head, whether it writes anything."""
    every = [maps[f"model.layers.{layer}.self_attn.o_proj.weight"] for layer in range(2)]
    return torch.stack([one.unflatten(1, (2, -1)).ne(0).any(dim=0).any(dim=1) for one in every])


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
        return float(worth[~pruning.heads_left(model)[0]].sum())

    assert pruning.prune(model, loss, 0.5).all()
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())  # tried and put back
    assert pruning.prune(model, loss, 3.5).tolist() == [[[True, False], [False, True]]]
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {f"model.layers.{layer}.self_attn.o_proj.weight" for layer in range(2)}
    assert pruning.heads_left(model).tolist() == [[[True, False], [False, True]]]
    worth[0, 0] = torch.nan
    assert pruning.prune(model, loss, 100.0).tolist() == [[[True, False], [False, False]]]  # no number is no reason


def test_heads_go_while_the_rate_is_full_and_the_model_answers() -> None:
    assert not any(TINY.prunes_at(step, step + 1, 1.0) for step in range(TINY.steps))
    recipe = replace(TINY, steps=100, prune_every=20)
    assert [step for step in range(1, 101) if recipe.prunes_at(step - 1, step, 0.98)] == [20, 40, 60, 80]
    assert [step for step in range(15, 101, 15) if recipe.prunes_at(step - 15, step, 0.98)] == [30, 45, 60]
    assert not any(recipe.prunes_at(19, 20, answers) for answers in (0.97, None))
    assert pruning.heads_left(training.make_model(TINY)).all()


def test_what_is_left_of_another_training_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LOG_EVERY", 1)
    monkeypatch.setattr(training, "SAVE_EVERY", 2)
    with pytest.raises(KeyboardInterrupt):
        train_text_model(TINY, tmp_path / "own", stopping_at(4))
    with pytest.raises(
        InputError, match=r"is another recipe, .* \(seed is 0 there and 1 here\); choose another folder"
    ):
        train_text_model(replace(TINY, seed=1), tmp_path / "own")
    (kept,) = tmp_path.rglob("unfinished.safetensors")
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"unfinished\.safetensors"):
        train_text_model(TINY, tmp_path / "own")


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
        ({"steps": 0}, "steps is 0"),
        ({"layers": 1.5}, "layers is 1.5"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"most_hops": 7}, "most_hops is 7"),
        ({"prune_cost": -1.0}, "prune_cost is -1.0"),
        ({"least_hops": 3}, "least_hops must be at most most_hops, got 3 and 2"),
        ({"d_model": 20, "heads": 4}, "d_model must be a multiple of 2 x heads"),
        ({"depth": 3}, "a recipe has no field depth; it has layers, heads, d_model, least_hops, most_hops, steps"),
    ],
)
def test_bad_recipes_are_refused_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as error:
        TINY.varied(changes)
    assert "\n" not in str(error.value)


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(InputError, match="is in use"):
        train_text_model(TINY, tmp_path / "mine")
    train_text_model(replace(TINY, steps=1), tmp_path / "own")
    with pytest.raises(InputError, match="is in use"):
        train_text_model(TINY, tmp_path / "own")


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "examples.text_model", *arguments]


def test_the_command_shows_its_recipe_and_refuses_in_words(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(program(*arguments), capture_output=True, text=True, check=False)

    shown = run("--set", "steps=30", "--show")
    assert json.loads(shown.stdout)["steps"] == 30
    own = str(tmp_path / "own")
    refused = run(own, "--set", "steps=many")
    assert refused.returncode == 2
    assert refused.stderr == "hopscope: steps is 'many': Expected int, got str\n"
    assert not (tmp_path / "own").exists()
    without = run()
    assert without.returncode == 2
    assert "missing argument 'FOLDER'; only --show does without" in without.stderr
    (tmp_path / "letter.txt").write_text("Dear")
    nowhere = run(str(tmp_path / "letter.txt" / "own"))
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert nowhere.stderr.endswith("own/training: Not a directory; nothing finished was lost\n")
    assert nowhere.stderr.count("\n") == 1


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM])
def test_the_command_hears_an_order_to_stop_and_says_that_it_goes_on(tmp_path: Path, order: signal.Signals) -> None:
    sizes = [part for name, size in asdict(TINY).items() for part in ("--set", f"{name}={size}")]
    command = program(str(tmp_path / "own"), *sizes, "--set", "steps=100000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith('{"step"')  # the first row of its history
        running.send_signal(order)
        said = running.communicate()[1]
    assert running.returncode == 130
    assert said.strip() == "hopscope: interrupted; the same command continues from what is on disk"


def test_a_folder_in_use_says_what_differs(tmp_path: Path) -> None:
    train_text_model(TINY, tmp_path / "own")
    with pytest.raises(InputError, match="own is in use: its model is finished; choose a new or empty folder"):
        train_text_model(TINY, tmp_path / "own")
    with pytest.raises(
        InputError, match=r"own is in use: its model is of another recipe \(seed is 0 there and 1 here\)"
    ):
        train_text_model(replace(TINY, seed=1), tmp_path / "own")
