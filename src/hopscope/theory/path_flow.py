"""Information flow along given attention paths alone: whether they carry x{D} to the query, and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import Problem, RetrievalProblem
from hopscope.theory.depth import minimum_one_head
from hopscope.theory.scene import Scene, problem_scene, text_scene

Strategy = Literal["serial", "line by line", "doubling", "none", "not asked"]
"""The strategies by which a circuit can compute an answer; see `strategy`."""


class PathFlow(NamedTuple):
    """The flow of information along attention paths.

    Attributes:
        history: the pieces that every position held, by layer (0 is before the first layer) and position.
        refused: paths that carried nothing because their positions shared nothing by then (Assumption 1).
    """

    history: list[tuple[int, ...]]
    refused: list[AttentionPath]


def follow(scene: Scene, paths: Iterable[AttentionPath], *, waive: bool = False) -> PathFlow:
    """Follow the paths layer by layer.

    If `waive` is set, paths carry information even if Assumption 1 forbids them.

    Raises:
        InputError: a layer is below 0, or the scene does not have a role.
    """
    ordered, flow, roles = sorted(paths), PathFlow([scene.holdings], []), range(len(scene.positions))
    if wrong := [path for path in ordered if path.layer < 0 or path.query not in roles or path.key not in roles]:
        layer, _, query, key = wrong[0]
        raise InputError(
            f"a path of a chain with {len(roles)} roles needs a layer of at least 0 and roles 0 to {roles[-1]}, got "
            f"layer {layer}, roles {query} and {key}"
        )
    for layer in range(ordered[-1].layer + 1 if ordered else 0):
        before, after = flow.history[-1], list(flow.history[-1])
        for path in (path for path in ordered if path.layer == layer):
            if not waive and not before[path.query] & before[path.key]:
                flow.refused.append(path)
                continue
            after[path.query] |= before[path.key]
        flow.history.append(tuple(after))
    return flow


def arrives(scene: Scene, paths: Iterable[AttentionPath], *, waive: bool = False) -> bool:
    """Return whether the asker holds the target after these paths; the arguments are those of `follow`."""
    return follow(scene, paths, waive=waive).history[-1][scene.asker] >> scene.target & 1 == 1


@dataclass(frozen=True)
class Delivery:
    """The information that reaches the query along given paths, under Assumptions 1 and 2.

    Attributes:
        delivered: whether the query holds the target, x{D}, after the last layer.
        growth: the pieces that the query holds after layer 0, 1, 2, ..., by name, in the order of the chain.
        hops: the hops k whose symbol x{k} the query holds in the end.
        refused: paths that Assumption 1 forbids; see `PathFlow`.
        broken: one sentence on where delivery fails; empty if delivered.
    """

    delivered: bool
    growth: tuple[tuple[str, ...], ...]
    hops: tuple[int, ...]
    refused: tuple[AttentionPath, ...]
    broken: str


def deliver(hops: int, paths: Iterable[AttentionPath], scene: Scene | None = None) -> Delivery:
    """Follow attention paths, given in any order, through a scene (by default, one chain of D hops of vectors).

    Heads, masks and block orders do not matter, since the paths say which positions attend to which.

    Raises:
        InputError: `hops` is below 1 or too large for memory, an item is not an `AttentionPath`, a layer is below 0,
            or a role is unknown.
    """
    paths = list(paths) if isinstance(paths, Iterable) else [paths]
    if wrong := [path for path in paths if not isinstance(path, AttentionPath)]:
        raise InputError(f"paths must be AttentionPaths, such as AttentionPath.parse returns, got {wrong[0]!r}")
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
        broken="" if delivered else _why(scene, held, flow.refused if waived else []),
    )


def _why(scene: Scene, held: tuple[int, ...], culprits: list[AttentionPath]) -> str:
    """Return a sentence on why the target did not arrive; by Lemma 2, `held` is 1, 2, ... without a gap."""
    known = f"the query gets as far as x{len(held)}, not to {scene.pieces[scene.target]}"
    if not culprits:
        return f"{known}: even if each path carried all that its key holds, nothing further arrives; a path is missing"
    listed = "; ".join(path.describe(scene.positions) for path in culprits)
    return f"{known}: Assumption 1 breaks at {listed}, where the two positions share nothing by then"


def strategy(problem: Problem, paths: Sequence[AttentionPath]) -> Strategy:
    """Return the strategy by which these paths answer a problem.

    A jump is a path between two pairs; paths from or to the query do not count.

    - `serial`: there are no jumps; the query alone walks the chain.
    - `line by line`: the circuit has more layers than doubling needs in any order (Theorem 4). A pair jumps to its
      neighbour after the neighbour has jumped, and the two together know one symbol more than the better informed did.
    - `doubling`: pairs jump in another way; a retrieval step that reads a pair after its jump covers several hops.
    - `none`: there are no paths. `not asked`: the task has no chains.
    """
    if not paths or not isinstance(problem, RetrievalProblem):
        return "not asked" if paths else "none"
    if not (jumps := [path for path in paths if 0 < problem.fact_of(path.query) != problem.fact_of(path.key) > 0]):
        return "serial"
    if len({path.layer for path in paths}) <= minimum_one_head(problem.hops):
        return "doubling"
    scene = text_scene(problem)  # its roles begin with those of vectors
    history = follow(scene, paths, waive=True).history

    def known(layer: int, role: int) -> set[str]:
        pair = problem.fact_of(role)
        symbols = {symbol for symbol in scene.names(history[layer][role]) if symbol.startswith("x")}
        return symbols | {f"x{pair - 1}", f"x{pair}"}

    for layer, _, query, key in jumps:
        of_query, of_key = known(layer, query), known(layer, key)
        neighbours = abs(problem.fact_of(query) - problem.fact_of(key)) == 1
        if neighbours and len(of_key) > 2 and len(of_query | of_key) == max(len(of_query), len(of_key)) + 1:
            return "line by line"
    return "doubling"
