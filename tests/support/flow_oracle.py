"""Information flow again, from the words of Section 5 alone: searches that share no code with the package.

A sequence is a list of (symbol, place) facts as the text lays it out; nothing here knows about roles, reachability
order or contiguous runs.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray


def layout(hops: int, order: str) -> list[tuple[int, int]]:
    """One chain in its order in the sequence: (symbol, pair), pair 0 for the query, which is last."""
    named = {"deepest-first": range(hops, 0, -1), "shallowest-first": range(1, hops + 1)}
    pairs = named[order] if order in named else [int(pair) for pair in order.split(",")]
    return [(symbol, pair) for pair in pairs for symbol in (pair - 1, pair)] + [(0, 0)]


def start(hops: int, order: str) -> NDArray[np.bool_]:
    """Who holds what before any layer; columns are symbols 0 ... D, then pairs 0 ... D."""
    table = np.zeros((2 * hops + 1, 2 * hops + 2), dtype=bool)
    for row, (symbol, pair) in enumerate(layout(hops, order)):
        table[row, symbol] = table[row, hops + 1 + pair] = True
    return table


def breadth_first_depth(hops: int, causal: bool, order: str = "deepest-first") -> int:
    """Layers until the last position holds symbol D when everybody attends to all it shares something with."""
    holds = start(hops, order)
    visible = np.tril(np.ones((len(holds),) * 2, dtype=bool)) if causal else np.ones((len(holds),) * 2, dtype=bool)
    layers = 0
    while not holds[-1, hops]:
        attends = ((holds.astype(np.int32) @ holds.T.astype(np.int32)) > 0) & visible
        holds = (attends.astype(np.int32) @ holds.astype(np.int32)) > 0
        layers += 1
    return layers


def depths_of_all_orders(hops: int) -> Counter[int]:
    """How many orders of the pairs need how many layers under a causal mask: every order, all at once."""
    orders = [",".join(map(str, order)) for order in permutations(range(1, hops + 1))]
    holds = np.stack([start(hops, order) for order in orders]).astype(np.float32)
    found: Counter[int] = Counter()
    layers, waiting = 0, len(orders)
    while waiting:
        attends = np.tril(holds @ holds.transpose(0, 2, 1) > 0).astype(np.float32)
        holds = (attends @ holds > 0).astype(np.float32)
        layers += 1
        found[layers] = int((holds[:, -1, hops] > 0).sum()) - (len(orders) - waiting)
        waiting -= found[layers]
    return +found


def exhaustive_one_place_depth(hops: int, causal: bool, order: str = "deepest-first") -> int:
    """The same with one place a position and layer, by trying every schedule. For very small D."""
    first = tuple(frozenset({("x", symbol), ("p", pair)}) for symbol, pair in layout(hops, order))
    states, layers = {first}, 0
    while True:
        if any(("x", hops) in state[-1] for state in states):
            return layers
        states = {after for state in states for after in _one_place_layer(state, causal)}
        layers += 1


def _one_place_layer(state: tuple[frozenset[object], ...], causal: bool) -> set[tuple[frozenset[object], ...]]:
    options = []
    for i, held in enumerate(state):
        seen = state[: i + 1] if causal else state
        reachable = {held | other for other in seen if held & other}
        # Knowing less is never better, so a choice inside another may be dropped.
        options.append([choice for choice in reachable if not any(choice < other for other in reachable)])
    return set(product(*options))


def relaxed_one_place_depth(hops: int, causal: bool, order: str = "deepest-first") -> int:
    """A lower bound for one place a layer: every position may be in any state it could reach if it alone mattered."""
    places = layout(hops, order)
    fronts = [{frozenset({("x", symbol), ("p", pair)})} for symbol, pair in places]
    layers = 0
    while not any(("x", hops) in held for held in fronts[-1]):
        fronts = [_relaxed(fronts, i, causal) for i in range(len(places))]
        layers += 1
    return layers


def _relaxed(fronts: list[set[frozenset[object]]], i: int, causal: bool) -> set[frozenset[object]]:
    seen = fronts[: i + 1] if causal else fronts
    reached = {held | other for held in fronts[i] for front in seen for other in front if held & other}
    reached |= fronts[i]
    return {held for held in reached if not any(held < other for other in reached)}
