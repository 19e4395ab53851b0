"""Training: a Llama of a few layers on texts of equations, from random weights to a model folder.

FOLDER/                 config.json, model.safetensors, tokenizer.json, ...: any tool that reads model folders
FOLDER/training/        recipe.json, history.jsonl (losses and accuracies), state.safetensors (to resume from)
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.benchmark.own_model.recipe import CHAINS, TextModelRecipe
from hopscope.benchmark.own_model.text import EQUALS, NAMES, WORDS, TextBatch, Texts, make_tokenizer
from hopscope.errors import InputError
from hopscope.files import json_lines, number_or_null, read_json, read_json_lines, write_json, write_text
from hopscope.problem.counter import derive_seed
from hopscope.tensor_files import load_tensors, save_tensors

Row = dict[str, Any]
LOG_EVERY, SAVE_EVERY = 50, 500


def train_text_model(recipe: TextModelRecipe, folder: Path, watch: Callable[[Row], None] | None = None) -> list[Row]:
    """Train a model and write it; go on with one that was stopped.

    The same recipe gives the same weights on the same machine and thread count, stopped or not.

    Args:
        recipe: what to train.
        folder: new, empty, or of a training with this recipe.
        watch: called with every row of the history as it is made.

    Returns:
        The history: `step`, `loss`, `lines` (accuracy after lines, by level), `answers` (by D), `seconds`; means
        since the row before.

    Raises:
        InputError: the folder holds something else, or transformers is not installed.
    """
    work = _claim(recipe, folder)
    model, texts = make_model(recipe), Texts(recipe)
    optimizer = _make_optimizer(model, recipe)
    done = _load(work / "state.safetensors", model, optimizer)
    history = [row for row in _history(work) if row["step"] <= done]
    write_text(work / "history.jsonl", json_lines(history))
    tally, seconds, began = _Tally(), history[-1]["seconds"] if history else 0.0, time.monotonic()
    for step in range(done, recipe.steps):
        batch = texts.batch(step)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * schedule(step, recipe)
        logits = model(input_ids=batch.ids, use_cache=False).logits
        loss = text_loss(logits, batch, recipe)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tally.add(float(loss.detach()), logits.detach(), batch)
        now = step + 1
        if now % LOG_EVERY == 0 or now == recipe.steps:
            row = {"step": now, **tally.read(), "seconds": round(seconds + time.monotonic() - began, 1)}
            history.append(row)
            tally = _Tally()
            if watch:
                watch(row)
        if now % SAVE_EVERY == 0 or now == recipe.steps:
            _save(work / "state.safetensors", model, optimizer, now)
            write_text(work / "history.jsonl", json_lines(history))
    if not (folder / "config.json").exists():
        _publish(model, folder, work)
    return history


def make_model(recipe: TextModelRecipe) -> Any:
    """The model before training; the global random state is left as it was."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=recipe.d_model,
        intermediate_size=recipe.mlp,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": float(recipe.rope_theta)},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        model: Any = LlamaForCausalLM(config)
    draw = torch.Generator().manual_seed(derive_seed(recipe.seed, "weights"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0.0, _spread(name, recipe), generator=draw)
        _make_alike(model, recipe.alike)
        model.model.norm.weight.fill_(recipe.gain)
    return model


def _make_alike(model: Any, alike: float) -> None:
    """Let outputs undo values, and ` = a` resemble `a` both ways, without changing any spread."""

    def blend(weight: Tensor, other: Tensor) -> None:
        weight.copy_(alike * other + math.sqrt(1 - alike**2) * weight)

    for layer in model.model.layers:
        attention = layer.self_attn
        blend(attention.o_proj.weight, attention.v_proj.weight.T)
    embeddings = model.model.embed_tokens.weight
    blend(embeddings[EQUALS], embeddings[NAMES])
    heads = model.lm_head.weight
    blend(heads[NAMES], embeddings[EQUALS] * (heads.std() / embeddings.std()))


def _make_optimizer(model: Any, recipe: TextModelRecipe) -> torch.optim.AdamW:
    """AdamW that shrinks the maps within layers alone."""
    named = list(model.named_parameters())
    maps = [weight for name, weight in named if name.endswith("_proj.weight")]
    rest = [weight for name, weight in named if not name.endswith("_proj.weight")]
    groups = [{"params": maps, "weight_decay": recipe.decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98))


def _spread(name: str, recipe: TextModelRecipe) -> float:
    """Standard deviation of a first weight. Sharp queries and keys let heads differ from the start."""
    if "embed_tokens" in name:
        return recipe.room
    narrow: float = recipe.d_model**-0.5
    if "q_proj" in name or "k_proj" in name:
        return recipe.sharpness * narrow
    if "o_proj" in name:
        return narrow
    if "down_proj" in name:
        return float(0.3 * recipe.mlp**-0.5)
    return narrow


def schedule(step: int, recipe: TextModelRecipe) -> float:
    """The learning rate of a step, as a part of the recipe's."""
    fall = max(1, recipe.steps // 5)
    return min(1.0, (step + 1) / (recipe.warmup + 1), (recipe.steps - step) / fall)


def text_loss(logits: Float[Tensor, "row pos word"], batch: TextBatch, recipe: TextModelRecipe) -> Float[Tensor, ""]:
    """Weighted mean cross-entropy where something is asked, in nats."""
    weights = batch.weights(recipe)
    places = weights > 0
    each = torch.nn.functional.cross_entropy(
        logits[:, places].flatten(0, 1), batch.labels[:, places].flatten(), reduction="none"
    )
    shares = weights[places] / weights[places].sum()
    return (each.view(len(batch.ids), -1) * shares).sum(1).mean()


class _Tally:
    """Means over the steps between two rows of the history."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._lines: dict[int, list[float]] = {}
        self._answers: dict[int, list[float]] = {}

    def add(self, loss: float, logits: Float[Tensor, "row pos word"], batch: TextBatch) -> None:
        self._losses.append(loss)
        if batch.chains < CHAINS:
            return
        right = (logits.argmax(-1) == batch.labels).float()
        for shares, places in ((self._lines, batch.lines), (self._answers, batch.asks)):
            for level in {*places.tolist()} - {0}:
                shares.setdefault(level, []).append(float(right[:, places == level].mean()))

    def read(self) -> Row:
        return {
            "loss": number_or_null(round(_mean(self._losses), 4)),
            "lines": {str(level): round(_mean(part), 4) for level, part in sorted(self._lines.items())},
            "answers": {str(hops): round(_mean(part), 4) for hops, part in sorted(self._answers.items())},
        }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _claim(recipe: TextModelRecipe, folder: Path) -> Path:
    """The folder of the training, which is this recipe's."""
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise InputError("a model of our own needs transformers; pip install 'hopscope[llm]'") from None
    work = folder / "training"
    if (work / "recipe.json").exists():
        here, asked = read_json(work / "recipe.json", "the recipe of a model"), asdict(recipe)
        for name, value in asked.items():
            if not isinstance(here, dict) or here.get(name) != value:
                held = here.get(name) if isinstance(here, dict) else here
                raise InputError(
                    f"{folder} holds a model with {name} = {held!r}, not {value!r}; choose another folder, "
                    "or ask for the model that is there"
                )
        return work
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is in use and holds no model of ours; choose a new or empty folder")
    write_json(work / "recipe.json", asdict(recipe))
    return work


def _history(work: Path) -> list[Row]:
    path = work / "history.jsonl"
    return list(read_json_lines(path, "the history of a training")) if path.exists() else []


def _save(path: Path, model: Any, optimizer: torch.optim.AdamW, step: int) -> None:
    """Weights and moments after `step` updates."""
    state = {}
    for name, weight in model.named_parameters():
        moments = optimizer.state[weight]
        state[f"weight/{name}"] = weight
        state[f"first/{name}"], state[f"second/{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
    save_tensors(path, state, step)


def _load(path: Path, model: Any, optimizer: torch.optim.AdamW) -> int:
    """Go back to the saved point; the updates done, 0 without one."""
    if not path.exists():
        return 0
    step, state = load_tensors(path)
    try:
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(state[f"weight/{name}"])
                optimizer.state[weight] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": state[f"first/{name}"],
                    "exp_avg_sq": state[f"second/{name}"],
                }
    except (KeyError, RuntimeError) as error:
        raise InputError(f"{path} is no state of this recipe ({error}); it was left untouched") from None
    return step


def _publish(model: Any, folder: Path, work: Path) -> None:
    """Write the model folder; config.json, by which it is known, comes last."""
    fresh = work / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    with _without_progress():
        model.save_pretrained(fresh)
    make_tokenizer().save_pretrained(fresh)
    for path in sorted(fresh.iterdir(), key=lambda path: path.name == "config.json"):
        os.replace(path, folder / path.name)
    fresh.rmdir()


@contextmanager
def _without_progress() -> Iterator[None]:
    """No progress bars for files that take a moment."""
    import transformers

    logging: Any = transformers.utils.logging
    shows = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shows:
            logging.enable_progress_bar()
