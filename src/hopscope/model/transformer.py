"""M transformers at once, GPT-2 style.

Every weight has a leading `model` axis and every activation too, so that M models of one shape cost one sequence of
batched operations: a step of one small model is far too small for a GPU, and on a CPU it is mostly overhead. Model m
computes what a transformer alone with its weights would compute; tests hold it against one.

A block is x + attention(norm(x)), then x + mlp(norm(x)). After the last block: norm, and a linear read-out at the last
`reads` positions. Inputs are vectors, not tokens; what tells positions apart is part of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.model.architecture import Architecture
from hopscope.model.hold import hold
from hopscope.model.rowwise import affine, gelu, normalise

Pattern = Float[Tensor, "model batch head query key"]
Weight = Float[Tensor, "model d_in d_out"]
Bias = Float[Tensor, "model 1 d_out"]
PatternFn = Callable[[int, Pattern], Pattern]
"""Given a layer (from 0) and its attention pattern, the pattern to use in its place: the one seam for interventions."""


class Output(NamedTuple):
    """What a forward pass gives back.

    Attributes:
        answers: the read-out at the last `reads` positions.
        patterns: attention patterns by layer, as they multiplied the values; empty if not asked for.
    """

    answers: Float[Tensor, "model batch read d_output"]
    patterns: list[Pattern]


class Linear(nn.Module):
    """x @ weight + bias, for M models."""

    def __init__(self, models: int, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(models, d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(models, 1, d_out))

    def forward(self, x: Float[Tensor, "model row d_in"]) -> Float[Tensor, "model row d_out"]:
        """The map, row by row."""
        return affine(x, self.weight, self.bias)


class LayerNorm(nn.Module):
    """Layer normalisation with a gain and an offset, for M models.

    What it gives is always mapped linearly, so it comes in two parts: `rows`, and gain and offset, which go `into` the
    map that follows. That spares passes over all positions, forward and backward.
    """

    def __init__(self, models: int, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(models, 1, d))
        self.bias = nn.Parameter(torch.zeros(models, 1, d))

    def rows(self, x: Float[Tensor, "model row d"]) -> Float[Tensor, "model row d"]:
        """Every row to mean 0 and deviation 1."""
        return normalise(x)

    def into(self, weight: Weight, bias: Bias) -> tuple[Weight, Bias]:
        """The map that does to `rows` what `weight` and `bias` do after gain and offset."""
        return self.weight.mT * weight, torch.baddbmm(bias, self.bias, weight)


class NoNorm(nn.Module):
    """In the place of a LayerNorm where there is none."""

    def rows(self, x: Float[Tensor, "model row d"]) -> Float[Tensor, "model row d"]:
        """The same."""
        return x

    def into(self, weight: Weight, bias: Bias) -> tuple[Weight, Bias]:
        """The same."""
        return weight, bias


Norm = LayerNorm | NoNorm


class Attention(nn.Module):
    """Multi-head attention, written out: at these lengths it beats fused kernels, and the pattern is in hand."""

    def __init__(self, models: int, shape: Architecture, layer: int) -> None:
        super().__init__()
        self.heads, self.d_head, self.causal = shape.heads, shape.d_head, shape.causal
        self.held = tuple(one for one in shape.held if one.layer == layer)
        inner = shape.heads * shape.d_head
        self.query = Linear(models, shape.d_model, inner)
        self.key = Linear(models, shape.d_model, inner)
        self.value = Linear(models, shape.d_model, inner)
        self.out = Linear(models, inner, shape.d_model)

    def forward(
        self,
        x: Float[Tensor, "model row d_model"],
        x_query: Float[Tensor, "model query_row d_model"],
        norm: Norm,
        batch: int,
        edit: Callable[[Pattern], Pattern] | None = None,
    ) -> Float[Tensor, "model query_row d_model"]:
        """Attend from the last positions of every sequence, `x_query`, to all, `x`: rows of `norm`, both."""
        models = x.shape[0]
        if x_query is x:
            query, key, value = self._heads(x, norm, batch, self.query, self.key, self.value)
        else:
            (query,) = self._heads(x_query, norm, batch, self.query)
            key, value = self._heads(x, norm, batch, self.key, self.value)
        pattern = torch.baddbmm(self._mask(query, key), query, key.mT).softmax(dim=-1)
        if self.held:
            grouped = pattern.view(models, batch, self.heads, *pattern.shape[-2:])
            pattern = hold(grouped, self.held, self.causal).flatten(0, 2)
        if edit is not None:
            pattern = edit(pattern.view(models, batch, self.heads, *pattern.shape[-2:])).flatten(0, 2)
        mixed = (pattern @ value).view(models, batch, self.heads, -1, self.d_head)
        written: Tensor = self.out(mixed.transpose(2, 3).reshape(models, -1, self.heads * self.d_head))
        return written

    def _heads(
        self, x: Float[Tensor, "model row d_model"], norm: Norm, batch: int, *maps: Linear
    ) -> tuple[Float[Tensor, "model_batch_head pos d_head"], ...]:
        """What each map makes of the rows, cut into heads: one product for all maps, so that `x` is read once.

        Queries come divided by sqrt(d_head): their map is, which costs less than to divide the scores.
        """
        scales = [1 / math.sqrt(self.d_head) if one is self.query else 1.0 for one in maps]
        weight = torch.cat([one.weight * scale for one, scale in zip(maps, scales, strict=True)], dim=-1)
        bias = torch.cat([one.bias * scale for one, scale in zip(maps, scales, strict=True)], dim=-1)
        made = affine(x, *norm.into(weight, bias)).view(x.shape[0] * batch, -1, weight.shape[-1])
        return tuple(self._cut(part) for part in torch.chunk(made, len(maps), dim=-1))

    def _cut(self, x: Float[Tensor, "model_batch pos inner"]) -> Float[Tensor, "model_batch_head pos d_head"]:
        x = x.view(*x.shape[:2], self.heads, self.d_head)
        return x.transpose(1, 2).reshape(-1, x.shape[1], self.d_head)

    def _mask(
        self, query: Float[Tensor, "row query d_head"], key: Float[Tensor, "row key d_head"]
    ) -> Float[Tensor, "query key"]:
        """What is added to the scores: minus infinity where a key stands after its query, else 0."""
        queries, keys = query.shape[1], key.shape[1]
        if not self.causal:
            return query.new_zeros(queries, keys)
        return query.new_full((queries, keys), -math.inf).triu(1 + keys - queries)


class MLP(nn.Module):
    """Two linear maps with a GELU (its tanh form, as in GPT-2) between."""

    def __init__(self, models: int, d_model: int) -> None:
        super().__init__()
        self.up = Linear(models, d_model, 4 * d_model)
        self.down = Linear(models, 4 * d_model, d_model)

    def forward(self, x: Float[Tensor, "model row d_model"], norm: Norm) -> Float[Tensor, "model row d_model"]:
        """Up, GELU, down, row by row, of rows from `norm`."""
        hidden = gelu(affine(x, *norm.into(self.up.weight, self.up.bias)))
        out: Tensor = self.down(hidden)
        return out


class Block(nn.Module):
    """Attention, then MLP, each on a normalised copy of the residual stream and added to it."""

    def __init__(self, models: int, shape: Architecture, layer: int) -> None:
        super().__init__()
        self.attention_norm = _norm(models, shape)
        self.attention = Attention(models, shape, layer)
        self.mlp_norm = _norm(models, shape) if shape.mlp else NoNorm()
        self.mlp = MLP(models, shape.d_model) if shape.mlp else None

    def forward(
        self,
        x: Float[Tensor, "model row d_model"],
        batch: int,
        reads: int | None = None,
        edit: Callable[[Pattern], Pattern] | None = None,
    ) -> Float[Tensor, "model read_row d_model"]:
        """The stream after this block: at all positions, or at the last `reads` of every sequence."""
        rows = query_rows = self.attention_norm.rows(x)
        if reads is not None:
            x, query_rows = last_positions(x, batch, reads), last_positions(rows, batch, reads)
        x = x + self.attention(rows, query_rows, self.attention_norm, batch, edit)
        return x if self.mlp is None else x + self.mlp(self.mlp_norm.rows(x), self.mlp_norm)


class Transformer(nn.Module):
    """M transformers of one architecture. Weights are zero until initialised or loaded.

    Args:
        shape: the architecture, one for all.
        models: M.
    """

    def __init__(self, shape: Architecture, models: int = 1) -> None:
        super().__init__()
        self.shape, self.models = shape, models
        self.embed = Linear(models, shape.d_input, shape.d_model)
        self.blocks = nn.ModuleList(Block(models, shape, layer) for layer in range(1, shape.layers + 1))
        self.norm = _norm(models, shape)
        self.read = Linear(models, shape.d_model, shape.d_output)

    def forward(
        self,
        inputs: Float[Tensor, "model batch pos d_input"],
        pattern_fn: PatternFn | None = None,
        *,
        return_patterns: bool = False,
    ) -> Output:
        """Answer a batch for every model.

        Args:
            inputs: each model's own sequences.
            pattern_fn: called with every layer's pattern; what it returns multiplies the values.
            return_patterns: give the patterns back, after `pattern_fn`.

        Where nobody looks at patterns, the last block is computed at the positions that are read, and there alone:
        nothing else of it reaches an answer.
        """
        batch, reads = inputs.shape[1], self.shape.reads
        watched = return_patterns or pattern_fn is not None
        patterns: list[Pattern] = []

        def edit(pattern: Pattern) -> Pattern:
            pattern = pattern if pattern_fn is None else pattern_fn(len(patterns), pattern)
            patterns.append(pattern)
            return pattern

        x = self.embed(inputs.flatten(1, 2))
        for layer, block in enumerate(self.blocks):
            if watched:
                x = block(x, batch, edit=edit)
            else:
                x = block(x, batch, reads if layer == len(self.blocks) - 1 else None)
        if watched:
            x = last_positions(x, batch, reads)
        answers = self.answers(x)
        return Output(answers.view(-1, batch, reads, self.shape.d_output), patterns if return_patterns else [])

    def answers(self, x: Float[Tensor, "model row d_model"]) -> Float[Tensor, "model row d_output"]:
        """The read-out of the stream after the last block."""
        return affine(self.norm.rows(x), *self.norm.into(self.read.weight, self.read.bias))


def _norm(models: int, shape: Architecture) -> Norm:
    return LayerNorm(models, shape.d_model) if shape.layer_norm else NoNorm()


def last_positions(x: Float[Tensor, "model row d"], batch: int, reads: int) -> Float[Tensor, "model read_row d"]:
    """The rows of the last `reads` positions of every sequence."""
    return x.view(x.shape[0], batch, -1, x.shape[-1])[:, :, -reads:].flatten(1, 2)
