"""A model by hand that goes by place."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hopscope.model.architecture import Architecture
from hopscope.model.edit import Edit
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem


class GoesByPlace(Transformer):
    """One hop: the query has a head for each place of the pairs, which looks at the query itself if its own pair stands
    there and so brings what stands there, and else at the first token, for nothing."""

    def __init__(self, problem: RetrievalProblem) -> None:
        n = problem.chains
        super().__init__(Architecture(problem.input_dim, problem.target_dim, reads=n, layers=1, heads=n, d_model=8 * n))
        self.embed = nn.Identity()
        self.width, self.asked = problem.symbol_dim, range(2 * n, 3 * n)

    def run(
        self, x: Tensor, *, start: int = 0, stop: int | None = None, edit: Edit | None = None, reads: int | None = None
    ) -> Tensor:
        """The answers, in the place of the symbols of the positions that are asked."""
        symbols = x[..., : self.width]
        pattern = torch.eye(x.shape[2]).repeat(*x.shape[:2], len(self.asked), 1, 1)
        for place in range(len(self.asked)):
            for query in self.asked:
                here = (symbols[..., query, :] == symbols[..., 2 * place, :]).all(dim=-1).float()
                pattern[..., place, query, query], pattern[..., place, query, 0] = here, 1 - here
        pattern = (edit or Edit()).pattern(0, pattern)
        gates = torch.stack([pattern[..., query, query] for query in self.asked], dim=-2)
        answered = x.clone()
        answered[..., self.asked.start :, : self.width] = gates @ symbols[..., 1 : 2 * len(self.asked) : 2, :]
        return answered

    def answers(self, x: Tensor) -> Tensor:
        return x[:, :, -len(self.asked) :, : self.width]
