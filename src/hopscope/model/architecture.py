"""The shape of a transformer and how its initial weights are drawn, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hopscope.checks import check_count, check_number, make_plain
from hopscope.errors import InputError
from hopscope.model.fixed_attention import HeldHead, check_held


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

    d_input: int
    d_output: int
    reads: int
    layers: int
    heads: int
    d_model: int
    head_dim: int | None = None
    mlp: bool = True
    causal: bool = True
    layer_norm: bool = True
    held: tuple[HeldHead, ...] = ()

    def __post_init__(self) -> None:
        for name in ("d_input", "d_output", "reads", "layers", "heads", "d_model", "head_dim"):
            if name != "head_dim" or self.head_dim is not None:
                check_count(name, getattr(self, name))
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


Scheme = Literal["torch", "gpt2"]


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

    init: Scheme = "torch"
    qk_gain: float = 1.0
    embedding_gain: float = 1.0
    output_gain: float = 1.0

    def __post_init__(self) -> None:
        make_plain(self)
        if self.init not in get_args(Scheme):
            raise InputError(f"init must be {' or '.join(get_args(Scheme))}, got {self.init!r}")
        for name in ("qk_gain", "embedding_gain", "output_gain"):
            check_number(name, getattr(self, name), 0.0)
            object.__setattr__(self, name, float(getattr(self, name)))  # 1 and 1.0 are hashed differently


AS_TORCH = InitialWeights()
"""Weights as PyTorch draws them."""
