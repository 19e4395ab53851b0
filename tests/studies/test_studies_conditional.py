"""Questions in which look-ups meet: the rules of the study, on planted results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopscope.paper.recipes import LAPTOP
from studies import conditional
from studies.conditional import ConditionalResult
from studies.tools.arms import ArmLearned
from studies.tools.by_place import ByPlace, RowsMoved
from studies.tools.circuits import NamedPath, Seen

pytestmark = pytest.mark.slow

STUDY = conditional.standard(LAPTOP)
NAMES = [arm.name for arm in STUDY.arms]
DEPTHS = {"functions": (3, 4, 5, 2), "relatives": (4, 5, 6, 3)}
BAR = STUDY.search.budget.max_loss
SIDE_BY_SIDE: tuple[NamedPath, ...] = ((2, 1, "i?", ">0"), (2, 3, "i?", ">a"), (3, 1, "i?", ">3"), (4, 1, "i?", ">0"))
ONE_BY_ONE: tuple[NamedPath, ...] = ((2, 1, "i?", ">0"), (3, 3, "i?", ">a"), (4, 1, "i?", ">3"))


def planted(learn: dict[str, tuple[int, ...]], models: tuple[Seen, ...] = ()) -> ConditionalResult:
    """Arms of the look-ups that each seed learned, from the first on: `(3, 3, 2)` for two of three that learned all."""
    arms = []
    for arm in STUDY.arms:
        shares, count = learn.get(arm.name, ()), arm.problem.hops
        learned = tuple(tuple(100 * hop if hop <= n else None for hop in range(1, count + 1)) for n in shares)
        arms.append(ArmLearned.of(arm, arm.seeds[: len(shares)], learned))
    return ConditionalResult(BAR, tuple(arms), models)


def seen(paths: tuple[NamedPath, ...], delivers: bool = True) -> Seen:
    return Seen(
        model="functions-3-layers/seed-9000", seed=9000, layers=3, step=None, hops=3, loss=0.01, certified=(),
        delivers=delivers, strategy="serial", paths=paths, again=(), strict=(), strict_again=(),
    )  # fmt: skip


def verdict(result: ConditionalResult, asked: str) -> str:
    return next(one.verdict for one in conditional.judge(result) if asked in one.asked)


def test_arms_stand_at_the_minimum_and_beside_it() -> None:
    functions, relatives = ([f"{graph}-{n}-layers" for n in depths] for graph, depths in DEPTHS.items())
    assert functions + relatives == NAMES
    assert {arm.problem.hops for arm in STUDY.arms} == {3, 4}


def test_nothing_beyond_its_depth() -> None:
    asked, shallow, deep = "functions: no run learns", "functions-2-layers", "functions-3-layers"
    assert verdict(planted({}), asked) == "not run"
    six = planted({shallow: (2,) * 6, deep: (3,)})
    assert verdict(six, asked) == "as asked"
    assert "none of 6" in conditional.judge(six)[0].ours
    assert "(at most 46% would)" in conditional.judge(six)[0].ours  # which is all that six can say
    assert verdict(planted({shallow: (2,) * 5, deep: (3,)}), asked) == "inconclusive"  # 52% might
    assert verdict(planted({shallow: (2,) * 5 + (0, 1, 1), deep: (3,)}), asked) == "inconclusive"  # three learned less
    assert verdict(planted({shallow: (0,) * 8, deep: (3,)}), asked) == "inconclusive"
    assert verdict(planted({shallow: (2,) * 6, deep: (2,)}), asked) == "inconclusive"
    assert verdict(planted({shallow: (2, 3), deep: (3,)}), asked) == "not as asked"


def test_learned_at_the_minimum() -> None:
    asked, arm = "relatives: learned with 4 layers", "relatives-4-layers"
    assert verdict(planted({}), asked) == "not run"
    assert verdict(planted({arm: (4, 4, 4)}), asked) == "as asked"
    assert verdict(planted({arm: (4, 3, 2)}), asked) == "inconclusive"
    assert verdict(planted({arm: (4, 3, 2, 3)}), asked) == "not as asked"


def test_circuits_deliver_and_look_up_side_by_side() -> None:
    deliver, beside = "functions: circuits deliver", "functions: look-ups that meet"
    three = (seen(SIDE_BY_SIDE), seen(SIDE_BY_SIDE), seen(ONE_BY_ONE, delivers=False))
    for asked in (deliver, beside):
        assert verdict(planted({}, three), asked) == "inconclusive"  # two of three: 9% to 99%
        assert verdict(planted({}, three[:1] * 5), asked) == "inconclusive"
        assert verdict(planted({}, three[:1] * 6), asked) == "as asked"
        assert verdict(planted({}, three[2:] * 6), asked) == "not as asked"


def test_a_model_without_a_circuit_counts_against_and_one_above_the_bar_does_not_count() -> None:
    deliver, certified = "functions: circuits deliver", "functions: most models have a certified circuit"
    good = replace(seen(SIDE_BY_SIDE), certified=("natural",))
    without = replace(seen((), delivers=False))
    assert verdict(planted({}, (without,) * 6), deliver) == "not as asked"
    assert verdict(planted({}, (good,) * 6 + (replace(without, loss=BAR),) * 4), deliver) == "as asked"
    assert verdict(planted({}, (good,) * 6), certified) == "as asked"
    assert verdict(planted({}, (good,) * 6 + (without,) * 6), certified) == "inconclusive"
    assert verdict(planted({}, (replace(good, certified=("strict",)),) * 6), certified) == "not as asked"
    assert verdict(planted({}, (replace(without, loss=BAR),)), certified) == "not run"


def asked(model: str, lily: float, moved: float) -> ByPlace:
    return ByPlace(
        model,
        (0.0, 0.0, lily, 1.0),
        (
            RowsMoved(2, 1, (0.0, 0.0, lily, 1.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, lily, 1.0), 2.0),
            RowsMoved(2, 2, (0.0, 1.0, 2.0, 1.0), (0.0, 1.0, moved, 1.0), (0.0, 1.0, lily, 1.0), 0.5),
        ),
    )


def test_by_what_rows_are_told_apart() -> None:
    """Models that do not make the look-up do not count; those of too few layers are judged by themselves too."""
    rule, shallow = "relatives: rows are told by what they hold", "with too few layers"

    def verdicts(*places: ByPlace) -> list[str]:
        found = conditional.judge(replace(planted({}), places=places))
        return [one.verdict for one in found if one.asked in (rule, f"{rule}, {shallow}")]

    place, hold = ("relatives-3-layers/a", 0.02, 1.2), ("relatives-4-layers/a", 0.02, 0.05)
    assert verdicts() == ["not run", "not run"]
    assert verdicts(*[asked(*place)] * 6) == ["not as asked", "not as asked"]
    assert verdicts(*[asked(*hold)] * 6) == ["as asked", "not run"]
    assert verdicts(*[asked(*hold)] * 6, *[asked(*place)] * 6) == ["inconclusive", "not as asked"]
    assert verdicts(*[asked("relatives-3-layers/a", 0.4, 1.2)] * 6) == ["not run", "not run"]
    assert verdicts(*[asked("functions-2-layers/a", 0.02, 1.2)] * 6) == ["not run", "not run"]
    told = conditional.table(replace(planted({}), places=(asked(*place),)))
    assert "| relatives-3-layers/a | 3 | 0.020 | 1.20 | 2 | 1.00 | 0.50 |" in told
