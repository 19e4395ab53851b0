"""Heads in place of a layer: what one layer can do, and verdicts that false data do not get."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import sample
from hopscope.training.recipe import Recipe
from studies import heads
from studies.figures.heads import heads as figure
from studies.heads import HeadsResult, HeadsStudy, OneModel
from studies.tools.work import Work

pytestmark = pytest.mark.slow


def models(losses: dict[int, float], layers: int = 1, chains: int = 4, seeds: int = 8) -> list[OneModel]:
    """Of each number of heads, about that loss."""
    every = [(count, loss, seed) for count, loss in losses.items() for seed in range(seeds)]
    return [OneModel(chains, layers, count, seed, loss * (1 + 0.01 * seed)) for count, loss, seed in every]


FALLING = {1: 0.9, 2: 0.8, 4: 0.7, 8: 0.5, 16: 0.3}
DEEP = models({1: 0.001, 16: 0.001}, layers=2)


def verdicts(*found: OneModel) -> list[str]:
    return [judgement.verdict for judgement in heads.judge(HeadsResult(found))]


def test_falling_losses_are_confirmed():
    assert verdicts(*models(FALLING), *DEEP) == ["confirmed"] * 3


def test_no_better_than_averaging_and_no_better_with_more_heads():
    level = models(dict.fromkeys(FALLING, 0.9))
    assert verdicts(*level, *DEEP)[:2] == ["refuted", "inconclusive"]
    assert verdicts(*models({count: 1 - loss for count, loss in FALLING.items()}), *DEEP)[1] == "refuted"
    around = [replace(model, loss=0.5 + 0.1 * model.seed) for model in level]
    assert verdicts(*around, *DEEP)[0] == "inconclusive"


def test_one_model_below_the_threshold_refutes_it():
    found = models(FALLING)
    assert verdicts(*found[:-1], replace(found[-1], loss=0.049), *DEEP)[2] == "refuted"


def test_without_a_control_or_with_few_models_it_cannot_be_said():
    assert verdicts(*models(FALLING))[2] == "inconclusive"
    assert verdicts(*models(FALLING), *models({1: 0.2}, layers=2))[2] == "inconclusive"
    assert verdicts(*models(FALLING, seeds=5), *DEEP)[2] == "inconclusive"  # none of 25: up to 14%
    assert verdicts() == ["not run"]


def test_the_control_must_work_at_every_number_of_chains():
    shallow = [*models(FALLING), *models(FALLING, chains=8)]
    stuck = [*DEEP, *DEEP, *models({1: 0.2, 16: 0.2}, layers=2, chains=8)]
    assert verdicts(*shallow, *DEEP, *models({1: 0.001, 16: 0.001}, layers=2, chains=8))[-1] == "confirmed"
    assert verdicts(*shallow, *stuck)[-1] == "inconclusive"
    assert verdicts(*shallow, *DEEP)[-1] == "inconclusive"


def lose(found: list[OneModel], *places: int) -> list[OneModel]:
    """The same, of which some diverged."""
    return [replace(model, loss=None) if number in places else model for number, model in enumerate(found)]


def test_a_model_that_diverged_is_not_left_out():
    """It has the highest loss, and is not counted as a layer that does not suffice."""
    found = models(FALLING)
    assert verdicts(*lose(found, len(found) - 1), *DEEP) == ["inconclusive", "confirmed", "confirmed"]
    (first, *_) = heads.judge(HeadsResult((*lose(found, 38, 39), *DEEP)))
    assert (first.n, first.reason) == (6, "2 of 8 diverged")
    assert first.observed.startswith("0.307 (")
    assert heads.judge(HeadsResult((*lose(found, *range(32, 40)), *DEEP)))[0].reason == "8 of 8 diverged"
    assert verdicts(*lose(found, *range(40)), *DEEP) == ["inconclusive"] * 3
    most = [number for number, model in enumerate(found) if model.heads > 2]
    assert verdicts(*lose(found, *most), *DEEP)[1] == "refuted"


def test_a_verdict_on_all_heads_needs_models_with_the_most_heads():
    """Planted: models with the most heads have diverged at one number of chains, or are not finished."""
    few = [model for chains in (2, 4) for model in models(FALLING, chains=chains, seeds=16)]
    deep = [*DEEP, *models({1: 0.001, 16: 0.001}, layers=2, chains=2)]
    lost = [replace(model, loss=None) if (model.chains, model.heads) == (2, 16) else model for model in few]
    left = [model for model in lost if model.loss is not None]
    for shallow, verdict in ((few, "confirmed"), (lost, "inconclusive"), (left, "inconclusive")):
        assert verdicts(*shallow, *deep)[-1] == verdict
    assert heads.judge(HeadsResult((*lost, *deep)))[-1].reason == "not every number of chains has a model with 16 heads"


def test_averaging_costs_what_it_costs_on_the_sequences_that_are_held_out():
    """Planted: five models that average, on 4,096 sequences of which the candidates' mean is nearer than of all."""
    shared = 0.005 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    drawn = 0.875 + shared + 0.001 * torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    found = [verdicts(*(OneModel(8, 1, 16, seed, loss) for seed, loss in enumerate(row)))[0] for row in drawn.tolist()]
    assert found.count("inconclusive") > 195


