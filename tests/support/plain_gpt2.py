"""A GPT-2 as somebody else would write it, with the weights of one of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hopscope as hs
from hopscope.model.transformer import Transformer


class PlainAttention(nn.Module):
    """As a tutorial has it: one product for queries, keys and values."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * inner), nn.Linear(inner, width)
        self.pattern, self.causal = nn.Identity(), True

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1) & self.causal
        pattern = self.pattern(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1))
        return self.out((pattern @ v).transpose(1, 2).flatten(2))

    def reset(self, head: int) -> None:
        inner = self.out.in_features
        here = slice(head * inner // self.heads, (head + 1) * inner // self.heads)
        for part in range(3):
            self.qkv.weight.view(3, inner, -1)[part, here].normal_(std=0.02)
            self.qkv.bias.view(3, inner)[part, here] = 0
        self.out.weight[:, here].normal_(std=0.02)


class PlainBlock(nn.Module):
    def __init__(self, norm: Callable[[], nn.Module], width: int, heads: int, inner: int, mlp: bool) -> None:
        super().__init__()
        self.first, self.attention = norm(), PlainAttention(width, heads, inner)
        self.second = norm() if mlp else None
        self.up, self.down = (nn.Linear(width, 4 * width), nn.Linear(4 * width, width)) if mlp else (None, None)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        if self.second is None or self.up is None or self.down is None:
            return x
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))


class PlainGPT2(nn.Module):
    """A GPT-2 on vectors with the weights of one of ours."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        shape = ours.shape
        norm = (lambda: nn.LayerNorm(shape.d_model)) if shape.layer_norm else nn.Identity
        inner = shape.heads * shape.d_head
        self.embed, self.reads = nn.Linear(shape.d_input, shape.d_model), shape.reads
        self.blocks = nn.ModuleList(
            PlainBlock(norm, shape.d_model, shape.heads, inner, shape.mlp) for _ in range(shape.layers)
        )
        self.norm, self.read = norm(), nn.Linear(shape.d_model, shape.d_output)
        self.requires_grad_(False)
        _copy(self.embed, ours.embed)
        _copy(self.norm, ours.norm)
        _copy(self.read, ours.read)
        for block, theirs in zip(self.blocks, ours.blocks, strict=True):
            _copy(block.first, theirs.attention_norm)
            qkv = [getattr(theirs.attention, name) for name in ("query", "key", "value")]
            block.attention.qkv.weight.copy_(torch.cat([linear.weight[0].T for linear in qkv]))
            block.attention.qkv.bias.copy_(torch.cat([linear.bias[0, 0] for linear in qkv]))
            _copy(block.attention.out, theirs.attention.out)
            if block.second is not None:
                _copy(block.second, theirs.mlp_norm)
                _copy(block.up, theirs.mlp.up)
                _copy(block.down, theirs.mlp.down)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        return self.read(self.norm(x[:, -self.reads :]))


def _copy(mine: Any, theirs: Any) -> None:
    if not isinstance(mine, nn.Identity):
        mine.weight.copy_(theirs.weight[0].T.squeeze(1))
        mine.bias.copy_(theirs.bias[0, 0])


def parts(gpt: Any) -> hs.Parts:
    patterns = [block.attention.pattern for block in gpt.blocks]
    return hs.Parts(gpt.embed, gpt.blocks, lambda x: gpt.read(gpt.norm(x)), patterns)


def untrain(gpt: Any, layer: int, head: int) -> None:
    gpt.blocks[layer].attention.reset(head)
