"""Witness transformers: weights written by hand that solve D hops in the fewest layers possible, and trials of them.

Their circuit is known, which makes them the ground truth for circuit discovery. They differ from the paper's setting:
symbols have equal length and K = 32, so that a symbol resembles only itself; position codes have 32 dimensions, at a
base where neighbours can be told apart; there is no LayerNorm and no MLP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import PositionCode, RetrievalProblem
from hopscope.problem.vectors import Batch, sample
from hopscope.theory.delivery import deliver
from hopscope.theory.witness.masked import both_ways_program, causal_program
from hopscope.theory.witness.program import assemble, circuit
from hopscope.theory.witness.unmasked import unmasked_program


@dataclass(frozen=True)
class Witness:
    """A hand-built transformer.

    Attributes:
        problem: the problem that it solves.
        transformer: one model, in float32.
        circuit: the attention paths that its answers depend on.
    """

    problem: RetrievalProblem
    transformer: Transformer
    circuit: tuple[AttentionPath, ...]

    def without_layer(self, layer: int) -> Witness:
        """The witness without one layer (from 0): its paths are gone, and later layers are numbered one lower.

        `deliver(hops, witness.circuit)` of the result says why it fails.

        Raises:
            InputError: there is no such layer, or only one layer.
        """
        shape = self.transformer.shape
        if not 0 <= layer < shape.layers or shape.layers == 1:
            raise InputError(f"layer must be 0 to {shape.layers - 1} of a witness with at least 2, got {layer}")
        rest = Transformer(replace(shape, layers=shape.layers - 1))
        rest.embed, rest.norm, rest.read = self.transformer.embed, self.transformer.norm, self.transformer.read
        kept = [block for number, block in enumerate(self.transformer.blocks) if number != layer]
        for mine, theirs in zip(rest.blocks, kept, strict=True):
            mine.load_state_dict(theirs.state_dict())
        left = (path for path in self.circuit if path.layer != layer)
        lowered = tuple(path._replace(layer=path.layer - (path.layer > layer)) for path in left)
        return Witness(self.problem, rest, lowered)


def build_witness(
    hops: int,
    *,
    causal: bool = True,
    position: PositionCode | None = None,
    order: str = "deepest-first",
    chains: int = 4,
    symbol_dim: int | None = None,
    curriculum: bool = True,
    spare_heads: int = 0,
) -> Witness:
    """A transformer that solves D hops in the exact minimum of layers.

    Args:
        hops: D, the number of hops.
        causal: with a causal mask, layers have one head (pointer doubling); without one, two (looking both ways).
        order: order of the pairs. Under a causal mask it is `deepest-first`, or, for 4 hops, any order with pair 3
            after pairs 2 and 4, as in `1,2,4,3`: three layers of three heads (looking both ways under a mask).
        position: what a position code numbers; `None` for `token` with pointer doubling, which also allows `pair`. For
            looking both ways it must be `pair`: nothing linear in token codes tells a pair's first member from its
            second.
        chains: N, the number of chains.
        symbol_dim: K; `None` for 32, or 128 for looking both ways under a mask. Below half of that, unrelated symbols
            may come close enough to be mixed up.
        curriculum: whether it answers with x1 ... x{D} (IC) or x{D} alone.
        spare_heads: number of heads to add to every layer, all zero.

    Raises:
        InputError: a value is out of range, or the construction cannot use the order or the position code.
    """
    if spare_heads < 0:
        raise InputError(f"spare_heads must be at least 0, got {spare_heads}")
    doubling = causal and RetrievalProblem(hops, order=order).order == "deepest-first"
    allowed: tuple[PositionCode, ...] = ("token", "pair") if doubling else ("pair",)
    numbered: PositionCode = allowed[0] if position is None else position
    if numbered not in allowed:
        mask = f"under a causal mask, {order}," if causal else "without a mask"
        raise InputError(f"a witness {mask} needs position {' or '.join(allowed)}, got {position!r}")
    if symbol_dim is None:
        symbol_dim = 128 if causal and not doubling else 32
    problem = RetrievalProblem(
        hops=hops,
        chains=chains,
        order=order,
        symbol_dim=symbol_dim,
        position=numbered,
        base=_base(hops, chains, numbered),
        causal=causal,
        curriculum=curriculum,
        position_dim=32,
        symbols="unit",
    )
    build = causal_program if doubling else both_ways_program if causal else unmasked_program
    program = build(problem)
    return Witness(problem, assemble(program, spare_heads), circuit(program))


def _base(hops: int, chains: int, position: PositionCode) -> float:
    """The base of the codes: a small one keeps neighbours far apart; `earlier` needs at least the sequence's length."""
    return 1.5 * chains * (2 * hops + 1) if position == "token" else 2.0


class WithoutLayer(NamedTuple):
    """A witness without one layer (from 0): the last hop's mean squared error, and why the remaining paths fail."""

    layer: int
    loss: float
    why: str


class WitnessTrial(NamedTuple):
    """A witness run on random sequences: its mean squared error by hop, and the same without each of its layers."""

    hops: int
    layers: int
    heads: int
    circuit: tuple[AttentionPath, ...]
    sequences: int
    losses: tuple[float, ...]
    without: tuple[WithoutLayer, ...]


def try_witness(witness: Witness, sequences: int = 64, seed: int = 0) -> WitnessTrial:
    """Run a witness, as a whole and without each of its layers, on the same random sequences."""
    hops, shape = witness.problem.hops, witness.transformer.shape
    batch = sample(witness.problem, sequences, torch.Generator().manual_seed(seed))
    reduced = [witness.without_layer(layer) for layer in range(shape.layers)]
    without = tuple(
        WithoutLayer(layer, _losses(rest, batch)[-1], deliver(hops, rest.circuit).broken)
        for layer, rest in enumerate(reduced)
    )
    losses = _losses(witness, batch)
    return WitnessTrial(hops, shape.layers, shape.heads, witness.circuit, sequences, losses, without)


@torch.no_grad()
def _losses(witness: Witness, batch: Batch) -> tuple[float, ...]:
    answers = witness.transformer(batch.inputs[None])[0]
    errors = (answers - batch.targets).square().unflatten(-1, (-1, witness.problem.symbol_dim))
    return tuple(errors.mean(dim=(0, 1, 3)).tolist())
