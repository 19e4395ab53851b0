"""The layers of a transformer, for M models at once: a linear map, and a LayerNorm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.model.architecture import Architecture
from hopscope.model.edit import Stream


class Linear(nn.Module):
    """x @ weight + bias, for M models."""

    def __init__(self, models: int, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(models, d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(models, 1, d_out))

    def forward(self, x: Float[Tensor, "model batch pos d_in"]) -> Float[Tensor, "model batch pos d_out"]:
        """Apply the map, position by position."""
        return torch.baddbmm(self.bias, x.flatten(1, 2), self.weight).view(*x.shape[:3], -1)


class LayerNorm(nn.Module):
    """LayerNorm: every position to mean 0 and standard deviation 1, then a gain and an offset, for M models."""

    def __init__(self, models: int, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(models, 1, d))
        self.bias = nn.Parameter(torch.zeros(models, 1, d))

    def forward(self, x: Stream) -> Stream:
        """The normalised stream."""
        return F.layer_norm(x, x.shape[-1:]) * self.weight[:, None] + self.bias[:, None]


def norm(models: int, shape: Architecture) -> nn.Module:
    """A LayerNorm, or the identity where the architecture has none."""
    return LayerNorm(models, shape.d_model) if shape.layer_norm else nn.Identity()
