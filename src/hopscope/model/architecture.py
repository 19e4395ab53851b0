"""The shape of a transformer, and how its initial weights are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hopscope.checks import Count, NonNegative, check_fields
from hopscope.errors import InputError

ScoreScale = Literal["head_dim", "d_model"]
"""The width by whose square root attention scores are divided: of a head (Vaswani et al. 2017) or of the stream."""


@dataclass(frozen=True)
class Architecture:
    """A GPT-2 style, pre-LayerNorm transformer on vectors.

        >>> hs.recipes.LAPTOP.architecture(hs.RetrievalProblem(hops=3)).d_head
        8

    Args:
        d_input: width of the input at a position.
        d_output: width of an answer.
        reads: number of last positions at which answers are read out.
        layers: number of blocks of attention (and MLP).
        heads: number of attention heads per layer.
        d_model: width of the residual stream.
        head_dim: width of a head; `None` for d_model / heads.
        mlp: whether blocks have an MLP (of width 4 d_model).
        causal: whether a position attends to itself and earlier positions only.
        layer_norm: whether the transformer has LayerNorms. Hand-built transformers have none.
        score_scale: `head_dim` to divide attention scores by sqrt(d_head), `d_model` to divide them by sqrt(d_model).

    Raises:
        InputError: a count is below 1, or `d_model` is not divisible by `heads` and no `head_dim` is given.
    """

    d_input: Count
    d_output: Count
    reads: Count
    layers: Count
    heads: Count
    d_model: Count
    head_dim: Count | None = None
    mlp: bool = True
    causal: bool = True
    layer_norm: bool = True
    score_scale: ScoreScale = "head_dim"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.head_dim is None and self.d_model % self.heads:
            raise InputError(
                f"d_model must be divisible by heads, got {self.d_model} and {self.heads}; "
                "change one of them, or set head_dim"
            )

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.d_model // self.heads if self.head_dim is None else self.head_dim

    @property
    def divisor(self) -> float:
        """The number that attention scores are divided by."""
        return math.sqrt(self.d_head if self.score_scale == "head_dim" else self.d_model)


@dataclass(frozen=True)
class InitialWeights:
    """How weights are drawn before training; `initial_weights.initialise` draws them.

        >>> from dataclasses import replace
        >>> gpt2 = replace(hs.recipes.A.recipe, initial=hs.InitialWeights("gpt2"))
        >>> gpt2.initial.output_gain
        1.0

    Args:
        init: `torch` draws as `torch.nn.Linear` does: weights and biases uniform within 1/sqrt(fan-in). `gpt2` draws
            normal weights with standard deviation 0.02, divided by sqrt(2 layers) where a block writes to the residual
            stream (by sqrt(layers) without MLPs), and zero biases (Radford et al. 2019). The choice decides how long
            training stays on its plateau.
        qk_gain: factor on the query and key weights. Above 1, heads attend selectively from the start.
        embedding_gain: factor on the weights and biases that map the input to the residual stream.
        output_gain: factor on the weights and biases with which every block writes to the residual stream. Since a norm
            precedes every read from the stream, a model's answers depend only on the ratio of `embedding_gain` to
            `output_gain`, but the speed of training depends on both.

    Raises:
        InputError: a value is out of range.
    """

    init: Literal["torch", "gpt2"] = "torch"
    qk_gain: NonNegative = 1.0
    embedding_gain: NonNegative = 1.0
    output_gain: NonNegative = 1.0

    def __post_init__(self) -> None:
        check_fields(self)


AS_TORCH = InitialWeights()
"""Weights as PyTorch draws them."""
