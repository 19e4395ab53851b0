"""Made-up times of learning, in which what studies of depth, curriculum and recipes ask is false, or true with noise.

What a run learns is how many hops, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from false_studies import StudyCase, verdict_on
from planted_arms import arm

from hopscope import Setup
from hopscope.paper.recipes import LAPTOP, PLAIN, D
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import minimum_of_hop
from studies import conditional, curriculum, depth, learning, places, plateau, rows, unsaid
from studies.conditional import ConditionalResult
from studies.places import PlacesResult
from studies.rows import RowsResult
from studies.tools.arms import ArmLearned, Arms

FOUR = RetrievalProblem(hops=4)
Rng = np.random.Generator
Times = tuple[tuple[int | None, ...], ...]


def _times(learned: Sequence[int], hops: int) -> Times:
    """When runs learned that many of so many hops."""
    return tuple(tuple(100 * hop if hop <= many else None for hop in range(1, hops + 1)) for many in learned)


def _as_planned(setup: Setup, learned: Sequence[int]) -> ArmLearned:
    return ArmLearned.of(setup, setup.seeds, _times(learned, setup.problem.hops))


def _some(rng: Rng, n: int, share: float, many: int, else_: int) -> list[int]:
    """Of n runs, each learns so many hops with this chance, or else so many."""
    return [many if lucky else else_ for lucky in rng.random(n) < share]


DEPTHS = depth.standard(PLAIN).series[0]
"""The arms of `depth` with a causal mask and many heads."""

MAY = {
    setup.name: [minimum_of_hop(setup.problem, hop) <= setup.recipe.layers for hop in range(1, setup.problem.hops + 1)]
    for setup in DEPTHS
}


def _depth(
    rng: Rng, asked: str, below: float = 0.0, at: float = 0.7, above: float = 0.7, so_far: float = 1.0, only: int = 0
) -> str:
    """Six seeds an arm, twelve with a layer less. These come as far as they may with a chance, and of them a share
    learns all, at one D or at each; at the theory's depth and above it, other shares learn all."""
    found = []
    for setup in DEPTHS:
        hops, may = setup.problem.hops, sum(MAY[setup.name])
        more = setup.recipe.layers - minimum_of_hop(setup.problem, hops)
        if more < 0:
            reached = _some(rng, len(setup.seeds), so_far, may, 0)
            beyond = below if only in (0, hops) else 0.0
            learned = [hops if far == may and rng.random() < beyond else far for far in reached]
        else:
            learned = _some(rng, len(setup.seeds), at if more == 0 else above, hops, 1)
        found.append(_as_planned(setup, learned))
    return verdict_on(asked, depth.judge(Arms(tuple(found))))


PLACES = places.standard(PLAIN)


def _places(rng: Rng, asked: str, learns: Callable[[int, int], float]) -> str:
    """Six seeds an arm, all of which have x1; with two layers a share learns x2, by chains and heads."""
    found = []
    for setup in PLACES.arms:
        share = 1.0 if setup.recipe.layers > 2 else learns(setup.problem.chains, setup.recipe.heads)
        learned = rng.random(len(setup.seeds)) < share
        times = tuple((100, int(rng.integers(200, 6000)) if one else None) for one in learned)
        found.append(ArmLearned.of(setup, setup.seeds, times))
    return verdict_on(asked, places.judge(PlacesResult(tuple(found), ())))


ROWS = rows.standard(PLAIN)


def _rows(rng: Rng, asked: str, shape: tuple[int, int], share: float, so_far: float = 1.0) -> str:
    """Six seeds an arm. Of one shape, some come as far as the hop before the last, and a share of these learns it; with
    as many layers as Assumption 1 asks for all do."""
    found = []
    for setup in ROWS.arms:
        hops, layers = setup.problem.hops, setup.recipe.layers
        learned = [hops if layers >= minimum_of_hop(setup.problem, hops) else hops - 1] * 6
        if (hops, layers) == shape:
            learned = _some(rng, 6, so_far, hops - 1, 1)
            learned = [hops if far == hops - 1 and rng.random() < share else far for far in learned]
        found.append(_as_planned(setup, learned))
    return verdict_on(asked, rows.judge(RowsResult(tuple(found), ())))


LEARNING = {setup.recipe.layers: setup for setup in learning.standard(PLAIN).arms[:3]}


def _learning(rng: Rng, layers: int, share: float) -> str:
    hop, _ = learning.ASKED[layers]
    return learning.judge(Arms((_as_planned(LEARNING[layers], _some(rng, 40, share, hop, 0)),)))[0].verdict


