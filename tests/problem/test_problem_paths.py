"""The attention path: numbered from 0 in code and from 1 in text, and nothing is lost in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import role_names


@st.composite
def paths(draw: st.DrawFn) -> tuple[AttentionPath, int]:
    hops = draw(st.integers(1, 12))
    role, number = st.integers(0, 2 * hops), st.integers(0, 30)
    return AttentionPath(draw(number), draw(number), draw(role), draw(role)), hops


@given(paths())
def test_names_and_parse_are_inverse(drawn: tuple[AttentionPath, int]) -> None:
    path, roles = drawn[0], role_names(drawn[1])
    layer, head, query, key = path.names(roles)
    assert (layer, head) == (path.layer + 1, path.head + 1)
    assert AttentionPath.named(layer, head, query, key, roles) == path
    assert AttentionPath.parse(f"L{layer}.H{head} {query} -> {key}", roles) == path
    assert path.describe(roles) == f"layer {layer} head {head}: {query} -> {key}"
    assert AttentionPath.parse(path.describe(roles), roles) == path
    assert path.row == HeadRow(path.layer, path.head, path.query)


def test_a_written_path_by_hand() -> None:
    roles = role_names(3)
    assert roles == ("x0>", ">x1", "x1>", ">x2", "x2>", ">x3", "x0?")
    path = AttentionPath.parse("  L3.H1 x0? -> >x2 ", roles)
    assert path == (2, 0, 6, 3)
    assert path.names(roles) == (3, 1, "x0?", ">x2")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("layer 3", "is written like 'L3.H1 x0\\? -> >x2' or 'layer 3 head 1: x0\\? -> >x2', got 'layer 3'"),
        ("L0.H1 x0? -> >x2", "is written like"),
        ("L3.H0 x0? -> >x2", "is written like"),
        ("L3 x0? -> >x2", "is written like"),
        ("layer 3 head 1 x0? -> >x2", "is written like"),
        ("layer 3 head 0: x0? -> >x2", "is written like"),
        ("L3.H1: x0? -> >x2", "is written like"),
        ("L3.H1 x0? -> >x2 -> >x3", "is written like"),
        ("L3.H1 x0? -> >x4", "'>x4' is not a role; the roles are x0>, >x1"),
    ],
)
def test_texts_that_are_no_path(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        AttentionPath.parse(text, role_names(3))


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (-1, 1)])
def test_records_count_from_1(numbers: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="count from 1, got"):
        AttentionPath.named(*numbers, "x0?", ">x1", role_names(3))
