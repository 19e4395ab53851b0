"""Training: a Llama of a few layers on texts of equations, from random weights to a model folder.

FOLDER/           config.json, model.safetensors, tokenizer.json, ...: any tool that reads model folders
FOLDER/training/  recipe.json, history.jsonl (losses and accuracies), step-NNNNNN/ (model folders, if requested)
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

import hopscope as hs
from examples.text_model.pruning import heads_left, keep_only, prune
from examples.text_model.recipe import Cut, TextModelRecipe, TextPrecision
from examples.text_model.text import (
    ASKED,
    END,
    EQUALS,
    IGNORED,
    NAMES,
    TOKENS,
    Texts,
    derive_seed,
    make_tokenizer,
    vocabulary,
)
from examples.text_model.unfinished import Unfinished, write_whole

HistoryRow = dict[str, Any]
LOG_EVERY, SAVE_EVERY = 50, 200
OTHERS = 4
"""Batches on whose loss it is decided which heads are removed."""

MLP, ROPE_BASE = 32, 100_000.0
"""Width of the gated perceptrons; base of the rotary embedding, large, so that most of a head can compare symbols."""
ALIKE = 0.8
"""Correlation, at the start, of a head's values with its outputs and of a symbol's tokens, so that heads begin as
copiers of symbols (compare Trockman and Kolter 2023, mimetic initialisation)."""
SHARP, ROOM, GAIN = 2.0, 4.0, 4.0
"""Spread of the first queries and keys, in units of 1 / sqrt(d_model): sharp, so that heads differ. Spread of the first
embeddings: large, so that what the first layers write does not drown the symbols that later ones compare. The last
norm's gain: for certainty."""
DECAY = 0.3
"""AdamW's weight decay, only for the maps within layers."""
ANSWER_WEIGHT = 2.0
"""Weight of a question's answer in the loss, beside that of a line's value."""


def train_text_model(
    recipe: TextModelRecipe, folder: Path, progress: Callable[[HistoryRow], None] = lambda row: None
) -> list[HistoryRow]:
    """Train a model and write it; the same recipe gives the same weights on the same machine and thread count.

    If it is killed and called again, it goes on from where it last saved its state, and ends in the same weights. Where
    the precision is `auto`, the recipe stored with the model says which one was used.

    Args:
        recipe: the model to train, and how.
        folder: a new or empty folder, or that of an interrupted training by the same recipe.
        progress: called with every row of the history as it is made.

    Returns:
        The history: `step`, `loss`, `lines` and `answers` (accuracies after lines and questions), means since the row
        before; `heads` that are left, where they are pruned; `seconds`.

    Raises:
        InputError: the folder is in use, what is left of an interrupted training is damaged, or transformers is not
            installed.
    """
    if recipe.precision == "auto":
        recipe = replace(recipe, precision=hs.Execution("cpu", threads=1).resolve(hs.recipes.A).precision)
    model, texts, unfinished = make_model(recipe), Texts(recipe), Unfinished.within(folder, recipe)
    maps = [weight for name, weight in model.named_parameters() if name.endswith("_proj.weight")]
    rest = [weight for name, weight in model.named_parameters() if not name.endswith("_proj.weight")]
    groups = [{"params": maps, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98))
    history = unfinished.resume(model, optimizer)
    left, tally = heads_left(model), defaultdict[str, list[float]](list)
    first = history[-1]["step"] if history else 0
    began = time.monotonic() - (history[-1]["seconds"] if history else 0.0)
    for step in range(first, recipe.steps):
        ids, labels = texts.batch(step)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * schedule(step, recipe)
        logits = logits_of(model, ids, recipe.precision)
        loss = text_loss(logits, ids, labels, recipe.taught)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        keep_only(model, left)
        right, answers = logits.detach().argmax(-1) == labels, ids == ASKED
        tally["loss"].append(float(loss.detach()))
        tally["lines"].append(float(right[(labels != IGNORED) & (labels != TOKENS[END]) & ~answers].float().mean()))
        tally["answers"].append(float(right[answers].float().mean()))
        done = step + 1
        if done % LOG_EVERY == 0 or done == recipe.steps:
            means = {name: _finite(sum(part) / len(part)) for name, part in tally.items()}
            before = history[-1]["step"] if history else 0
            if recipe.prunes_at(before, done, means["answers"]):
                left = prune(model, partial(_loss_on_others, model, texts), recipe.prune_cost)
            if recipe.prune_every:
                means["heads"] = int(left.sum())
            history.append({"step": done, **means, "seconds": round(time.monotonic() - began, 1)})
            tally.clear()
            if done % SAVE_EVERY == 0:
                unfinished.save(model, optimizer, history)
            progress(history[-1])
        if recipe.checkpoint_every and done % recipe.checkpoint_every == 0:
            publish(model, checkpoint_path(folder, done), recipe.cut)
    rows = "".join(json.dumps(row) + "\n" for row in history)
    write_whole(folder / "training" / "history.jsonl", rows)
    publish(model, folder, recipe.cut)
    unfinished.forget()
    return history


