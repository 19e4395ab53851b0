"""Batches of the vector formulation (Section 6), made by tensor operations on any device.

A sequence has one block for each pair k = 1 ... D, then a block of queries. Block k holds pair k of each of the N
chains, in random order.

Two draws determine a sequence: the vectors of its symbols, and the order of the chains in each block. They come from an
explicit generator (`sample`) or from an address (`Examples`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.checks import check_count, check_type
from hopscope.errors import InputError
from hopscope.machine import check_fits
from hopscope.problem.counter import random_bits, to_normal
from hopscope.problem.retrieval import RetrievalProblem, check_problem


@dataclass(frozen=True)
class Batch:
    """Sequences, their targets, and the position of every role.

        >>> batch = hs.sample(hs.RetrievalProblem(hops=2), 5, torch.Generator().manual_seed(0))
        >>> batch.targets.shape, batch.place.shape  # 5 sequences of 4 chains: 2 hops of 4 numbers, 5 roles
        (torch.Size([5, 4, 8]), torch.Size([5, 4, 5]))

    The axes `*batch` are `batch`, or `model batch` if every model has its own examples.

    Attributes:
        inputs: the symbol's vector and the position code at every position.
        targets: for each query, in the order of the queries, the concatenated vectors of the requested hops.
        place: the position of every role of every chain; index an attention map with it to order the map by role.
    """

    inputs: Float[Tensor, "*batch pos d_input"]
    targets: Float[Tensor, "*batch query d_target"]
    place: Int[Tensor, "*batch chain role"]

    @property
    def chain(self) -> Int[Tensor, "*batch pos"]:
        """The chain of every position."""
        return _holders(self.place) // self.place.shape[-1]

    @property
    def role(self) -> Int[Tensor, "*batch pos"]:
        """The role number of every position."""
        return _holders(self.place) % self.place.shape[-1]

    def __getitem__(self, index: int | slice | tuple[slice, ...]) -> Batch:
        """Return the part of the batch at these indices of the leading axes."""
        return Batch(self.inputs[index], self.targets[index], self.place[index])

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch on `device`."""
        return Batch(self.inputs.to(device), self.targets.to(device), self.place.to(device))


def _holders(place: Int[Tensor, "*batch chain role"]) -> Int[Tensor, "*batch pos"]:
    """Return chain × number of roles + role for every position, the inverse of `place`."""
    return place.flatten(-2).argsort(dim=-1)