def _plateau(rng: Rng, ratio: float, spread: float = 0.4, changed: float = 0.4) -> str:
    """Ten seeds of the unchanged recipe and of one change, whose 39 fellows count although none of them is run."""
    base, *others = plateau.standard(PLAIN).arms
    times = [
        tuple((int(step),) * 3 for step in middle * np.exp(rng.normal(0, apart, 10)))
        for middle, apart in ((400, spread), (400 * ratio, changed))
    ]
    arms = [ArmLearned.of(base, base.seeds, times[0]), ArmLearned.of(others[0], base.seeds, times[1])]
    arms += [ArmLearned.of(other, (), ()) for other in others[1:]]
    return plateau.judge(Arms(tuple(arms)))[0].verdict


def _curriculum(rng: Rng, share: float) -> str:
    """Ten seeds asked for two hops of three, and the control, asked for all."""
    control, some = RetrievalProblem(hops=3), RetrievalProblem(hops=3, asked=(1, 3))
    learned = tuple((100, 200 if one else None) for one in rng.random(10) < share)
    arms = (arm("some", some, learned, recipe=PLAIN), arm("all", control, _times([3] * 10, 3), recipe=PLAIN))
    return curriculum.judge(Arms(arms))[0].verdict


def _unsaid(rng: Rng, share: float, readings: int = 1) -> str:
    """Three seeds of each of some readings; a share of them stays on a long plateau and learns all. As asked if one
    reading is."""
    long, short = (3600, 3900, 4200, 5800), (500, 900, 1200, 1500)
    found = [
        arm(f"r{number}", FOUR, [long if one else short for one in rng.random(3) < share], recipe=D.recipe)
        for number in range(readings)
    ]
    verdicts = {one.verdict for one in unsaid.judge(Arms(tuple(found)))[:-1]}
    return "as asked" if "as asked" in verdicts else verdicts.pop()


def _stand_in(rng: Rng, medians: Sequence[float], spread: float) -> str:
    """Three seeds of each of the four readings that are ordered; what takes more than 6,400 steps is not learned."""
    found = []
    for name, middle in zip(unsaid.ORDERED, medians, strict=True):
        steps = [int(step) for step in middle * np.exp(rng.normal(0, spread, 3))]
        times: Times = tuple((step if step <= D.recipe.steps else None,) * 4 for step in steps)
        found.append(arm(name, FOUR, times, recipe=D.recipe))
    return unsaid.judge(Arms(tuple(found)))[-1].verdict


CONDITIONAL = {setup.name: setup for setup in conditional.standard(LAPTOP).arms}


def _conditional(rng: Rng, name: str, share: float, asked: str) -> str:
    """All seeds of an arm learn all but the last look-up, a share of them that too; deeper ones learn all."""
    deeper = "functions-4-layers"
    arms = (_as_planned(CONDITIONAL[name], _some(rng, len(CONDITIONAL[name].seeds), share, 3, 2)),
            _as_planned(CONDITIONAL[deeper], [3] * 5))  # fmt: skip
    return verdict_on(asked, conditional.judge(ConditionalResult(0.05, arms, ())))


BEYOND, MINIMUM, OF_SIX = "8 heads: no run learns a hop", *(f"8 heads, D = {hops}: trained minimum" for hops in (4, 8))
FEWER, MORE, NOTHING = "as many heads as there are chains", "4 chains: with two layers more heads", "2 chains: no model"
NEVER_TWO, SAVED = "fewer layers than a head a row", "4 hops are answered a layer early"
OWN = (504, 700, 950, 9000)
"""About when transformer D learned x1 by the four readings that are ordered."""

