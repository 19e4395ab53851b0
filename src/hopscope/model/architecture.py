"""The shape of a transformer, heads whose attention is fixed, and how initial weights are drawn, as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hopscope.checks import Count, NonNegative, check_fields, check_items
from hopscope.errors import InputError

HeldPattern = Literal["previous", "itself", "uniform", "nothing"]
"""`previous`: all weight on the position before (the first position on itself). `itself`: all weight on the position
itself. `uniform`: equal weights on all positions that may be seen. `nothing`: no weight at all, which forbids the head;
it then writes a constant."""


@dataclass(frozen=True)
class HeldHead:
    """A head whose attention is fixed in training and after; its values and output are learned.

    It is part of the architecture, so that analysis, ablation and further training meet the heads that the model was
    trained with.

        >>> import hopscope as hs
        >>> hs.HeldHead(1, 2, "previous").head
        2

    Args:
        layer: number of the layer, from 1.
        head: number of the head in its layer, from 1.
        pattern: one of `HeldPattern`.

    Raises:
        InputError: the pattern is unknown, or a number is below 1.
    """

    layer: Count
    head: Count
    pattern: HeldPattern

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def parse(cls, text: str) -> HeldHead:
        """The head that `1.2=previous` names: layer 1, head 2.

        Raises:
            InputError: the text is not of this form.
        """
        match = re.fullmatch(r"\s*(\d{1,9})\.(\d{1,9})=(\w+)\s*", text)
        if match is None:
            raise InputError(f"a held head is written LAYER.HEAD=PATTERN, as in 1.2=previous, got {text!r}")
        return cls(int(match[1]), int(match[2]), match[3])  # type: ignore[arg-type]  # checked when made


def check_held(held: Sequence[HeldHead], layers: int, heads: int) -> None:
    """Check that held heads exist.

    Raises:
        InputError: an entry is not a `HeldHead`, the architecture lacks it, or it is held twice.
    """
    seen = set()
    for head in check_items("held", held, "held heads"):
        if not isinstance(head, HeldHead):
            raise InputError(f"held must be heads, as in HeldHead(1, 1, 'previous'), got {head!r}")
        if head.layer > layers or head.head > heads:
            raise InputError(
                f"head {head.layer}.{head.head} cannot be held: there are {layers} layers of {heads} heads, from 1"
            )
        if (head.layer, head.head) in seen:
            raise InputError(f"head {head.layer}.{head.head} is held twice; name it once")
        seen.add((head.layer, head.head))


@dataclass(frozen=True)
class Architecture:
    """A GPT-2 style, pre-LayerNorm transformer on vectors.

        >>> hs.recipes.LAPTOP.architecture(hs.RetrievalProblem(hops=3)).d_head
        8

    Args:
        d_input: width of the input at a position.
        d_output: width of an answer.
        reads: number of last positions at which answers are read out.
        layers: blocks of attention (and MLP).
        heads: attention heads per layer.
        d_model: width of the residual stream.
        head_dim: width of a head; `None` for d_model / heads.
        mlp: whether blocks have an MLP (of width 4 d_model).
        causal: whether a position attends to itself and earlier positions only.
        layer_norm: whether there are LayerNorms. Hand-built transformers do without.
        held: heads whose attention is fixed.

    Raises:
        InputError: a count is below 1, d_model is not divisible by heads while no head_dim is given, or a held head
            does not exist.
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
    held: tuple[HeldHead, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if self.head_dim is None and self.d_model % self.heads:
            raise InputError(
                f"d_model must be divisible by heads, got {self.d_model} and {self.heads}; "
                "change one of them, or set head_dim"
            )
        check_held(self.held, self.layers, self.heads)

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.d_model // self.heads if self.head_dim is None else self.head_dim


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
        embedding_gain: factor on the weights and biases that take the input to the residual stream.
        output_gain: factor on the weights and biases by which every block writes to the residual stream. Since norms
            precede whatever reads from the stream, a model's answers depend only on the ratio of these two gains, but
            the speed of training depends on both.

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
