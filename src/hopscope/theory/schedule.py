"""One shortest schedule: who attends to whom, layer by layer, so that x{D} arrives as early as it can.

A schedule is the witness for an upper bound on depth. Without any one of its attentions x{D} does not arrive, and it
has 2D of them, the fewest there can be (Theorem 5). With any number of heads it is cut out of the simulation,
backwards from the query. With one place a position and layer it is the construction of Theorem 4, pointer doubling,
which needs no search because the theorem proves it shortest.
"""

from __future__ import annotations

from dataclasses import replace

from hopscope.errors import InputError
from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.follow import arrives, by_layer
from hopscope.theory.information_flow import minimum_layers, simulate
from hopscope.theory.path import AttentionPath
from hopscope.theory.scene import Scene, members, role_at


def shortest_schedule(problem: RetrievalProblem, *, one_place: bool = False) -> tuple[AttentionPath, ...]:
    """Attentions that carry x{D} to its query in the fewest layers, ordered by layer.

    Args:
        problem: the problem; its chains behave alike, so roles say it all.
        one_place: whether a position may attend to one place only in a layer, as with one head.

    Raises:
        InputError: x{D} never reaches the query, or `one_place` under a causal mask in an order that is neither deepest
            nor shallowest first.
    """
    problem = replace(problem, chains=1)
    layers = minimum_layers(problem)
    if one_place:
        if problem.causal and problem.order not in NAMED_ORDERS:
            raise InputError(
                f"with one place a layer a schedule is known for {' and '.join(NAMED_ORDERS)} alone, got order "
                f"{problem.order!r}; allow any number of heads"
            )
        learn = _upwards if problem.causal and problem.order == "shallowest-first" else _downwards
        roles = [role_at(i, problem.hops) for i in range(2 * problem.hops + 1)]
        return tuple(sorted(AttentionPath(layer, 0, roles[i], roles[j]) for layer, i, j in learn(problem.hops)))
    flow = simulate(problem, layers)
    return _pruned(flow.scene, problem.hops, _cut_out(flow.scene, flow.holdings))


def _cut_out(scene: Scene, history: tuple[tuple[int, ...], ...]) -> list[AttentionPath]:
    """What the asker needs, traced back from the last layer to the first."""
    paths: list[AttentionPath] = []
    needed = {scene.asker: 1 << scene.target}
    for layer in reversed(range(len(history) - 1)):
        before, earlier = history[layer], dict.fromkeys(needed, 0)
        for position, pieces in needed.items():
            earlier[position] |= pieces & before[position]
            missing = pieces & ~before[position]
            while missing:
                key = _supplier(scene, before, position, missing)
                paths.append(AttentionPath(layer, 0, position, key))
                match = _match(scene, before[position] & before[key], position, key)
                earlier[position] |= match
                earlier[key] = earlier.get(key, 0) | match | (missing & before[key])
                missing &= ~before[key]
        needed = earlier
    return paths


def _supplier(scene: Scene, holdings: tuple[int, ...], position: int, missing: int) -> int:
    """Who, of those it may attend to, holds most of what is missing."""
    allowed = [key for key in members(scene.visible[position]) if holdings[key] & holdings[position]]
    return max(allowed, key=lambda key: (holdings[key] & missing).bit_count())


def _match(scene: Scene, shared: int, position: int, key: int) -> int:
    """The shared piece that is had most cheaply: at best both hold it from the start."""
    start = (scene.holdings[position], scene.holdings[key])
    return 1 << max(members(shared), key=lambda piece: sum(holding >> piece & 1 for holding in start))


def _downwards(hops: int) -> list[tuple[int, int, int]]:
    """Deepest first: second members learn their first member, then ever longer runs down the chain.

    `>x{k}` is attended to once, by `>x{k - 2^a}` (by the query where k = 2^a) in layer a + 2, where 2^a is the lowest
    bit of k: a binomial tree. As (layer from 0, i, j) for s{i} and s{j}.
    """
    inside = [(0, 2 * k, 2 * k - 1) for k in range(1, hops + 1)]
    return inside + [((k & -k).bit_length(), 2 * (k - (k & -k)), 2 * k) for k in range(1, hops + 1)]


def _upwards(hops: int) -> list[tuple[int, int, int]]:
    """Shallowest first: positions learn ever longer runs up the chain, and the query walks down to meet them.

    In layer t the query attends to the last of the s{j} with 2^(t-1) <= j < 2^t (and j <= 2D); each of these blocks
    gathers in its last position along a binomial tree, as above. As (layer from 0, i, j) for s{i} and s{j}.
    """
    steps = []
    for layer in range((2 * hops).bit_length()):
        last = min((2 << layer) - 1, 2 * hops)
        steps.append((layer, 0, last))
        for behind in range(1, last - (1 << layer) + 1):
            bit = behind & -behind
            steps.append((bit.bit_length() - 1, last - behind + bit, last - behind))
    return steps


def _pruned(scene: Scene, hops: int, paths: list[AttentionPath]) -> tuple[AttentionPath, ...]:
    """A subset-minimal part that still delivers: each path in turn is dropped if the rest does without it."""
    kept = tuple(sorted(paths))
    for path in reversed(kept):
        rest = tuple(other for other in kept if other != path)
        if arrives(scene, by_layer(hops, rest)):
            kept = rest
    return kept
