"""Transformers built by hand: right at the exact depth, wrong below it, with the circuit that they state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import answers_with, pointer_doubling, without_layer
from torch import Tensor

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.vectors import Batch, sample
from hopscope.theory.depth import minimum_causal, minimum_without_mask
from hopscope.theory.path_flow import deliver
from hopscope.theory.witness import Witness, build_witness

KINDS: dict[str, dict[str, Any]] = {"masked": {}, "no mask": {"causal": False}}
kinds = pytest.mark.parametrize("kind", KINDS)


def batch_for(witness: Witness, sequences: int = 48, seed: int = 1) -> Batch:
    return sample(witness.problem, sequences, torch.Generator().manual_seed(seed))


@torch.no_grad()
def losses(witness: Witness, batch: Batch, change: Any = None) -> Tensor:
    answers = answers_with(witness.transformer, batch.inputs[None], change or (lambda layer, pattern: pattern))[0]
    errors = (answers - batch.targets).square()
    return errors.unflatten(-1, (-1, witness.problem.symbol_dim)).mean(dim=(0, 1, 3))


@kinds
@pytest.mark.parametrize("hops", [1, 2, 3, 5, pytest.param(8, marks=pytest.mark.slow)])
def test_solves_at_the_exact_depth_and_not_below(kind: str, hops: int) -> None:
    witness = build_witness(hops, **KINDS[kind])
    shape, batch = witness.transformer.shape, batch_for(witness, 16)
    assert shape.layers == (minimum_causal(hops) if witness.problem.causal else minimum_without_mask(hops))
    assert shape.heads == (1 if witness.problem.causal else 2)
    assert losses(witness, batch).max() < 1e-6
    for layer in range(shape.layers):
        rest = without_layer(witness, layer)
        assert losses(rest, batch)[-1] > 0.3
        assert f"not to x{hops}" in deliver(hops, rest.circuit).broken


def ablated_losses(witness: Witness, batch: Batch, only: AttentionPath | None = None) -> Tensor:
    """Losses with uniform attention in rows of the circuit's roles: in all but the circuit, or in one path of it."""
    length = witness.problem.sequence_length
    allowed = torch.ones(length, length).tril() if witness.problem.causal else torch.ones(length, length)

    def ablate(layer: int, pattern: Tensor) -> Tensor:
        chosen = torch.zeros_like(pattern, dtype=torch.bool)
        for path in witness.circuit if only is None else (only,):
            if path.layer == layer:
                chosen[0, :, path.head] |= (batch.role == path.query)[..., None]
        return torch.where(chosen == (only is None), pattern, allowed / allowed.sum(dim=-1, keepdim=True))

    return losses(witness, batch, ablate)


@kinds
@pytest.mark.parametrize("hops", [1, 3])
def test_the_circuit_alone_suffices_and_every_path_is_needed(kind: str, hops: int) -> None:
    witness = build_witness(hops, **KINDS[kind])
    batch = batch_for(witness, 16)
    assert ablated_losses(witness, batch).max() < 0.01
    for path in witness.circuit:
        assert ablated_losses(witness, batch, path).mean() > 0.1, path


@kinds
@pytest.mark.parametrize("hops", [1, 4, 7, 16])
def test_the_simulator_delivers_along_the_circuit(kind: str, hops: int) -> None:
    witness = build_witness(hops, **KINDS[kind])
    delivery = deliver(hops, witness.circuit)
    assert delivery.delivered
    assert not delivery.refused
    if witness.problem.causal:
        assert witness.circuit == pointer_doubling(witness.problem)


@kinds
@pytest.mark.parametrize("change", [{"chains": 1}, {"chains": 7, "curriculum": False}])
def test_other_sizes(kind: str, change: dict[str, int]) -> None:
    witness = build_witness(4, **KINDS[kind], **change)
    assert losses(witness, batch_for(witness)).max() < 1e-6


@kinds
def test_spare_heads_change_nothing(kind: str) -> None:
    plain, spare = (build_witness(3, **KINDS[kind], spare_heads=n) for n in (0, 2))
    batch = batch_for(plain)
    assert spare.transformer.shape.heads == plain.transformer.shape.heads + 2
    assert spare.circuit == plain.circuit
    with torch.no_grad():
        answers = [witness.transformer(batch.inputs[None]) for witness in (plain, spare)]
    torch.testing.assert_close(*answers)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hops": 0}, "hops must be a whole number of at least 1, got 0"),
        ({"hops": 2, "spare_heads": -1}, "spare_heads must be a whole number of at least 0, got -1"),
    ],
)
def test_witnesses_that_cannot_be_built(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build_witness(**change)
