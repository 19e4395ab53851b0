"""Progress measures, read off the weights: do they move before the loss does?

Musat et al. (2511.01033) find that three numbers track the emergence of an induction head: how well one head matches
the token before, how well another matches symbols against what the first one brought, and how well it copies. Here they
are taken of the trained heads of a circuit. Each is between -1 and 1. They are computed on the direct path through the
heads named: what other layers and MLPs add is left out, so they are measures, not explanations. At random weights each
is 0 on average; the first stays within 0.04 of it, the two cosines have a standard deviation of 1/K. What these do
within 2/K of 0 tells nothing, neither that they move nor when.

- previous-token match, of a head with a path `>x{k} -> x{k-1}>`: the attention it would pay to the token before, on
  average, if streams held position codes alone; less what uniform attention pays, and scaled so that 1 is perfect.
- symbol match, of such a head and a later head with a path `x0? -> >x1`: the cosine between the identity and the
  K x K matrix of the later head's attention scores between a query's symbol and a symbol brought by the first head.
- copy, of a head with a path `x0? -> >x{k}`: the cosine between the identity and the K x K matrix that takes a symbol
  through the head's values and output and the read-out of hop k.

LayerNorms are taken as centring and their gains; scales do not change a cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.transformer import Block, LayerNorm, Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, second_member
from hopscope.problem.vectors import position_codes


@dataclass(frozen=True)
class Measure:
    """A progress measure and where it is taken.

    Attributes:
        name: `previous-token match`, `symbol match` or `copy`.
        heads: (layer, head), from 1: one head, or for the symbol match the earlier and the later head.
        hop: for `copy`, the hop whose read-out it uses.
    """

    name: str
    heads: tuple[tuple[int, int], ...]
    hop: int | None = None

    def __str__(self) -> str:
        heads = " and ".join(f"{layer}.{head}" for layer, head in self.heads)
        return f"{self.name}{'' if self.hop is None else f' of x{self.hop}'}, head{'s' * (len(self.heads) > 1)} {heads}"


def defined(paths: Sequence[AttentionPath], problem: RetrievalProblem) -> list[Measure]:
    """The measures that can be taken of a circuit's heads."""
    hops = problem.hops
    looks = {(path.layer + 1, path.head + 1, path.query, path.key) for path in paths}
    asker = 2 * hops
    pairs = {(second_member(k), first_member(k)) for k in range(1, hops + 1)}
    before = sorted({(layer, head) for layer, head, query, key in looks if (query, key) in pairs})
    first = sorted((layer, head) for layer, head, query, key in looks if (query, key) == (asker, second_member(1)))
    measures = []
    if problem.position == "token":
        measures += [Measure("previous-token match", (head,)) for head in before]
    measures += [Measure("symbol match", (one, later)) for one in before for later in first if one[0] < later[0]]
    for hop in problem.target_hops:
        there = sorted(
            (layer, head) for layer, head, query, key in looks if (query, key) == (asker, second_member(hop))
        )
        measures += [Measure("copy", (head,), hop) for head in there]
    return measures


@torch.no_grad()
def measure(transformer: Transformer, problem: RetrievalProblem, measures: Sequence[Measure]) -> list[float]:
    """The values of the measures in one model."""
    return [_measure(transformer, problem, one) for one in measures]


def _measure(transformer: Transformer, problem: RetrievalProblem, what: Measure) -> float:
    heads = [_Head(transformer, layer, head) for layer, head in what.heads]
    symbols = transformer.embed.weight[0, : problem.symbol_dim]
    if what.name == "previous-token match":
        return _previous(heads[0], transformer, problem)
    if what.name == "symbol match":
        early, late = heads
        brought = early.moves(symbols)
        scores = (late.normed(symbols) @ late.query) @ (late.normed(brought) @ late.key).T
        return _likeness(scores)
    place = problem.target_hops.index(what.hop) if what.hop is not None else 0
    columns = slice(place * problem.symbol_dim, (place + 1) * problem.symbol_dim)
    gain = _gain(transformer.norm, transformer.shape.d_model)
    written = heads[0].moves(symbols)
    return _likeness(_centred(written, transformer.shape.layer_norm) * gain @ transformer.read.weight[0, :, columns])


def _previous(head: _Head, transformer: Transformer, problem: RetrievalProblem) -> float:
    codes = position_codes(problem)
    inputs = torch.cat([codes.new_zeros(codes.shape[0], problem.symbol_dim), codes], dim=-1)
    normed = head.block.attention_norm(transformer.embed(inputs[None, None]))
    pattern = head.block.attention.pattern(normed, normed)[0, 0, head.number]
    allowed = torch.ones_like(pattern).tril() if problem.causal else torch.ones_like(pattern)
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    before, by_chance = (weights.diagonal(-1).mean().item() for weights in (pattern, uniform))
    return (before - by_chance) / (1 - by_chance)


class _Head:
    """One head: its block, its number there, and its weights."""

    def __init__(self, transformer: Transformer, layer: int, head: int) -> None:
        block = transformer.blocks[layer - 1]
        assert isinstance(block, Block)
        self.block, self.number, attention = block, head - 1, block.attention
        at = slice(self.number * attention.d_head, head * attention.d_head)
        self._layer_norm = transformer.shape.layer_norm
        self._gain = _gain(block.attention_norm, transformer.shape.d_model)
        self.query, self.key = attention.query.weight[0, :, at], attention.key.weight[0, :, at]
        self._value, self._out = attention.value.weight[0, :, at], attention.out.weight[0, at]

    def normed(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """What the head reads from a stream, up to scale."""
        return _centred(x, self._layer_norm) * self._gain

    def moves(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """What the head writes where it attends to `x`."""
        moved: Tensor = self.normed(x) @ self._value @ self._out
        return moved


def _centred(x: Float[Tensor, "row d_model"], layer_norm: bool) -> Float[Tensor, "row d_model"]:
    return x - x.mean(dim=-1, keepdim=True) if layer_norm else x


def _gain(norm: object, d_model: int) -> Float[Tensor, " d_model"]:
    return norm.weight[0, 0] if isinstance(norm, LayerNorm) else torch.ones(d_model)


def _likeness(matrix: Float[Tensor, "k k"]) -> float:
    """The cosine between a matrix and the identity; 0 for a matrix of zeros."""
    size = matrix.norm() * matrix.shape[0] ** 0.5
    return float(matrix.trace() / size) if size > 0 else 0.0
