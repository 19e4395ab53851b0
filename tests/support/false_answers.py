"""Made-up answers of language models and of programs that follow no fact, in which claims C14 and C15 are false, or
true with noise."""

from __future__ import annotations

from functools import partial

import numpy as np
from false_claims import Case
from made_results import NINE, judge_answers, point
from scipy.stats import binom, chisquare

from hopscope.benchmark.guessing import AnswerSpread, BlindScore
from hopscope.paper.claims import General
from hopscope.paper.section_4 import GUESS, BenchmarkResult, judge

Rng = np.random.Generator


def _solves(rng: Rng, weak: float, models: int = 1, others: float = 0.99, silent: float = 0.0) -> General:
    """C14: every model is weaker at one of the nine points, where it never answers acceptably to a share of the
    questions: to those that it would get wrong."""
    points = []
    for number in range(models):
        place = rng.integers(len(NINE))
        for at, where in enumerate(NINE):
            right = int(rng.binomial(500, weak if at == place else others))
            accepted = 500 - min(int(silent * 500), 500 - right) if at == place else 500
            points.append(point(*where, f"m{number}", correct=right, accepted=accepted))
    return judge_answers(points).in_general


def _guess(rng: Rng, excess: float, asked: int = 2000) -> General:
    """C15: of fourteen programs one is right more often than the floor, by this share of the questions, in the first
    formulation; the answers are even."""
    scores, spreads = [], []
    for place, (name, floor) in enumerate(GUESS.items()):
        for program in range(14):
            right = int(rng.binomial(asked, floor + excess * (place == program == 0)))
            p = float(binom.sf(right - 1, asked, floor))
            scores.append(BlindScore(name, 5, str(program), asked, right, right / asked, 0.0, 1.0, floor, p))
        counts = rng.multinomial(asked, [floor] * round(1 / floor))
        spreads.append(AnswerSpread(name, 5, tuple(map(int, counts)), float(chisquare(counts).pvalue)))
    found = judge(BenchmarkResult(None, tuple(scores), tuple(spreads)))[1].in_general
    return "holds" if found == "theorem, checked" else found


CASES = [
    Case("C14", "one point of nine at 88%", "1 model", False, partial(_solves, weak=0.88)),
    Case("C14", "the same, silent where wrong, up to 5%", "1 model", False, partial(_solves, weak=0.88, silent=0.05)),
    Case("C14", "one point of nine at 95%", "1 model", True, partial(_solves, weak=0.95)),
    *(Case("C15", f"one program of 14 is right in {0.25 + more:.0%}", "2,000 questions", False,
           partial(_guess, excess=more)) for more in (0.03, 0.05)),
    Case("C15", "all programs guess", "2,000 questions", True, partial(_guess, excess=0.0)),
]  # fmt: skip
