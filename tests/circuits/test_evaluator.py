"""Interventions in a model: its answers follow them, and many along a batch come to each alone; maps; rows moved."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from planted_models import by_place, evidence_of, witness
from small_models import PROBLEM, PositionBased, random_model, some_batch

from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    IDENTITY,
    KEEP,
    POSITIONAL,
    RESAMPLE,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    one_hot,
)
from hopscope.circuits.evaluate.apply import InterventionHooks, PatternCache, by_layer
from hopscope.circuits.evaluate.patching import highest_rise
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.errors import InputError
from hopscope.model.fast import FastTransformer, single
from hopscope.model.hooks import Patched
from hopscope.model.role_maps import coordinates, role_maps, visible_roles
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, sample
from hopscope.theory.scene import place_in_sequence
from hopscope.training.data import held_out

BATCH = some_batch(PROBLEM, 4)


def test_the_answer_follows_a_one_hot() -> None:
    """One layer that copies what it attends to: pointing it at a role makes it answer with that role's symbol."""
    problem = RetrievalProblem(hops=1, chains=3, symbol_dim=3)
    model = random_model(problem, layers=1, heads=1, mlp=False)
    bare = Transformer(replace(model.shape, layer_norm=False, head_dim=12))
    with torch.no_grad():
        bare.embed.weight[0, :6, :6] = torch.eye(6)
        block = bare.blocks[0]
        block.attention.value.weight[0, :3, :3] = torch.eye(3)
        block.attention.out.weight[0, :3, 6:9] = torch.eye(3)
        bare.read.weight[0, 6:9] = torch.eye(3)
    batch = some_batch(problem, 6)
    evaluator = VectorEvaluator(bare, problem, batch)
    right, wrong, off = evaluator.mse(
        [{HeadRow(0, 0, 2): one_hot(1)}, {HeadRow(0, 0, 2): one_hot(0)}, {HeadRow(0, 0, 2): UNIFORM}]
    )
    assert right < 1e-10 < 0.1 < min(wrong, off)


def test_replaying_the_clean_pattern_changes_nothing_and_a_random_one_does() -> None:
    model = random_model(PROBLEM)
    inputs = BATCH.inputs[None]
    clean, patterns = model(inputs), model.patterns(inputs)
    evaluator = VectorEvaluator(model, PROBLEM, BATCH)
    rows = {HeadRow(layer, head, query): KEEP for layer in range(2) for head in range(3) for query in range(5)}
    assert torch.equal(model(inputs, evaluator.edit(rows)), clean)
    model.run(model.embed(inputs), hooks=(replayed := Patched(evaluator.edit(rows))))
    assert all(torch.equal(replayed.patterns[layer], pattern) for layer, pattern in enumerate(patterns))
    resampled = model(inputs, evaluator.edit(dict.fromkeys(rows, RESAMPLE)))
    assert (resampled - clean).abs().max() > 0.01


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mlp", [True, False])
def test_the_evaluator_agrees_with_the_model(causal: bool, mlp: bool) -> None:
    """Candidates along the batch, layers computed once, the last block in part: the same losses as one by one."""
    problem = RetrievalProblem(hops=2, chains=3, symbol_dim=3, causal=causal)
    model = random_model(problem, layers=3, mlp=mlp)
    batch = some_batch(problem, 4)
    evaluator = VectorEvaluator(model, problem, batch)
    candidates: list[dict[HeadRow, Ablation]] = [
        {},
        {HeadRow(0, 1, 1): one_hot(0)},
        {HeadRow(1, 2, 4): UNIFORM, HeadRow(2, 0, 4): RESAMPLE},
        {HeadRow(2, 1, 4): one_hot(3)},
        {HeadRow(1, 0, 3): Ablation(AblationKind.ALIKE), HeadRow(1, 0, 4): Ablation(AblationKind.ALIKE, (3,))},
        {HeadRow(0, 0, 2): IDENTITY, HeadRow(1, 0, 3): POSITIONAL},
    ]
    where = coordinates(batch, causal)
    expected = []
    for interventions in candidates:
        edit = InterventionHooks([by_layer(interventions, 3)], PatternCache(where))
        answers = model(batch.inputs[None], edit)[0]
        errors = (answers - batch.targets).square().view(4, 3, 2, 3)
        expected.append(errors.mean(dim=(1, 3)))
    torch.testing.assert_close(evaluator.errors(candidates), torch.stack(expected), rtol=1e-4, atol=1e-5)
    evaluator.depart_from(candidates[-1])
    torch.testing.assert_close(evaluator.errors(candidates), torch.stack(expected), rtol=1e-4, atol=1e-5)
    further = {**candidates[-1], HeadRow(2, 2, 4): UNIFORM}
    evaluator.depart_from(candidates[1])
    first = evaluator.errors([further])
    evaluator.depart_from(candidates[-1])
    torch.testing.assert_close(evaluator.errors([further]), first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("interventions", "says"),
    [
        ({HeadRow(2, 0, 0): UNIFORM}, "layer must be from 0 to 1, got 2"),
        ({HeadRow(0, 3, 0): UNIFORM}, "head must be from 0 to 2, got 3"),
        ({HeadRow(0, 0, 5): UNIFORM}, "query role must be from 0 to 4, got 5"),
        ({HeadRow(0, 0, 1): one_hot(7)}, "needs roles from 0 to 4"),
        ({HeadRow(0, 0, 2): one_hot(1)}, "the mask hides it"),
        ({HeadRow(0, 0, 2): Ablation(AblationKind.MEAN, (), (1.0,) * 4)}, "mean needs 10 weights"),
    ],
)
def test_interventions_that_do_not_fit_are_refused(interventions: dict[HeadRow, Ablation], says: str) -> None:
    with pytest.raises(InputError, match=says):
        VectorEvaluator(random_model(PROBLEM), PROBLEM, BATCH).errors([interventions])


