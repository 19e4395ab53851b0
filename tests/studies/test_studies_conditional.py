"""Questions in which retrieval steps meet: the rules of the study, on planted results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopscope.paper.recipes import LAPTOP
from studies import conditional
from studies.conditional import ConditionalResult
from studies.tools.circuits import CircuitSummary, NamedPath
from studies.tools.conditions import Condition
from studies.tools.position_based import PositionTest, RowsMoved

pytestmark = pytest.mark.slow

STUDY = conditional.standard(LAPTOP)
NAMES = [condition.name for condition in STUDY.conditions]
DEPTHS = {"functions": (3, 4, 5, 2), "relatives": (4, 5, 6, 3)}
MAX_LOSS = STUDY.search.budget.max_loss
SIDE_BY_SIDE: tuple[NamedPath, ...] = ((2, 1, "i?", ">0"), (2, 3, "i?", ">a"), (3, 1, "i?", ">3"), (4, 1, "i?", ">0"))
ONE_BY_ONE: tuple[NamedPath, ...] = ((2, 1, "i?", ">0"), (3, 3, "i?", ">a"), (4, 1, "i?", ">3"))


def planted(learn: dict[str, tuple[int, ...]], models: tuple[CircuitSummary, ...] = ()) -> ConditionalResult:
    """Conditions of the steps that each seed learned, from the first on: `(3, 3, 2)` for two of three that learned
    all."""
    conditions = []
    for condition in STUDY.conditions:
        shares, count = learn.get(condition.name, ()), condition.problem.hops
        learned = tuple(tuple(100 * hop if hop <= n else None for hop in range(1, count + 1)) for n in shares)
        conditions.append(Condition.of(condition, condition.seeds[: len(shares)], learned))
    return ConditionalResult(MAX_LOSS, tuple(conditions), models)


def summary(paths: tuple[NamedPath, ...], delivers: bool = True) -> CircuitSummary:
    return CircuitSummary(
        model="functions-3-layers/seed-9000", seed=9000, layers=3, step=None, hops=3, loss=0.01, certified=(),
        delivers=delivers, strategy="serial", paths=paths, again=(), imposed=(), imposed_again=(),
    )  # fmt: skip


def verdict(result: ConditionalResult, hypothesis: str) -> str:
    return next(found.verdict for found in conditional.judge(result) if hypothesis in found.hypothesis)


def test_nothing_beyond_its_depth() -> None:
    hypothesis, shallow, deep = "functions: no run learns", "functions-2-layers", "functions-3-layers"
    assert verdict(planted({}), hypothesis) == "not run"
    six = planted({shallow: (2,) * 6, deep: (3,)})
    assert verdict(six, hypothesis) == "confirmed"
    assert "none of 6" in conditional.judge(six)[0].observed
    assert "(at most 46% would)" in conditional.judge(six)[0].observed  # which is all that six can say
    less = (2,) * 5 + (0, 1, 1)  # five that came so far: 52% might go on
    assert verdict(planted({shallow: less, deep: (3,)}), hypothesis) == "inconclusive"
    assert verdict(planted({shallow: (0,) * 8, deep: (3,)}), hypothesis) == "inconclusive"
    assert verdict(planted({shallow: (2,) * 6, deep: (2,)}), hypothesis) == "inconclusive"
    assert verdict(planted({shallow: (2, 3), deep: (3,)}), hypothesis) == "refuted"


def test_learned_at_the_minimum() -> None:
    hypothesis, condition = "relatives: learned with 4 layers", "relatives-4-layers"
    assert verdict(planted({}), hypothesis) == "not run"
    assert verdict(planted({condition: (4, 4, 4)}), hypothesis) == "confirmed"
    assert verdict(planted({condition: (4, 3, 2)}), hypothesis) == "inconclusive"
    assert verdict(planted({condition: (4, 3, 2, 3)}), hypothesis) == "refuted"


def test_circuits_deliver_and_steps_are_side_by_side() -> None:
    deliver, beside = "functions: circuits deliver", "functions: steps that meet"
    three = (summary(SIDE_BY_SIDE), summary(SIDE_BY_SIDE), summary(ONE_BY_ONE, delivers=False))
    for hypothesis in (deliver, beside):
        assert verdict(planted({}, three), hypothesis) == "inconclusive"  # two of three: 9% to 99%
        assert verdict(planted({}, three[:1] * 5), hypothesis) == "inconclusive"
        assert verdict(planted({}, three[:1] * 6), hypothesis) == "confirmed"
        assert verdict(planted({}, three[2:] * 6), hypothesis) == "refuted"


def test_a_model_without_a_circuit_counts_against_and_one_above_the_threshold_does_not() -> None:
    deliver, certified = "functions: circuits deliver", "functions: most models have a certified circuit"
    good = replace(summary(SIDE_BY_SIDE), certified=("own",))
    without = replace(summary((), delivers=False))
    assert verdict(planted({}, (without,) * 6), deliver) == "refuted"
    assert verdict(planted({}, (good,) * 6 + (replace(without, loss=MAX_LOSS),) * 4), deliver) == "confirmed"
    assert verdict(planted({}, (good,) * 6), certified) == "confirmed"
    assert verdict(planted({}, (good,) * 6 + (without,) * 6), certified) == "inconclusive"
    assert verdict(planted({}, (replace(good, certified=("imposed",)),) * 6), certified) == "refuted"
    assert verdict(planted({}, (replace(without, loss=MAX_LOSS),)), certified) == "not run"


def position_test(model: str, lily: float, moved: float) -> PositionTest:
    own = (0.0, 0.0, lily, 1.0)
    first = RowsMoved(2, 1, own, (0.0, 0.0, 1.0, 1.0), own, 2.0)
    second = RowsMoved(2, 2, (0.0, 1.0, 2.0, 1.0), (0.0, 1.0, moved, 1.0), (0.0, 1.0, lily, 1.0), 0.5)
    return PositionTest(model, own, (first, second))


def test_position_based_models() -> None:
    """Models that do not make the step do not count; those of too few layers are judged by themselves too."""
    rule, shallow = "relatives: the step of several keys is content-based", "with too few layers"

    def verdicts(*places: PositionTest) -> list[str]:
        found = conditional.judge(replace(planted({}), places=places))
        return [judgement.verdict for judgement in found if judgement.hypothesis in (rule, f"{rule}, {shallow}")]

    place, hold = ("relatives-3-layers/a", 0.02, 1.2), ("relatives-4-layers/a", 0.02, 0.05)
    assert verdicts() == ["not run", "not run"]
    assert verdicts(*[position_test(*place)] * 6) == ["refuted", "refuted"]
    assert verdicts(*[position_test(*hold)] * 6) == ["confirmed", "not run"]
    assert verdicts(*[position_test(*hold)] * 6, *[position_test(*place)] * 6) == ["inconclusive", "refuted"]
    assert verdicts(*[position_test("relatives-3-layers/a", 0.4, 1.2)] * 6) == ["not run", "not run"]
    assert verdicts(*[position_test("functions-2-layers/a", 0.02, 1.2)] * 6) == ["not run", "not run"]
    table = conditional.table(replace(planted({}), places=(position_test(*place),)))
    assert "| relatives-3-layers/a | 3 | 0.020 | 1.20 | 2 | 1.00 | 0.50 |" in table
