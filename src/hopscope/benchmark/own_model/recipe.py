"""What decides a model of our own: its size, the equations it reads, how it is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hopscope.errors import InputError

CHAINS = 4
"""Of the paper's equations."""

_LARGEST_HOPS = 6


@dataclass(frozen=True)
class TextModelRecipe:
    """A Llama-style transformer and its training.

    Args:
        layers: attention layers; one to look back at the symbol before, and about one a hop.
        heads: heads a layer.
        d_model: width of the residual stream, a multiple of `heads`; a head is `d_model / heads` wide.
        mlp: width of the gated perceptron that follows every attention layer.
        rope_theta: base of the rotary embedding; large, so that most of a head can compare symbols at any distance.
        least_hops, most_hops: D of the training texts, one D a step.
        steps: updates.
        batch: texts a step.
        rate: AdamW's learning rate; it rises over `warmup` steps and falls to zero over the last fifth.
        alike: correlation, at the start, of a head's values with its outputs and of the tokens of a symbol, so that
            heads begin as copiers of symbols (compare Trockman and Kolter 2023, mimetic initialisation).
        sharpness: standard deviation of the first queries and keys, in units of 1 / sqrt(d_model).
        room: standard deviation of the first embeddings; large, so that what the first layers write does not drown the
            symbols that later layers must still compare.
        decay: AdamW's weight decay of the maps within layers.
        gain: first value of the last norm's weights; large, so that a value need not drown the rest of the stream to be
            said with certainty.
        dense: part of the steps whose texts ask for every letter.
        fewer: part of the dense steps that draw 1 ... 4 chains instead of 4; with few, copying the right line's value
            is learned before finding it.
        answer_weight: weight of a question's answer beside that of a line's value.
        line_weight: weight of the value of a line; 0 trains on answers alone.
        seed: of weights and texts.
        held_seed, held_count: the questions of a benchmark with `--seed held_seed --count held_count`, or fewer, are
            kept out of the training texts, whichever letter they ask for.

    Raises:
        InputError: a value out of range.
    """

    layers: int = 4
    heads: int = 8
    d_model: int = 128
    mlp: int = 32
    rope_theta: float = 100_000.0
    least_hops: int = 1
    most_hops: int = 2
    steps: int = 3_600
    batch: int = 32
    rate: float = 1.5e-3
    warmup: int = 100
    alike: float = 0.8
    sharpness: float = 2.0
    room: float = 4.0
    decay: float = 0.3
    gain: float = 4.0
    dense: float = 0.5
    fewer: float = 0.75
    answer_weight: float = 2.0
    line_weight: float = 1.0
    seed: int = 0
    held_seed: int = 0
    held_count: int = 500

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), _LEAST.get(field.name, 1)
            if field.type == "int":
                if isinstance(value, bool) or not isinstance(value, int) or value < least:
                    raise InputError(f"{field.name} must be a whole number of at least {least}, got {value!r}")
            elif not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise InputError(f"{field.name} must be a finite number that is not negative, got {value!r}")
        for name in ("alike", "dense", "fewer"):
            if getattr(self, name) > 1:
                raise InputError(f"{name} must be in 0..1, got {getattr(self, name)}")
        if not self.least_hops <= self.most_hops <= _LARGEST_HOPS:
            raise InputError(
                f"least_hops <= most_hops <= {_LARGEST_HOPS} must hold (26 letters), "
                f"got {self.least_hops} and {self.most_hops}"
            )
        if self.d_model % (2 * self.heads):
            raise InputError(
                f"d_model must be a multiple of 2 x heads (the rotary embedding turns pairs), got {self.d_model} "
                f"and {self.heads} heads"
            )

    def varied(self, changes: Mapping[str, Any]) -> TextModelRecipe:
        """This recipe with other values.

        Raises:
            InputError: a name that no recipe has, or a value out of range.
        """
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise InputError(f"a recipe has no {name!r}; it has {', '.join(known)}")
        return replace(self, **changes)


_LEAST = {"warmup": 0, "seed": 0, "held_seed": 0, "held_count": 0}
