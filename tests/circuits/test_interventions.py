"""Interventions: each on a case with a known answer, and against a slow implementation written from the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_models import PROBLEM, random_model, some_batch

from hopscope.circuits.evaluate.ablations import IDENTITY, KEEP, UNIFORM, Ablation, AblationKind, one_hot
from hopscope.circuits.evaluate.apply import InterventionHooks, LayerAblations, PatternCache, by_layer
from hopscope.circuits.evaluate.chains import ChainsSeen
from hopscope.errors import InputError
from hopscope.kernels import fused_attention
from hopscope.model.fast import FastTransformer
from hopscope.model.role_maps import Coordinates, coordinates
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow

BATCH = some_batch(PROBLEM, 4)
WHERE = coordinates(BATCH, causal=True)
LENGTH = PROBLEM.sequence_length
DEPENDING = tuple(AblationKind[kind] for kind in ("KNOCK_OUT", "RESAMPLE", "POSITIONAL", "ALIKE", "MOVED"))
"""What the model's own patterns show."""

needs_compiler = pytest.mark.skipif(
    not fused_attention.available(), reason="no C compiler: attention goes the plain way"
)


def random_pattern(seed: int = 0, where: Coordinates = WHERE) -> torch.Tensor:
    scores = torch.randn(1, 4, 2, LENGTH, LENGTH, generator=torch.Generator().manual_seed(seed))
    return scores.masked_fill(~where.allowed, -torch.inf).softmax(dim=-1)


def of_layer(edits: dict[tuple[int, int], Ablation]) -> LayerAblations:
    """Edits of layer 0 by (head, query role), as `InterventionHooks` takes them."""
    return by_layer({HeadRow(0, head, query): edit for (head, query), edit in edits.items()}, 1)[0]


def changed_by(candidates: list[LayerAblations], pattern: torch.Tensor) -> torch.Tensor:
    """The patterns of one layer, of sequences under each candidate in turn: axes candidate, batch, head, query, key."""
    edit = InterventionHooks([[candidate] for candidate in candidates], PatternCache(WHERE))
    return edit.pattern(0, pattern.flatten(0, 1)[None]).view(pattern.shape)


def slow(pattern: torch.Tensor, edits: dict[tuple[int, int], Ablation], where: Coordinates) -> torch.Tensor:
    """The definitions, position by position."""
    out = pattern.clone()
    batch, heads = pattern.shape[1], pattern.shape[2]
    for b in range(batch):
        holder = {int(where.place[b, c, r]): (c, r) for c in range(3) for r in range(where.roles)}
        for h in range(heads):
            for q in range(LENGTH):
                chain, role = holder[q]
                edit = edits.get((h, role), KEEP)
                seen = [k for k in range(LENGTH) if bool(where.allowed[q, k])]
                mine = {k: holder[k][1] for k in seen if holder[k][0] == chain}
                own = pattern[0, b, h, q]
                row = torch.zeros(LENGTH)
                if edit.kind is AblationKind.KEEP:
                    row = own
                elif edit.kind is AblationKind.UNIFORM:
                    row[seen] = 1 / len(seen)
                elif edit.kind is AblationKind.ZERO:
                    pass
                elif edit.kind is AblationKind.IDENTITY:
                    row[q] = 1
                elif edit.kind in (AblationKind.ONE_HOT, AblationKind.MIXTURE):
                    weights = edit.weights or (1.0,)
                    for key, weight in zip(edit.keys, weights, strict=True):
                        (at,) = [k for k, r in mine.items() if r == key]
                        row[at] = weight / sum(weights)
                elif edit.kind is AblationKind.MEAN:
                    for k in seen:
                        other = holder[k][0] != chain
                        row[k] = edit.weights[holder[k][1] + where.roles * other]
                    row = row / row.sum()
                elif edit.kind is AblationKind.KNOCK_OUT:
                    gone = [k for k, r in mine.items() if r in edit.keys]
                    row = own.clone()
                    row[gone] = 0
                    row = row / row.sum()
                elif edit.kind is AblationKind.ALIKE:
                    row, kept = own.clone(), {q, *(k for k, r in mine.items() if r in edit.keys)}
                    for k in mine.keys() - kept:
                        others = [n for n in seen if n not in mine and holder[n][1] == mine[k]]
                        row[k] = own[others].mean() if others else 0
                    rest = [k for k in seen if k not in kept or not edit.keys]
                    row[rest] *= own[rest].sum() / row[rest].sum()
                elif edit.kind is AblationKind.MOVED:
                    row = own.clone()
                    for k in [k for k, r in mine.items() if r in edit.keys]:
                        others = [n for n in seen if n not in mine and holder[n][1] == mine[k]]
                        for n in others:
                            row[n] += own[k] / len(others)
                        row[k] = own[k] if not others else 0
                elif edit.kind is AblationKind.RESAMPLE:
                    row = pattern[0, (b + 1) % batch, h, q]
                else:
                    row = pattern[0, :, h, q].mean(dim=0)
                out[0, b, h, q] = row
    return out