CASES = [
    StudyCase("depth 1", "1 run in 5 with a layer less learns all", "84 runs", False,
              partial(_depth, asked=BEYOND, below=0.2)),
    StudyCase("depth 1", "the same, at D = 4 alone", "84 runs", False,
              partial(_depth, asked=BEYOND, below=0.2, only=4)),
    StudyCase("depth 1", "1 run in 50 with a layer less learns all", "84 runs", False,
              partial(_depth, asked=BEYOND, below=0.02)),
    StudyCase("depth 2", "1 run in 5 with a layer less learns all", "12 runs", False,
              partial(_depth, asked=MINIMUM, below=0.2)),
    StudyCase("depth 2", "the same", "6 runs", False, partial(_depth, asked=OF_SIX, below=0.2)),
    StudyCase("depth 2", "1 run in 6 learns all, there and with a layer less", "6 runs", False,
              partial(_depth, asked=OF_SIX, below=1 / 6, at=1 / 6)),
    StudyCase("depth 2", "half of those that can tell, 1 run in 6", "12 runs", False,
              partial(_depth, asked=MINIMUM, below=0.5, so_far=1 / 6)),
    StudyCase("depth 2", "learned by 7 in 10 where theory says", "6 runs", True, partial(_depth, asked=MINIMUM)),
    StudyCase("depth 2", "learned by 1 in 6 there, by half a layer above", "6 runs", True,
              partial(_depth, asked=MINIMUM, at=1 / 6, above=0.5)),
    StudyCase("places 1", "1 model in 5 of two layers learns x2", "6 models", False,
              partial(_places, asked=NOTHING, learns=lambda chains, heads: 0.2)),
    StudyCase("places 4", "half of the models learn x2, with any heads", "36 models", False,
              partial(_places, asked=MORE, learns=lambda chains, heads: 0.5)),
    StudyCase("places 4", "half do, and with 16 heads nine in ten", "36 models", False,
              partial(_places, asked=MORE, learns=lambda chains, heads: 0.9 if heads == 16 else 0.5)),
    StudyCase("places 5", "1 model in 10 with fewer heads learns x2", "30 models", False,
              partial(_places, asked=FEWER, learns=lambda chains, heads: 0.1 if heads < chains else 0.8)),
    StudyCase("places 5", "the same, with no control but of 2 chains", "30 models", False,
              partial(_places, asked=FEWER, learns=lambda chains, heads:
                      0.1 * (chains == 2) if heads < chains else 0.8 * (chains == 2))),
    StudyCase("rows 1", "1 model in 5 learns x4 a layer early", "6 models", True,
              partial(_rows, asked=SAVED, shape=(4, 3), share=0.2)),
    StudyCase("rows 1", "half of those with x3, 1 model in 6", "6 models", True,
              partial(_rows, asked=SAVED, shape=(4, 3), share=0.5, so_far=1 / 6)),
    StudyCase("rows 2", "1 model in 5 learns x4 with two layers", "6 models", False,
              partial(_rows, asked=NEVER_TWO, shape=(4, 2), share=0.2)),
    StudyCase("rows 2", "half of those with x3, 1 model in 6", "6 models", False,
              partial(_rows, asked=NEVER_TWO, shape=(4, 2), share=0.5, so_far=1 / 6)),
    *(StudyCase("learning", f"{layers} layers, {share:.0%} of seeds learn, {asked} asked", "40 seeds", False,
                partial(_learning, layers=layers, share=share))
      for layers, share, asked in ((4, 0.9, "95%"), (3, 0.85, "90%"), (2, 0.98, "all"))),
    *(StudyCase("learning", f"{layers} layers, {share:.0%} of seeds learn, {asked} asked", "40 seeds", True,
                partial(_learning, layers=layers, share=share))
      for layers, share, asked in ((4, 0.98, "95%"), (3, 0.95, "90%"))),
    StudyCase("plateau", "nothing moves, 40 changes", "10 seeds", False, partial(_plateau, ratio=1.0)),
    StudyCase("plateau", "times more spread alone, 40 changes", "10 seeds", False,
              partial(_plateau, ratio=1.0, changed=0.8)),
    StudyCase("plateau", "a third longer, 40 changes", "10 seeds", True,
              partial(_plateau, ratio=4 / 3, spread=0.2, changed=0.2)),
    StudyCase("plateau", "3 times as long, 40 changes", "10 seeds", True, partial(_plateau, ratio=3.0)),
    StudyCase("curriculum", "half of the seeds learn", "10 seeds", False, partial(_curriculum, share=0.5)),
    StudyCase("curriculum", "7 seeds in 10 learn", "10 seeds", True, partial(_curriculum, share=0.7)),
    StudyCase("unsaid 1", "half of the seeds have the plateau", "3 seeds", False, partial(_unsaid, share=0.5)),
    StudyCase("unsaid 1", "the same, in one of 20 readings", "60 seeds", False,
              partial(_unsaid, share=0.5, readings=20)),
    StudyCase("unsaid 2", "GPT-2's scales and pair codes are alike", "12 seeds", False,
              partial(_stand_in, medians=(504, 800, 800, 9000), spread=0.3)),
    *(StudyCase("unsaid 2", f"D's own times, apart by {apart}", "12 seeds", True,
                partial(_stand_in, medians=OWN, spread=spread))
      for apart, spread in (("a fifth", 0.2), ("a half", 0.5))),
    StudyCase("conditional 1", "1 seed in 5 learns the last look-up early", "8 seeds", False,
              partial(_conditional, name="functions-2-layers", share=0.2, asked="functions: no run learns")),
    StudyCase("conditional 2", "3 seeds in 10 learn all", "5 seeds", False,
              partial(_conditional, name="functions-3-layers", share=0.3, asked="functions: learned with 3 layers")),
    StudyCase("conditional 2", "7 seeds in 10 learn all", "5 seeds", True,
              partial(_conditional, name="functions-3-layers", share=0.7, asked="functions: learned with 3 layers")),
]  # fmt: skip