def test_one_model_of_many() -> None:
    many = Transformer(random_model(PROBLEM).shape, 2)
    many.load_state_dict(
        {
            name: torch.cat([one, random_model(PROBLEM, seed=1).state_dict()[name]])
            for name, one in random_model(PROBLEM).state_dict().items()
        }
    )
    both = many(BATCH.inputs.expand(2, *BATCH.inputs.shape))
    torch.testing.assert_close(single(many, 1)(BATCH.inputs[None])[0], both[1])
    with pytest.raises(InputError, match="model must be at most 1, got 2"):
        single(many, 2)
    with pytest.raises(InputError, match="holds one model"):
        VectorEvaluator(many, PROBLEM, BATCH)


HEADS, LAYERS = 4, 3
SILENT = {(0, 0), (0, 3), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)}
"""Some of the first layer's, one of the second's, all of the last one's."""

FORMS: list[Ablation] = [KEEP, UNIFORM, ZERO, IDENTITY, RESAMPLE, POSITIONAL, ALIKE, one_hot(2)]


def _model() -> FastTransformer:
    """Random weights, output weights of the silent heads zero; every head is computed."""
    plain = random_model(PROBLEM, layers=LAYERS, heads=HEADS)
    model = FastTransformer(plain.shape)
    model.load_state_dict(plain.state_dict())
    model.requires_grad_(False)
    for layer, head in SILENT:
        width = model.shape.d_head
        model.blocks[layer].attention.out.weight[:, head * width : (head + 1) * width].zero_()
    return model


def _evaluators() -> tuple[VectorEvaluator, VectorEvaluator]:
    """All heads computed; the same model, with those skipped that write nothing."""
    whole, batch = _model(), held_out(PROBLEM, 12, 0, "skipped")
    return VectorEvaluator(whole, PROBLEM, batch), VectorEvaluator(single(whole, 0), PROBLEM, batch)


def _some_candidates(count: int, forms: list[Ablation] = FORMS) -> list[Interventions]:
    """Interventions that name an ablation for every row, among others those of silent heads."""
    drawn, rows = torch.Generator().manual_seed(0), [*product(range(LAYERS), range(HEADS), range(5))]
    numbers = torch.randint(len(forms), (count, len(rows)), generator=drawn).tolist()
    return [{HeadRow(*row): forms[one] for row, one in zip(rows, number, strict=True)} for number in numbers]


@pytest.mark.parametrize("forms", [FORMS, [UNIFORM, ZERO, IDENTITY, one_hot(2)], [KEEP, POSITIONAL]])
def test_losses_under_interventions_are_the_same(forms: list[Ablation]) -> None:
    every, some = _evaluators()
    assert every.skipped == frozenset()
    assert some.skipped == SILENT
    candidates = _some_candidates(6, forms)
    torch.testing.assert_close(some.errors(candidates), every.errors(candidates), rtol=1e-4, atol=1e-5)
    for evaluator in (every, some):
        evaluator.depart_from(candidates[0])
    changed = [candidates[0] | {HeadRow(1, head, 4): UNIFORM} for head in range(HEADS)]
    torch.testing.assert_close(some.errors(changed), every.errors(changed), rtol=1e-4, atol=1e-5)
    assert len({*map(float, some.errors(changed).mean(dim=(1, 2)))}) > 1  # it matters which head a form is of


THREE_HOPS = RetrievalProblem(hops=3, chains=4)
SEQUENCES = some_batch(THREE_HOPS, 16)
WHERE = coordinates(SEQUENCES, causal=True)


