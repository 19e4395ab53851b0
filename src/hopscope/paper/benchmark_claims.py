"""Claims C14 and C15: language models solve the problem untuned, and what guessing reaches (Section 4, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopscope.benchmark.points import Point, Summary
from hopscope.benchmark.statistics import wilson
from hopscope.problem.text.draw import Draw
from hopscope.problem.text.questions import FORMULATIONS, questions

NEAR_PERFECT = 0.95
"""Our reading of "almost perfectly": the least accuracy at every D = 1 ... 5."""

HIGH = 0.75
"""Our reading of "great performance" on the other four: at least this, and the interval above the best shortcut."""

PAPER_GUESS = {"equations": 1 / 4, "lives-with": 1 / 4, "kingdoms": 1 / 4, "functions": 1 / 4, "relatives": 1 / 16}


def benchmark_claims(folder: Path | None = None, count: int = 500) -> list[dict[str, Any]]:
    """Judge C14 from a benchmark's folder, and C15 by a program that guesses.

    Args:
        folder: what `hopscope benchmark` wrote about language models; None when none was asked.
        count: questions of each formulation that the guesser is given.

    Returns:
        for each claim `id`, `ours` (what was found, in words), `interval`, `scale` and `verdict`.

    Raises:
        InputError: the folder holds no benchmark.
    """
    points = Summary.read(folder / "summary.json").points if folder is not None else ()
    return [_models(points), _guessing(count)]


def _models(points: Sequence[Point]) -> dict[str, Any]:
    """C14 holds when a model meets it whole; the best of several is told."""
    whole = {model: those for model in _names(points) if _complete(those := _of(points, model))}
    if not whole:
        asked = f"no model was asked everything ({len(_names(points))} in part)" if points else "no model was asked"
        return _claim("C14", asked, None, "none", "not run")
    best = max(whole, key=lambda model: (_solves(whole[model]), _worst(whole[model])))
    those = whole[best]
    equations = [p for p in those if p.formulation == "equations" and p.hops <= 5]
    lowest = min(equations, key=lambda p: p.accuracy or 0.0)
    others = [p for p in those if p.formulation != "equations"]
    rest = ", ".join(f"{p.formulation} {p.accuracy:.1%}" for p in others)
    ours = f"{best}: equations at least {lowest.accuracy:.1%} for D <= 5 (D = {lowest.hops}); {rest}"
    solvers = sum(_solves(whole[model]) for model in whole)
    ours += f"; {solvers} of {len(whole)} models meet the claim" if len(whole) > 1 else ""
    interval = (min(p.low for p in equations), min(p.high for p in equations))
    scale = f"{len(whole)} model(s), {min(p.asked for p in those)} or more questions a point"
    return _claim("C14", ours, interval, scale, "reproduced" if solvers else "not reproduced")


def _names(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(p.model for p in points))


def _of(points: Sequence[Point], model: str) -> list[Point]:
    return [p for p in points if p.model == model and p.accuracy is not None]


def _complete(points: Sequence[Point]) -> bool:
    """Whether equations at D = 1 ... 5 and the four others at the paper's D have an accuracy."""
    there = {(p.formulation, p.hops) for p in points}
    wanted = {("equations", d) for d in range(1, 6)}
    wanted |= {(form.name, form.paper_hops) for form in FORMULATIONS.values()}
    return wanted <= there


def _solves(points: Sequence[Point]) -> bool:
    """Near perfect on equations for D <= 5, high on the others and clear of every shortcut."""
    for p in points:
        if p.formulation == "equations":
            if p.hops <= 5 and (p.accuracy or 0.0) < NEAR_PERFECT:
                return False
        elif (p.accuracy or 0.0) < HIGH or p.low <= p.shortcut:
            return False
    return True


def _worst(points: Sequence[Point]) -> float:
    return float(min(p.accuracy or 0.0 for p in points))


def _guessing(count: int) -> dict[str, Any]:
    """C15: a guesser among the acceptable answers meets each number within its interval."""
    found, holds = [], True
    for name, expected in PAPER_GUESS.items():
        right = sum(
            q.acceptable[Draw("guess", q.id).below(len(q.acceptable))] == q.answer for q in questions(name, count=count)
        )
        low, high = wilson(right, count, confidence=0.99)
        holds &= low <= expected <= high
        found.append(f"{name} {right / count:.1%} ({low:.1%} to {high:.1%})")
    ours = "a program that guesses: " + ", ".join(found)
    interval = "99% Wilson intervals, in brackets"
    return _claim("C15", ours, interval, f"{count} questions each", "reproduced" if holds else "not reproduced")


def _claim(claim: str, ours: str, interval: Any, scale: str, verdict: str) -> dict[str, Any]:
    return {"id": claim, "ours": ours, "interval": interval, "scale": scale, "verdict": verdict}
