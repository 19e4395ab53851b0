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
"""The number of batches whose loss decides which heads are pruned."""

MLP, ROPE_BASE = 32, 100_000.0
"""The width of the gated MLPs; the base of the rotary embedding, large so that most of a head can compare symbols."""
ALIKE = 0.8
"""The initial correlation between the value and output maps of a head, and between the two tokens of a symbol, so that
heads begin as copiers of symbols (compare Trockman and Kolter 2023, mimetic initialisation)."""
SHARP, ROOM, GAIN = 2.0, 4.0, 4.0
"""The initial spread of the query and key maps, in units of 1 / sqrt(d_model), large so that heads differ. The initial
spread of the embeddings, large so that the first layers do not drown the symbols that later layers compare. The initial
gain of the last norm, large so that the model can be certain."""
DECAY = 0.3
"""AdamW's weight decay, which applies only to the maps within layers."""
ANSWER_WEIGHT = 2.0
"""The weight of a question's answer in the loss, where the end of a text has weight 1."""


def train_text_model(
    recipe: TextModelRecipe, folder: Path, progress: Callable[[HistoryRow], None] = lambda row: None
) -> list[HistoryRow]:
    """Train a model and write it. The same recipe gives the same weights on the same machine and thread count.

    If the training is killed, the next call continues from the last saved state and ends in the same weights. If the
    precision is `auto`, the recipe stored with the model says which precision was used.

    Args:
        recipe: the model to train, and how.
        folder: a new or empty folder, or the folder of an interrupted training by the same recipe.
        progress: called with every row of the history as it is made.

    Returns:
        The history, a list of rows: `step`; the means since the row before of `loss`, `lines` and `answers` (the last
        two are accuracies after lines and after questions); `heads`, the heads left if heads are pruned; and `seconds`.

    Raises:
        InputError: the folder is in use, the saved state of an interrupted training is damaged, or transformers is not
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
    """Return the mean, rounded; None if it is not finite."""
    return round(mean, 4) if math.isfinite(mean) else None


@torch.no_grad()
def _loss_on_others(model: Any, texts: Texts) -> float:
    """Return the loss on texts of the steps after the last step of the training."""
    recipe, losses = texts.recipe, []
    for step in range(recipe.steps, recipe.steps + OTHERS):
        ids, labels = texts.batch(step)
        losses.append(float(text_loss(logits_of(model, ids, recipe.precision), ids, labels, recipe.taught)))
    return sum(losses) / OTHERS


def logits_of(model: Any, ids: Int[Tensor, "row pos"], precision: TextPrecision) -> Float[Tensor, "row pos word"]:
    """Return the model's logits in fp32, computed with products in `precision`."""
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        logits: Tensor = model(input_ids=ids, use_cache=False).logits
    return logits.float()


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the folder of the model as it was after `step` steps."""
    return folder / "training" / f"step-{step:06d}"


def make_model(recipe: TextModelRecipe) -> Any:
    """Return the model before training. The global random state is not changed."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        raise hs.InputError("a text model needs transformers; pip install hopscope[llm]") from None
    config = LlamaConfig(
        vocab_size=len(vocabulary(recipe.cut)), hidden_size=recipe.d_model, intermediate_size=MLP,
        num_hidden_layers=recipe.layers, num_attention_heads=recipe.heads, max_position_embeddings=4096,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE}, bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        model: Any = LlamaForCausalLM(config)
    if recipe.precision == "bf16":  # on a CPU, PyTorch's fused attention in bf16 is several times slower than eager
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
    """Return the learning rate at a step, as a share of the recipe's rate."""
    fall = recipe.steps - recipe.falls_from
    return min(1.0, (step + 1) / (recipe.warmup + 1), (recipe.steps - step) / fall)


def text_loss(
    logits: Float[Tensor, "row pos word"],
    ids: Int[Tensor, "row pos"],
    labels: Int[Tensor, "row pos"],
    taught: float = 1.0,
) -> Float[Tensor, ""]:
    """Return the weighted mean cross-entropy, in nats, after lines, after questions, and after the last answer."""
    asked = torch.where(ids == ASKED, ANSWER_WEIGHT, torch.where(labels == TOKENS[END], 1.0, taught))
    weights = (labels != IGNORED) * asked
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return (each * weights).sum() / weights.sum()


def publish(model: Any, folder: Path, cut: Cut = "line") -> None:
    """Write the model folder. config.json, which marks the folder as a model, is written last."""
    make_tokenizer(cut).save_pretrained(folder)
    fresh = folder / "unfinished"
    model.save_pretrained(fresh)
    for path in sorted(fresh.iterdir(), key=lambda path: path.name == "config.json"):
        path.replace(folder / path.name)
    fresh.rmdir()
