"""How often the rules of our own studies are wrong: as `false_claims`, of results that no run produced.

Most studies judge by one of the general rules in `studies.tools.judgements`, which are given shares of models here. The
others have the name of their study and the number of their rule in its docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
from false_claims import Case
from planted_studies import DOUBLING, SERIAL, NamedPaths, summary

import hopscope as hs
from hopscope.circuits import checks
from hopscope.circuits.checks.card import Patterns, failing
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.custom_circuit import of_parts
from hopscope.circuits.evaluate.units import Units
from hopscope.paper.recipes import PLAIN
from hopscope.theory.depth import minimum_of_hop
from studies import census, depth, descent, plateau
from studies.calibration.study import STUDY, standard
from studies.census import CensusResult
from studies.descent import DescentResult
from studies.tools.conditions import Condition, Conditions
from studies.tools.followed import Followed
from studies.tools.judgements import all_of, as_many_as, at_all, falls_with, most_of, never
from studies.tools.study import answer
from studies.tools.work import Work

Rng = np.random.Generator


def _most(rng: Rng, n: int, share: float) -> str:
    return most_of("", (rng.random(n) < share).tolist()).verdict


def _all(rng: Rng, n: int, share: float) -> str:
    models = (rng.random(n) < share).tolist()
    return all_of("", models, not all(models), missing=False).verdict


def _never(rng: Rng, n: int, share: float, rare: float, rule: Callable[..., object] = never) -> str:
    return rule("", "", n, happened=bool((rng.random(n) < share).any()), rare=rare).verdict


def _as_many(rng: Rng, n: int, share: float, wanted: int) -> str:
    return as_many_as("", wanted, int((rng.random(n) < share).sum()), n, n).verdict


def _falls(rng: Rng, loss_with_most: float) -> str:
    """Twenty-five losses, five for each number of heads, about 0.7 but with the most heads."""
    heads = [heads for heads in (1, 2, 4, 8, 16) for _ in range(5)]
    losses = [(loss_with_most if count == 16 else 0.7) * np.exp(rng.normal(0, 0.05)) for count in heads]
    return falls_with("", heads, losses).verdict


DEPTHS = depth.standard(PLAIN).series[0]
"""The conditions of `depth` with a causal mask and many heads."""


def _depth(rng: Rng, words: str, below: float, at: float = 0.7, above: float = 0.7, only: int = 0) -> str:
    """Six seeds a condition, twelve with a layer less. With a layer less a share learns all hops, at one D or at each,
    and the others what their depth allows; at the theory's depth and above, other shares learn all."""
    found = []
    for setup in DEPTHS:
        hops, n = setup.problem.hops, len(setup.seeds)
        allowed = sum(minimum_of_hop(setup.problem, hop) <= setup.recipe.layers for hop in range(1, hops + 1))
        more = setup.recipe.layers - minimum_of_hop(setup.problem, hops)
        share = at if more == 0 else above if more > 0 else below if only in (0, hops) else 0.0
        learned = np.where(rng.random(n) < share, hops, allowed if more < 0 else 1)
        times = tuple(tuple(100 * hop if hop <= many else None for hop in range(1, hops + 1)) for many in learned)
        found.append(Condition.of(setup, setup.seeds, times))
    judgements = depth.judge(Conditions(tuple(found)))
    return next(judgement.verdict for judgement in judgements if words in judgement.hypothesis)


def _plateau(rng: Rng, ratio: float, spread: float = 0.4, changed: float = 0.4) -> str:
    """Ten seeds of the unchanged recipe and of one change; the other 39 count although none of them is run."""
    base, change, *others = plateau.standard(PLAIN).conditions
    times = [
        tuple((int(step),) * 3 for step in middle * np.exp(rng.normal(0, deviation, 10)))
        for middle, deviation in ((400, spread), (400 * ratio, changed))
    ]
    found = [Condition.of(setup, setup.seeds, learned) for setup, learned in zip((base, change), times, strict=True)]
    found += [Condition.of(setup, (), ()) for setup in others]
    return plateau.judge(Conditions(tuple(found)))[0].verdict


