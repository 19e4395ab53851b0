"""Layers for D hops: Theorem 1's lower bound, the exact minimum (sometimes larger), and the best order of the pairs.

Minima are exact only under Assumptions 1 and 2 of Section 5, for interleaved chains whose pairs are in blocks. Proofs
are in docs/proofs.md. All arithmetic is on integers, so the formulas are right for any D, powers of 3 included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hopscope.checks import check_count
from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.information_flow import min_layers


@dataclass(frozen=True)
class Depths:
    """Numbers of layers for `hops` hops, with the deepest or shallowest pairs first, under Assumptions 1 and 2.

    Attributes:
        theorem_1: the paper's lower bound, rounded up to whole layers.
        no_mask: the exact minimum without a mask.
        causal: the exact minimum under a causal mask.
        causal_one_head: the causal minimum if each position attends to only one position per layer.
        causal_head_a_row: the causal minimum if a layer has a head for every row of a block, beyond Assumption 1.
    """

    hops: int
    theorem_1: int
    no_mask: int
    causal: int
    causal_one_head: int
    causal_head_a_row: int


def depths(hops: int) -> Depths:
    """Return the five numbers of layers for D hops; raise an `InputError` if `hops` is not a whole number from 1."""
    kinds = theorem_1_bound, minimum_without_mask, minimum_causal, minimum_one_head, minimum_head_a_row
    return Depths(hops, *(kind(hops) for kind in kinds))


def theorem_1_bound(hops: int) -> int:
    """ceil(log3(2D)): no smaller number of layers can solve D hops (Theorem 1), but this number may not be enough."""
    return _smallest_power(3, 2 * _checked(hops))


def minimum_without_mask(hops: int) -> int:
    """ceil(log3(4D + 1)): the exact minimum without a mask, with two or more heads per layer (Theorem 2)."""
    return _smallest_power(3, 4 * _checked(hops) + 1)


def minimum_causal(hops: int) -> int:
    """floor(log2 D) + 2: exact minimum, deepest or shallowest pairs first (Theorem 3); no order needs more (4)."""
    return _checked(hops).bit_length() + 1


def minimum_one_head(hops: int) -> int:
    """floor(log2 D) + 2: exact minimum with one head per layer, with or without a mask, in any order (Theorem 4)."""
    return _checked(hops).bit_length() + 1


def minimum_best_order(hops: int) -> int:
    """1 + ceil(log3(2D + 1)): exact causal minimum of `best_order` with two or more heads (Theorem 6)."""
    return 1 + _smallest_power(3, 2 * _checked(hops) + 1)


def minimum_head_a_row(hops: int) -> int:
    """floor(log2 D) + 1: causal minimum by rule 1' (Theorem 7); without a mask it is `theorem_1_bound`."""
    return _checked(hops).bit_length()


def minimum_in_order(problem: RetrievalProblem, *, head_a_row: bool = False) -> int:
    """Return the exact minimum for a problem's mask and order with any number of heads, by formula or simulation."""
    if problem.causal and problem.order not in NAMED_ORDERS:
        return min_layers(problem, head_a_row=head_a_row)
    if not problem.causal:
        return (theorem_1_bound if head_a_row else minimum_without_mask)(problem.hops)
    return (minimum_head_a_row if head_a_row else minimum_causal)(problem.hops)


def minimum_of_hop(problem: RetrievalProblem, hop: int, *, one_head: bool = False, head_a_row: bool = False) -> int:
    """Return the exact minimum number of layers to answer with x{hop}; pairs after pair `hop` do not matter.

    Positions are assumed to be known, also if the problem's `position` is `none`.
    """
    check_count("hop", hop, 1, problem.hops)
    if one_head:
        return minimum_one_head(hop)
    order = ",".join(str(pair) for pair in problem.blocks if pair <= hop)
    shorter = replace(problem, hops=hop, order=order, position="token", curriculum=True, asked=None)
    return minimum_in_order(shorter, head_a_row=head_a_row)


def minimum_paths(hops: int) -> int:
    """2D: the minimum number of attention paths in a schedule of any depth (Theorem 5)."""
    return 2 * _checked(hops)


def reach(layers: int) -> int:
    """Return the most hops of `layers` layers with a causal mask, deepest pairs first: 2^(layers - 1) - 1, or 0."""
    return max(0, 2 ** (layers - 1) - 1) if layers else 0


def best_order(hops: int) -> tuple[int, ...]:
    """Return an order of the pairs 1 ... D (first to last) for which 1 + ceil(log3(2D + 1)) layers suffice (Theorem 6).

    Under a causal mask, the last pair of a stretch of the chain sees the whole stretch. The best order therefore cuts a
    stretch into three parts around a pivot, which comes last. The first part informs the asker, the other two parts
    inform the pivot from both sides, and the asker then attends to the pivot. Each part is ordered the same way.

           asker | first part | second part  PIVOT  third part |
                              <---- grows ----o---- grows ---->

    Example:
        >>> best_order(4)
        (1, 2, 4, 3)
    """
    return tuple(_ordered(range(1, _checked(hops) + 1)))


def _ordered(stretch: Sequence[int], mirrored: bool = False) -> list[int]:
    """Return the best order of a stretch of pairs; the first pair of `stretch` is the one nearest to the asker."""
    if not stretch:
        return []
    rest = len(stretch) - 1
    near, pivot = (rest + 2) // 3, (rest + 2) // 3 + (rest + 1) // 3
    parts = [
        _ordered(stretch[:near], mirrored),
        _ordered(stretch[near:pivot][::-1], not mirrored),
        _ordered(stretch[pivot + 1 :], mirrored),
    ]
    return [*(pair for part in (parts[::-1] if mirrored else parts) for pair in part), stretch[pivot]]


def _smallest_power(base: int, least: int) -> int:
    """Return the smallest t with base^t >= least."""
    t, power = 0, 1
    while power < least:
        t, power = t + 1, power * base
    return t


def _checked(hops: int) -> int:
    """Return `hops` if it is a valid number; formulas have practically no upper limit."""
    check_count("hops", hops, most=10**1000)
    return hops
