"""Batches of the vector formulation (Section 6), made by tensor operations on any device.

A sequence has a block of rows for each fact, then the questions. A row is the keys of a fact and its value, side by
side; a block holds the row of one fact for each of the N chains, shuffled. Where a fact has several keys, each chain
has distractors in it and in the facts that follow from its value: rows in which one key and the value are other
symbols. They are shuffled among the other rows, and counted as chains of their own that have only these rows. The
questions come last and in columns, first symbols before second ones, so that the N positions that are answered are the
last N.

    functions, N = 2:  a0 3  a'0 3'  a0'3"  ... | f a  f a | i 0  i 0 | f f i i

A sequence is fixed by two draws: the vectors of its symbols, and the order of the chains in each block. `compose` turns
these draws into inputs and targets; they come from an explicit generator (`sample`) or from an address (`Examples`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache, cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.machine import check_fits
from hopscope.problem.counter import random_bits, to_normal
from hopscope.problem.retrieval import RetrievalProblem, check_problem

_FACT = 1000
"""Approximate bytes that a fact and its roles take by themselves."""


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
        return self._holder // self.place.shape[-1]

    @property
    def role(self) -> Int[Tensor, "*batch pos"]:
        """The role number of every position."""
        return self._holder % self.place.shape[-1]

    @property
    def _holder(self) -> Int[Tensor, "*batch pos"]:
        """Chain × number of roles + role, at every position: the inverse of `place`."""
        return self.place.flatten(-2).argsort(dim=-1)[..., -self.inputs.shape[-2] :]

    def __getitem__(self, index: int | slice) -> Batch:
        """A part of the leading axis."""
        return Batch(self.inputs[index], self.targets[index], self.place[index])

    def sequences(self, first: int, end: int) -> Batch:
        """Sequences `first` to `end` of every model, where there is a leading axis for models."""
        return Batch(*(getattr(self, field.name)[:, first:end] for field in fields(self)))

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on `device`."""
        return Batch(*(getattr(self, field.name).to(device) for field in fields(self)))


@dataclass(frozen=True)
class Layout:
    """The positions of a problem's symbols.

    Chains are numbered kind by kind: the N whole ones, then, for each distractor of the graph, the N chains of that
    kind.
    """

    problem: RetrievalProblem

    @property
    def rows(self) -> int:
        """Number of chains including distractors: N for each kind."""
        return (1 + len(self.problem.facts.distractors)) * self.problem.chains

    @property
    def symbols(self) -> int:
        """Number of symbols drawn for a whole chain: its own, then those that replace them in each distractor."""
        facts = self.problem.facts
        return len(facts.symbols) + sum(len(distractor.others) for distractor in facts.distractors)

    @cached_property
    def symbol(self) -> Int[Tensor, "kind role"]:
        """Index of the symbol, among those drawn for a chain, at each kind and role; -1 where there is no position."""
        facts = self.problem.facts
        whole = [facts.symbols.index(role.symbol) for role in facts.places]
        table, drawn = [whole], len(facts.symbols)
        for distractor in facts.distractors:
            changed = {symbol: number for number, symbol in enumerate(distractor.others, start=drawn)}
            roles = zip(facts.places, whole, strict=True)
            table.append(
                [changed.get(role.symbol, own) if role.step in distractor.steps else -1 for role, own in roles]
            )
            drawn += len(changed)
        return torch.tensor(table)

    @cached_property
    def present(self) -> Bool[Tensor, "block chain"]:
        """Whether a chain has a row in each block: those of fact 1, ..., fact D, then that of the questions."""
        steps = torch.tensor([role.step for role in self.problem.facts.places])
        blocks = [*range(1, self.problem.hops + 1), 0]
        by_kind = torch.stack([(self.symbol[:, steps == step] >= 0).any(dim=1) for step in blocks])
        return by_kind.repeat_interleave(self.problem.chains, dim=1)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first position of the blocks of fact 1, ..., fact D, and of the block of the questions."""
        starts, start = [0] * (self.problem.hops + 1), 0
        for step in self.problem.blocks:
            starts[step - 1] = start
            start += int(self.present[step - 1].sum()) * self._width(step)
        starts[-1] = start
        return tuple(starts)

    @cached_property
    def row_numbers(self) -> Int[Tensor, " pos"]:
        """The row of every position, counted from 0 through the sequence: what the position code `pair` numbers."""
        facts = [step for step in self.problem.blocks for _ in range(int(self.present[step - 1].sum()))]
        rows = [row for row, step in enumerate(facts) for _ in range(self._width(step))]
        questions = range(len(facts), len(facts) + self.problem.chains)
        return torch.tensor(rows + [*questions] * len(self.problem.facts.known))

    def place(self, order: Int[Tensor, "*batch block chain"]) -> Int[Tensor, "*batch chain role"]:
        """The position of every role of every chain; -1 where there is none.

        Args:
            order: for the blocks of fact 1, ..., fact D, then that of the questions, the rank of each chain, as a
                permutation. Chains without a row in a block are skipped.
        """
        ranks = order.masked_fill(~self.present.to(order.device), self.rows).argsort(dim=-1).argsort(dim=-1)
        places = []
        for role in self.problem.facts.places:
            rank, start = ranks[..., role.step - 1, :], self.starts[role.step - 1]
            if role.step:
                places.append(start + rank * self._width(role.step) + role.member)
            else:
                places.append(start + rank + role.member * self.problem.chains)
        absent = (self.symbol < 0).repeat_interleave(self.problem.chains, dim=0)
        return torch.stack(places, dim=-1).masked_fill(absent.to(order.device), -1)

    def _width(self, step: int) -> int:
        """Number of positions in a fact's row."""
        return len(self.problem.facts.steps[step - 1].keys) + 1


