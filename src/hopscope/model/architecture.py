"""The shape of a transformer, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.model.held import HeldHead, check_held


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
