"""Settings refuse what is out of range as they are made, in one sentence that has the field and the value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy
import pytest
from small_runs import ONE_HOP, TINIEST
from unchecked import unchecked

import hopscope as hs

BY_NAME = {
    partial(hs.RetrievalProblem, hops=3): [
        ("hops", 0), ("hops", -3), ("hops", 2.5), ("hops", True), ("chains", 0), ("symbol_dim", 0), ("base", 1),
        ("base", float("nan")), ("position", "rotary"), ("causal", 1), ("position_dim", 0), ("order", "random"),
        ("order", "1,2"), ("order", "1,2,2"), ("order", "0,1,2"), ("order", "1,2,x"), ("order", None),
        ("order", [1.0, 2, 3]), ("order", [True, 2, 3]), ("asked", 3), ("asked", {1, 3}), ("asked", "13"),
        *(("asked", hops) for hops in [(), (1,), (3, 1), (1, 1, 3), (0, 3), (1, 4), (1.0, 3), (True, 3)]),
    ],
    partial(replace, TINIEST): [
        ("steps", 0), ("layers", -1), ("learning_rate", float("nan")), ("learning_rate", -1.0), ("beta2", 1.0),
        ("schedule", "linear"), ("hooks", "muon"), ("initial", "zeros"), ("examples", 2**31), ("warmup", -1),
        ("mlp", "yes"), ("checkpoint_every", 0),
    ],
    partial(hs.Architecture, 3, 2, 1, layers=1, heads=4, d_model=8): [("layers", 0), ("head_dim", -1), ("heads", 2.0)],
    hs.Extensions: [("names", "best"), ("lines", 3), ("repeat", 0), ("shots", -1), ("latin", 1)],
    hs.Execution: [
        ("precision", "fp16"), ("precision", None), ("compiled", "yes"), ("kernels", 3), ("device", 0),
        ("threads", 1.5),
    ],
    hs.SearchConfig: [("max_loss", 0.8), ("effort", "great")],
    hs.BenchmarkSettings: [
        ("temperature", 0), ("temperature", 100), ("temperature", "1"), ("attempts", 0), ("max_tokens", 2.5),
        ("reasoning_effort", 3), ("extensions", None), ("rule", []), ("rule", "fuzzy"), ("mode", "guess"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "field", "value"), [(make, *wrong) for make, all_wrong in BY_NAME.items() for wrong in all_wrong]
)
def test_a_value_out_of_range_is_named_with_its_field(make: Callable[..., Any], field: str, value: object) -> None:
    with unchecked(), pytest.raises(hs.InputError, match=field) as error:
        make(**{field: value})
    assert str(value) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "values", "words"),
    [
        (partial(hs.Architecture, 3, 2, 1, 1), {"heads": 4, "d_model": 10}, "divisible by heads, got 10 and 4"),
        (hs.Extensions, {"think": True, "shots": 1}, "think"),
        (hs.SearchConfig, {"seed": -1}, "seed must be a whole number of at least 0"),
        (hs.SearchBudget, {"orders": 0}, "orders must be a whole number of at least 1"),
        (hs.SearchBudget, {"sequences": 64, "confirming": 32}, "must be a whole number of at least 64, got 32"),
        (hs.CertificateConfig, {"draws": 0}, "draws must be a whole number of at least 1, got 0"),
        (hs.CertificateConfig, {"halves": 1}, "halves must be a whole number of at least 4, got 1"),
        (hs.CertificateConfig, {"few": 48, "sequences": 32}, "sequences must be at least few (48), got 32"),
        (hs.BenchmarkSettings, {"mode": "exact", "extensions": hs.Extensions(think=True)}, "cannot let a model think"),
        *(
            (partial(hs.Setup, "run", ONE_HOP, TINIEST), {"seeds": seeds}, "seed")
            for seeds in [(), (1, 1), (-1,), (2**63,), (10**400,), (0.5,), (True,)]
        ),
    ],
)
def test_values_that_do_not_suit_each_other(make: Callable[..., Any], values: dict[str, Any], words: str) -> None:
    with unchecked(), pytest.raises(hs.InputError, match=re.escape(words)):
        make(**values)


def test_numpy_numbers_become_plain_ones():
    """As `np.arange` and a table's cells give them; records take no others than Python's own."""
    made = {bool: numpy.bool_, int: numpy.int64, float: numpy.float32, str: numpy.str_}
    asked = [
        hs.SearchConfig(max_loss=0.25, seed=2), hs.SearchBudget(orders=2, most_rows=9), hs.CertificateConfig(draws=20),
        hs.EmergenceConfig(sequences=4, seed=1), hs.Execution(device="cpu", threads=2), ONE_HOP,
        replace(TINIEST, learning_rate=0.5, decay_fraction=0.5, weight_decay=0.5, beta1=0.5, beta2=0.5),
        hs.BenchmarkSettings(seed=1, temperature=0.5, attempts=3, max_tokens=8),
        hs.Extensions(latin=True, repeat=2, lines="reversed"),
    ]  # fmt: skip
    for plain in asked:
        theirs = {name: made[type(value)](value) for name, value in vars(plain).items() if type(value) in made}
        with unchecked():
            given = replace(plain, **theirs)
        assert given == plain
        assert [*map(type, vars(given).values())] == [*map(type, vars(plain).values())]
