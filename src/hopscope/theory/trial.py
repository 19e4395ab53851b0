"""A witness put to the test: its loss on random sequences, whole and with each of its layers taken out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hopscope.problem.vectors import Batch, sample
from hopscope.theory.delivery import deliver
from hopscope.theory.path import AttentionPath
from hopscope.theory.witness import Witness


@dataclass(frozen=True)
class WithoutLayer:
    """What is left when one layer is taken out.

    Attributes:
        layer: from 0.
        loss: mean squared error of the last hop.
        why: what the simulator says of the paths that are left.
    """

    layer: int
    loss: float
    why: str


@dataclass(frozen=True)
class WitnessTrial:
    """How a witness did.

    Attributes:
        hops: D.
        layers: how many it has.
        heads: a layer.
        circuit: its attention paths.
        sequences: how many random sequences it was tried on.
        losses: mean squared error by hop.
        without: the same trial with one layer fewer, for every layer.
    """

    hops: int
    layers: int
    heads: int
    circuit: tuple[AttentionPath, ...]
    sequences: int
    losses: tuple[float, ...]
    without: tuple[WithoutLayer, ...]


def try_witness(witness: Witness, sequences: int = 64, seed: int = 0) -> WitnessTrial:
    """Run a witness, and what is left of it when a layer is missing, on the same random sequences."""
    problem, shape = witness.problem, witness.transformer.shape
    batch = sample(problem, sequences, torch.Generator().manual_seed(seed))
    without = []
    for layer in range(shape.layers):
        rest = witness.without_layer(layer)
        why = deliver(problem.hops, rest.circuit).broken
        without.append(WithoutLayer(layer, _losses(rest, batch)[-1], why))
    return WitnessTrial(
        problem.hops, shape.layers, shape.heads, witness.circuit, sequences, _losses(witness, batch), tuple(without)
    )


@torch.no_grad()
def _losses(witness: Witness, batch: Batch) -> tuple[float, ...]:
    answers = witness.transformer(batch.inputs[None])[0]
    errors = (answers - batch.targets).square().unflatten(-1, (-1, witness.problem.symbol_dim))
    return tuple(errors.mean(dim=(0, 1, 3)).tolist())
