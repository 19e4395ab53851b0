"""The Appendix E procedure against models with a known circuit, and against slow arithmetic of this file's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from planted_models import LITTLE, attention, columns, witness
from small_models import disguised_witness, without_layer

from hopscope.circuits.evaluate.ablations import IDENTITY, UNIFORM, AblationKind, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.resume import run_search
from hopscope.circuits.search.appendix_e import FILLS, appendix_e, filled
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.lab.model import Model
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow
from hopscope.problem.vectors import Batch
from hopscope.theory.witness import Witness
from hopscope.training.data import held_out

CONFIG = SearchConfig(SearchBudget(orders=1, growing=0, sequences=16, confirming=32, deciding=32))
PROOF = replace(LITTLE, draws=4, halves=8)


def searched(made: Witness) -> tuple[Evaluator, list[Interventions]]:
    """The sequences that the procedure saw, and its ends."""
    batch = held_out(made.problem, CONFIG.budget.confirming, 0, "circuit search")
    evaluator = VectorEvaluator(made.transformer, made.problem, batch)
    return evaluator, run_search(appendix_e(evaluator, Units.of(evaluator), CONFIG))


@torch.no_grad()
def slow(model: Transformer, batch: Batch, state: Interventions) -> float:
    """The loss under imposition, one sequence, head and position after another."""
    errors = []
    for inputs, target, place in zip(batch.inputs, batch.targets, batch.place.tolist(), strict=True):
        stands = {at: (chain, role) for chain, roles in enumerate(place) for role, at in enumerate(roles)}
        x = inputs @ model.embed.weight[0] + model.embed.bias[0]
        for layer in range(model.shape.layers):
            at, written = attention(model, layer), []
            value = x @ at.value.weight[0] + at.value.bias[0]
            for head in range(model.shape.heads):
                pattern = torch.zeros(len(x), len(x))
                for query in range(len(x)):
                    chain, role = stands[query]
                    ablation = state[HeadRow(layer, head, role)]
                    if ablation.kind is AblationKind.ONE_HOT:
                        pattern[query, place[chain][ablation.keys[0]]] = 1.0
                    elif ablation == UNIFORM:
                        pattern[query, : query + 1] = 1 / (query + 1)
                    elif ablation == IDENTITY:
                        pattern[query, query] = 1.0
                written.append(pattern @ value[:, columns(model, head)])
            x = x + torch.cat(written, dim=1) @ at.out.weight[0] + at.out.bias[0]
        answers = (x @ model.read.weight[0] + model.read.bias[0])[-len(target) :]
        errors.append(float((answers - target).square().mean()))
    return sum(errors) / len(errors)


@pytest.mark.parametrize("fill", list(FILLS))
def test_imposed_loss_equals_slow_arithmetic(fill: str) -> None:
    made = witness(2, 1, 3e-4)
    evaluator, (end, *_) = searched(made)
    few, state = evaluator.part(4), filled(end, FILLS[fill])
    assert few.mse([state])[0] == pytest.approx(slow(made.transformer, few.batch, state), rel=1e-3)
    for other in (filled(end, ablation) for name, ablation in FILLS.items() if name != fill):
        assert few.mse([other])[0] != pytest.approx(few.mse([state])[0], rel=0.02)


def test_model_above_the_threshold_has_no_appendix_e_circuit() -> None:
    made = without_layer(disguised_witness(2), 1)
    assert searched(made)[1] == []
    assert Model(made.transformer, made.problem).find_circuit(effort=CONFIG, proof=PROOF).imposed is None
