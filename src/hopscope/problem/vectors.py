"""Batches of the vector formulation (Section 6), made by tensor operations on any device.

A sequence has a block of rows for each fact, then the questions. A row is the keys of a fact and its value, side by
side; a block holds the row of one fact for each of the N chains, shuffled. Where a fact has several keys, each chain
has distractors in it and in the facts that follow from its value: rows in which one key and the value are other
symbols. They are shuffled among the other rows, and counted as chains of their own that have only these rows. The
questions come last and in columns, first symbols before second ones, so that the last N positions are answered.

    functions, N = 2:  a0 3  a'0 3'  a0'3"  ... | f a  f a | i 0  i 0 | f f i i

A sequence is fixed by two draws, from an explicit generator (`sample`) or from an address (`Examples`): the vectors of
its symbols, and the order of the chains in each block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.checks import check_count, check_type
from hopscope.errors import InputError
from hopscope.machine import check_fits
from hopscope.problem.counter import random_bits, to_normal
from hopscope.problem.retrieval import RetrievalProblem, check_problem


@dataclass(frozen=True)
class Batch:
    """Sequences, their targets, and where everything is.

        >>> batch = hs.sample(hs.RetrievalProblem(hops=2), 5, torch.Generator().manual_seed(0))
        >>> batch.targets.shape, batch.place.shape  # 5 sequences of 4 chains: 2 hops of 4 numbers, 5 roles
        (torch.Size([5, 4, 8]), torch.Size([5, 4, 5]))

    `*batch` is `batch`, or `model batch` where every model has its own examples.

    Attributes:
        inputs: symbol and position code of every position.
        targets: for each query, in the order of the queries, the vectors of the hops asked for, concatenated.
        place: the position of every role of every chain; attention maps indexed by it are in the order of roles. Rows
            of distractors are chains after the N whole ones; roles that they lack are at -1.
    """

    inputs: Float[Tensor, "*batch pos d_input"]
    targets: Float[Tensor, "*batch query d_target"]
    place: Int[Tensor, "*batch chain role"]

    @property
    def chain(self) -> Int[Tensor, "*batch pos"]:
        """The chain of every position."""
        return _holders(self.place, self.inputs.shape[-2]) // self.place.shape[-1]

    @property
    def role(self) -> Int[Tensor, "*batch pos"]:
        """The role number of every position."""
        return _holders(self.place, self.inputs.shape[-2]) % self.place.shape[-1]

    def __getitem__(self, index: int | slice | tuple[slice, ...]) -> Batch:
        """A part of the leading axes."""
        return Batch(self.inputs[index], self.targets[index], self.place[index])

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on `device`."""
        return Batch(self.inputs.to(device), self.targets.to(device), self.place.to(device))


def _holders(place: Int[Tensor, "*batch chain role"], length: int) -> Int[Tensor, "*batch pos"]:
    """Chain × number of roles + role, at every position: the inverse of `place`."""
    return place.flatten(-2).argsort(dim=-1)[..., -length:]


@dataclass(frozen=True)
class Layout:
    """The positions of a problem's symbols.

    Chains are numbered kind by kind: the N whole ones, then, for each distractor of the graph, the N chains of that
    kind. Blocks are those of fact 1, ..., fact D, then that of the questions.

    Attributes:
        symbols: number of symbols drawn for a whole chain: its own, then those that replace them in each distractor.
        symbol: index of the symbol, among those drawn for a chain, at each kind and role; -1 where there is none.
        present: whether a chain has a row in each block.
        block: the block of each role, from 0.
        first: the position of each role in the first row of its block.
        step: the distance of that role's positions in rows that follow each other.
        row_numbers: the row of every position, from 0 through the sequence: what the position code `pair` numbers.
    """

    symbols: int
    symbol: Int[Tensor, "kind role"]
    present: Bool[Tensor, "block chain"]
    block: Int[Tensor, " role"]
    first: Int[Tensor, " role"]
    step: Int[Tensor, " role"]
    row_numbers: Int[Tensor, " pos"]

    def place(self, order: Int[Tensor, "*batch block chain"]) -> Int[Tensor, "*batch chain role"]:
        """The position of every role of every chain; -1 where there is none.

        `order` is the rank of each chain in each block, as a permutation; chains without a row in it are skipped.
        """
        present, block, first, step = (x.to(order.device) for x in (self.present, self.block, self.first, self.step))
        ranks = order.masked_fill(~present, len(present.T)).argsort(dim=-1).argsort(dim=-1)
        place = first + step * ranks[..., block, :].transpose(-1, -2)
        return place.masked_fill(~present[block].T, -1).contiguous()


