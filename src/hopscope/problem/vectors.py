"""Batches of the vector formulation (Section 6), made by tensor operations on any device.

A sequence is fixed by two draws: the vectors of its N(D + 1) symbols, and for each of its D + 1 blocks (D blocks of
pairs, one of queries) the order of the N chains. `compose` turns these draws into inputs and targets; the draws come
from an explicit generator (`sample`) or from an address (`Examples`). The layout (`problem.layout`) decides where
everything is, and how many symbols a chain of another graph has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.machine import check_fits
from hopscope.problem.counter import random_bits, to_normal
from hopscope.problem.layout import layout
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
        place: the position of every role of every chain. Gathering attention maps with it undoes the shuffle. Rows of
            distractors are chains after the N whole ones; roles that they lack are at -1.
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
    """Lay chains out as a sequence.

    Args:
        problem: the problem.
        symbols: vectors of all symbols of every whole chain: x0 ... xD, or those that the layout counts.
        order: for the blocks of pair 1, ..., pair D, then that of the queries, the rank of each chain, distractors
            included, as a permutation.
    """
    if problem.symbols == "unit":
        symbols = symbols * (problem.symbol_dim**0.5 / symbols.norm(dim=-1, keepdim=True))
    laid = layout(problem)
    place = laid.place(order)

    held = laid.held.to(order.device)
    tokens = symbols[..., held, :].movedim(-3, -4).flatten(-4, -2)  # kind after kind, chain after chain
    holder = place.flatten(-2).argsort(dim=-1)[..., -problem.sequence_length :]
    tokens = tokens.gather(-2, holder[..., None].expand(*holder.shape, problem.symbol_dim))
    codes = position_codes(problem, order.device).expand(*tokens.shape[:-1], problem.code_dim)

    first = len(problem.facts.known) - 1
    asked = symbols[..., [first + hop for hop in problem.target_hops], :].flatten(-2)
    asker = place[..., : problem.chains, -1].argsort(dim=-1)
    targets = asked.gather(-2, asker[..., None].expand(asked.shape))
    return Batch(torch.cat((tokens, codes), dim=-1), targets, place)


def sample(
    problem: RetrievalProblem,
    batch: int,
    generator: torch.Generator,
) -> Batch:
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
    device, laid = generator.device, layout(problem)
    shape = (batch, problem.chains, laid.symbols, problem.symbol_dim)
    symbols = torch.randn(shape, generator=generator, device=device)
    keys = torch.rand((batch, problem.hops + 1, laid.rows), generator=generator, device=device, dtype=torch.float64)
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
        for name, numbers in (("seeds", seeds), ("indices", indices)):
            if not isinstance(numbers, Tensor) or numbers.dtype != torch.int64:
                raise InputError(f"{name} must be a tensor of whole numbers, as torch.arange(3), got {numbers!r}")
        problem, laid = self.problem, layout(self.problem)
        shape = (problem.chains, laid.symbols, problem.symbol_dim)
        count = problem.chains * laid.symbols * problem.symbol_dim
        even = count + count % 2
        bits = random_bits(seeds, indices, even + (problem.hops + 1) * laid.rows)
        leading = bits.shape[:-1]
        symbols = to_normal(bits[..., :even])[..., :count].reshape(*leading, *shape)
        keys = bits[..., even:].reshape(*leading, problem.hops + 1, laid.rows)
        return compose(problem, symbols, keys.argsort(dim=-1))
