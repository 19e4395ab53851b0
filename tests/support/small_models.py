"""Models that know their own circuit, a position-based one by hand, and small ones with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Hooks
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.problem.vectors import Batch, sample
from hopscope.theory.witness import Witness, build_witness

PROBLEM = RetrievalProblem(hops=2, chains=3, symbol_dim=3)
"""Two hops, few chains, short symbols."""


def random_model(
    problem: RetrievalProblem, layers: int = 2, heads: int = 3, mlp: bool = True, seed: int = 0, spread: float = 3.0
) -> Transformer:
    """Random weights, large enough that patterns are far from uniform."""
    ends = problem.input_dim, problem.target_dim, problem.chains
    shape = Architecture(*ends, layers, heads, d_model=12, mlp=mlp, causal=problem.causal)
    model = Transformer(shape)
    initialise(model, [seed])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(spread)
    return model.requires_grad_(False)


def some_batch(problem: RetrievalProblem, size: int = 5) -> Batch:
    return sample(problem, size, torch.Generator().manual_seed(0))


class _Changed(Hooks):
    def __init__(self, change):
        self.change = change

    def pattern(self, layer, pattern):
        return self.change(layer, pattern)


@torch.no_grad()
def answers_with(transformer: Transformer, inputs: torch.Tensor, change: Callable[[int, torch.Tensor], torch.Tensor]):
    """Answers where `change` may replace any layer's pattern: it sees all positions as queries in every layer."""
    x = transformer.run(transformer.embed(inputs), hooks=_Changed(change))
    return transformer.answers(x)[:, :, -transformer.shape.reads :]


@cache
def disguised_witness(hops: int, causal: bool = True) -> Witness:
    """A witness with noise on every weight and a decoy head in every layer, which attends as the first head does."""
    witness = build_witness(hops, causal=causal, spare_heads=1)
    model, generator = witness.transformer, torch.Generator().manual_seed(0)
    width = model.shape.d_head
    with torch.no_grad():
        for block in model.blocks:
            for linear in (block.attention.query, block.attention.key, block.attention.value):
                for values in (linear.weight, linear.bias):
                    values[..., -width:] = values[..., :width]
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 2e-5 * parameter.abs().max())
    return witness


def without_layer(witness: Witness, layer: int) -> Witness:
    """The witness without one layer (from 0): its paths are gone, and later layers are numbered one lower."""
    whole = witness.transformer
    rest = Transformer(replace(whole.shape, layers=whole.shape.layers - 1))
    rest.embed, rest.norm, rest.read = whole.embed, whole.norm, whole.read
    kept = [block for number, block in enumerate(whole.blocks) if number != layer]
    for target, source in zip(rest.blocks, kept, strict=True):
        target.load_state_dict(source.state_dict())
    left = (path for path in witness.circuit if path.layer != layer)
    lowered = tuple(path._replace(layer=path.layer - (path.layer > layer)) for path in left)
    return Witness(witness.problem, rest, lowered)


class PositionBased(Transformer):
    """One hop. Layer 1: the query has a head for each position of the pairs, which reads that position. Layer 2: as
    many heads, each of which attends to the query itself, and so writes what was read at its position, if that is the
    query's own pair, and else to the first token, for nothing.

    The stream is the symbol, what was read at each position, and the answer.
    """

    def __init__(self, problem: RetrievalProblem) -> None:
        n, width = problem.chains, problem.symbol_dim
        super().__init__(Architecture(problem.input_dim, problem.target_dim, reads=n, layers=2, heads=n, d_model=8 * n))
        self.width, self.n = width, n
        self.embed = nn.Linear(problem.input_dim, width * (n + 2), bias=False)
        nn.init.eye_(self.embed.weight[:width])  # the symbol, and zeros
        nn.init.zeros_(self.embed.weight[width:])

    def run_layers(self, x: Tensor, layers: range, hooks: Hooks | None, reads: int | None) -> Tensor:
        hooks = hooks or Hooks()
        for layer in layers:
            pattern = hooks.pattern(layer, self._pattern(layer, x))
            x = x + hooks.attn_out(layer, self._written(layer, pattern, x))
        return x

    def _pattern(self, layer: int, x: Tensor) -> Tensor:
        symbols, queries = x[..., : self.width], range(2 * self.n, 3 * self.n)
        pattern = torch.eye(x.shape[2]).repeat(*x.shape[:2], self.n, 1, 1)
        for place in range(self.n):
            for query in queries:
                mine = (symbols[..., query, :] == symbols[..., 2 * place, :]).all(dim=-1).float()
                pattern[..., place, query, :] = 0
                if layer == 0:
                    pattern[..., place, query, 2 * place + 1] = 1
                else:
                    pattern[..., place, query, query], pattern[..., place, query, 0] = mine, 1 - mine
        return pattern

    def _written(self, layer: int, pattern: Tensor, x: Tensor) -> Tensor:
        written, width = torch.zeros_like(x), self.width
        for place in range(self.n):
            slot = slice((1 + place) * width, (2 + place) * width)
            if layer == 0:
                written[..., slot] = pattern[..., place, :, :] @ x[..., :width]
            else:
                itself = pattern[..., place, :, :].diagonal(dim1=-2, dim2=-1)
                written[..., -width:] += itself[..., None] * x[..., slot]
        return written

    def answers(self, x: Tensor) -> Tensor:
        return x[:, :, -self.n :, -self.width :]


def pointer_doubling(problem: RetrievalProblem) -> tuple[AttentionPath, ...]:
    """Pointer doubling in any order of the pairs.

    Second members first learn their first member. Then, of two neighbouring stretches of 2^a pairs, the second member
    that comes last of all attends to the last one of the other stretch. The query attends to the last second member of
    pair 1, of pairs 2 and 3, of pairs 4 to 7, ....
    """
    hops, block = problem.hops, {pair: number for number, pair in enumerate(problem.blocks)}

    def last(first: int, size: int) -> int:
        return max(range(first, min(first + size, hops + 1)), key=block.__getitem__)

    paths = [AttentionPath(0, 0, second_member(k), first_member(k)) for k in range(1, hops + 1)]
    for layer in range(1, hops.bit_length() + 1):
        size = 1 << layer - 1
        paths.append(AttentionPath(layer, 0, query_role(hops), second_member(last(size, size))))
        for first in range(2 * size, hops + 1 - size, 2 * size):  # below 2^layer the stretches are the query's own
            earlier, later = sorted((last(first, size), last(first + size, size)), key=block.__getitem__)
            paths.append(AttentionPath(layer, 0, second_member(later), second_member(earlier)))
    return tuple(sorted(paths))
