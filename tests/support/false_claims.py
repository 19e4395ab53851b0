"""How often a rule of `docs/claims.md` is wrong: made-up data, drawn again and again, put to the judges.

A case is data of a size that the presets have, in which a claim is false in some plausible way, or true with noise. For
the rules of our own studies the same is done in `false_studies`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt

import numpy as np
from made_results import (
    BACKWARD,
    DOUBLING,
    NINE,
    SERIAL,
    TIES,
    answering,
    emergence,
    follow,
    imposed,
    judge_answers,
    judge_circuits,
    judge_histories,
    loss,
    point,
    studied,
    trained,
)
from scipy.stats import chisquare

from hopscope.circuits.circuit_parts import ImposedCircuit
from hopscope.emergence.timing import Order, Plateau
from hopscope.paper import section_4, section_7_claims
from hopscope.paper.claims import CLAIMS, General
from hopscope.paper.models import Learned
from hopscope.paper.presets import PAPER
from hopscope.paper.section_4 import GUESS, AnswerSpread, BenchmarkResult
from hopscope.paper.section_7 import DepthResult, TrainedModel
from hopscope.problem.paths import NamedPath

Rng = np.random.Generator

Draw = Callable[[Rng], str]
"""What is said of a claim in general, of one draw of the data."""

DRAWS_OF_PAGES = 250
"""How often each kind of data was drawn for the pages."""


@dataclass(frozen=True)
class Case:
    """One kind of data.

    Attributes:
        claim: one of `hopscope.paper.claims.CLAIMS`, or a rule of a study.
        data: what the data are like, in words.
        n: how much of it there is, in words.
        true: whether the claim is true of what the data are drawn from.
        draw: judges one draw.
    """

    claim: str
    data: str
    n: str
    true: bool
    draw: Draw

    def verdicts(self, draws: int, seed: int = 0) -> tuple[float, ...]:
        """The shares of draws with the verdicts that the head of its table names.

        The draws follow from the seed and the case's own words, whatever other cases there are.
        """
        rng = np.random.default_rng([seed, *f"{self.claim} {self.data} {self.n}".encode()])
        found = Counter(self.draw(rng) for _ in range(draws))
        return tuple(found[verdict] / draws for verdict in self.heads[3:])

    @property
    def heads(self) -> tuple[str, ...]:
        """The head of the table of the case, of `docs/claims.md` or of `docs/studies/how-often-wrong.md`."""
        no, yes = ("does not hold", "holds") if self.claim in CLAIMS else ("refuted", "confirmed")
        data = ("true data", "n", no, yes) if self.true else ("false data", "n", yes)
        return "claim" if self.claim in CLAIMS else "rule", *data

    def on_page(self, page: str) -> list[float]:
        """The shares in the row that a page has of the case."""
        start = f"| {self.claim} | {self.data} | {self.n} |"
        (line,) = [line for line in page.splitlines() if line.startswith(start)]
        return [int(cell.strip(" %")) / 100 for cell in line.removeprefix(start).rstrip("|").split("|")]

    def agrees(self, page: str, draws: int) -> bool:
        """Whether the shares of other draws are what the page says, within the noise of both."""
        return all(
            abs(found - share) < 4 * sqrt(likely * (1 - likely) * (1 / draws + 1 / DRAWS_OF_PAGES)) + 0.005
            for share, found in zip(self.on_page(page), self.verdicts(draws, seed=1), strict=True)
            for likely in [min(max(share, 0.02), 0.98)]
        )


# C1 to C5: runs by depth.

Law = Callable[[Rng, int], int]
"""How many of five hops a run of so many layers learns, one after the other."""

LOW, HIGH = 0.01, 0.75

FIGURE_4 = (
    (0, 0, 0, 0, 0), (5, 0, 0, 0, 0), (8, 6, 4, 0, 0), (8, 8, 7, 3, 3),
    (8, 8, 7, 6, 4), (8, 8, 8, 7, 7), (8, 8, 8, 6, 5), (7, 7, 7, 6, 6),
)  # fmt: skip
"""How many of eight runs with 1, 2, ... layers learned each hop in `results/figure-4`."""


def _by_depth(
    rng: Rng, law: Law, seeds: Sequence[int] = (8,) * 8, turned: Callable[..., bool] | None = None
) -> list[TrainedModel]:
    """A sweep with the curriculum: so many seeds at 1, 2, ... layers. `turned` says whether a run that learned so many
    hops has its last two the other way round."""
    models: list[TrainedModel] = []
    for layers, count in enumerate(seeds, start=1):
        learned = [law(rng, layers) for _ in range(count)]
        steps = [[100 * (hop + 1) if hop < many else None for hop in range(5)] for many in learned]
        for many, row in zip(learned, steps, strict=True):
            if turned and many > 1 and turned(rng, many, layers):
                row[many - 1], row[many - 2] = row[many - 2], row[many - 1]
        losses = [[LOW if hop < many else HIGH for hop in range(5)] for many in learned]
        models += trained(layers, hops=5, losses=losses, crossings=steps)
    return models


def _as_stored(rng: Rng, layers: int) -> int:
    """As often as in `results/figure-4`, each hop given the one before it."""
    found, before = 0, 8
    for count in FIGURE_4[layers - 1]:
        if rng.random() >= (count / before if before else 0):
            break
        found, before = found + 1, count
    return found


def _ladder(rng: Rng, layers: int, needs: Sequence[int] = (2, 3, 3, 4, 4), luck: float = 0.9) -> int:
    """Each hop needs so many layers, and is then learned by this share of the runs that learned the one before it."""
    found = 0
    for least in needs:
        if layers < least or rng.random() >= luck:
            break
        found += 1
    return found


def _verdict(claim: str, models: Sequence[TrainedModel]) -> General:
    found = section_7_claims.judge(DepthResult(PAPER.depth, tuple(models), "sweep"))
    return {finding.id: finding.in_general for finding in found}[claim]


def _plain(rng: Rng, succeeds: Sequence[float]) -> General:
    """C3: 64 runs without the curriculum, of which such shares succeed with 1, 2, ... layers where theory allows it."""
    plain = [
        model
        for layers in range(1, 9)
        for model in trained(layers, curriculum=False, losses=[
            [LOW if layers > 2 and rng.random() < succeeds[layers - 1] else rng.normal(0.755, 0.008)] for _ in range(8)
        ])
    ]  # fmt: skip
    return _verdict("C3", [*_by_depth(rng, _as_stored), *plain])


def _harder(rng: Rng, law: Law, seeds: Sequence[int] = (8,) * 8) -> General:
    return _verdict("C4", _by_depth(rng, law, seeds))


def _ordered(rng: Rng, turned: Callable[..., bool]) -> General:
    return _verdict("C5", _by_depth(rng, _as_stored, turned=turned))


def _by_degrees(rng: Rng, share: float) -> General:
    """C20: in a share of the runs with too few layers for a hop its loss falls by a part all the same."""
    models = []
    for model in _by_depth(rng, _as_stored):
        partly = rng.random() < share
        losses = [
            loss if loss == LOW or not model.too_shallow(hop) else rng.uniform(0.5, 0.69) if partly else
            rng.normal(0.753, 0.006) for hop, loss in zip(model.asked, model.partial_losses, strict=True)
        ]  # fmt: skip
        models.append(replace(model, partial_losses=tuple(map(float, losses))))
    return _verdict("C20", models)


def _noisy_order(rng: Rng) -> General:
    """C5: hops one after the other, about 200 steps apart and logged every 10, as in Figure 4's runs."""
    models: list[TrainedModel] = []
    for layers in range(1, 9):
        learned = [_as_stored(rng, layers) for _ in range(8)]
        at = np.cumsum(200 * np.exp(rng.normal(0, 0.9, (8, 5))), axis=1) // 10 * 10 + 10
        steps = [[int(at[run, hop]) if hop < many else None for hop in range(5)] for run, many in enumerate(learned)]
        losses = [[LOW if hop < many else HIGH for hop in range(5)] for many in learned]
        models += trained(layers, hops=5, losses=losses, crossings=steps)
    return _verdict("C5", models)


