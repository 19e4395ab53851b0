"""Circuits of models of text, as a study: the rules can say no, and the verb runs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from studies.text_found import Answered, Grown, TextResult

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.compare import kinds_looked_up
from studies.__main__ import command
from studies.text import judge, table
from studies.tools.circuits import RULES

DOUBLING = ((1, 1, ">x2", "x1>"), (2, 2, ">x1", ">x2"), (3, 1, "answer", ">x1"))
RECORDS = Path(__file__).parents[2] / "results" / "studies" / "text" / "circuits"


def answered(seed: int, hops: int = 2, **changes: Any) -> Answered:
    """A model in which all is as it should be."""
    good = Answered(
        "arm", seed, hops, 1.0, 0.99, 0.04, {"full": 0.0, "imposed": 0.01, "natural": 0.01, "nothing": 1.0}, True, (),
        "doubling", 3, 3, True, {"value": 2}, DOUBLING, RULES,
    )  # fmt: skip
    return replace(good, **changes)


def grown(seed: int, first: list[float], second: list[float]) -> Grown:
    steps = tuple(range(100, 100 * len(first) + 1, 100))
    return Grown("arm", seed, steps, {"1": tuple(first), "2": tuple(second)}, {})


def verdicts(*found: Answered) -> list[str]:
    return [one.verdict for one in judge(TextResult(found)) if "in order" not in one.asked]


def test_six_good_models_are_as_asked_and_five_are_not() -> None:
    assert verdicts(*map(answered, range(6))) == ["as asked"] * 5
    few = judge(TextResult(tuple(map(answered, range(5)))))[:5]
    assert {(one.verdict, one.reason) for one in few} == {("inconclusive", "too few models to tell")}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"certified": False, "failed": ("necessity",)}, 1),
        ({"certified": False, "paths": (), "strategy": "none", "looked_up": {}}, 1),
        ({"delivers": False}, 2),
        ({"layers_used": 2}, 2),
        ({"looked_up": {"value": 1, "end": 1}}, 4),
        ({"looked_up": {"end": 2}}, 4),
    ],
)
def test_one_model_that_is_otherwise_is_against_it(changes: dict[str, Any], place: int) -> None:
    found = verdicts(*map(answered, range(6)), answered(6, **changes))
    assert found[place] == "not as asked"
    assert [one for number, one in enumerate(found) if number != place] == ["as asked"] * 4 or "paths" in changes


def test_models_that_answer_without_a_circuit_are_not_said_not_to_answer() -> None:
    bare = {"certified": False, "paths": (), "strategy": "none", "looked_up": {}}
    _, certified, *rest = judge(TextResult(tuple(answered(seed, **bare) for seed in range(3))))[:5]
    assert certified.verdict == "not as asked"
    assert {(one.verdict, one.reason) for one in rest} == {("not run", "no model that answers has a circuit")}
    _, certified, *rest = judge(TextResult(tuple(answered(seed, lowest=0.5, **bare) for seed in range(3))))[:5]
    assert {one.reason for one in (certified, *rest)} == {"no model answers"}


def test_strategies_that_differ_are_inconclusive_and_none_that_doubles_is_against_it() -> None:
    serial = {"strategy": "serial"}
    assert verdicts(answered(0), answered(1, **serial), answered(2))[3] == "inconclusive"
    assert verdicts(*(answered(seed, **serial) for seed in range(3)))[3] == "not as asked"


def test_until_all_seeds_of_an_arm_are_finished_nothing_is_as_asked() -> None:
    """`pruned` has six, 3 to 8. One more might answer otherwise, but not undo what speaks against a claim."""
    six = [answered(seed, arm="pruned") for seed in range(3, 9)]
    assert verdicts(*six) == ["as asked"] * 5
    assert verdicts(*six[:3]) == ["inconclusive"] * 5
    assert verdicts(*six[:5]) == ["inconclusive"] * 5
    assert judge(TextResult(tuple(six[:5])))[0].reason == "seeds are missing"
    against = replace(six[0], certified=False, looked_up={"value": 1, "end": 1}, layers_used=2, lowest=0.96)
    assert verdicts(against, *six[1:3])[1:] == ["not as asked", "not as asked", "inconclusive", "not as asked"]
    serial = [replace(one, strategy="serial") for one in six]
    assert verdicts(*serial[:5])[3] == "inconclusive"  # the sixth may be another
    assert verdicts(*serial)[3] == "not as asked"
    good = grown(3, [0.3, 0.9, 0.9], [0.2, 0.3, 0.7])
    histories = tuple(replace(good, arm="pruned", seed=seed) for seed in range(3, 9))
    assert judge(TextResult(tuple(six), histories))[-1].verdict == "as asked"
    assert judge(TextResult(tuple(six), histories[:5]))[-1].verdict == "inconclusive"


def test_models_that_do_not_answer_do_not_count() -> None:
    failing = {"accuracy": 0.9, "lowest": 0.87}
    assert verdicts(*(answered(seed, **failing) for seed in range(3))) == ["not as asked", *["not run"] * 4]
    assert verdicts(answered(0), answered(1), answered(2, **failing)) == ["not as asked", *["inconclusive"] * 4]


def test_an_interval_across_the_limit_does_not_decide_whether_a_model_answers() -> None:
    assert verdicts(answered(0), answered(1), answered(2, accuracy=0.97, lowest=0.949))[0] == "inconclusive"
    assert verdicts(answered(0), answered(1), answered(2, accuracy=0.94, lowest=0.92))[0] == "inconclusive"
    assert verdicts(answered(0), answered(1), answered(2, accuracy=0.92, lowest=0.9))[0] == "not as asked"


def test_circuits_that_look_nothing_up_do_not_say_on_which_kind_they_do() -> None:
    nothing: dict[str, Any] = {"looked_up": {}}
    assert verdicts(answered(0), answered(1, **nothing), answered(2, **nothing))[4] == "inconclusive"


def test_the_table_says_which_parts_fail() -> None:
    assert "no: necessity" in table(TextResult((answered(0, certified=False, failed=("necessity",)),)))


def test_arms_are_judged_by_themselves() -> None:
    others = [answered(seed, arm="other", strategy="serial") for seed in range(3)]
    found = judge(TextResult((*map(answered, range(6)), *others)))
    assert [one.verdict for one in found if "where they stand" in one.asked] == ["as asked", "not as asked"]


def test_hops_are_learned_in_order_from_the_checkpoint_on_which_they_stay_learned() -> None:
    good = grown(0, [0.3, 0.9, 1.0, 1.0], [0.2, 0.3, 0.7, 1.0])
    assert (good.learned(1), good.learned(2), good.in_order) == (200, 300, True)
    lucky = grown(1, [0.3, 0.9, 1.0, 1.0], [0.7, 0.3, 0.7, 1.0])  # once above half-way by chance, and lost
    assert (lucky.learned(2), lucky.in_order) == (300, True)
    against = grown(2, [0.3, 0.3, 0.3, 1.0], [0.2, 0.3, 0.7, 1.0])
    never = grown(3, [0.3, 0.3, 0.9, 1.0], [0.2, 0.3, 0.3, 0.3])
    assert against.in_order is False
    assert never.learned(2) is None
    assert never.in_order
    at_once = grown(4, [0.3, 0.9, 1.0, 1.0], [0.2, 0.9, 1.0, 1.0])
    assert at_once.in_order is None  # checkpoints are too far apart to tell
    found, worse = tuple(map(answered, range(6))), replace(against, seed=1)
    histories = [tuple(replace(good, seed=seed) for seed in range(6)), (good, worse)]
    assert [judge(TextResult(found, many))[-1].verdict for many in histories] == ["as asked", "not as asked"]
    tied = tuple(replace(at_once, seed=seed) for seed in range(6))
    assert judge(TextResult(found, tied))[-1].verdict == "inconclusive"
    assert judge(TextResult(found[:2], tuple(replace(good, seed=seed) for seed in range(3))))[-1].n == 2
    assert judge(TextResult(found))[-1].verdict == "not run"
    silent = (answered(0), answered(1, lowest=0.5), answered(2))
    assert judge(TextResult(silent, (good, worse)))[-1].verdict == "inconclusive"  # who does not answer is left out


def place(role: str) -> tuple[int, str]:
    """Line and kind of a token, read off its name."""
    if role in {"x0?", "answer", "text"}:
        return 0, "question"
    if role.startswith(">"):
        return int(role[2:]), "value"
    number, kind = int(role[1:-1]), {">": "name", "=": "link", ".": "end"}[role[-1]]
    return (number, kind) if kind == "end" else (number + 1, kind)


@pytest.mark.parametrize("record", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_look_ups_are_told_by_the_token_they_land_on(record: Path) -> None:
    circuit = Circuit.load(record)
    named = [one.path.names(circuit.roles) for one in circuit.paths]
    looks = [(place(query), place(key)) for _, _, query, key in named]
    wanted = Counter(key[1] for query, key in looks if 0 < key[0] != query[0])
    assert kinds_looked_up(circuit) == wanted


def test_the_verb_trains_asks_judges_and_goes_on(tmp_path: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(command, ["text", str(tmp_path), "--quick"], catch_exceptions=False)
        assert done.exit_code == 0
        assert "| quick, 1 hop: every model has a certified circuit | not run | no model answers | 0 |" in done.stdout
    stored = json.loads((tmp_path / "text.json").read_text())
    assert [one["seed"] for one in stored["found"]] == [0]
    assert (tmp_path / "circuits" / "quick-seed-0-1-hops.json").exists()
    (history,) = stored["grown"]
    assert (history["steps"], len(history["accuracy"]["1"])) == ([2, 4], 2)
