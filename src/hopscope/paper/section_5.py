"""Section 5 and Appendix B: how many layers D hops need, simulated and compared with trained models; C1 and C2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from hopscope.paper.claims import THEOREM, Finding, general
from hopscope.paper.report import PageFigure, Section
from hopscope.paper.section_7 import TrainedModel, learned_deeper
from hopscope.plot.style import BLUE, INK, VERMILION, house, new_figure
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import symbol_of
from hopscope.theory.depth import depths
from hopscope.theory.information_flow import Flow, flow_until, spread
from hopscope.theory.scene import place_in_sequence, problem_scene, reachability, role_at
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SYMBOL, PLACE = BLUE, VERMILION
"""The colours of symbols and of places."""


@dataclass(frozen=True)
class Simulated:
    """One chain, simulated until a layer changes nothing.

    Attributes:
        problem: the problem that the chain belongs to.
        depth: the number of layers after which the query holds the target.
        streams: the number of residual streams examined: all positions after all layers.
        broken: the number of streams that are not one contiguous run.
        too_long: the number of streams that are longer than 3^t + 1.
        longest: the longest run after t = 0, 1, ... layers.
        unlawful: the number of pairs that share something before any layer without being neighbours (Lemma 1).
    """

    problem: RetrievalProblem
    depth: int
    streams: int
    broken: int
    too_long: int
    longest: tuple[int, ...]
    unlawful: int

    @classmethod
    def of(cls, problem: RetrievalProblem) -> Simulated:
        """Simulate one chain."""
        scene = problem_scene(problem)
        history, start = list(spread(scene)), sorted(scene.holdings)
        return cls(
            problem=problem,
            depth=next(t for t, held in enumerate(history) if held[scene.asker] >> scene.target & 1),
            streams=sum(map(len, history)),
            broken=sum(not _is_run(holding) for holdings in history for holding in holdings),
            too_long=sum(holding.bit_count() > 3**t + 1 for t, holdings in enumerate(history) for holding in holdings),
            longest=tuple(max(holding.bit_count() for holding in holdings) for holdings in history),
            unlawful=sum(bool(first & other) for place, first in enumerate(start) for other in start[place + 2 :]),
        )


@dataclass(frozen=True)
class TheoryResult:
    """The simulation of every chain, and the trained models to compare with it.

    Attributes:
        scale: the preset's name, for the scale of the trained models.
        drawn_hops: the number of hops of the chain in the figure.
        simulated: all chains of 1, 2, ... hops, without a mask and under a causal mask in both block orders.
        trained: the trained models.
    """

    scale: str
    drawn_hops: int
    simulated: tuple[Simulated, ...]
    trained: tuple[TrainedModel, ...]


@cache
def simulated(largest_hops: int) -> tuple[Simulated, ...]:
    """Simulate every chain of 1 to `largest_hops` hops; this takes seconds, so the result is cached."""
    chain = RetrievalProblem(hops=1, chains=1)
    kinds = replace(chain, causal=False), chain, replace(chain, order="shallowest-first")
    return tuple(Simulated.of(replace(kind, hops=hops)) for hops in range(1, largest_hops + 1) for kind in kinds)


def judge(result: TheoryResult) -> list[Finding]:
    """Return the findings on C1 and C2."""
    runs, hops = result.simulated, result.simulated[-1].problem.hops
    scale = f"{result.scale}: simulated, D = 1..{hops}; {counted(len(result.trained), 'trained run')}"
    cases = [(run, t) for run in runs for t in range(len(run.longest)) if 3**t < 2 * run.problem.hops]
    solved = sum(run.depth <= t for run, t in cases)
    formulas = [(depths(run.problem.hops), run) for run in runs]
    exact = all(run.depth == (known.causal if run.problem.causal else known.no_mask) for known, run in formulas)
    numbers = f"solved in {solved} of {len(cases)} cases, D = 1..{hops}; the least depth " + (
        "agrees with our exact formulas at every D" if exact else "does NOT agree with our exact formulas"
    )
    outcome = ("no", numbers, "a chain was solved in fewer layers") if solved else (THEOREM, numbers, "")
    tested, kept, below_exact = _beyond_depth(result.trained)
    early = counted(below_exact, "hop")
    spread = f"trained runs that learned no forbidden hop; {early} learned below the exact minimum"
    first = general("C1", kept, tested, outcome, scale=scale, spread=spread)
    streams, broken = sum(run.streams for run in runs), sum(run.broken + run.too_long + run.unlawful for run in runs)
    layers = min(4, max(len(run.longest) for run in runs))
    longest = ", ".join(str(max(run.longest[t] for run in runs if t < len(run.longest))) for t in range(layers))
    numbers = f"{broken} of {streams} residual streams; longest after t = 0, 1, ...: {longest}, ..."
    if broken:
        return [first, general("C2", 0, 1, ("no", numbers, "a stream breaks a lemma"), scale=scale)]
    return [first, Finding("C2", THEOREM, numbers, in_general=THEOREM, scale=scale)]


def _beyond_depth(models: Sequence[TrainedModel]) -> tuple[int, int, int]:
    """Return how many runs test Theorem 1, how many of these learned no forbidden hop, and how many hops were early.

    A run tests the theorem if, at its depth, Theorem 1 forbids a hop that the run itself or a deeper run of the same
    formulation learned. A hop that was learned is early if Theorem 1 allows it at that depth and the exact minimum does
    not.
    """
    tested = kept = early = 0
    for model in models:
        broken = any(model.learned(hop) and model.forbidden(hop) for hop in model.asked)
        put = broken or any(model.forbidden(hop) for hop in learned_deeper(model, models))
        tested, kept = tested + put, kept + (put and not broken)
        early += sum(model.learned(hop) and model.too_shallow(hop) > model.forbidden(hop) for hop in model.asked)
    return tested, kept, early


def _is_run(holding: int) -> bool:
    """Return whether the bits that are set are contiguous: adding the lowest of them then clears them all."""
    return holding & (holding + (holding & -holding)) == 0


def section(result: TheoryResult) -> Section:
    """Return the section on how information flows along one chain."""
    hops = result.drawn_hops
    return Section(
        "How many layers D hops need (Section 5)",
        paragraphs=[
            "Assume that a position can attend only to a position with which it shares information, and then learns "
            "all that the other position knows. Information then spreads along the chain by a factor of at most three "
            "per layer, which proves Theorem 1. The theorem is not tight: for interleaved chains whose pair blocks are "
            "deepest or shallowest first, the exact minimum is ceil(log3(4D + 1)) without a mask and floor(log2 D) + 2 "
            "under a causal mask. For other orders, see `docs/theory.md`; for the proofs, see `docs/proofs.md`."
        ],
        figures=[
            PageFigure(
                "flow",
                figure_3(RetrievalProblem(hops=hops)),
                f"Top: what positions share before any layer, D = {hops} (as in Figures 3 and 8). Below: what the "
                "query can know after each layer, without a mask and under a causal mask.",
            )
        ],
    )


def figure_3(problem: RetrievalProblem) -> Figure:
    """Draw what the positions of one chain share, in the order of the sequence, and how the query's knowledge grows.

    The growth is drawn without a mask and under a causal mask. The black line in each row marks Lemma 3's limit on runs
    from x0.
    """
    problem = replace(problem, chains=1)
    width = min(16.0, max(6.5, 0.75 * (2 * problem.hops + 1)))
    flows = [flow_until(problem_scene(replace(problem, causal=causal))) for causal in (False, True)]
    heights = [2.6, *(0.32 * len(flow.holdings) + 0.6 for flow in flows)]
    with house():
        figure = new_figure(width, sum(heights) + 0.4)
        axes = figure.subplots(3, 1, height_ratios=heights)
        _draw_shared(axes[0], problem)
        _draw_growth(axes[1], flows[0], "no mask")
        _draw_growth(axes[2], flows[1], f"causal mask, {problem.order_in_words}")
    return figure


def _draw_shared(axes: Axes, problem: RetrievalProblem) -> None:
    """Draw Figure 3: one chain's positions as they are in the sequence; edges above for symbols, below for places."""
    hops = problem.hops
    ends = [place_in_sequence(problem, 0, role_at(i, hops)) for i in range(2 * hops + 1)]
    at = [place + place // 2 * 0.8 for place in ends]  # a gap after every pair stands for the pairs of other chains
    for i, (start, end) in enumerate(pairwise(at)):
        _arc(axes, start, end, *((-1, PLACE) if i % 2 else (1, SYMBOL)))
    size = max(5.0, min(11.0, 130 / (2 * hops + 1)))
    for role in range(2 * hops + 1):
        label = f"$x_{{{symbol_of(role, hops)}}}$"
        axes.text(at[reachability(role, hops)], 0, label, ha="center", va="center", fontsize=size, color=INK)
    widest = max(abs(start - end) for start, end in pairwise(at))
    axes.set_xlim(min(at) - 0.8, max(at) + 0.8)
    axes.set_ylim(-_rise(1.0) - 0.4, _rise(widest) + 0.4)
    axes.set_title(f"What positions share before any layer, D = {hops}")
    axes.text(1, 1.02, "above: the same symbol", transform=axes.transAxes, fontsize=9, color=SYMBOL, ha="right")
    axes.text(1, -0.02, "below: the same pair", transform=axes.transAxes, fontsize=9, color=PLACE, ha="right", va="top")
    axes.axis("off")


def _draw_growth(axes: Axes, flow: Flow, title: str) -> None:
    """Draw a row for each layer and a column for each piece from x0 to x{D}, filled where the query can hold it."""
    from matplotlib.patches import Rectangle

    chain = flow.scene.pieces[1 : flow.scene.target + 1]
    for layer in range(len(flow.holdings)):
        held = set(flow.asked(layer))
        for column, name in enumerate(chain):
            color = (SYMBOL if name[0] == "x" else PLACE) if name in held else "#EEEEEE"
            axes.add_patch(Rectangle((column + 0.06, layer + 0.1), 0.88, 0.8, color=color, linewidth=0))
        limit = min(len(chain), 3**layer + 1)
        axes.plot([limit, limit], [layer + 0.05, layer + 0.95], color="black", linewidth=1.5)
    axes.set_xlim(0, len(chain) + 0.05)
    axes.set_ylim(len(flow.holdings), 0)
    step = max(1, len(chain) // 40)
    labels = [f"${name[0]}_{{{name[1:]}}}$" for name in chain[::step]]
    axes.set_xticks([column + 0.5 for column in range(0, len(chain), step)], labels, fontsize=8)
    layers = len(flow.holdings) - 1
    axes.set_yticks([layer + 0.5 for layer in range(layers + 1)], ["start", *map(str, range(1, layers + 1))])
    axes.set_ylabel("after layer", fontsize=9)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(f"What the query can know, {title}: {layers} layers. Rule: Lemma 3's limit")


def _arc(axes: Axes, start: float, end: float, side: int, color: str) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    base, top = side * 0.28, side * (0.28 + _rise(abs(end - start)) / 0.75)
    points = [(start, base), (start, top), (end, top), (end, base)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    axes.add_patch(PathPatch(Curve(points, codes), fill=False, edgecolor=color, linewidth=1.6))


def _rise(span: float) -> float:
    """Return the height of an arc of this span above its ends."""
    return float(0.35 + 0.25 * span**0.6)
