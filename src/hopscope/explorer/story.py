"""The story of a run in five steps: the state of the page, a caption made from measured numbers, and what it claims.

A step whose claim did not hold on this run says so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hopscope.circuits.circuit import Circuit
from hopscope.emergence.history import Emergence
from hopscope.emergence.timing import LEAST_PLATEAU, LEVEL
from hopscope.explorer.exhibit import Exhibit
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.words import counted


@dataclass(frozen=True)
class Chapter:
    """One step of the story; `caption` has this run's numbers, and `axis` is `chain`, or `prompt` for all tokens.

    Attributes:
        claim: what is claimed of all such runs; empty where nothing is claimed.
        holds: whether the claim holds for this run; None where this run cannot say.
        at: the training step of the playhead; None for the end.
        path: the number of the path to select, from 0; None for none.
        cut: the numbers of the paths to cut, from 0.
    """

    title: str
    caption: str
    claim: str = ""
    holds: bool | None = None
    at: int | None = None
    path: int | None = None
    cut: tuple[int, ...] = ()
    axis: str = "chain"


def story(shown: Exhibit) -> list[dict[str, Any]]:
    """The five steps; without a followed circuit, the first and the last of them."""
    problem, history = shown.run.problem, shown.emergence
    steps = [_task(problem)]
    if history is not None and any(path.crossing.step is not None for path in history.paths):
        steps += [_nothing(history), _first(history), _order(history)]
    if shown.transformer is not None and shown.circuit is not None and shown.circuit.found:
        steps.append(_cut(shown.circuit, history))
    return [asdict(step) for step in steps]


def _task(problem: RetrievalProblem) -> Chapter:
    hops = counted(problem.hops, "hop")
    before = "every symbol up to " if problem.curriculum and problem.hops > 1 else ""
    if problem.asked is not None:
        before = "".join(f"x{hop} and " for hop in problem.asked[:-1])
    return Chapter(
        "The task",
        f"{problem.chains} chains of {hops} are cut into pairs and scattered over one prompt. Each query holds x0 of "
        f"its chain and is asked for {before}x{problem.hops}: it must find the pair that starts with x0, read its "
        "second member, and so on. A colour is a chain.",
        axis="prompt",
    )


def _nothing(history: Emergence) -> Chapter:
    plateau, middle = history.plateau, history.steps[len(history.steps) // 4]
    holds, until = None, "to the end"
    if plateau.left is not None:
        share = plateau.left / history.total_steps
        holds, until = share >= LEAST_PLATEAU, f"until step {plateau.left:,}, {share:.0%} of training"
        middle = middle if plateau.reached is None else (plateau.reached + plateau.left) // 2
    seen = min(range(len(history.steps)), key=lambda number: abs(history.steps[number] - middle))  # as the page does
    early = sum(path.attention[seen] > LEVEL for path in history.paths)
    attends = f"{early} of {counted(len(history.paths), 'path')}" if early else "no path"
    return Chapter(
        "Nothing happens",
        f"The loss stays near {plateau.level:g} {until}: the model knows the {history.chains} candidates and not which "
        f"is right. Halfway, the mean attention of {attends} is above {LEVEL:g}.",
        f"a long plateau comes first: at least {LEAST_PLATEAU:.0%} of training",
        holds,
        at=middle,
    )


def _first(history: Emergence) -> Chapter:
    born = [(path.crossing.step, place) for place, path in enumerate(history.paths) if path.crossing.step is not None]
    step, place = min(born)
    path = history.paths[place]
    pair = path.query.startswith(">") and path.key == f"x{int(path.query[2:]) - 1}>"
    before, after = path.crossing.between or (step, step)
    return Chapter(
        "The first head",
        f"Between steps {before:,} and {after:,} layer {path.layer} head {path.head} comes to attend from "
        f"{path.query} to {path.key}; its mean attention crosses 0.5 at step {step:,.0f} and "
        f"ends at {path.attention[-1]:.2f}.",
        "the first path ties the second member of a pair to the first",
        pair,
        at=_checkpoint(history, step),
        path=place,
    )


def _order(history: Emergence) -> Chapter:
    emerged = history.order.emerged
    when = ["never" if step is None else f"at step {step:,.0f}" for step in emerged]
    arrivals = ", ".join(f"x{hop} {words}" for hop, words in enumerate(when, start=1))
    last = max((step for step in emerged if step is not None), default=None)
    return Chapter(
        "The others, in order",
        f"One path after the other crosses 0.5. What has crossed carries to the query: {arrivals}. The loss of each "
        "hop falls with it.",
        "hops come one by one, each after the one before",
        history.order.one_by_one if history.hops > 1 else None,
        at=None if last is None else _checkpoint(history, last),
    )


def _cut(circuit: Circuit, history: Emergence | None) -> Chapter:
    costs = [path.change[-1] for path in history.paths] if history else [path.without.mean for path in circuit.paths]
    worst = costs.index(max(costs))
    path = circuit.paths[worst]
    needed = all(path.without_imposed.mean > circuit.losses["imposed"] for path in circuit.paths)
    return Chapter(
        "Cut it yourself",
        f"Here {path.path.describe(circuit.roles)} is cut: its row attends everywhere alike. The network in this page "
        "is the trained one, so the loss by hop is computed, not drawn. Click an arrow and press Cut, or a number key; "
        "0 restores.",
        "every path is needed: cutting any one raises the loss of the circuit",
        needed,
        path=worst,
        cut=(worst,),
    )


def _checkpoint(history: Emergence, step: float) -> int:
    """The first checkpoint at or after a step."""
    return next((known for known in history.steps if known >= step), history.steps[-1])
