"""Does a set of attention paths carry x{D} to the query? The simulator, restricted to the paths of a circuit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.follow import by_layer, follow
from hopscope.theory.path import AttentionPath
from hopscope.theory.scene import Scene, chain_scene


@dataclass(frozen=True)
class Delivery:
    """What reaches the query along given paths, under Assumptions 1 and 2.

    Attributes:
        delivered: whether the query holds x{D} after the last layer.
        growth: the pieces the query holds after layer 0, 1, 2, ..., by name, in the order of the chain.
        hops: the hops k whose symbol x{k} it holds in the end.
        refused: paths between positions that share nothing by then: Assumption 1 forbids them, so they carry nothing.
        idle: paths that are allowed and bring their position nothing it does not hold.
        delivered_if_waived: whether x{D} would arrive if Assumption 1 were waived and every path carried.
        broken: where it broke, one sentence; empty if delivered.
    """

    delivered: bool
    growth: tuple[tuple[str, ...], ...]
    hops: tuple[int, ...]
    refused: tuple[AttentionPath, ...]
    idle: tuple[AttentionPath, ...]
    delivered_if_waived: bool
    broken: str


def deliver(hops: int, paths: Iterable[AttentionPath], scene: Scene | None = None) -> Delivery:
    """Follow the paths layer by layer, all paths of a layer at once.

    Args:
        hops: D.
        paths: in any order. Heads do not matter, nor do masks and orders: the paths say who looks where.
        scene: what every role knows at the start; by default a chain of vectors.

    Raises:
        InputError: `hops` below 1, a layer below 0, or an unknown role.
    """
    scene = scene or chain_scene(RetrievalProblem(hops=hops, chains=1))
    steps = by_layer(hops, paths, len(scene.positions))
    flow = follow(scene, steps)
    end = flow.history[-1][scene.asker]
    held = tuple(k for k in range(1, hops + 1) if end >> (2 * k + 1) & 1)
    waived = follow(scene, steps, waive=True).history[-1][scene.asker] >> scene.target & 1 == 1
    delivered = hops in held
    return Delivery(
        delivered=delivered,
        growth=tuple(scene.names(holdings[scene.asker]) for holdings in flow.history),
        hops=held,
        refused=flow.refused,
        idle=flow.idle,
        delivered_if_waived=waived,
        broken="" if delivered else _why(hops, len(held), flow.refused if waived else ()),
    )


def _why(hops: int, reached: int, culprits: tuple[AttentionPath, ...]) -> str:
    """The sentence for a target that did not arrive. Holdings are runs (Lemma 2), so hops 1 ... `reached` did."""
    known = f"the query gets as far as x{reached}, not to x{hops}"
    if not culprits:
        return f"{known}: even if each path carried all that its key holds, nothing further arrives; one is missing"
    listed = "; ".join(path.describe(hops) for path in culprits)
    return f"{known}: Assumption 1 breaks at {listed}, where the two positions share nothing by then"
