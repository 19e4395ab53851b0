"""Small made-up results in the form that experiments give to the report."""

from __future__ import annotations

from typing import Any


def group(layers: int, *, curriculum: bool = True, hops: int = 3, losses: list[Any] | None = None) -> dict[str, Any]:
    """A group of two seeds; `losses` are by seed and hop (or None for a diverged seed)."""
    width = hops if curriculum else 1
    losses = losses or [[0.1 * (hop + 1) for hop in range(width)], [0.1 * (hop + 1) + 0.02 for hop in range(width)]]
    return {
        "hops": hops,
        "chains": 4,
        "curriculum": curriculum,
        "layers": layers,
        "seeds": list(range(len(losses))),
        "final_validation_loss": [None if seed is None else sum(seed) / len(seed) for seed in losses],
        "final_partial_losses": losses,
        "crossings": [[None] * width for _ in losses],
        "run": f"sweep/{'ic' if curriculum else 'non-ic'}-layers-{layers}",
    }


def history(layers: int, steps: int = 5) -> dict[str, Any]:
    """Two seeds, two hops: hop 1 falls in a line, hop 2 stays."""
    at = [10 * (step + 1) for step in range(steps)]
    return {
        "layers": layers,
        "hops": [1, 2],
        "steps": at,
        "seeds": [7, 8],
        "partial_losses": [[[1 - step / 50 - seed / 10, 0.75] for step in at] for seed in (0, 1)],
        "crossings": [[30, None], [20, None]],
    }
