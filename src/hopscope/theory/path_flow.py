"""Do given attention paths carry x{D} to the query? Information flow along the paths of a circuit and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.information_flow import tells
from hopscope.theory.scene import Scene, problem_scene


class PathFlow(NamedTuple):
    """The flow of information along attention paths.

    Attributes:
        history: what every position held, by layer, from 0 (before the first), and position.
        refused: paths between positions that shared nothing by then (Assumption 1), or nothing that tells the key from
            its distractors; they carried nothing.
        idle: paths that carried, but nothing new.
    """

    history: list[tuple[int, ...]]
    refused: list[AttentionPath]
    idle: list[AttentionPath]


def follow(scene: Scene, paths: Iterable[AttentionPath], *, waive: bool = False) -> PathFlow:
    """Follow the paths, all of a layer at once.

    A head does the same at every position of a role: what a path does in a fact, it also does in its distractors, where
    Assumption 1 allows it. So retrieval by one key of two, which would find the distractors too, does not count.

    With `waive`, paths carry even where Assumption 1 forbids them.

    Raises:
        InputError: a layer is below 0, or the scene does not have a role.
    """
    ordered, flow, roles = sorted(paths), PathFlow([scene.holdings], [], []), range(scene.roles)
    if wrong := [path for path in ordered if path.layer < 0 or path.query not in roles or path.key not in roles]:
        layer, _, query, key = wrong[0]
        raise InputError(
            f"a path of a chain with {scene.roles} roles has a layer from 0 on and roles 0 to {scene.roles - 1}, got "
            f"layer {layer}, roles {query} and {key}"
        )
    for layer in range(ordered[-1].layer + 1 if ordered else 0):
        before, after = flow.history[-1], list(flow.history[-1])
        for path in (path for path in ordered if path.layer == layer):
            for row in scene.distractors:
                query, key = row[path.query], row[path.key] if row[path.key] >= 0 else path.key
                if query >= 0 and tells(scene, flow.history, query, key):
                    after[query] |= before[key]
            if not waive and not tells(scene, flow.history, path.query, path.key):
                flow.refused.append(path)
                continue
            if not before[path.key] & ~before[path.query]:
                flow.idle.append(path)
            after[path.query] |= before[path.key]
        flow.history.append(tuple(after))
    return flow


def arrives(scene: Scene, paths: Iterable[AttentionPath], *, waive: bool = False) -> bool:
    """Whether the asker holds the target after these paths; the arguments are those of `follow`."""
    return follow(scene, paths, waive=waive).history[-1][scene.asker] >> scene.target & 1 == 1


@dataclass(frozen=True)
class Delivery:
    """What reaches the query along given paths, under Assumptions 1 and 2.

    Attributes:
        delivered: whether the query holds the target, x{D}, after the last layer.
        growth: the pieces that the query holds after layer 0, 1, 2, ..., by name, in the order of the chain.
        hops: the hops k whose symbol (x{k} in a chain) the query holds in the end.
        refused, idle: paths that Assumption 1 forbids, and that carry nothing new, see `PathFlow`.
        delivered_if_waived: whether the target would arrive if Assumption 1 were waived and every path carried.
        broken: one sentence on where delivery fails; empty if delivered.
    """

    delivered: bool
    growth: tuple[tuple[str, ...], ...]
    hops: tuple[int, ...]
    refused: tuple[AttentionPath, ...]
    idle: tuple[AttentionPath, ...]
    delivered_if_waived: bool
    broken: str


def deliver(hops: int, paths: Iterable[AttentionPath], scene: Scene | None = None) -> Delivery:
    """Follow attention paths in any order, all paths of a layer at once, in a scene (by default, D hops of vectors).

    Heads, masks and block orders do not matter: the paths say which positions attend to which.

    A fact with several keys needs all of them, retrieved before:

        >>> from hopscope.theory.scene import problem_scene
        >>> problem = hs.RetrievalProblem(graph="functions")
        >>> one_key = "L1.H1 >0 -> i>", "L1.H2 >3 -> a>", "L1.H3 >3 -> 0>", "L2.H1 i? -> >0", "L3.H1 i? -> >3"
        >>> paths = [hs.theory.AttentionPath.parse(path, problem.roles) for path in one_key]
        >>> hs.theory.deliver(3, paths, problem_scene(problem)).hops
        (1,)

    Raises:
        InputError: `hops` is below 1 or more than memory holds, an item is not an `AttentionPath`, a layer is below 0,
            or a role is unknown.
    """
    paths = list(paths) if isinstance(paths, Iterable) else [paths]
    if wrong := [path for path in paths if not isinstance(path, AttentionPath)]:
        raise InputError(f"paths are AttentionPaths, as AttentionPath.parse makes them of text, got {wrong[0]!r}")
    scene = scene or problem_scene(RetrievalProblem(hops=hops))
    flow, waived = follow(scene, paths), arrives(scene, paths, waive=True)
    end = flow.history[-1][scene.asker]
    held = tuple(k for k, piece in enumerate(scene.lookups, start=1) if end >> piece & 1)
    delivered = end >> scene.target & 1 == 1
    return Delivery(
        delivered=delivered,
        growth=tuple(scene.names(holdings[scene.asker]) for holdings in flow.history),
        hops=held,
        refused=tuple(flow.refused),
        idle=tuple(flow.idle),
        delivered_if_waived=waived,
        broken="" if delivered else _why(scene, held, flow.refused if waived else []),
    )


def _why(scene: Scene, held: tuple[int, ...], culprits: list[AttentionPath]) -> str:
    """The sentence for a target that did not arrive. In a chain holdings are runs (Lemma 2), so hops 1, 2, ... did."""
    target, apart = scene.pieces[scene.target], "share nothing by then"
    if scene.distractors:
        found = [scene.pieces[scene.lookups[k - 1]] for k in held]
        known = f"the query finds {', '.join(found) or 'nothing'}, and not {target}"
        apart = "share nothing by then that tells the fact from its distractors"
    else:
        known = f"the query gets as far as x{len(held)}, not to {target}"
    if not culprits:
        return f"{known}: even if each path carried all that its key holds, nothing further arrives; one is missing"
    listed = "; ".join(path.describe(scene.positions) for path in culprits)
    return f"{known}: Assumption 1 breaks at {listed}, where the two positions {apart}"