def _like_themselves(rng: Rng, first: float, own: float = 0.0) -> str:
    """A search ends in one circuit with this chance, or else in another; in a share of 70 models, as another did."""
    models = []
    for n in range(70):
        found, other = ((DOUBLING, SERIAL)[int(rng.random() >= first)] for _ in range(2))
        models.append(summary(found, n, again=[found if rng.random() < own else other]))
    return census.judge(CensusResult(tuple(models), ()))[2].verdict


def _drift(rng: Rng, change: float) -> str:
    """Twenty models of twelve paths have so many more or fewer when trained further, with a deviation of 1.5."""
    sizes = [12 + round(change + rng.normal(0, 1.5)) for _ in range(20)]
    before, later = (
        tuple(summary([(1, head, ">x1", "x0>") for head in range(size)], n) for n, size in enumerate(found))
        for found in ([12] * 20, sizes)
    )
    return census.judge(CensusResult(before, later))[3].verdict


def _followed(seed: int, circuits: Sequence[NamedPaths], spikes: Sequence[int], rate: str = "constant") -> Followed:
    """A model with a circuit each thousand steps."""
    found = tuple(summary(paths, seed, step=1000 * place) for place, paths in enumerate(circuits, start=1))
    steps = tuple(1000 * place for place in range(1, len(circuits) + 1))
    return Followed(rate, seed, 1000 * (len(circuits) + 1), found, tuple(spikes), (), steps)


def _rebuilt(rng: Rng, rebuilds: float = 0.0) -> str:
    """Of the ten paths of twelve models some are others at each checkpoint, ever fewer, and more at early spikes."""
    models = []
    for seed in range(12):
        chance = 1 / np.arange(2, 10) if not rebuilds else np.full(8, 0.2)
        spiky = rng.random(8) < chance
        at, circuits = np.arange(10) + 1000 * seed, []
        for n in range(9):
            circuits.append(tuple((1, int(head), ">x1", "x0>") for head in at))
            if n < 8:
                at = np.where(rng.random(10) < min(chance[n] + rebuilds * spiky[n], 1), at + 10, at)
        models.append(_followed(seed, circuits, [1000 * (n + 1) + 500 for n in range(8) if spiky[n]]))
    return descent.judge(DescentResult(tuple(models)))[2].verdict


def _stopped(rng: Rng, decaying: float) -> str:
    """Twelve models each have about two spikes at the constant rate, and so many at the decaying one."""
    models = [
        _followed(seed, [DOUBLING] * 9, [1500] * int(rng.poisson(mean)), rate)
        for rate, mean in (("constant", 2.0), ("falling", decaying))
        for seed in range(12)
    ]
    return descent.judge(DescentResult(tuple(models)))[3].verdict


SHARES = [
    *(Case("most", "half of the models", f"{n}", False, partial(_most, n=n, share=0.5)) for n in (10, 20, 70)),
    Case("most", "7 models in 10", "10", True, partial(_most, n=10, share=0.7)),
    Case("most", "8 models in 10", "20", True, partial(_most, n=20, share=0.8)),
    Case("all", "7 models in 10", "6", False, partial(_all, n=6, share=0.7)),
    *(Case("never, below a tenth", f"1 model in {many}", f"{n}", False,
                partial(_never, n=n, share=1 / many, rare=0.1)) for many, n in ((10, 36), (20, 36), (50, 75))),
    *(Case("never, below a half", "1 model in 5", f"{n}", False, partial(_never, n=n, share=0.2, rare=0.5))
      for n in (6, 8)),
    Case("at all, from a fifth on", "1 model in 5", "6", True,
              partial(_never, n=6, share=0.2, rare=0.2, rule=at_all)),
    *(Case("learning", f"{share:.0%} of seeds learn, {wanted} of 40 wanted", "40", wanted <= 40 * share,
                partial(_as_many, n=40, share=share, wanted=wanted))
      for share, wanted in ((0.9, 38), (0.85, 36), (0.98, 40), (0.98, 38), (0.95, 36))),
    Case("falls", "heads make no difference", "25", False, partial(_falls, loss_with_most=0.7)),
    Case("falls", "only 16 heads do better", "25", False, partial(_falls, loss_with_most=0.3)),
]  # fmt: skip