PAPER_NOW = (4, 5, 4, 5, 5, 5, 5, 5)
"""The seeds at each depth in `results/paper`."""

DEPTH_CASES = [
    *(Case("C3", f"{share:.0%} of runs succeed", "64 runs", False, partial(_plain, succeeds=(share,) * 8))
      for share in (0.02, 0.05)),
    Case("C3", "1 run in 5 of 8 layers succeeds, no other", "64 runs", False,
         partial(_plain, succeeds=(0,) * 7 + (0.2,))),
    Case("C3", "none succeeds", "64 runs", True, partial(_plain, succeeds=(0,) * 8)),
    *(Case("C4", f"{which} layers, then luck", "64 runs", False,
           partial(_harder, law=partial(_ladder, needs=needs)))
      for which, needs in (("all hops need 4", (4,) * 5), ("x1 needs 2 and all others 3", (2, 3, 3, 3, 3)),
                           ("x1 needs 2 and all others 4", (2, 4, 4, 4, 4)))),
    *(Case("C4", "each hop as often as in Figure 4's runs", f"{sum(seeds)} runs", True,
           partial(_harder, law=_as_stored, seeds=seeds)) for seeds in ((8,) * 8, PAPER_NOW)),
    Case("C5", "1 run in 10 with x4 and x5 has x5 first", "64 runs", False,
         partial(_ordered, turned=lambda rng, many, _: many == 5 and rng.random() < 0.1)),
    Case("C5", "1 run in 5 of 8 layers out of order", "64 runs", False,
         partial(_ordered, turned=lambda rng, _, layers: layers == 8 and rng.random() < 0.2)),
    Case("C5", "in order, as far apart as in Figure 4's runs", "64 runs", True, _noisy_order),
    Case("C20", "1 run in 5 learns a hop in part", "64 runs", False, partial(_by_degrees, share=0.2)),
    Case("C20", "no run does", "64 runs", True, partial(_by_degrees, share=0.0)),
]  # fmt: skip


