"""Claims C12 and C13: transformer D learns, its circuit suffices, and its heads emerge in order (Section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hopscope.emergence.crossing import spread
from hopscope.emergence.history import Emergence

BAR = 0.05
"""A loss counts as low below this (Appendix E); the paper's transformer D has 0.031, its circuit alone 0.045."""

LEAST_PLATEAU = 0.05
"""A plateau counts as one if it lasts at least this share of the run; the paper's took more than half."""


def emergence_claims(
    preset: str, emergences: Sequence[Emergence], losses: Sequence[float | None], evidence: str | None = None
) -> list[dict[str, Any]]:
    """Judge C12 and C13 from the data alone.

    C12 is reproduced if every model has a final validation loss under 0.05, and its circuit alone, patterns imposed,
    has too. C13 is reproduced if in every model there was a plateau and training left it; the losses of hops 1, 2, ...
    fell below 0.5 in this order; and so, one after the other, did the paths come that deliver them. Some hops may come
    together where one head serves both: then heads did not emerge one by one, and the claim is not reproduced. A model
    without a circuit speaks against C12, and says nothing of C13.

    Args:
        preset: the scale's name.
        emergences: of the models that have a circuit, each with another seed.
        losses: final validation losses of all models whose circuit was looked for; None for one that diverged.
        evidence: the folder that holds them, relative to the report.
    """
    if not emergences:
        unjudged = {"ours": "", "interval": None, "scale": preset, "verdict": "not run", "run": None}
        learned = {**_learns([], losses), "run": evidence} if losses else {}
        return [{**unjudged, "id": "C12", **learned}, {**unjudged, "id": "C13"}]
    first = emergences[0]
    count = len(emergences)
    scale = (
        f"{preset}: D = {first.hops}, {first.layers} layers x {first.heads} head{'s' * (first.heads > 1)}, "
        f"{first.total_steps} steps, {count} seed{'s' * (count > 1)}"
    )
    return [
        {"scale": scale, "run": evidence, **finding} for finding in (_learns(emergences, losses), _in_order(emergences))
    ]


def _learns(emergences: Sequence[Emergence], losses: Sequence[float | None]) -> dict[str, Any]:
    """C12."""
    alone = [emergence.circuit.get("imposed") for emergence in emergences]
    missing = len(losses) - len(emergences)
    holds = not missing and all(loss is not None and loss < BAR for loss in (*losses, *alone))
    ours = f"validation MSE {_listed(losses)}"
    ours += f"; circuit alone {_listed(alone)}" if alone else ""
    ours += f"; no circuit in {missing} of {len(losses)} models" if missing else ""
    return {"id": "C12", "ours": ours, "interval": _range(losses), "verdict": _verdict(holds)}


def _in_order(emergences: Sequence[Emergence]) -> dict[str, Any]:
    """C13."""
    holds = [_emerges_in_order(emergence) for emergence in emergences]
    first = emergences[0]
    left, low, high = spread([emergence.plateau.left for emergence in emergences])
    delivered = [spread([one.order.emerged[hop] for one in emergences])[0] for hop in range(first.hops)]
    learned = [spread([one.plateau.learned[k] for one in emergences])[0] for k in range(len(first.plateau.learned))]
    crossed = sum(path.crossing.step is not None for one in emergences for path in one.paths)
    paths = sum(len(one.paths) for one in emergences)
    order = ", ".join(f"x{hop} {_epoch(first, step)}" for hop, step in enumerate(delivered, start=1))
    many = f" (medians of {len(emergences)} seeds)" if len(emergences) > 1 else ""
    ours = (
        f"plateau of {_epoch(first, left)} epochs{many}; attention crosses 0.5 on {crossed} of {paths} paths, and what "
        f"has emerged delivers {order}; losses below 0.5 at {', '.join(_epoch(first, step) for step in learned)}; "
        f"one by one in {sum(holds)} of {len(holds)} models"
    )
    interval = (
        None
        if low is None or high is None or len(emergences) == 1
        else f"plateau {_epoch(first, low)} to {_epoch(first, high)} epochs over seeds"
    )
    return {"id": "C13", "ours": ours, "interval": interval, "verdict": _verdict(all(holds))}


def _emerges_in_order(emergence: Emergence) -> bool:
    plateau = emergence.plateau
    if plateau.left is None or (plateau.length or 0) < LEAST_PLATEAU * emergence.total_steps:
        return False
    learned = [step for step in plateau.learned if step is not None]
    return len(learned) == len(plateau.learned) and learned == sorted(learned) and emergence.order.one_by_one


def _epoch(emergence: Emergence, step: float | None) -> str:
    return "never" if step is None else f"{step / emergence.steps_per_epoch:.0f}"


def _listed(values: Sequence[float | None]) -> str:
    return ", ".join("none" if value is None else f"{value:.3f}" for value in values)


def _range(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _verdict(holds: bool) -> str:
    return "reproduced" if holds else "not reproduced"
