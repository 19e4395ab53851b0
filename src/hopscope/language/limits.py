"""Limits of a language model: its tokens, positions and attention windows, and the memory that a search takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.evaluate.evaluator import ACTIVATIONS, BYTES_A_POSITION, STREAMS, Evaluator
from hopscope.circuits.search.gradients import SAVED
from hopscope.errors import InputError
from hopscope.machine import free_memory, in_words

_SHIFT = 4
"""The largest number of extra rows in a table of positions (OPT and BART have two)."""

_WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size", "local": "window_size"}
"""Kinds of layers that attend within a window, and the setting that holds the size of the window."""
_KINDS = ("layer_types", "attention_layers")


def check_words(model: Any, tokenizer: Any) -> None:
    """Check that a model knows every token of its tokenizer.

    Added tokens that never occur in a text, such as Gemma 3's image tokens, may be unknown to the model; see
    `check_tokens`.
    """
    added = tokenizer.get_added_vocab()
    check_tokens(model, tokenizer, (token for word, token in tokenizer.get_vocab().items() if word not in added))


def check_tokens(model: Any, tokenizer: Any, tokens: Iterable[int]) -> None:
    """Check that a model knows all `tokens`.

    Raises:
        InputError: a token is unknown, for example if chat tokens were added only to the tokenizer.
    """
    known = len(model.get_input_embeddings().weight)
    if max(tokens, default=0) >= known:
        words = max(tokenizer.get_vocab().values()) + 1
        raise InputError(
            f"the tokenizer has {words} tokens, but {type(model).__name__} knows {known}; save the model again after "
            f"model.resize_token_embeddings({words}), or a tokenizer without the added tokens"
        )


def places(model: Any) -> int | None:
    """Return the largest number of tokens in a text if positions come from a table; None if they are computed.

    MPT makes its table of penalties (ALiBi) at every call, so the limit is read from its configuration.
    """
    config = model.config.get_text_config()
    if config.model_type == "mpt":
        return int(config.max_seq_len)
    most = getattr(config, "max_position_embeddings", None)
    if not isinstance(most, int):
        return None
    words = model.get_input_embeddings()
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding) and module is not words]
    found = [
        min(most, table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1))
        for table in tables
        if most <= table.num_embeddings <= most + _SHIFT
    ]
    found += [most for buffer in model.buffers() if buffer.dim() > 1 and buffer.shape[-2] == most]
    return min(found, default=None)


def window(model: Any) -> int | None:
    """Return the size of the smallest attention window of a model's layers; None if every layer sees all tokens."""
    config = model.config.get_text_config()
    kinds = next(filter(None, (getattr(config, name, None) for name in _KINDS)), ["sliding_attention"])
    return min((size for kind in kinds if (size := getattr(config, _WINDOWS.get(kind, ""), None))), default=None)


_BATCHES = 8
"""The number of batches of questions, in a search or its checks, whose streams are kept at once."""


def check_memory(evaluator: Evaluator, weights: int, proof: CertificateConfig) -> None:
    """Check that the free memory is enough for a search on the evaluator's questions."""
    needed, free = memory_needed(evaluator, weights, proof), free_memory()
    if needed > free:
        shape = evaluator.shape
        raise InputError(
            f"a search among {shape.layers} x {shape.heads} heads, on questions of {evaluator.where.role.shape[1]} "
            f"tokens, takes {in_words(needed)} of memory beside the weights, but {in_words(free)} are free; free some "
            "memory or use a larger machine"
        )


def memory_needed(evaluator: Evaluator, weights: int, proof: CertificateConfig) -> int:
    """Return the largest number of bytes that a search takes beside the weights.

    The bytes are for one forward or backward pass, the streams and patterns of all questions, and a second model that
    provides the initial weights of heads.
    """
    shape, positions = evaluator.shape, evaluator.where.role.shape[1]
    asked = max(evaluator.sequences, proof.sequences)
    stream, pattern = 4 * positions * shape.d_model, 4 * shape.heads * positions**2
    kept = _BATCHES * min(STREAMS, asked * stream * shape.layers)
    mixed = asked * positions * BYTES_A_POSITION * shape.d_model
    patterns = 4 * asked * pattern + 2 * proof.rough * shape.layers * pattern
    return max(ACTIVATIONS, SAVED, mixed) + kept + patterns + weights + weights // shape.layers
