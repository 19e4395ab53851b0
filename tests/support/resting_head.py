"""The witness of three hops with one head more, which rests: most of its weight lies where it reads nothing."""

from __future__ import annotations

import torch
from planted_models import LITTLE
from torch import Tensor, nn

import hopscope as hs
from hopscope.circuits.certificate import Evidence
from hopscope.circuits.form import POSITIONAL, UNIFORM, one_hot
from hopscope.circuits.search.units import Units
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import AttentionPath, Row
from hopscope.theory.witness import build_witness

CIRCUIT = (
    "L1.H1 >x1 -> x0>", "L1.H1 >x2 -> x1>", "L1.H1 >x3 -> x2>", "L2.H1 x0? -> >x1", "L2.H1 >x2 -> >x3",
    "L3.H1 x0? -> >x2",
)  # fmt: skip
LOUD = 3.0
"""What the head writes where it does not rest, in units of a random direction."""


class _Block(nn.Module):
    """A block of the witness; the first has the head beside those it had."""

    def __init__(self, block: nn.Module, rests: Tensor | None, heads: int) -> None:
        super().__init__()
        self.block, self.rests, self.heads, self.seen = block, rests, heads, nn.Identity()
        width = block.attention.query.weight.shape[1]
        self.direction = torch.randn(width, generator=torch.Generator().manual_seed(0))

    def forward(self, x: Tensor) -> Tensor:
        x, length = x[None], x.shape[-2]
        normed = self.block.attention_norm(x)
        own = self.block.attention.pattern(normed, normed)[0]
        extra = torch.eye(length) if self.rests is None else self.rests
        pattern = self.seen(torch.cat([own, extra.expand(len(own), 1, length, length)], dim=1))
        out = x + self.block.attention.write(pattern[None, :, : self.heads], normed)
        if self.rests is not None:
            reads = torch.ones(length)
            reads[0] = 0  # where it rests there is nothing to read
            there = self.rests[:, 0] < 1
            out = out + ((pattern[:, self.heads] @ reads) * there)[None, ..., None] * self.direction * LOUD
        return out[0]


class _Whole(nn.Module):
    def __init__(self, transformer: nn.Module, rests: Tensor, heads: int) -> None:
        super().__init__()
        self.transformer = transformer
        self.blocks = nn.ModuleList(
            _Block(block, None if number else rests, heads) for number, block in enumerate(transformer.blocks)
        )

    def embed(self, inputs: Tensor) -> Tensor:
        return self.transformer.embed(inputs[None])[0]

    def read(self, x: Tensor) -> Tensor:
        return self.transformer.answers(x[None])[0]

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        return self.read(x)


def resting(weight: float) -> tuple[Evidence, AttentionPath]:
    """The witness's circuit, the head's row at its positional mean; and what the row looks at with that weight."""
    made = build_witness(hops=3)
    problem, heads = made.problem, made.transformer.shape.heads
    length = problem.sequence_length
    rests = torch.zeros(length, length)
    rests[:, 0] = 1
    for place in _second_members(problem, 1):
        rests[place, 0], rests[place, place - 1] = 1 - weight, weight
    whole = _Whole(made.transformer, rests, heads)
    model = hs.Model.from_torch(
        whole, problem, lambda one: hs.Parts(one.embed, list(one.blocks), one.read, [b.seen for b in one.blocks])
    )
    evaluator = model.evaluator.part(64)
    head = AttentionPath(0, heads, problem.roles.index(">x1"), problem.roles.index("x0>"))
    paths = [AttentionPath.parse(path, problem.roles) for path in CIRCUIT]
    program = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in paths}
    program[Row(0, heads, head.query)] = POSITIONAL
    return Evidence(evaluator, Units.of(evaluator).hypotheses, program, 0.05, 1, LITTLE), head


def _second_members(problem: RetrievalProblem, pair: int) -> list[int]:
    """Where the second members of a pair's facts stand, deepest pair first."""
    start = 2 * problem.chains * (problem.hops - pair)
    return [start + 2 * chain + 1 for chain in range(problem.chains)]