def test_the_positive_control_is_not_of_the_survivors_alone():
    """Planted: all of two layers that did not diverge are below the threshold, six of thirty."""
    shallow = [model for chains in (2, 4, 8) for model in models(FALLING, chains=chains, seeds=5)]
    deep = [model for chains in (2, 4, 8) for model in models({1: 0.01, 16: 0.01}, layers=2, chains=chains, seeds=5)]
    assert verdicts(*shallow, *deep)[-1] == "confirmed"
    lost = lose(deep, *(number for number, model in enumerate(deep) if model.heads == 1 or model.seed > 1))
    last = heads.judge(HeadsResult((*shallow, *lost)))[-1]
    assert (last.verdict, last.reason) == ("inconclusive", "no positive control")
    assert "with two layers 6 of 30" in last.observed


def test_what_diverged_is_reported_and_not_drawn():
    found = HeadsResult((*lose(models(FALLING, seeds=3), 0, 3, 4, 5), *DEEP))
    table = heads.table(found)
    assert "| 4 | 0.75 | 1 | 1 | 3 | 0.913 (0.909 to 0.918), 1 diverged |" in table
    assert "| 4 | 0.75 | 1 | 2 | 3 | -, 3 diverged |" in table
    lines = figure(found).axes[0].lines
    assert [len(lines[number].get_xdata()) for number in (0, 1, 2)] == [15 - 4, 16, 4]


@pytest.mark.slow
def test_a_run_that_diverged_is_kept(tmp_path):
    recipe = Recipe(layers=1, heads=1, d_model=8, mlp=False, steps=4, batch_size=4, validation_size=4, clip=None)
    study = HeadsStudy(replace(recipe, learning_rate=1e30), (2,), (1, 2), (0,))
    found = heads.run(study, tmp_path, Work(workers=1))
    assert [(model.layers, model.loss) for model in found.models] == [(1, None), (1, None), (2, None), (2, None)]


def test_every_number_of_chains_is_judged_and_drawn():
    found = [*models(FALLING), *models(FALLING, chains=8), *DEEP]
    assert len(verdicts(*found)) == 5
    axes = figure(HeadsResult(tuple(found))).axes[0]
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()][:2] == ["N = 4", "N = 8"]
    assert [text.get_text() for text in axes.texts] == ["threshold, 0.05"]
    assert figure(HeadsResult(tuple(found[1:]))).axes[0].get_title(loc="left") == "n = 7 to 8 models each"
    with pytest.raises(InputError, match="nothing to draw"):
        figure(HeadsResult(()))


def test_one_layer_answers_by_where_heads_do_not_attend():
    """By hand, no theory: N heads in one layer. Head j has a score for the j-th pair's second member, and a higher one
    for the first member of any other pair, if that is the query's symbol: it writes the answer or the question."""
    problem = RetrievalProblem(hops=1, chains=4, symbols="unit")
    batch = sample(problem, 64, torch.Generator().manual_seed(0))
    symbols = batch.inputs[..., : problem.symbol_dim]
    first, second, query = symbols[:, 0:8:2], symbols[:, 1:8:2], symbols[:, 8:]
    match = query @ first.mT / problem.symbol_dim  # 1 for the same symbol, less for others
    answers = -3 * query
    for head in range(4):
        scores = torch.cat([match, torch.full_like(match, -torch.inf)], dim=-1)
        scores[..., head] = -torch.inf
        scores[..., 4 + head] = 1 - 1e-4
        answers = answers + (3e6 * scores).softmax(dim=-1) @ torch.cat([first, second], dim=1)
    errors = (answers - batch.targets).square().mean()
    assert errors < 0.01
