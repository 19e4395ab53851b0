"""Models by hand with something that the checks of a circuit must notice, beyond those of `planted_models`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from planted_models import LITTLE, witness
from torch import Tensor

from hopscope.circuits.checks import Evidence, Patterns
from hopscope.circuits.evaluate.ablations import POSITIONAL, UNIFORM, Ablation, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.transformer import Block
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import position_codes
from hopscope.theory.witness import Witness, build_witness
from hopscope.theory.witness.program import Head, LayerProgram, Term, assemble, same_code, same_symbol
from hopscope.training.data import held_out
from studies.calibration import resting as rests
from studies.calibration.altered import Altered, BlockWithMore
from studies.calibration.sink import Sink, with_sink


def _evidence(
    altered: Altered, known: Witness, change: dict[HeadRow, Ablation] | None = None, patterns: Patterns = "own"
) -> Evidence:
    """The known model's circuit, and some rows changed, in the altered model."""
    module: Any = altered.model(known.problem)
    batch = held_out(known.problem, 64, 0, "circuit search")
    evaluator = VectorEvaluator(module.transformer, known.problem, batch)
    circuit = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in known.circuit}
    return Evidence(evaluator, Units.of(evaluator).hypotheses, circuit | (change or {}), 0.05, 1, LITTLE, patterns)


def sink() -> Evidence:
    """The witness of three hops with one head more, which rests at a key of its own chain and reads nothing of it. That
    it attends there is claimed as a path."""
    known, rest = witness(3), Sink(0, 1, 5)
    path = rest.path(known.problem, known.transformer.shape.heads)
    return _evidence(with_sink(known, rest), known, {path.row: one_hot(path.key)})


def resting(weight: float) -> tuple[Evidence, AttentionPath]:
    """The witness of three hops with one head more, which rests: most of its weight is where it reads nothing. Its row
    is at its positional mean; and the path to what it attends to with that weight."""
    known, rest = build_witness(hops=3), rests.Rest(0, 2, weight, 0)
    known.transformer.requires_grad_(False)
    path = rest.path(known.problem, known.transformer.shape.heads)
    return _evidence(rests.resting(known, rest), known, {path.row: POSITIONAL}), path


class _TwoHeads(BlockWithMore):
    """A block with two heads more, of one pattern; one writes what it `reads`, the other its opposite."""

    def __init__(
        self, block: Block, own: Float[Tensor, "query key"], reads: Callable[[Tensor], Tensor], gain: float
    ) -> None:
        super().__init__(block, own, more=2)
        self.reads, self.gain = reads, gain

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        before: Tensor = self.attention.write(pattern[None, :, :-2], normed)[0]
        return before + self.gain * (self.reads(pattern[:, -2]) - self.reads(pattern[:, -1]))[..., None]


def _cancelling(
    own: Float[Tensor, "query key"], reads: Callable[[Tensor], Tensor], gain: float, patterns: Patterns
) -> Evidence:
    known = witness(2)
    alter = lambda layer, block: _TwoHeads(block, own, reads, gain if layer == 1 else 0.0)
    return _evidence(Altered(known.transformer, alter), known, patterns=patterns)


def cancelling_at_rest(patterns: Patterns) -> Evidence:
    """Two heads that cancel. Both attend to themselves, and write what they attend to elsewhere: alone, either does
    harm where it is uniform."""
    itself = torch.eye(witness(2).problem.sequence_length)
    return _cancelling(itself, lambda pattern: (pattern * (1 - itself)).sum(dim=-1), 3.0, patterns)


def cancelling_little(patterns: Patterns) -> Evidence:
    """Two heads that cancel. Both attend to themselves but for a little weight on the position before, and write what
    they attend to there."""
    own = torch.eye(witness(2).problem.sequence_length)
    after = torch.arange(1, len(own))
    own[after, after], own[after, after - 1] = 0.95, 0.05

    def before(pattern: Float[Tensor, "sequence query key"]) -> Float[Tensor, "sequence query"]:
        return torch.nn.functional.pad(pattern.diagonal(-1, dim1=1, dim2=2), (1, 0))

    return _cancelling(own, before, 100.0, patterns)


