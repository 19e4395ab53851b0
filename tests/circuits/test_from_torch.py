"""A transformer that hopscope did not write: a plain GPT-2, its circuit known, found and certified like any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from plain_gpt2 import PlainGPT2, parts, untrain
from small_models import disguised_witness, random_model
from torch import Tensor, nn

import hopscope as hs
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.search.config import SearchBudget
from hopscope.errors import InputError
from hopscope.lab.model import ABLATIONS
from hopscope.problem.paths import HeadRow

FEW = SearchBudget(1, 1, sequences=16, confirming=64, deciding=64)
PROOF = hs.CertificateConfig(sequences=64, deciding=64, few=16, draws=40, halves=4)


PROBLEM = hs.RetrievalProblem(hops=2)


@pytest.mark.parametrize("mlp", [True, False])
def test_interventions_on_a_module_equal_those_on_the_transformer(mlp: bool) -> None:
    """Losses, role maps and ablations of the plain module are those of ours with the same weights."""
    ours = random_model(PROBLEM, layers=3, heads=2, mlp=mlp)
    model = hs.Model.from_torch(PlainGPT2(ours), PROBLEM, parts)
    same = VectorEvaluator(ours, PROBLEM, model.evaluator.batch)
    assert (model.transformer.shape.layers, model.transformer.shape.heads) == (3, 2)
    assert model.loss == pytest.approx(same.mse([{}])[0], rel=1e-5)
    torch.testing.assert_close(model.attention(), same.role_maps().same[0], rtol=1e-4, atol=1e-5)
    for row in (HeadRow(0, 1, 2), HeadRow(1, 0, 4), HeadRow(2, 1, 4)):
        candidates = [{row: form} for form in ABLATIONS.values()]
        assert model.evaluator.mse(candidates) == pytest.approx(same.mse(candidates), rel=1e-4)


@pytest.mark.slow
def test_circuit_of_a_module_is_found_and_certified() -> None:
    witness = disguised_witness(2)
    model = hs.Model.from_torch(PlainGPT2(witness.transformer), witness.problem, parts, untrain)
    circuit = model.find_circuit(effort=FEW, proof=PROOF)
    assert sorted(path.path for path in circuit.paths) == sorted(witness.circuit)
    assert circuit.certified
    assert circuit.imposed is not None
    assert circuit.imposed.passed


def test_wrong_parts_of_a_module_are_refused() -> None:
    gpt = PlainGPT2(random_model(PROBLEM, layers=2, heads=2))

    def asked(change: Callable[[hs.Parts], hs.Parts]) -> None:
        hs.Model.from_torch(gpt, PROBLEM, lambda it: change(parts(it)))

    def but(**changed: Any) -> Callable[[hs.Parts], hs.Parts]:
        return lambda found: replace(found, **{name: change(found) for name, change in changed.items()})

    with pytest.raises(InputError, match="do not give the module's answers"):
        asked(but(blocks=lambda it: [it.blocks[0]], patterns=lambda it: [it.patterns[0]]))
    with pytest.raises(InputError, match="do not give the module's answers"):
        asked(but(read=lambda it: gpt.read))
    with pytest.raises(InputError, match="a pattern for each block, got 1 for 2 blocks"):
        asked(but(patterns=lambda it: [it.patterns[0]]))
    with pytest.raises(InputError, match="the pattern of block 1 did not pass"):
        asked(but(patterns=lambda it: [nn.Identity(), nn.Identity()]))
    with pytest.raises(InputError, match=r"embed must give the stream, .*, got a NoneType"):
        asked(but(embed=lambda it: lambda inputs: None))
    with pytest.raises(InputError, match=r"block 2 must give the stream, .*, got a tuple"):
        asked(but(blocks=lambda it: [it.blocks[0], lambda x: (it.blocks[1](x),)]))
    with pytest.raises(InputError, match=r"the pattern of block 1 must be a tensor .*, got one of shape \(2, 20, "):
        asked(but(patterns=lambda it: [block.attention.out for block in gpt.blocks]))
    asked(but(patterns=lambda it: (block.attention.pattern for block in gpt.blocks)))
    for block in gpt.blocks:
        block.attention.causal = False
    with pytest.raises(InputError, match="positions attend to later positions"):
        hs.Model.from_torch(gpt, PROBLEM, parts)
    both_ways = hs.RetrievalProblem(hops=2, causal=False)
    assert not hs.Model.from_torch(gpt, both_ways, parts).transformer.shape.causal


def test_module_may_be_trained_further() -> None:
    """Dropout drops nothing while it is looked at, modes are as they were, and no answer is of weights that it had."""
    gpt = PlainGPT2(random_model(PROBLEM, layers=2, heads=2))
    gpt.embed = nn.Sequential(gpt.embed, nn.Dropout(0.5))
    model = hs.Model.from_torch(gpt, PROBLEM, parts)
    assert gpt.training
    before = model.loss
    gpt.blocks[0].eval()
    assert model.loss == before
    assert (gpt.training, gpt.blocks[0].training) == (True, False)
    for weight in gpt.parameters():
        weight.mul_(0.5)
    assert model.loss == hs.Model.from_torch(gpt, PROBLEM, parts).loss != before


def test_pattern_without_effect_is_refused() -> None:
    """Whatever is done to it changes no answer, so every ablation would look harmless."""
    gpt = PlainGPT2(random_model(PROBLEM, layers=2, heads=2))

    class Shown(nn.Module):
        def __init__(self, block: Any) -> None:
            super().__init__()
            self.block, self.seen = block, nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            kept: list[Tensor] = []
            handle = self.block.attention.pattern.register_forward_hook(lambda m, i, out: kept.append(out))
            out = self.block(x)
            handle.remove()
            self.seen(kept[0])
            return out

    shown = [Shown(block) for block in gpt.blocks]
    with pytest.raises(InputError, match="changes no answer"):
        hs.Model.from_torch(
            gpt,
            PROBLEM,
            lambda it: hs.Parts(it.embed, shown, lambda x: it.read(it.norm(x)), [block.seen for block in shown]),
        )


def test_positions_that_mix_outside_attention_are_refused() -> None:
    """A short convolution between the blocks: what it carries no pattern shows."""

    class Shifted(nn.Module):
        def __init__(self, block: Any) -> None:
            super().__init__()
            self.block, self.attention = block, block.attention

        def forward(self, x: Tensor) -> Tensor:
            before = nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]
            return self.block(x) + 0.1 * before

    gpt = PlainGPT2(random_model(PROBLEM, layers=2, heads=2))
    gpt.blocks[0] = Shifted(gpt.blocks[0])
    with pytest.raises(InputError, match="positions affect each other outside the patterns"):
        hs.Model.from_torch(gpt, PROBLEM, parts)