def make_edit(kind: AblationKind, query: int, numbers: list[float]) -> Ablation:
    """An edit of this kind that suits the query, its keys and weights taken from `numbers`."""
    seen = [key for key in range(5) if bool(WHERE.allowed[WHERE.place[0, 0, query], WHERE.place[0, 0, key]])]
    key = seen[int(numbers[0] * 1000) % len(seen)]
    if kind is AblationKind.ONE_HOT:
        return one_hot(key)
    if kind is AblationKind.MIXTURE:
        return Ablation(kind, (seen[0], seen[-1])[: len(seen)], tuple(numbers[: min(2, len(seen))]))
    if kind is AblationKind.MEAN:
        return Ablation(kind, (), tuple(numbers))
    if kind is AblationKind.ALIKE and key != query and numbers[1] > 0.5:
        return Ablation(kind, (key,))
    return Ablation(kind, (key,)) if kind in (AblationKind.KNOCK_OUT, AblationKind.MOVED) else Ablation(kind)


ROWS = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(0, 4)),
    st.tuples(st.sampled_from(AblationKind), st.lists(st.floats(0.1, 1.0), min_size=10, max_size=10)),
    max_size=6,
)


@example(rows={(1, 4): (AblationKind.ALIKE, [0.103] + [1.0] * 9)}, seed=0)  # but for what is at role 3
@given(rows=ROWS, seed=st.integers(0, 100))
def test_patterns_equal_their_definitions(
    rows: dict[tuple[int, int], tuple[AblationKind, list[float]]], seed: int
) -> None:
    edits = {row: make_edit(kind, row[1], numbers) for row, (kind, numbers) in rows.items()}
    pattern = random_pattern(seed)
    expected = slow(pattern, edits, WHERE)
    # The very first position can be left with nothing by a knock-out; that case has its own test.
    finite = expected.isfinite().all(dim=-1, keepdim=True)
    found = changed_by([of_layer(edits)], pattern)
    torch.testing.assert_close(found * finite, expected.nan_to_num() * finite)
    torch.testing.assert_close(found.sum(dim=-1)[finite[..., 0]], expected.sum(dim=-1)[finite[..., 0]])
    assert bool(((found.sum(dim=-1) - 1).abs() < 1e-5).logical_or(found.sum(dim=-1) == 0).all())
    assert not found.masked_fill(WHERE.allowed, 0).any(), "no query attends where the mask forbids"


@given(seed=st.integers(0, 99))
def test_nothing_tells_what_a_row_would_see_in_its_own_chain(seed: int) -> None:
    """Whatever scores keys of its own chain have, the pattern is the same: not even its weight on itself tells."""
    generator = torch.Generator().manual_seed(seed)
    scores, more = (torch.randn(1, 4, *WHERE.allowed.shape, generator=generator) for _ in range(2))
    itself = torch.eye(WHERE.allowed.shape[-1], dtype=torch.bool)
    own = (WHERE.relation < WHERE.roles) & ~itself
    patterns = [
        logits.masked_fill(~WHERE.allowed, -torch.inf).softmax(dim=-1)
        for logits in (scores, torch.where(own, more, scores))
    ]
    chains = ChainsSeen(WHERE)
    shared = chains.shared(dict.fromkeys(range(WHERE.roles), ()))
    found, same = (chains.alike(pattern, shared) for pattern in patterns)
    torch.testing.assert_close(found, same)
    assert torch.allclose(found.sum(dim=-1), torch.ones(()), atol=1e-5)
    assert (patterns[0] - patterns[1]).abs().max() > 0.01


def test_unmodified_rows_keep_their_bits() -> None:
    pattern = random_pattern()
    found = changed_by([of_layer({(0, 1): UNIFORM})], pattern)
    changed = WHERE.role == 1
    assert torch.equal(found[:, :, 1], pattern[:, :, 1])
    assert torch.equal(found[0, :, 0][~changed], pattern[0, :, 0][~changed])
    assert not torch.equal(found[0, :, 0][changed], pattern[0, :, 0][changed])