# C6 to C13 and C16 to C19: models, circuits and histories.

MODELS = 40
OTHER: tuple[NamedPath, ...] = (*TIES, (4, 1, "x1>", "x0?"), (7, 1, "x2>", ">x1"), (11, 1, ">x3", "x1>"))


def _without(path_loss: float) -> ImposedCircuit:
    """A circuit of which the last path costs so much."""
    made = imposed()
    return replace(made, paths=(*made.paths[:-1], replace(made.paths[-1], without=loss(path_loss))))


FALSE: dict[str, ImposedCircuit] = {
    "C7": imposed((*SERIAL, (9, 1, "x0?", "x0>"))),
    "C8": imposed((TIES[0], *SERIAL[3:])),
    "C10": imposed(zero=loss(0.06), uniform=loss(0.06), identity=loss(0.06)),
    "C11": _without(0.1),
}
"""By claim a circuit of which it is false: a fifth head, two pairs untied, a loss above the threshold, an idle path."""


def _circuits(rng: Rng, claim: str, share: float) -> General:
    """A share of models has a circuit of which the claim is false."""
    made = [FALSE[claim] if rng.random() < share else imposed() for _ in range(MODELS)]
    return judge_circuits(*(studied(reading, f"m{n}") for n, reading in enumerate(made)))[claim].in_general


def _learn(rng: Rng, share: float) -> General:
    """C6: a share of models ends at twice the threshold."""
    losses = [0.02 if rng.random() < share else 0.006 for _ in range(MODELS)]
    made = (studied(imposed(), f"m{n}", learned=Learned(mse, 0.004, (mse, mse))) for n, mse in enumerate(losses))
    return judge_circuits(*made)["C6"].in_general


def _differ(rng: Rng) -> General:
    """C9: every model has one of four mechanisms, any as likely."""
    paths = [(SERIAL, DOUBLING, BACKWARD, OTHER)[rng.integers(4)] for _ in range(MODELS)]
    return judge_circuits(*(studied(imposed(mechanism), f"m{n}") for n, mechanism in enumerate(paths)))["C9"].in_general


def _emerge(rng: Rng, claim: str, gaps: Callable[[Rng], Sequence[float]], left: int = 560) -> General:
    """C13, C16 and C19: the hops of each model come so far apart, after such a plateau."""
    followed = []
    for known in follow(MODELS):
        steps = 580 + np.cumsum([0, *gaps(rng)])
        flat = Plateau(0.75, 10, left, tuple(map(int, steps)))
        history = emergence(order=Order(tuple(map(float, steps))), plateau=flat)
        followed.append(replace(known, emergence=history))
    return judge_histories(*followed)[claim].in_general


def _fall(rng: Rng, long: float) -> General:
    """C17: the loss of x1 falls in so many times the steps before it, give or take a third."""
    followed = []
    for known in follow(MODELS):
        end = round(400 * (1 + long * np.exp(rng.normal(0, 0.3))))
        losses = tuple((loss,) * 4 for loss in (0.75, 0.674, 0.075, 0.02))
        followed.append(replace(known, emergence=emergence(steps=(0, 400, end, 2000), partial_losses=losses)))
    return judge_histories(*followed)["C17"].in_general


def _reuse(rng: Rng, share: float) -> General:
    """C18: in a share of the circuits the last of three answers reads nothing of the first."""
    first, second, third = (f"L{hop + 1}.H1 x0? -> >x{hop}" for hop in (1, 2, 3))
    reads = [(None,) if rng.random() < share else (third, None) for _ in range(MODELS)]
    made = [answering((first, (second, None)), (second, after), (third, (None,))) for after in reads]
    return judge_histories(*follow(1), others=made)["C18"].in_general


def _any_longest(rng: Rng) -> list[float]:
    """None is longer than another, but by luck."""
    return [20 + gap for gap in rng.exponential(60, 3)]


