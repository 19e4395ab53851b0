"""How the weights of a transformer are drawn before it is trained, as a value; `initial.py` draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hopscope.checks import check_number
from hopscope.errors import InputError

Scheme = Literal["torch", "gpt2"]


@dataclass(frozen=True)
class InitialWeights:
    """How weights are drawn.

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
        if self.init not in get_args(Scheme):
            raise InputError(f"init must be {' or '.join(get_args(Scheme))}, got {self.init!r}")
        for name in ("qk_gain", "embedding_gain", "output_gain"):
            check_number(name, getattr(self, name), 0.0)


AS_TORCH = InitialWeights()
"""Weights as PyTorch draws them."""