def places(problem: RetrievalProblem, order: Int[Tensor, "*batch block chain"]) -> Int[Tensor, "*batch chain role"]:
    """Return the position of every role of every chain.

    `order` has a permutation for each block: the rank of every chain in the block. The blocks in `order` are those of
    pairs 1 ... D, then that of the queries; the sequence can have another order.
    """
    hops, chains = problem.hops, problem.chains
    starts = [2 * chains * problem.blocks.index(role // 2 + 1) + role % 2 for role in range(2 * hops)]
    block, first = [role // 2 for role in range(2 * hops + 1)], [*starts, 2 * chains * hops]
    first_row, step = (torch.tensor(x, device=order.device) for x in (first, [2] * (2 * hops) + [1]))
    return (first_row + step * order[..., block, :].transpose(-1, -2)).contiguous()


def position_codes(problem: RetrievalProblem, device: torch.device | str = "cpu") -> Float[Tensor, "pos d_code"]:
    """Return the code of every position: cosines and sines at the rotary frequencies base^(-2i/K) (Su et al. 2023).

    Cosines and sines alternate, starting with the fastest frequency. An odd width drops the last sine.
    """
    length, width = problem.sequence_length, problem.code_dim
    if problem.position == "none":
        return torch.zeros(length, width, device=device)
    number = torch.arange(length, dtype=torch.float64, device=device)
    if problem.position == "pair":  # number the pairs from 0, then the queries
        paired = 2 * problem.chains * problem.hops
        number = torch.where(number < paired, number // 2, number - paired // 2)
    rank = torch.arange((width + 1) // 2, dtype=torch.float64, device=device)
    angle = number[:, None] * float(problem.base) ** (-2.0 * rank / width)
    return torch.stack((angle.cos(), angle.sin()), dim=-1).flatten(1)[:, :width].float()


def compose(
    problem: RetrievalProblem,
    symbols: Float[Tensor, "*batch chain symbol d_symbol"],
    order: Int[Tensor, "*batch block chain"],
) -> Batch:
    """Build sequences from the vectors of every chain's symbols x0 ... xD and every chain's rank in each block."""
    if problem.symbols == "unit":
        symbols = symbols * (problem.symbol_dim**0.5 / symbols.norm(dim=-1, keepdim=True))
    place = places(problem, order)
    tokens = symbols[..., [problem.symbol_of(role) for role in range(place.shape[-1])], :].flatten(-3, -2)
    holder = _holders(place)
    tokens = tokens.gather(-2, holder[..., None].expand(*holder.shape, problem.symbol_dim))
    codes = position_codes(problem, order.device).expand(*tokens.shape[:-1], problem.code_dim)

    asked = symbols[..., problem.target_hops, :].flatten(-2)
    asker = place[..., -1].argsort(dim=-1)
    targets = asked.gather(-2, asker[..., None].expand(asked.shape))
    return Batch(torch.cat((tokens, codes), dim=-1), targets, place)


def sample(problem: RetrievalProblem, batch: int, generator: torch.Generator) -> Batch:
    """Draw `batch` random sequences on the generator's device.

        >>> hs.sample(hs.RetrievalProblem(hops=2), 5, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([5, 20, 8])

    Raises:
        InputError: an argument has the wrong type, `batch` is below 1, or the batch does not fit into memory.
    """
    check_problem(problem)
    check_count("batch", batch)
    check_type("generator", generator, torch.Generator, "a torch.Generator, as torch.Generator().manual_seed(0)")
    numbers = problem.sequence_length * problem.input_dim + problem.chains * problem.target_dim
    roles = 1000 * problem.hops  # approximate bytes of the roles alone
    check_fits((4 * batch * numbers if generator.device.type == "cpu" else 0) + roles)
    device, each = generator.device, problem.hops + 1  # `each`: symbols per chain, and blocks per sequence
    symbols = torch.randn((batch, problem.chains, each, problem.symbol_dim), generator=generator, device=device)
    keys = torch.rand((batch, each, problem.chains), generator=generator, device=device, dtype=torch.float64)
    return compose(problem, symbols, keys.argsort(dim=-1))


@dataclass(frozen=True)
class Examples:
    """An endless list of examples, addressed by (seed, index) and never stored.

    The same address gives the same example on any machine (to rounding). The first n indices of a
    seed make a training set of n examples.

        >>> examples = hs.Examples(hs.RetrievalProblem(hops=2))
        >>> examples.at(torch.tensor(7), torch.arange(3)).inputs.shape
        torch.Size([3, 20, 8])
    """

    problem: RetrievalProblem

    def __post_init__(self) -> None:
        check_problem(self.problem)

    def at(self, seeds: Int[Tensor, "*#batch"], indices: Int[Tensor, "*#batch"]) -> Batch:
        """Return the examples at these addresses: 63-bit seeds (see `derive_seed`) and indices from 0, broadcast.

        Raises:
            InputError: `seeds` or `indices` is not an int64 tensor.
        """
        for name, values in (("seeds", seeds), ("indices", indices)):
            if not isinstance(values, Tensor) or values.dtype != torch.int64:
                raise InputError(f"{name} must be an int64 tensor, as torch.arange(3), got {values!r}")
        chains, each = self.problem.chains, self.problem.hops + 1
        shape = (chains, each, self.problem.symbol_dim)
        numbers = math.prod(shape)
        even = numbers + numbers % 2
        bits = random_bits(seeds, indices, even + each * chains)
        symbols = to_normal(bits[..., :even])[..., :numbers].reshape(*bits.shape[:-1], *shape)
        keys = bits[..., even:].reshape(*bits.shape[:-1], each, chains)
        return compose(self.problem, symbols, keys.argsort(dim=-1))