def test_knocking_out_every_key_leaves_the_row_itself() -> None:
    pattern = torch.zeros(1, 4, 1, LENGTH, LENGTH)
    pattern[..., 0] = 1.0  # everyone attends to position 0, whatever is there
    everyone = Ablation(AblationKind.KNOCK_OUT, tuple(range(5)))
    found = changed_by([of_layer({(0, query): everyone for query in range(5)})], pattern)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(1, 4, 1, LENGTH))
    for b in range(4):
        holder = int(WHERE.role[b, 0])
        assert found[0, b, 0, 0, 0] == 1.0, "with nothing left, a position attends to itself"
        own = WHERE.relation[b, :, 0] < 5  # position 0 is of the query's own chain
        assert not found[0, b, 0, own, 0][1:].any(), holder
        assert torch.equal(found[0, b, 0, ~own, 0], torch.ones(int((~own).sum())))


def test_candidates_do_not_affect_one_another() -> None:
    pattern = random_pattern().expand(3, -1, -1, -1, -1)
    edits = [{(0, 4): UNIFORM}, {}, {(0, 4): one_hot(1), (1, 3): IDENTITY}]
    found = changed_by([of_layer(edit) for edit in edits], pattern)
    for candidate, mine in zip(found, edits, strict=True):
        alone = changed_by([of_layer(mine)], pattern[:1])
        assert torch.equal(candidate, alone[0])


@pytest.mark.parametrize(
    ("kind", "keys", "weights"),
    [
        (AblationKind.ONE_HOT, (), ()),
        (AblationKind.MIXTURE, (1, 2), (1.0,)),
        (AblationKind.KNOCK_OUT, (), ()),
        (AblationKind.MEAN, (), ()),
        (AblationKind.MIXTURE, (1, 2), (0.0, 0.0)),
        (AblationKind.MIXTURE, (1, 2), (1.0, -1.0)),
        (AblationKind.MIXTURE, (1, 2), (1.0, float("nan"))),
        (AblationKind.MIXTURE, (1, 2), (1.0, float("inf"))),
        (AblationKind.MIXTURE, (1, 1), (0.5, 0.5)),
        (AblationKind.KNOCK_OUT, (1, 1), ()),
        (AblationKind.UNIFORM, (1,), ()),  # it would be uniform over all others, and count as in use
        (AblationKind.IDENTITY, (1,), ()),
        (AblationKind.RESAMPLE, (), (1.0,)),
        (AblationKind.ONE_HOT, (1,), (1.0,)),
        (AblationKind.MEAN, (1,), (1.0,)),
    ],
)
def test_interventions_out_of_range_are_refused(
    kind: AblationKind, keys: tuple[int, ...], weights: tuple[float, ...]
) -> None:
    with pytest.raises(InputError):
        Ablation(kind, keys, weights)


FIXED_KINDS = [kind for kind in AblationKind if kind not in DEPENDING]


@needs_compiler
@settings(deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 4)),
            st.tuples(st.sampled_from(FIXED_KINDS), st.lists(st.floats(0.1, 1.0), min_size=10, max_size=10)),
            max_size=12,
        ),
        min_size=1,
        max_size=3,
    ),
    reads=st.sampled_from([None, 3]),
    seed=st.integers(0, 9),
)
def test_fixed_patterns_are_imposed_without_computing_own_ones(
    rows: list[dict[tuple[int, int, int], tuple[AblationKind, list[float]]]], reads: int | None, seed: int
) -> None:
    """In one pass, and as the plain transformer has it with its patterns in hand."""
    candidates = [
        by_layer({HeadRow(*row): make_edit(kind, row[2], numbers) for row, (kind, numbers) in candidate.items()}, 2)
        for candidate in rows
    ]
    edit, plain = InterventionHooks(candidates, PatternCache(WHERE)), random_model(PROBLEM, seed=seed, spread=1.5)
    x = plain.embed(BATCH.inputs[None]).repeat(1, len(candidates), 1, 1)
    with torch.no_grad(), counted_passes() as passes:
        found = quick(plain).run(x, hooks=edit, reads=reads)
        assert passes == [1, 1]
    torch.testing.assert_close(found, plain.run(x, hooks=edit, reads=reads), rtol=1e-4, atol=1e-5)


def quick(plain: Transformer) -> FastTransformer:
    """The same model, in fewer passes."""
    fast = FastTransformer(plain.shape)
    fast.load_state_dict(plain.state_dict())
    return fast.requires_grad_(False)


@contextmanager
def counted_passes() -> Iterator[list[int]]:
    """While it lasts, a 1 for every layer that goes through in one pass."""
    passes: list[int] = []
    attend = fused_attention.attend_edited
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused_attention, "attend_edited", lambda *args: passes.append(1) or attend(*args))
        yield passes