def _much_longer(rng: Rng) -> list[float]:
    """The last is five times as long as any other, each with a noise of a fifth."""
    return [float(gap * np.exp(rng.normal(0, 0.2))) for gap in (50, 50, 250)]


def _at_once(rng: Rng) -> list[float]:
    """One model in five delivers two hops at once."""
    return [50, 0 if rng.random() < 0.2 else 50, 250]


N = f"{MODELS} models"
MODEL_CASES = [
    Case("C6", "1 model in 5 does not learn", N, False, partial(_learn, share=0.2)),
    Case("C6", "all learn", N, True, partial(_learn, share=0.0)),
    *(Case(claim, "false of 1 model in 5", N, False, partial(_circuits, claim=claim, share=0.2)) for claim in FALSE),
    *(Case(claim, "false of 1 model in 100", N, True, partial(_circuits, claim=claim, share=0.01)) for claim in FALSE),
    Case("C9", "each model has one of 4 circuits", N, False, _differ),
    Case("C13", "1 model in 5 delivers two hops at once", N, False, partial(_emerge, claim="C13", gaps=_at_once)),
    Case("C16", "plateaus of a tenth of the run", N, False, partial(_emerge, claim="C16", gaps=_much_longer, left=100)),
    Case("C17", "a fall of half the steps before", N, False, partial(_fall, long=0.5)),
    Case("C17", "a fall of a tenth of the steps before", N, True, partial(_fall, long=0.1)),
    Case("C18", "false of 1 circuit in 5", "40 circuits", False, partial(_reuse, share=0.2)),
    Case("C18", "false of 1 circuit in 100", "40 circuits", True, partial(_reuse, share=0.01)),
    Case("C19", "gaps alike", N, False, partial(_emerge, claim="C19", gaps=_any_longest)),
    Case("C19", "the last gap five times as long, with noise", N, True,
         partial(_emerge, claim="C19", gaps=_much_longer)),
]  # fmt: skip


# C14 and C15: answers of language models, and how right answers are spread.


def _solves(rng: Rng, weak: float, models: int = 1, others: float = 0.99, silent: float = 0.0) -> General:
    """C14: every model is weaker at one of nine points: a share of the questions, which it would miss, stays open."""
    points = []
    for number in range(models):
        place = rng.integers(len(NINE))
        for at, where in enumerate(NINE):
            right = int(rng.binomial(500, weak if at == place else others))
            accepted = 500 - min(int(silent * 500), 500 - right) if at == place else 500
            points.append(point(*where, f"m{number}", correct=right, accepted=accepted))
    return judge_answers(points).in_general


def _guess(rng: Rng, excess: float, asked: int = 2000) -> General:
    """C15: in the first formulation one answer is right more often than the others, by this share of the questions."""
    spreads = []
    for place, (name, floor) in enumerate(GUESS.items()):
        shares = [floor] * round(1 / floor)
        if not place:
            shares = [floor + excess, *[floor - excess / (len(shares) - 1)] * (len(shares) - 1)]
        counts = rng.multinomial(asked, shares)
        spreads.append(AnswerSpread(name, floor, tuple(map(int, counts)), float(chisquare(counts).pvalue)))
    found = section_4.judge(BenchmarkResult(None, tuple(spreads)))[1].in_general
    return "holds" if found == "theorem, checked" else found


ANSWER_CASES = [
    Case("C14", "one point of nine at 88%", "1 model", False, partial(_solves, weak=0.88)),
    Case("C14", "the same, silent where wrong, up to 5%", "1 model", False, partial(_solves, weak=0.88, silent=0.05)),
    Case("C14", "one point of nine at 95%", "1 model", True, partial(_solves, weak=0.95)),
    *(Case("C15", f"one answer of four is right in {0.25 + more:.0%}", "2,000 questions", False,
           partial(_guess, excess=more)) for more in (0.05, 0.08)),
    Case("C15", "all answers are as likely", "2,000 questions", True, partial(_guess, excess=0.0)),
]  # fmt: skip


def cases() -> list[Case]:
    """All cases, in the order of the claims."""
    return [*DEPTH_CASES, *MODEL_CASES, *ANSWER_CASES]


def table(cases: Sequence[Case], draws: int, seed: int = 0) -> str:
    """A table of cases that are all false, or all true, in Markdown, the shares to a whole percent."""
    heads = cases[0].heads
    rows = [heads, ("---",) * 3 + ("---:",) * len(heads[3:])]
    for case in cases:
        rows.append((case.claim, case.data, case.n, *(f"{share:.0%}" for share in case.verdicts(draws, seed))))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
