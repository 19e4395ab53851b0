"""A test of a witness: its loss on random sequences, as a whole and with each of its layers taken out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hopscope.problem.paths import AttentionPath
from hopscope.problem.vectors import Batch, sample
from hopscope.theory.delivery import deliver
from hopscope.theory.witness.built import Witness


@dataclass(frozen=True)
class WithoutLayer:
    """The result of a witness without one layer.

    Attributes:
        layer: number of the layer taken out, from 0.
        loss: mean squared error of the last hop.
        why: the simulator's sentence on why the remaining paths fail; empty if they deliver.
    """

    layer: int
    loss: float
    why: str


@dataclass(frozen=True)
class WitnessTrial:
    """The results of a witness.

    Attributes:
        hops: D, the number of hops.
        layers: number of layers.
        heads: heads per layer.
        circuit: its attention paths.
        sequences: number of random sequences that it was run on.
        losses: mean squared error by hop.
        without: the results with one layer taken out, for every layer.
    """

    hops: int
    layers: int
    heads: int
    circuit: tuple[AttentionPath, ...]
    sequences: int
    losses: tuple[float, ...]
    without: tuple[WithoutLayer, ...]


def try_witness(witness: Witness, sequences: int = 64, seed: int = 0) -> WitnessTrial:
    """Run a witness, as a whole and without each of its layers, on the same random sequences."""
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