@cache
def layout(problem: RetrievalProblem) -> Layout:
    """The layout of a problem; the same object each time, so that its properties are computed once."""
    return Layout(problem)


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
    """The sequences of drawn chains.

    Args:
        problem: the problem.
        symbols: vectors of all symbols of every whole chain: x0 ... xD, or those that the layout counts.
        order: for the blocks of pair 1, ..., pair D, then that of the queries, the rank of each chain, distractors
            included, as a permutation.
    """
    if problem.symbols == "unit":
        symbols = symbols * (problem.symbol_dim**0.5 / symbols.norm(dim=-1, keepdim=True))
    place, symbol = layout(problem).place(order), layout(problem).symbol.to(order.device)
    tokens = symbols[..., symbol, :].movedim(-3, -4).flatten(-4, -2)  # kind after kind, chain after chain
    holder = place.flatten(-2).argsort(dim=-1)[..., -problem.sequence_length :]
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
        InputError: `problem` is not a `RetrievalProblem`, `batch` is not a whole number of at least 1, `generator` is
            not a `torch.Generator`, or memory is too small for the batch.
    """
    check_problem(problem)
    check_count("batch", batch)
    if not isinstance(generator, torch.Generator):
        raise InputError(f"generator must be a torch.Generator, as torch.Generator().manual_seed(0), got {generator!r}")
    numbers = problem.sequence_length * problem.input_dim + problem.chains * problem.target_dim
    check_fits((4 * batch * numbers if generator.device.type == "cpu" else 0) + _FACT * problem.hops)
    device, positions = generator.device, layout(problem)
    shape = (batch, problem.chains, positions.symbols, problem.symbol_dim)
    symbols = torch.randn(shape, generator=generator, device=device)
    keys = torch.rand(batch, problem.hops + 1, positions.rows, generator=generator, device=device, dtype=torch.float64)
    return compose(problem, symbols, keys.argsort(dim=-1))


@dataclass(frozen=True)
class Examples:
    """An endless list of examples, addressed by (seed, index) and never stored.

    The same address gives the same example on any machine (to rounding). A finite training set is the first `size`
    indices of a seed.

        >>> examples = hs.Examples(hs.RetrievalProblem(hops=2))
        >>> examples.at(torch.tensor(7), torch.arange(3)).inputs.shape
        torch.Size([3, 20, 8])

    Raises:
        InputError: `problem` is not a `RetrievalProblem`.
    """

    problem: RetrievalProblem

    def __post_init__(self) -> None:
        check_problem(self.problem)

    def at(self, seeds: Int[Tensor, "*#batch"], indices: Int[Tensor, "*#batch"]) -> Batch:
        """The examples at these addresses.

        Args:
            seeds: 63-bit seeds (`derive_seed`); broadcast against `indices`.
            indices: example numbers, at least 0.

        Raises:
            InputError: either is not a tensor of whole numbers.
        """
        for name, values in (("seeds", seeds), ("indices", indices)):
            if not isinstance(values, Tensor) or values.dtype != torch.int64:
                raise InputError(f"{name} must be a tensor of whole numbers, as torch.arange(3), got {values!r}")
        problem, positions = self.problem, layout(self.problem)
        shape = (problem.chains, positions.symbols, problem.symbol_dim)
        numbers = math.prod(shape)
        even = numbers + numbers % 2
        bits = random_bits(seeds, indices, even + (problem.hops + 1) * positions.rows)
        symbols = to_normal(bits[..., :even])[..., :numbers].reshape(*bits.shape[:-1], *shape)
        keys = bits[..., even:].reshape(*bits.shape[:-1], problem.hops + 1, positions.rows)
        return compose(problem, symbols, keys.argsort(dim=-1))
