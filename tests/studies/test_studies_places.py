"""Positions in place of a layer: what position-based heads can do, and verdicts that false data do not get."""

from __future__ import annotations

import pytest
import torch

from hopscope.paper.recipes import PLAIN
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import sample
from studies import places
from studies.figures.places import places as figure
from studies.places import PlacesResult
from studies.tools.conditions import Condition
from studies.tools.position_based import PositionTest, RowsMoved

pytestmark = pytest.mark.slow

STUDY = places.standard(PLAIN)
SHALLOW, DEEP = "2-chains-2-layers", "2-chains-3-layers"
LAW, PLACE, HOLD = "no model learns a hop", "is position-based", "models are content-based"


def planted(learned: dict[str, tuple[int, ...]], lost: dict[str, tuple[float, ...]] | None = None) -> PlacesResult:
    """Hops that each seed of a condition learned, and the second step's loss where rows are moved."""
    conditions = []
    for condition in STUDY.conditions[:2]:
        shares = learned.get(condition.name, ())
        steps = tuple(tuple(100 * hop if hop <= n else None for hop in (1, 2)) for n in shares)
        conditions.append(Condition.of(condition, condition.seeds[: len(shares)], steps))
    tests, own = list[PositionTest](), (0.0, 0.02)
    for name, losses in (lost or {}).items():
        for number, loss in enumerate(losses):
            first, second = RowsMoved(2, 1, (0.0, 0.9), own, own, 2.0), RowsMoved(1, 2, (0, loss), (0, loss), own, 0.3)
            tests.append(PositionTest(f"{name}/seed-{number}", own, (first, second)))
    return PlacesResult(tuple(conditions), tuple(tests))


def verdict(result: PlacesResult, hypothesis: str) -> str:
    return next(found.verdict for found in places.judge(result) if hypothesis in found.hypothesis)


def test_the_law() -> None:
    assert verdict(planted({}), LAW) == "not run"
    assert verdict(planted({SHALLOW: (1,) * 6, DEEP: (2,)}), LAW) == "confirmed"
    assert verdict(planted({SHALLOW: (1,) * 6, DEEP: (1,)}), LAW) == "inconclusive"  # no control
    assert verdict(planted({SHALLOW: (0,) * 6, DEEP: (2,)}), LAW) == "inconclusive"  # learned nothing at all
    assert verdict(planted({SHALLOW: (1, 2), DEEP: (2,)}), LAW) == "refuted"


def test_position_based_models() -> None:
    assert verdict(planted({}), PLACE) == verdict(planted({}), HOLD) == "not run"
    assert verdict(planted({}, {SHALLOW: (1.5,) * 6}), PLACE) == "confirmed"
    assert verdict(planted({}, {SHALLOW: (1.5,) * 5}), PLACE) == "inconclusive"
    assert verdict(planted({}, {SHALLOW: (0.06,) * 6}), PLACE) == "refuted"
    assert verdict(planted({}, {DEEP: (0.06,) * 6}), HOLD) == "confirmed"
    assert verdict(planted({}, {DEEP: (1.5,) * 6}), HOLD) == "refuted"
    assert verdict(planted({}, {DEEP: (1.5,) * 6}), PLACE) == "not run"  # those have layers enough
    neither = PositionTest(f"{SHALLOW}/a", (0.0, 0.9), (RowsMoved(1, 1, (0.0, 1.5), (0.0, 1.5), (0.0, 0.9), 0.3),))
    assert verdict(PlacesResult(planted({}).conditions, (neither,)), PLACE) == "not run"


def test_the_table_and_the_figure_take_what_there_is() -> None:
    result = planted({SHALLOW: (2, 1)}, {SHALLOW: (1.5,)})
    assert f"| {SHALLOW}/seed-0 | 0.020 | 1.50 | 1 | 2 | 0.30 |" in places.table(result)
    assert [axes.get_title(loc="left")[:5] for axes in figure(result).axes] == ["n = 2", "posit", "2 lay"]
    assert [text.get_text() for text in figure(result).axes[1].texts] == ["0.05"]


Steps = dict[tuple[int, int], tuple[int | None, ...]]


