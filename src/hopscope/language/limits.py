"""Limits of a language model: tokens it knows, positions, a window to attend in, and the memory that a search takes."""

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
"""Rows at most that a table of places has besides those for tokens (OPT and BART have two)."""

_WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size", "local": "window_size"}
"""Kinds of layers that attend in a window, and the setting that holds its size."""
_KINDS = ("layer_types", "attention_layers")


def check_words(model: Any, tokenizer: Any) -> None:
    """Check that a model knows every token of its tokenizer.

    Tokens that were added and never come up in a text, such as Gemma 3's for images, may be beyond it; see
    `check_tokens`.
    """
    added = tokenizer.get_added_vocab()
    check_tokens(model, tokenizer, (token for word, token in tokenizer.get_vocab().items() if word not in added))


def check_tokens(model: Any, tokenizer: Any, tokens: Iterable[int]) -> None:
    """Check that a model knows the tokens that it is given.

    Raises:
        InputError: it does not, as where a chat's marks were added to the tokenizer alone.
    """
    known = len(model.get_input_embeddings().weight)
    if max(tokens, default=0) >= known:
        words = max(tokenizer.get_vocab().values()) + 1
        raise InputError(
            f"the tokenizer has {words} tokens and {type(model).__name__} knows {known}; save the model again after "
            f"model.resize_token_embeddings({words}), or a tokenizer without what was added"
        )


def places(model: Any) -> int | None:
    """The tokens that a text may have at most where positions come from a table; None where they are computed.

    MPT's table is made at every call and is no part of the model: it holds a penalty for each distance (ALiBi).
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
    """How many tokens those layers see that see the fewest, in a text as long as may be; None where all see all."""
    config = model.config.get_text_config()
    kinds = next(filter(None, (getattr(config, name, None) for name in _KINDS)), ["sliding_attention"])
    return min((size for kind in kinds if (size := getattr(config, _WINDOWS.get(kind, ""), None))), default=None)


_BATCHES = 8
"""The number of batches whose streams are kept at once: parts of the questions of the search and of the certificate."""


def check_memory(evaluator: Evaluator, weights: int, proof: CertificateConfig) -> None:
    """Check that a search, on the evaluator's questions, fits into the memory that is free beside the weights."""
    needed, free = memory_needed(evaluator, weights, proof), free_memory()
    if needed > free:
        shape = evaluator.shape
        raise InputError(
            f"a search among {shape.layers} x {shape.heads} heads, on questions of {evaluator.where.role.shape[1]} "
            f"tokens, takes {in_words(needed)} of memory beside the weights and {in_words(free)} are free; free some, "
            "or take a machine with more"
        )


def memory_needed(evaluator: Evaluator, weights: int, proof: CertificateConfig) -> int:
    """The most bytes that a search takes beside the weights.

    They are for one pass, forwards or backwards; the streams and patterns of all questions; and a second model, from
    which heads with initial weights are taken.
    """
    shape, positions = evaluator.shape, evaluator.where.role.shape[1]
    asked = max(evaluator.sequences, proof.sequences)
    stream, pattern = 4 * positions * shape.d_model, 4 * shape.heads * positions**2
    kept = _BATCHES * min(STREAMS, asked * stream * shape.layers)
    mixed = asked * positions * BYTES_A_POSITION * shape.d_model
    patterns = 4 * asked * pattern + 2 * proof.rough * shape.layers * pattern
    return max(ACTIVATIONS, SAVED, mixed) + kept + patterns + weights + weights // shape.layers