def test_rows_sum_to_one_and_uniform_is_uniform() -> None:
    uniform = WHERE.allowed.float() / WHERE.allowed.sum(dim=-1, keepdim=True)
    maps = role_maps([uniform.expand(1, 16, 2, -1, -1)], WHERE)
    torch.testing.assert_close((maps.same + maps.other).sum(dim=-1), torch.ones(1, 1, 2, 7))
    # The last query sees all 28, the first 25: 1/28 to 1/25 on its own x0, three times that on the others'.
    assert 1 / 28 <= float(maps.same[0, 0, 0, 6, 0]) <= 1 / 25
    torch.testing.assert_close(maps.other[0, 0, 0, 6, 0], 3 * maps.same[0, 0, 0, 6, 0])
    torch.testing.assert_close(maps.expected[0, 0, 0, 6, 0], maps.same[0, 0, 0, 6, 0])
    torch.testing.assert_close(maps.expected[0, 0, 0, 6, 7], maps.same[0, 0, 0, 6, 0])


def test_by_hand() -> None:
    """Against loops over chains and roles, on a random pattern."""
    model = random_model(THREE_HOPS)
    patterns = model.patterns(SEQUENCES.inputs[None])
    maps = role_maps(patterns, WHERE)
    for query, key in ((6, 1), (3, 2), (1, 5), (0, 0)):
        same = other = torch.tensor(0.0)
        for b, c in product(range(16), range(4)):
            row = patterns[1][0, b, 2, WHERE.place[b, c, query]]
            same = same + row[WHERE.place[b, c, key]]
            other = other + sum(row[WHERE.place[b, d, key]] for d in range(4) if d != c)
        torch.testing.assert_close(maps.same[0, 1, 2, query, key], same / 64)
        torch.testing.assert_close(maps.other[0, 1, 2, query, key], other / 64)


@pytest.mark.parametrize("order", ["deepest-first", "shallowest-first"])
def test_who_sees_whom(order: str) -> None:
    problem = RetrievalProblem(hops=3, chains=4, order=order)  # type: ignore[arg-type]
    place = some_batch(problem, 8).place
    seen = visible_roles(place, causal=True)
    for query, key in product(range(7), range(7)):
        before = place_in_sequence(problem, 0, key) <= place_in_sequence(problem, 0, query)
        assert bool(seen[query, key]) == before
    assert int(seen.sum()) == 28
    assert visible_roles(place, causal=False).all()


@pytest.mark.parametrize("fact", [1, 3])
@pytest.mark.parametrize("position", ["token", "pair"])
def test_rows_of_one_fact_change_places_and_nothing_else(fact, position) -> None:
    problem = RetrievalProblem(3, 3, position=position)
    here = sample(problem, 16, torch.Generator().manual_seed(0))
    elsewhere = VectorEvaluator(random_model(problem), problem, here).elsewhere(fact)
    there = elsewhere.evaluator.batch
    assert isinstance(there, Batch)
    assert torch.equal(here.targets, there.targets)
    same = (here.place == there.place).all(dim=1).all(dim=0)
    assert same.tolist() == [role // 2 + 1 != fact for role in range(7)]
    assert torch.equal(there.place[:, :3, ~same], here.place[:, :3, ~same].roll(-1, dims=1))
    symbol, stays = problem.symbol_dim, ~elsewhere.block
    assert torch.equal(there.inputs[..., symbol:], here.inputs[..., symbol:])  # a place keeps its code
    assert torch.equal(there.inputs[stays], here.inputs[stays])
    for number in range(16):
        assert torch.equal(there.inputs[number, elsewhere.at[number], :symbol], here.inputs[number, :, :symbol])
        assert torch.equal(there.role[number, elsewhere.at[number]], here.role[number])
        assert torch.equal(there.chain[number, elsewhere.at[number]], here.chain[number])


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("own", [True, False])
def test_content_is_found_wherever_it_is(hops: int, own: bool) -> None:
    evidence = evidence_of(witness(hops))
    rise = highest_rise(evidence.fresh.few, evidence.own if own else {}, range(evidence.fresh.few.shape.layers))
    assert rise is not None
    assert rise < 0.001


@pytest.mark.parametrize("chains", [2, 4])
@pytest.mark.parametrize("kept", [True, False])
def test_a_position_based_model_loses_the_answer(chains: int, kept: bool) -> None:
    """Planted: a head for every position, and a query that knows at which position its pair is."""
    problem = RetrievalProblem(hops=1, chains=chains, symbols="unit")
    evaluator = VectorEvaluator(PositionBased(problem), problem, held_out(problem, 32))
    assert float(evaluator.own.mean()) == 0
    rise = highest_rise(evaluator, dict.fromkeys(evaluator.rows, KEEP) if kept else {}, range(evaluator.shape.layers))
    assert rise is not None
    assert rise > 1


def test_with_one_chain_there_is_no_other_position() -> None:
    evidence = evidence_of(by_place())
    assert highest_rise(evidence.fresh.few, {}, [0]) is None
