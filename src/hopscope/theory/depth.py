"""Layers for D hops: Theorem 1's lower bound, the exact minimum (sometimes larger), and the best order of the pairs.

"Exact" holds under Assumptions 1 and 2 of Section 5, for interleaved chains whose pairs are in blocks, and for
nothing else. Proofs are in docs/proofs.md. All arithmetic is on integers, so the formulas hold for any D, powers of 3
included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hopscope.checks import check_count
from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.information_flow import min_layers


@dataclass(frozen=True)
class Depths:
    """Layers for a chain of `hops` hops, deepest or shallowest pairs first, under Assumptions 1 and 2.

    Attributes:
        theorem_1: the paper's lower bound, rounded up to whole layers.
        no_mask, causal: the exact minimum without a mask, and under a causal mask.
        causal_one_head: the same where a position attends to only one position per layer.
        causal_head_a_row: the same where a layer has a head for every row of a block, beyond Assumption 1.
    """

    hops: int
    theorem_1: int
    no_mask: int
    causal: int
    causal_one_head: int
    causal_head_a_row: int


def depths(hops: int) -> Depths:
    """All five numbers of layers for D hops; an `InputError` if `hops` is not a whole number of at least 1."""
    kinds = theorem_1_bound, minimum_without_mask, minimum_causal, minimum_one_head, minimum_head_a_row
    return Depths(hops, *(kind(hops) for kind in kinds))


def theorem_1_bound(hops: int) -> int:
    """ceil(log3(2D)): fewer layers cannot solve D hops (Theorem 1). This number is not always enough."""
    return _smallest_power(3, 2 * _checked(hops))


def minimum_without_mask(hops: int) -> int:
    """ceil(log3(4D + 1)): the exact minimum without a mask, with two or more heads per layer (Theorem 2)."""
    return _smallest_power(3, 4 * _checked(hops) + 1)


def minimum_causal(hops: int) -> int:
    """floor(log2 D) + 2: the exact minimum, deepest or shallowest pairs first; others need no more (Theorem 3)."""
    return _checked(hops).bit_length() + 1


def minimum_one_head(hops: int) -> int:
    """floor(log2 D) + 2: the exact minimum with one head per layer, causal mask or none, in any order (Theorem 4)."""
    return _checked(hops).bit_length() + 1


def minimum_best_order(hops: int) -> int:
    """1 + ceil(log3(2D + 1)): the exact minimum of `best_order`, causal, with two or more heads (Theorem 6)."""
    return 1 + _smallest_power(3, 2 * _checked(hops) + 1)


def minimum_head_a_row(hops: int) -> int:
    """floor(log2 D) + 1: the same with a head a row (Theorem 7); without a mask it is `theorem_1_bound`."""
    return _checked(hops).bit_length()


def minimum_in_order(problem: RetrievalProblem, *, head_a_row: bool = False) -> int:
    """The exact minimum for a problem's mask and order, with any number of heads: by formula, or else by simulation."""
    if problem.causal and problem.order not in NAMED_ORDERS:
        return min_layers(problem, head_a_row=head_a_row)
    if not problem.causal:
        return (theorem_1_bound if head_a_row else minimum_without_mask)(problem.hops)
    return (minimum_head_a_row if head_a_row else minimum_causal)(problem.hops)


def minimum_of_hop(problem: RetrievalProblem, hop: int, *, one_head: bool = False, head_a_row: bool = False) -> int:
    """The exact minimum to answer with x{hop} of a longer chain: that of the pairs up to `hop`, in their order."""
    if one_head:
        return minimum_one_head(hop)
    order = ",".join(str(pair) for pair in problem.blocks if pair <= hop)
    shorter = replace(problem, hops=hop, order=order, curriculum=True, asked=None)
    return minimum_in_order(shorter, head_a_row=head_a_row)


def minimum_paths(hops: int) -> int:
    """2D: no schedule of any depth has fewer attention paths, and the shortest ones need no more (Theorem 5)."""
    return 2 * _checked(hops)


def reach(layers: int) -> int:
    """The most hops whose exact causal minimum is at most `layers`: 2^(layers - 1) - 1; 0 for fewer than 2 layers."""
    return max(0, 2 ** (layers - 1) - 1) if layers else 0


def best_order(hops: int) -> tuple[int, ...]:
    """An order of the pairs 1 ... D, first to last, in which 1 + ceil(log3(2D + 1)) layers are enough (Theorem 6).

    Under a causal mask the pair that comes last of a stretch of the chain sees all of it. So the best order cuts a
    stretch into three parts around a pivot, which comes last: the first part informs the asker, the two others inform
    the pivot from both sides, and the asker then attends to the pivot. Each part is ordered the same way.

           asker | first part | second part  PIVOT  third part |
                              <---- grows ----o---- grows ---->

    Example:
        >>> best_order(4)
        (1, 2, 4, 3)
    """
    return tuple(_ordered(range(1, _checked(hops) + 1)))


def _ordered(stretch: Sequence[int], mirrored: bool = False) -> list[int]:
    """The best order of a stretch of pairs, given from the asker's end on."""
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
    """The smallest t with base^t >= least."""
    t, power = 0, 1
    while power < least:
        t, power = t + 1, power * base
    return t


def _checked(hops: int) -> int:
    """The number of hops, however many: these are formulas."""
    check_count("hops", hops, most=10**1000)
    return hops