BEYOND, MINIMUM, OF_SIX = "8 heads: no run learns a hop", *(f"8 heads, D = {hops}: trained minimum" for hops in (4, 8))
STUDIES = [
    Case("depth 1", "1 run in 5 with a layer less learns all", "84", False,
              partial(_depth, words=BEYOND, below=0.2)),
    Case("depth 1", "the same, at D = 4 alone", "84", False, partial(_depth, words=BEYOND, below=0.2, only=4)),
    Case("depth 1", "1 run in 50 with a layer less learns all", "84", False,
              partial(_depth, words=BEYOND, below=0.02)),
    Case("depth 2", "1 run in 5 with a layer less learns all", "12", False,
              partial(_depth, words=MINIMUM, below=0.2)),
    Case("depth 2", "the same", "6", False, partial(_depth, words=OF_SIX, below=0.2)),
    Case("depth 2", "learned by 7 in 10 where theory says", "12", True, partial(_depth, words=MINIMUM, below=0.0)),
    Case("depth 2", "learned by 1 in 6 there, by half a layer above", "12", True,
              partial(_depth, words=MINIMUM, below=0.0, at=1 / 6, above=0.5)),
    Case("plateau", "nothing moves, 40 changes", "10", False, partial(_plateau, ratio=1.0)),
    Case("plateau", "times more spread alone, 40 changes", "10", False,
              partial(_plateau, ratio=1.0, changed=0.8)),
    Case("plateau", "3 times as long, 40 changes", "10", True, partial(_plateau, ratio=3.0)),
    Case("census 3", "3 searches in 4 end in one circuit, in any model", "70", False,
              partial(_like_themselves, first=0.75)),
    Case("census 3", "the same, but for half of the models' own", "70", True,
              partial(_like_themselves, first=0.75, own=0.5)),
    Case("census 4", "as many gain paths as lose some", "20", False, partial(_drift, change=0)),
    Case("census 4", "a path fewer, on average", "20", True, partial(_drift, change=-1)),
    Case("descent 2", "circuits settle, and spikes are early", "12", False, _rebuilt),
    Case("descent 2", "spikes change 4 paths in 10 more", "12", True, partial(_rebuilt, rebuilds=0.4)),
    Case("descent 3", "as many spikes at either rate", "12", False, partial(_stopped, decaying=2.0)),
    Case("descent 3", "a quarter of the spikes at the decaying rate", "12", True, partial(_stopped, decaying=0.5)),
]  # fmt: skip


def cases() -> list[Case]:
    """All cases, in the order of `docs/studies/how-often-wrong.md`: false ones, then true ones."""
    return sorted([*SHARES, *STUDIES], key=lambda case: case.true)


def refused(model: Any, circuit: Sequence[Any], max_loss: float, seed: int) -> Mapping[str, tuple[str, ...]]:
    """By patterns, the first check that refuses a circuit, measured as `Model.check` measures it."""
    found: dict[str, tuple[str, ...]] = {}
    for patterns in get_args(Patterns):
        evaluator = model.evaluator.fresh(hs.SearchBudget().confirming, seed, "circuit search")
        units = Units.of(evaluator)
        interventions, groups = of_parts(circuit, evaluator, units)
        proof = hs.CertificateConfig()
        evidence = Evidence(evaluator, units, interventions, max_loss, seed + 1, proof, patterns, groups)
        failed = (name for name, measure in checks.MEASURED.items() if failing({name: measure(evidence)}))
        found[patterns] = tuple(islice(failed, 1))
    return found


def calibrate(folder: Path) -> str:
    """The calibration of the checks with both patterns, in this folder; returns its tables."""
    study = replace(STUDY, standard=lambda recipe: replace(standard(recipe), refused=refused))
    return answer(study, None, folder, Work(workers=1)).text
