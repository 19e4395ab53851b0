"""The vector formulation against a slow solver that sees the inputs alone; and paths in writing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.counter import derive_seed, random_bits
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_names, symbol_of
from hopscope.problem.vectors import Batch, Examples, position_codes, sample


def orders(hops: int) -> st.SearchStrategy[str]:
    written = st.permutations(range(1, hops + 1)).map(lambda pairs: ",".join(map(str, pairs)))
    return st.sampled_from(["deepest-first", "shallowest-first"]) | written


def asked(hops: int) -> st.SearchStrategy[tuple[int, ...] | None]:
    """Nothing said, or any hops before the last, and the last."""
    return st.none() | st.sets(st.integers(1, hops)).map(lambda some: tuple(sorted(some | {hops})))


problems = st.integers(1, 6).flatmap(
    lambda hops: st.builds(
        RetrievalProblem,
        hops=st.just(hops),
        chains=st.integers(1, 6),
        symbol_dim=st.integers(1, 6),
        order=orders(hops),
        position=st.sampled_from(["token", "pair", "none"]),
        asked=asked(hops),
        symbols=st.sampled_from(["gaussian", "unit"]),
    )
)
problems |= problems.map(lambda problem: replace(problem, asked=None, curriculum=False))


def draw(problem: RetrievalProblem, batch: int = 3, seed: int = 0) -> Batch:
    return sample(problem, batch, torch.Generator().manual_seed(seed))


def solve(problem: RetrievalProblem, inputs: torch.Tensor) -> list[list[float]]:
    """Follow each query through the pairs by comparing symbols, knowing only that pairs are neighbours."""
    symbols = [tuple(row[: problem.symbol_dim]) for row in inputs.tolist()]
    queries = symbols[-problem.chains :]
    pairs = symbols[: -problem.chains]
    follows = {pairs[i]: pairs[i + 1] for i in range(0, len(pairs), 2)}
    answers = []
    for query in queries:
        reached, chain = query, []
        for _ in range(problem.hops):
            reached = follows[reached]
            chain.append(reached)
        asked = chain if problem.curriculum else chain[-1:]
        if problem.asked is not None:
            asked = [chain[hop - 1] for hop in problem.asked]
        answers.append([number for symbol in asked for number in symbol])
    return answers


# In one dimension a unit symbol is 1 or -1: chains collide.
solvable = problems.filter(lambda problem: problem.symbols == "gaussian" or problem.symbol_dim > 1)


@given(solvable, st.integers(0, 2**31))
def test_every_chain_can_be_followed_from_the_inputs_alone(problem, seed):
    batch = draw(problem, seed=seed)
    for inputs, targets in zip(batch.inputs, batch.targets, strict=True):
        assert solve(problem, inputs) == targets.tolist()


@given(problems)
def test_chain_and_role_invert_the_shuffle(problem):
    """Every position holds the symbol of its chain and role, and `place` is the inverse of (chain, role)."""
    batch = draw(problem)
    for b in range(3):
        at = {(int(c), int(r)): pos for pos, (c, r) in enumerate(zip(batch.chain[b], batch.role[b], strict=True))}
        assert len(at) == problem.sequence_length
        held: dict[tuple[int, int], set[tuple[float, ...]]] = {}
        for (chain, role), pos in at.items():
            assert batch.place[b, chain, role] == pos
            symbol = tuple(batch.inputs[b, pos, : problem.symbol_dim].tolist())
            held.setdefault((chain, symbol_of(role, problem.hops)), set()).add(symbol)
        assert all(len(symbols) == 1 for symbols in held.values())


@pytest.mark.parametrize(
    ("order", "blocks"), [("deepest-first", (3, 2, 1)), ("shallowest-first", (1, 2, 3)), ("1,3,2", (1, 3, 2))]
)
def test_pairs_are_adjacent_in_blocks_of_their_hop(order, blocks):
    problem = RetrievalProblem(hops=3, order=order)
    expected = [role for k in blocks for role in [f"x{k - 1}>", f">x{k}"] * 4] + ["x0?"] * 4
    for roles in draw(problem, 4).role.tolist():
        assert [problem.roles[role] for role in roles] == expected


def many(problem, count, drawn):
    """Many examples, by one of the two ways to draw them."""
    if drawn == "generator":
        return draw(problem, count, seed=4)
    return Examples(problem).at(torch.tensor(derive_seed(4, "test")), torch.arange(count))


@pytest.mark.parametrize("drawn", ["generator", "address"])
def test_shuffles_are_uniform_and_independent(drawn):
    """Chi-square over the 3! x 3! orders of two blocks: a biased or shared permutation fails by far."""
    problem, count = RetrievalProblem(hops=1, chains=3), 18_000
    place = many(problem, count, drawn).place
    seen = Counter(tuple(map(tuple, row)) for row in place[:, :, [0, 2]].transpose(1, 2).tolist())
    pairs, queries = itertools.permutations((0, 2, 4)), list(itertools.permutations((6, 7, 8)))
    cells = [(pair, query) for pair in pairs for query in queries]
    assert set(seen) == set(cells)
    expected = count / len(cells)
    chi_square = sum((seen[cell] - expected) ** 2 / expected for cell in cells)
    assert chi_square < 66.6  # the 0.999 quantile for 35 degrees of freedom


@pytest.mark.parametrize("drawn", ["generator", "address"])
def test_gaussian_symbols_are_standard_normal(drawn):
    last = many(RetrievalProblem(hops=2), 20_000, drawn).inputs[:, -4:, :4]  # the queries: no symbol twice
    assert last.mean().abs() < 0.01
    assert abs(last.var() - 1) < 0.02
    assert abs((last**4).mean() - 3) < 0.1
    flat = last.flatten(1)
    assert (torch.corrcoef(flat.T) - torch.eye(16)).abs().max() < 0.04


def test_position_codes_by_hand():
    codes = position_codes(RetrievalProblem(hops=1, chains=1))
    t = torch.arange(3.0)
    expected = torch.stack([t.cos(), t.sin(), (t / 100).cos(), (t / 100).sin()], dim=-1)
    assert torch.allclose(codes, expected)
    pair = position_codes(RetrievalProblem(hops=2, chains=2, position="pair"))
    assert torch.equal(pair[0::2][:4], pair[1::2][:4])
    assert len({tuple(row) for row in pair.tolist()}) == 4 + 2
    assert not position_codes(RetrievalProblem(hops=2, position="none")).any()
    assert position_codes(RetrievalProblem(hops=2, position_dim=7)).shape == (20, 7)


@given(solvable, st.integers(0, 2**40), st.integers(0, 2**62))
def test_an_example_depends_on_its_address_alone(problem, index, seed):
    alone = Examples(problem).at(torch.tensor(seed), torch.tensor([index]))
    among = Examples(problem).at(torch.tensor([[seed], [seed + 1]]), torch.tensor([[3, index, 5]]))
    assert torch.equal(alone.inputs[0], among.inputs[0, 1])
    assert torch.equal(alone.targets[0], among.targets[0, 1])
    assert not torch.equal(alone.inputs[0], among.inputs[1, 1])


def test_random_bits_are_splitmix64():
    """Against SplitMix64 in plain integers."""
    mask = (1 << 64) - 1

    def mix(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    seed, index = 123456789, 42
    origin = mix((mix(seed * 0x9E3779B97F4A7C15 & mask) + index * 0xD1B54A32D192ED03) & mask)
    expected = [mix((origin + i * 0x9E3779B97F4A7C15) & mask) for i in range(1, 6)]
    found = [int(bits) & mask for bits in random_bits(torch.tensor(seed), torch.tensor(index), 5)]
    assert found == expected
    assert derive_seed(1, "ab", "c") != derive_seed(1, "a", "bc")


def test_sampling_leaves_the_global_random_state_alone():
    before = torch.random.get_rng_state()
    draw(RetrievalProblem(hops=2))
    Examples(RetrievalProblem(hops=2)).at(torch.tensor(1), torch.arange(2))
    assert torch.equal(before, torch.random.get_rng_state())


def test_printed_samples_can_be_solved_from_their_inputs():
    from hopscope.cli import program

    result = CliRunner().invoke(program, ["sample", "vectors", "--hops", "3", "--count", "8", "--seed", "0", "--json"])
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert len(rows) == 8
    problem = RetrievalProblem(hops=3)
    for row in rows:
        assert solve(problem, torch.tensor(row["inputs"], dtype=torch.float64)) == row["targets"]
        assert sorted(map(tuple, row["roles"])) == sorted(itertools.product(range(4), problem.roles))


def test_equal_problems_are_spelled_alike():
    """So that a run of the same problem is the same run."""
    every, last = RetrievalProblem(hops=3), RetrievalProblem(hops=3, curriculum=False)
    assert RetrievalProblem(hops=3, asked=(1, 2, 3)) == every
    assert RetrievalProblem(hops=3, asked=(3,)) == last == RetrievalProblem(hops=3, asked=(3,), curriculum=False)
    partial = RetrievalProblem(hops=3, asked=(1, 3))
    assert (partial.target_hops, partial.target_dim, partial.asked) == ((1, 3), 8, (1, 3))
    assert replace(partial, asked=None) == every
    assert RetrievalProblem(hops=1, asked=(1,)).target_hops == (1,)


def test_samples_larger_than_memory_are_refused():
    generator = torch.Generator().manual_seed(0)
    for problem, batch in ((RetrievalProblem(hops=10**10), 1), (RetrievalProblem(hops=2), 2**40)):
        with pytest.raises(InputError, match=r"takes at least .* of memory, and this machine has .*; ask for less"):
            sample(problem, batch, generator)


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("layer 3", "'layer 3 head 1: x0\\? -> >x2', with layers and heads from 1, got 'layer 3'"),
        ("L0.H1 x0? -> >x2", "is written like"),
        ("L3.H0 x0? -> >x2", "is written like"),
        ("L3 x0? -> >x2", "is written like"),
        ("layer 3 head 0: x0? -> >x2", "is written like"),
        ("L3.H1 x0? -> >x2 -> >x3", "is written like"),
        ("L3.H1 x0? -> >x4", "'>x4' is not a role; the roles are x0>, >x1"),
    ],
)
def test_texts_that_are_no_path(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        AttentionPath.parse(text, role_names(3))
