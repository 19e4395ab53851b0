"""A position-based model by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Hooks
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem


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