def _finite(mean: float) -> float | None:
    """The mean, rounded; None where it is not a number."""
    return round(mean, 4) if math.isfinite(mean) else None


@torch.no_grad()
def _loss_on_others(model: Any, texts: Texts) -> float:
    """The loss on texts of steps after the last one of the training."""
    recipe, losses = texts.recipe, []
    for step in range(recipe.steps, recipe.steps + OTHERS):
        ids, labels = texts.batch(step)
        losses.append(float(text_loss(logits_of(model, ids, recipe.precision), ids, labels, recipe.taught)))
    return sum(losses) / OTHERS


def logits_of(model: Any, ids: Int[Tensor, "row pos"], precision: TextPrecision) -> Float[Tensor, "row pos word"]:
    """The model's logits in fp32, computed with products in that precision."""
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        logits: Tensor = model(input_ids=ids, use_cache=False).logits
    return logits.float()


def checkpoint_path(folder: Path, step: int) -> Path:
    """The folder of the model as it was after so many steps."""
    return folder / "training" / f"step-{step:06d}"


def make_model(recipe: TextModelRecipe) -> Any:
    """The model before training; the global random state is left as it was."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        raise hs.InputError("a model of our own needs transformers; pip install hopscope[llm]") from None
    config = LlamaConfig(
        vocab_size=len(vocabulary(recipe.cut)), hidden_size=recipe.d_model, intermediate_size=MLP,
        num_hidden_layers=recipe.layers, num_attention_heads=recipe.heads, max_position_embeddings=4096,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE}, bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        model: Any = LlamaForCausalLM(config)
    if recipe.precision == "bf16":  # in which PyTorch's fused attention is several times slower on a CPU than its parts
        model.set_attn_implementation("eager")
    draw = torch.Generator().manual_seed(derive_seed(recipe.seed, "weights"))
    narrow = recipe.d_model**-0.5
    spreads = {
        "embed_tokens": ROOM, "q_proj": SHARP * narrow, "k_proj": SHARP * narrow, "down_proj": 0.3 * MLP**-0.5
    }  # fmt: skip
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0.0, spreads.get(name.split(".")[-2], narrow), generator=draw)
        for layer in model.model.layers:
            _blend(layer.self_attn.o_proj.weight, layer.self_attn.v_proj.weight.T)
        embeddings, heads = model.model.embed_tokens.weight, model.lm_head.weight
        values = EQUALS if recipe.cut == "line" else NAMES
        if values != NAMES:
            _blend(embeddings[values], embeddings[NAMES])
        _blend(heads[NAMES], embeddings[values] * (heads.std() / embeddings.std()))
        model.model.norm.weight.fill_(GAIN)
    return model


def _blend(weight: Tensor, other: Tensor) -> None:
    """Make a weight resemble another without changing its spread."""
    weight.copy_(ALIKE * other + math.sqrt(1 - ALIKE**2) * weight)


def schedule(step: int, recipe: TextModelRecipe) -> float:
    """The learning rate at a step, as a share of the recipe's rate."""
    fall = recipe.steps - recipe.falls_from
    return min(1.0, (step + 1) / (recipe.warmup + 1), (recipe.steps - step) / fall)


def text_loss(
    logits: Float[Tensor, "row pos word"],
    ids: Int[Tensor, "row pos"],
    labels: Int[Tensor, "row pos"],
    taught: float = 1.0,
) -> Float[Tensor, ""]:
    """Weighted mean cross-entropy where something is asked, in nats: after lines, questions, and the last answer."""
    asked = torch.where(ids == ASKED, ANSWER_WEIGHT, torch.where(labels == TOKENS[END], 1.0, taught))
    weights = (labels != IGNORED) * asked
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return (each * weights).sum() / weights.sum()


def publish(model: Any, folder: Path, cut: Cut = "line") -> None:
    """Write the model folder; config.json, by which it is recognised, comes last."""
    make_tokenizer(cut).save_pretrained(folder)
    fresh = folder / "unfinished"
    model.save_pretrained(fresh)
    for path in sorted(fresh.iterdir(), key=lambda path: path.name == "config.json"):
        path.replace(folder / path.name)
    fresh.rmdir()
