"""How far an ensemble has come."""

from __future__ import annotations

from hopscope.training.ensemble import Ensemble


def updates(ensemble: Ensemble) -> int:
    """So many updates it has had, by its optimiser's own count."""
    return int(next(iter(ensemble._parts[0]._state.values()))["step"])
