"""The depth of D hops: Theorem 1's bound, and the exact minimum it falls short of, as formulas.

"Exact" is under Assumptions 1 and 2 of Section 5, for interleaved chains whose pairs stand in blocks, and for nothing
else. Proofs in docs/theory.md. All arithmetic is on integers, so the formulas hold for any D, powers of 3 included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hopscope.errors import InputError
from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.information_flow import minimum_layers


def theorem_1_bound(hops: int) -> int:
    """ceil(log3(2D)): fewer layers cannot solve D hops (Theorem 1). Not always enough."""
    return _smallest_power(3, 2 * _checked(hops))


def minimum_without_mask(hops: int) -> int:
    """ceil(log3(4D + 1)): exactly enough without a mask, with two heads a layer or more (Theorem 2)."""
    return _smallest_power(3, 4 * _checked(hops) + 1)


def minimum_causal(hops: int) -> int:
    """floor(log2 D) + 2: exactly enough under a causal mask, deepest or shallowest pairs first (Theorem 3).

    With any number of heads. Enough in any other order too (Theorem 4), where fewer layers may do: `minimum_in_order`.
    """
    return _checked(hops).bit_length() + 1


def minimum_best_order(hops: int) -> int:
    """1 + ceil(log3(2D + 1)): exactly enough under a causal mask in the best order of the pairs (Theorem 6).

    With two heads a layer or more. No order needs fewer layers; `orders.best_order` needs no more.
    """
    return 1 + _smallest_power(3, 2 * _checked(hops) + 1)


def minimum_head_a_row(hops: int) -> int:
    """floor(log2 D) + 1: exactly enough with a head a row, deepest or shallowest pairs first (Theorem 7).

    One layer fewer than `minimum_causal`. Without a mask `theorem_1_bound` is exactly enough so.
    """
    return _checked(hops).bit_length()


def minimum_in_order(problem: RetrievalProblem, *, head_a_row: bool = False) -> int:
    """Exactly enough for this problem's mask and order, with any number of heads: a formula, or else by simulation.

    Args:
        problem: whose.
        head_a_row: whether heads may be used so (Theorem 7).
    """
    if problem.graph != "chain" or (problem.causal and problem.order not in NAMED_ORDERS):
        return minimum_layers(problem, head_a_row=head_a_row)
    if not problem.causal:
        return (theorem_1_bound if head_a_row else minimum_without_mask)(problem.hops)
    return (minimum_head_a_row if head_a_row else minimum_causal)(problem.hops)


def minimum_of_hop(problem: RetrievalProblem, hop: int, *, one_head: bool = False, head_a_row: bool = False) -> int:
    """Exactly enough to answer with x{hop} of a longer chain: what the pairs up to it ask for in the order they have.

    Args:
        problem: of D hops.
        hop: from 1 to D.
        one_head: whether layers have one head, in place of as many as one likes.
        head_a_row: whether heads may be used so (Theorem 7).
    """
    if problem.graph != "chain":
        return minimum_layers(problem, hop, head_a_row=head_a_row)
    if one_head:
        return minimum_one_head(hop)
    order = ",".join(str(pair) for pair in problem.blocks if pair <= hop)
    shorter = replace(problem, hops=hop, order=order, curriculum=True, asked=None)
    return minimum_in_order(shorter, head_a_row=head_a_row)


def minimum_one_head(hops: int) -> int:
    """floor(log2 D) + 2: exactly enough with one head a layer, causal mask or none, in any order (Theorem 4)."""
    return _checked(hops).bit_length() + 1


def minimum_paths(hops: int) -> int:
    """2D: no schedule of any depth has fewer attentions, and the shortest ones need no more (Theorem 5)."""
    return 2 * _checked(hops)


@dataclass(frozen=True)
class Depths:
    """Layers for a chain of `hops` hops, deepest or shallowest pairs first, under Assumptions 1 and 2.

    Attributes:
        hops: D.
        theorem_1: the paper's lower bound, rounded up to whole layers.
        no_mask: the exact minimum without a mask.
        causal: the exact minimum under a causal mask.
        causal_one_head: the same where a position attends to one place a layer.
        causal_head_a_row: the same where a layer has a head for every row of a block, beyond Assumption 1.
    """

    hops: int
    theorem_1: int
    no_mask: int
    causal: int
    causal_one_head: int
    causal_head_a_row: int


def depths(hops: int) -> Depths:
    """All five numbers for D hops.

    Raises:
        InputError: `hops` below 1.
    """
    kinds = theorem_1_bound, minimum_without_mask, minimum_causal, minimum_one_head, minimum_head_a_row
    return Depths(hops, *(kind(hops) for kind in kinds))


def reach(layers: int) -> int:
    """The most hops whose exact causal minimum is at most `layers`: 2^(layers - 1) - 1; none with fewer than two."""
    return max(0, 2 ** (layers - 1) - 1) if layers else 0


def _smallest_power(base: int, least: int) -> int:
    """The smallest t with base^t >= least."""
    t, power = 0, 1
    while power < least:
        t, power = t + 1, power * base
    return t


def _checked(hops: int) -> int:
    if isinstance(hops, bool) or not isinstance(hops, int) or hops < 1:  # however many: these are formulas
        raise InputError(f"hops must be a whole number of at least 1, got {hops!r}")
    return hops
