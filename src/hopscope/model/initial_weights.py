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
        init: `torch` is what `torch.nn.Linear` does, uniform within 1/sqrt(fan-in) for weights and biases. `gpt2` is
            normal with deviation 0.02, shrunk by sqrt(2 layers) where a block writes to the residual stream, and no
            biases (Radford et al. 2019). It decides how long training stays on its plateau.
        qk_gain: factor on the weights that make queries and keys. Above 1, heads look somewhere from the start.
        embedding_gain: factor on what takes the input to the residual stream, weights and biases.
        output_gain: the same on what writes to the stream in every block. Norms stand before whatever reads from the
            stream, so that only the ratio of the two shows in what a model answers, but both in how fast it changes.

    Raises:
        InputError: a value out of range.
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
"""As PyTorch draws them."""