@cache
def layout(problem: RetrievalProblem) -> Layout:
    """The layout of a problem; the same object each time."""
    facts, chains = problem.facts, problem.chains
    roles, whole = facts.places, [facts.symbols.index(role.symbol) for role in facts.places]
    table, symbols = [whole], len(facts.symbols)
    for distractor in facts.distractors:
        changed = {symbol: number for number, symbol in enumerate(distractor.others, start=symbols)}
        pairs = zip(roles, whole, strict=True)
        table.append([changed.get(role.symbol, own) if role.step in distractor.steps else -1 for role, own in pairs])
        symbols += len(changed)
    symbol, last = torch.tensor(table), {role.step: number for number, role in enumerate(roles)}
    present = (symbol[:, [*last.values()]] >= 0).T.repeat_interleave(chains, dim=1)
    rows, starts = list[int](), {}
    for step in problem.blocks:
        starts[step], row, width = len(rows), rows[-1] + 1 if rows else 0, facts.steps[step - 1].width
        rows += [row + n // width for n in range(width * int(present[step - 1].sum()))]
    starts[0] = len(rows)
    rows += [*range(rows[-1] + 1, rows[-1] + 1 + chains)] * len(facts.known)
    return Layout(
        symbols=symbols,
        symbol=symbol,
        present=present,
        block=torch.tensor([(role.step or len(starts)) - 1 for role in roles]),
        first=torch.tensor([starts[role.step] + role.member * (1 if role.step else chains) for role in roles]),
        step=torch.tensor([facts.steps[role.step - 1].width if role.step else 1 for role in roles]),
        row_numbers=torch.tensor(rows),
    )


def position_codes(problem: RetrievalProblem, device: torch.device | str = "cpu") -> Float[Tensor, "pos d_code"]:
    """The code of every position: cosines and sines at the rotary frequencies base^(-2i/K) (Su et al. 2023).

    Interleaved: cos, sin of the fastest frequency first. An odd width drops the last sine.
    """
    length, width = problem.sequence_length, problem.code_dim
    if problem.position == "none":
        return torch.zeros(length, width, device=device)
    numbers = layout(problem).row_numbers if problem.position == "pair" else torch.arange(length)
    number = numbers.to(device, torch.float64)
    rank = torch.arange((width + 1) // 2, dtype=torch.float64, device=device)
    angle = number[:, None] * float(problem.base) ** (-2.0 * rank / width)
    return torch.stack((angle.cos(), angle.sin()), dim=-1).flatten(1)[:, :width].float()


def compose(
    problem: RetrievalProblem,
    symbols: Float[Tensor, "*batch chain symbol d_symbol"],
    order: Int[Tensor, "*batch block every_chain"],
) -> Batch:
    """The sequences of drawn chains: the vectors of every whole chain's symbols, and each chain's rank in each block.

    The symbols are x0 ... xD, or those that `Layout` counts; the blocks are its blocks, with distractors in them.
    """
    if problem.symbols == "unit":
        symbols = symbols * (problem.symbol_dim**0.5 / symbols.norm(dim=-1, keepdim=True))
    place, symbol = layout(problem).place(order), layout(problem).symbol.to(order.device)
    tokens = symbols[..., symbol, :].movedim(-3, -4).flatten(-4, -2)  # kind after kind, chain after chain
    holder = _holders(place, problem.sequence_length)
    tokens = tokens.gather(-2, holder[..., None].expand(*holder.shape, problem.symbol_dim))
    codes = position_codes(problem, order.device).expand(*tokens.shape[:-1], problem.code_dim)

    first = len(problem.facts.known) - 1
    asked = symbols[..., [first + hop for hop in problem.target_hops], :].flatten(-2)
    asker = place[..., : problem.chains, -1].argsort(dim=-1)
    targets = asked.gather(-2, asker[..., None].expand(asked.shape))
    return Batch(torch.cat((tokens, codes), dim=-1), targets, place)


def sample(problem: RetrievalProblem, batch: int, generator: torch.Generator) -> Batch:
    """`batch` random sequences, on the generator's device.

        >>> hs.sample(hs.RetrievalProblem(hops=2), 5, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([5, 20, 8])

    Raises:
        InputError: an argument is of another type, `batch` is below 1, or memory is too small for it.
    """
    check_problem(problem)
    check_count("batch", batch)
    check_type("generator", generator, torch.Generator, "a torch.Generator, as torch.Generator().manual_seed(0)")
    numbers = problem.sequence_length * problem.input_dim + problem.chains * problem.target_dim
    facts = 1000 * problem.hops  # bytes that facts and their roles take by themselves, about
    check_fits((4 * batch * numbers if generator.device.type == "cpu" else 0) + facts)
    device, positions = generator.device, layout(problem)
    shape = (batch, problem.chains, positions.symbols, problem.symbol_dim)
    symbols = torch.randn(shape, generator=generator, device=device)
    ranked = (batch, *positions.present.shape)
    keys = torch.rand(ranked, generator=generator, device=device, dtype=torch.float64)
    return compose(problem, symbols, keys.argsort(dim=-1))


@dataclass(frozen=True)
class Examples:
    """An endless list of examples, addressed by (seed, index) and never stored.

    The same address gives the same example on any machine (to rounding). A finite training set is the first `size`
    indices of a seed.

        >>> examples = hs.Examples(hs.RetrievalProblem(hops=2))
        >>> examples.at(torch.tensor(7), torch.arange(3)).inputs.shape
        torch.Size([3, 20, 8])
    """

    problem: RetrievalProblem

    def __post_init__(self) -> None:
        check_problem(self.problem)

    def at(self, seeds: Int[Tensor, "*#batch"], indices: Int[Tensor, "*#batch"]) -> Batch:
        """The examples at these addresses: 63-bit seeds (`derive_seed`) and example numbers from 0, broadcast.

        Raises:
            InputError: either is not an int64 tensor.
        """
        for name, values in (("seeds", seeds), ("indices", indices)):
            if not isinstance(values, Tensor) or values.dtype != torch.int64:
                raise InputError(f"{name} must be an int64 tensor, as torch.arange(3), got {values!r}")
        positions = layout(self.problem)
        shape = (self.problem.chains, positions.symbols, self.problem.symbol_dim)
        numbers = math.prod(shape)
        even = numbers + numbers % 2
        bits = random_bits(seeds, indices, even + positions.present.numel())
        symbols = to_normal(bits[..., :even])[..., :numbers].reshape(*bits.shape[:-1], *shape)
        keys = bits[..., even:].reshape(*bits.shape[:-1], *positions.present.shape)
        return compose(self.problem, symbols, keys.argsort(dim=-1))