PAIR = RetrievalProblem(hops=1, symbol_dim=64, position="pair", base=2.0, causal=False, position_dim=32, symbols="unit")
"""One hop without a mask: the members of a pair exchange their symbols, so that either would answer the query."""
PAIR_CIRCUIT = (AttentionPath(0, 0, 0, 1), AttentionPath(1, 0, 2, 0))
"""The first member of a pair attends to the second; the query attends to the first, which holds both symbols then."""
SCORE = 3000.0
"""Of a match: all weight is on what matches."""
LARGE, FLAT = HeadRow(1, 1, 2), HeadRow(1, 2, 2)
"""Of `large_background`, the row of the head of large magnitude, and of one that subtracts what all rows share."""


@torch.no_grad()
def two_keys(share: float, alternating: float = 0.0) -> Witness:
    """The query reads x0 and x1 from either member of the pair. Returns the model, and the half of its circuit with the
    first member alone.

    Args:
        share: of the query's attention, on `x0>`; the rest is on `>x1`.
        alternating: how much it depends on the symbols' first component which of the two it attends to; from 100 on
            nearly every query attends to one of them alone.
    """
    first = torch.eye(PAIR.symbol_dim)[:, :1]
    terms = (
        same_symbol(PAIR, "symbol", "symbol", SCORE + math.log(share / (1 - share))),
        same_symbol(PAIR, "symbol", "partner", SCORE),
        Term("symbol", "symbol", alternating * first, first),
        _no_query(),
    )
    model = _exchange_then((Head(terms, (("symbol", "sum"), ("partner", "sum")), {}),), ("sum",))
    start, width = PAIR.code_dim, PAIR.symbol_dim
    model.read.weight[0, start : start + width] -= torch.eye(width)  # what is read is x0 + x1, and x0 is known
    return Witness(PAIR, model.requires_grad_(False), PAIR_CIRCUIT)


@torch.no_grad()
def large_background(share: float, score: float) -> Witness:
    """One head reads x1 clearly at `x0>`, another writes a share of it with large magnitude by little attention.
    Returns the model, and its circuit without the second head.

    Args:
        share: of x1, that the second head writes.
        score: of its own `x0>`, above that of any other row; below 0 it attends everywhere else.
    """
    heads = tuple(
        Head((*(same_symbol(PAIR, "symbol", "symbol", match) for match in scores), _no_query()), (("partner", to),), {})
        for scores, to in (((SCORE,), "clear"), ((score,), "large"), ((), "flat"))
    )
    model = _exchange_then(heads, ("clear", "large", "flat"))
    rows, width = 2 * PAIR.chains, PAIR.symbol_dim
    gain = share / (math.exp(score) / (math.exp(score) + rows - 1) - 1 / rows)
    clear = PAIR.code_dim + 2 * width
    for number, weight in enumerate((1 - share, gain, -gain)):
        model.read.weight[0, clear + number * width :][:width] = weight * torch.eye(width)
    return Witness(PAIR, model.requires_grad_(False), PAIR_CIRCUIT)


def _exchange_then(heads: tuple[Head, ...], slots: tuple[str, ...]) -> Any:
    """The members of a pair exchange their symbols, then these heads attend; the first of their slots is read."""
    exchange = Head(
        (same_code(PAIR, "code", "code", 800.0), same_symbol(PAIR, "symbol", "symbol", -60.0)),
        (("symbol", "partner"),),
        {},
    )
    sizes = {"code": PAIR.code_dim} | dict.fromkeys(("symbol", "partner", *slots), PAIR.symbol_dim)
    return assemble(LayerProgram(PAIR, sizes, "symbol", "code", ((exchange,), heads), slots[:1]))


def _no_query() -> Term:
    """A term that keeps a head from attending to queries."""
    codes = position_codes(PAIR).double()
    is_query = torch.zeros(len(codes), 1, dtype=torch.float64)
    is_query[-PAIR.chains :] = -1
    found = torch.linalg.lstsq(codes, is_query, driver="gelsd").solution.float()
    return Term(None, "code", torch.ones(1, 1), 4000.0 * found)