def by_heads(steps: Steps) -> PlacesResult:
    """When the seeds of two layers learned x2, by chains and heads; all have x1 by step 10."""
    conditions = [
        Condition.of(condition, condition.seeds[: len(learned)], tuple((10, step) for step in learned))
        for condition in STUDY.conditions
        if condition.recipe.layers == 2
        for learned in [steps.get((condition.problem.chains, condition.recipe.heads), ())]
    ]
    return PlacesResult(tuple(conditions), ())


MORE, FEWER = "2 chains: with two layers, models with more heads learn x2, and sooner", "at least as many heads"


def test_more_heads() -> None:
    assert verdict(by_heads({(2, 16): (100, 200)}), MORE) == "not run"
    sooner: Steps = {(2, 2): (None,) * 4, (2, 8): (900, 800, 700, 600), (2, 32): (90, 50)}
    assert verdict(by_heads(sooner), MORE) == "confirmed"
    later = {(2, 2): (90, 50, 60, 70), (2, 8): (900, 800, 700, 600), (2, 32): (None, None)}
    assert verdict(by_heads(later), MORE) == "refuted"
    alone = {(2, 2): (600, 900, None, 700), (2, 8): (900, 600, 700, None), (2, 32): (10, 20, 30, 40)}
    assert verdict(by_heads(alone), MORE) == "inconclusive"  # what only the most heads do
    assert verdict(by_heads({(2, 2): (None,), (2, 8): (900,), (2, 32): (950,)}), MORE) == "inconclusive"
    assert verdict(by_heads({**sooner, (3, 2): (50,) * 6, (3, 32): (None,) * 6}), MORE) == "confirmed"  # of its own N


def test_as_many_heads_as_chains() -> None:
    below = ((2, 1), (3, 1), (3, 2), (4, 1), (4, 2))
    none: Steps = dict.fromkeys(below, (None,) * 6)
    assert verdict(by_heads({}), FEWER) == "not run"
    assert verdict(by_heads(none), FEWER) == "inconclusive"  # no control
    can: Steps = dict.fromkeys(((2, 2), (3, 4), (4, 4)), (800,))
    assert verdict(by_heads({**none, **can}), FEWER) == "confirmed"
    assert verdict(by_heads({**none, (2, 2): (800,)}), FEWER) == "inconclusive"  # no control of three and four chains
    assert verdict(by_heads({**none, **can, (4, 4): (None,) * 6}), FEWER) == "confirmed"  # 18 models have one
    assert verdict(by_heads({(2, 1): (None,) * 6, (2, 2): (800,)}), FEWER) == "inconclusive"  # too few
    assert verdict(by_heads({**none, (2, 2): (800,), (3, 2): (None,) * 5 + (700,)}), FEWER) == "refuted"


def test_two_position_based_layers_answer_two_hops() -> None:
    """By hand. Layer 1: `>x1` reads every `>x2` by position, and at which position its own x1 is a first member; the
    query finds the position of its pair. Layer 2: the query attends there with one head for each position, which writes
    what `>x1` read at its own, or attends to itself where that is not the position."""
    problem = RetrievalProblem(hops=2, chains=4, symbols="unit")
    batch = sample(problem, 64, torch.Generator().manual_seed(0))
    symbols = batch.inputs[..., : problem.symbol_dim]
    (first2, second2), (first1, second1) = (
        (symbols[:, at : at + 8 : 2], symbols[:, at + 1 : at + 8 : 2]) for at in (0, 8)
    )
    query = symbols[:, 16:]

    def attention(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return (3e6 * queries @ keys.mT / problem.symbol_dim).softmax(dim=-1)

    place1, place2 = attention(query, first1), attention(second1, first2)  # layer 1
    answers = torch.zeros_like(query)
    for place in range(4):  # layer 2
        scores = torch.cat(
            [1e6 * (place1 + place2[:, None, :, place]), torch.full_like(place1[..., :1], 1.5e6)], dim=-1
        )
        weights = scores.softmax(dim=-1)[..., :4]
        answers = answers + weights.sum(dim=-1, keepdim=True) * second2[:, None, place]
    x2 = batch.targets[..., problem.symbol_dim :]
    assert (answers - x2).square().mean() < 0.01
