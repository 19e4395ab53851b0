"""Claims C1 and C2: Theorem 1 and Lemmas 1 to 3, held against the simulation (Section 5, Appendix B)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import depths
from hopscope.theory.information_flow import spread
from hopscope.theory.scene import Scene, chain_scene


def theory_claims(largest_hops: int = 64) -> list[dict[str, Any]]:
    """Judge C1 and C2 by simulating every chain of up to `largest_hops` hops, without a mask and with one.

    Returns:
        for each claim `id`, `ours` (what was found, in words), `interval` (None: nothing is random), `scale` and
        `verdict`.

    Raises:
        InputError: `largest_hops` below 1.
    """
    if largest_hops < 1:
        raise InputError(f"largest_hops must be at least 1, got {largest_hops}")
    runs = [_Run(problem) for hops in range(1, largest_hops + 1) for problem in _settings(hops)]
    scale = f"simulated, D = 1..{largest_hops}: no mask, causal in both orders"
    return [_theorem_1(runs, scale), _lemmas(runs, scale)]


def _settings(hops: int) -> Iterator[RetrievalProblem]:
    yield RetrievalProblem(hops=hops, chains=1, causal=False)
    yield RetrievalProblem(hops=hops, chains=1)
    yield RetrievalProblem(hops=hops, chains=1, order="shallowest-first")


class _Run:
    """One chain, followed until a layer changes nothing."""

    def __init__(self, problem: RetrievalProblem) -> None:
        self.problem = problem
        self.scene = chain_scene(problem)
        self.history = list(spread(self.scene))
        asker, target = self.scene.asker, self.scene.target
        self.depth = next(t for t, holdings in enumerate(self.history) if holdings[asker] >> target & 1)


def _theorem_1(runs: list[_Run], scale: str) -> dict[str, Any]:
    below = [(run, t) for run in runs for t in range(len(run.history)) if 3**t < 2 * run.problem.hops]
    solved = sum(run.depth <= t for run, t in below)
    exact = all(run.depth == _formula(run.problem) for run in runs)
    deepest = runs[-2:-1] + runs[-3:-2]
    found = ", ".join(f"{run.depth} {'causal' if run.problem.causal else 'without a mask'}" for run in deepest)
    formulas = "equal to the exact formulas at every D" if exact else "NOT equal to the exact formulas"
    ours = (
        f"solved in {solved} of {len(below)} cases with t < log3(2D); "
        f"the minimum found at D = {deepest[0].problem.hops} is {found}, {formulas}"
    )
    return _claim("C1", ours, scale, holds=solved == 0)


def _formula(problem: RetrievalProblem) -> int:
    exact = depths(problem.hops)
    return exact.causal if problem.causal else exact.no_mask


def _lemmas(runs: list[_Run], scale: str) -> dict[str, Any]:
    streams = broken = too_long = 0
    longest: dict[int, int] = {}
    for run in runs:
        for t, holdings in enumerate(run.history):
            for holding in holdings:
                length = holding.bit_count()
                streams += 1
                broken += not _is_run(holding)
                too_long += length > 3**t + 1
                longest[t] = max(longest.get(t, 0), length)
    unlawful = sum(_unlawful_meetings(run.scene) for run in runs)
    lengths = ", ".join(str(longest[t]) for t in sorted(longest)[:4])
    ours = (
        f"of {streams} residual streams {broken} are not one run and {too_long} are longer than 3^t + 1; "
        f"longest after t = 0, 1, 2, ... layers: {lengths}, ..."
    )
    return _claim("C2", ours, scale, holds=broken == too_long == unlawful == 0)


def _is_run(holding: int) -> bool:
    """Whether the bits are contiguous: adding the lowest carries through all of them."""
    return holding & (holding + (holding & -holding)) == 0


def _unlawful_meetings(scene: Scene) -> int:
    """Pairs of positions that share something before any layer without being neighbours in the chain (Lemma 1)."""
    runs = sorted(scene.holdings)
    return sum(bool(runs[i] & runs[j]) for i in range(len(runs)) for j in range(i + 2, len(runs)))


def _claim(claim: str, ours: str, scale: str, *, holds: bool) -> dict[str, Any]:
    verdict = "reproduced" if holds else "not reproduced"
    return {"id": claim, "ours": ours, "interval": None, "scale": scale, "verdict": verdict}
