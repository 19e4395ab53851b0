"""Made-up losses and circuits of models of vectors, in which what studies ask of them is false, or true with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from false_studies import StudyCase, verdict_on
from planted_circuits import DOUBLING, SERIAL, TIES, seen

from hopscope.paper.recipes import LAPTOP, PLAIN
from studies import census, conditional, descent, heads, places, pruning
from studies.census import CensusResult
from studies.conditional import ConditionalResult
from studies.descent import DescentResult
from studies.heads import HeadsResult, OneModel
from studies.places import PlacesResult
from studies.pruning import PruningResult
from studies.tools.arms import ArmLearned
from studies.tools.by_place import ByPlace, RowsMoved
from studies.tools.circuits import NamedPath, Seen
from studies.tools.followed import Followed

Rng = np.random.Generator
Paths = tuple[NamedPath, ...]
BAR, HEADS = 0.05, (1, 2, 4, 8, 16)
DEEP = next(arm for arm in places.standard(PLAIN).arms if arm.name == "2-chains-3-layers")
RELATIVES = next(arm for arm in conditional.standard(LAPTOP).arms if arm.name == "relatives-4-layers")


def _averaging(rng: Rng) -> str:
    """Rule 1 of heads: five models of eight chains average, on sequences by which that costs 0.004 more or less."""
    cost = 0.875 + rng.normal(0, 0.004)
    models = tuple(OneModel(8, 1, 16, seed, cost + rng.normal(0, 0.001)) for seed in range(5))
    return heads.judge(HeadsResult(models))[0].verdict


def _more_heads(rng: Rng, most: float) -> str:
    """Rule 2 of heads: 25 models lose about 0.7 with any heads but the most, with which they lose this."""
    losses = [(most if count == 16 else 0.7) * np.exp(rng.normal(0, 0.05)) for count in HEADS for _ in range(5)]
    models = (OneModel(4, 1, HEADS[n // 5], n % 5, float(loss)) for n, loss in enumerate(losses))
    return heads.judge(HeadsResult(tuple(models)))[1].verdict


def _holds(rng: Rng, share: float, most: float | None = None, diverged: bool = False) -> str:
    """Rule 3 of heads: a share of the 75 models of one layer holds the bar, another share of those with two chains and
    the most heads; or all with the most heads diverge. Those of two layers all hold it."""
    models = []
    for chains in (2, 4, 8):
        for count in HEADS:
            chance = most if most is not None and (chains, count) == (2, 16) else share
            lost = diverged and count == 16
            models += [OneModel(chains, 1, count, n, None if lost else 0.01 if one else 0.5)
                       for n, one in enumerate(rng.random(5) < chance)]  # fmt: skip
        models += [OneModel(chains, 2, count, n, 0.01) for count in (1, 16) for n in range(5)]
    return heads.judge(HeadsResult(tuple(models)))[-1].verdict


def _moved(rng: Rng, share: float) -> list[ByPlace]:
    """Six models of three layers, a share of which loses the second look-up where rows are moved."""
    losses = [0.9 if one else 0.02 for one in rng.random(6) < share]
    told = ((0.0, loss) for loss in losses)
    return [
        ByPlace(f"2-chains-3-layers/seed-{n}", (0.0, 0.02), (RowsMoved(2, 1, one, one, one, 1.0),))
        for n, one in enumerate(told)
    ]


def _hold_rows(rng: Rng, share: float) -> str:
    """Rule 3 of places, of the six models with two chains and three layers."""
    arm = ArmLearned.of(DEEP, DEEP.seeds, ((100, 200),) * 6)
    return verdict_on("go by what rows hold", places.judge(PlacesResult((arm,), tuple(_moved(rng, share)))))


def _certified(rng: Rng, n: int, share: float, arm: str = "pruned") -> tuple[Seen, ...]:
    """So many models that hold the bar, a share of which has a certified circuit."""
    return tuple(
        seen(DOUBLING, number, model=f"{arm}/seed-{number}", certified=("natural",) if one else ())
        for number, one in enumerate(rng.random(n) < share)
    )


def _pruned(rng: Rng, share: float) -> str:
    return pruning.judge(PruningResult(BAR, _certified(rng, 20, share), (), (5,) * 20))[0].verdict


def _does_it(rng: Rng, pruned: float, whole: float) -> str:
    found = PruningResult(BAR, _certified(rng, 10, pruned), _certified(rng, 10, whole, "all-heads"), (5,) * 10)
    return pruning.judge(found)[1].verdict


def _costs(rng: Rng, n: int, share: float) -> str:
    """Of so many models that hold the bar a share does not when pruned."""
    whole = _certified(rng, n, 0.0, "all-heads")
    pruned = tuple(
        replace(one, loss=0.2 if lost else 0.01) for one, lost in zip(whole, rng.random(n) < share, strict=True)
    )
    return pruning.judge(PruningResult(BAR, pruned, whole, (5,) * n))[2].verdict


def _small(rng: Rng, share: float) -> str:
    """Rule 1 of the census: a share of the circuits of 70 models is as small as theory allows."""
    larger = (*DOUBLING, (3, 2, "x0?", ">x3"))
    models = [seen(DOUBLING, n, strict=DOUBLING if one else larger) for n, one in enumerate(rng.random(70) < share)]
    return census.judge(CensusResult(tuple(models), ()))[0].verdict


def _themselves(rng: Rng, first: float, own: float = 0.0) -> str:
    """Rule 3 of the census: a search ends in one circuit with this chance, or else in another; in a share of 70 models
    it ends as another of the same model did."""
    models = []
    for n in range(70):
        one, again = ((DOUBLING, SERIAL)[int(rng.random() >= first)] for _ in range(2))
        models.append(seen(one, n, again=[one if rng.random() < own else again]))
    return census.judge(CensusResult(tuple(models), ()))[2].verdict


def _drift(rng: Rng, change: float, spread: float) -> str:
    """Rule 4 of the census: 20 models of about twelve paths have so many more or fewer when trained further."""

    def sized(many: int, seed: int) -> Seen:
        return seen([(1, head, ">x1", "x0>") for head in range(many)], seed)

    before = [sized(12, n) for n in range(20)]
    later = [sized(12 + round(change + rng.normal(0, spread)), n) for n in range(20)]
    return census.judge(CensusResult(tuple(before), tuple(later)))[3].verdict


def _by_place(rng: Rng, certified: int, share: float) -> str:
    """Rule 5 of the census: of so many certified models a share loses a hop where rows are moved."""
    models = [seen(DOUBLING, n, certified=("natural",)) for n in range(certified)]
    moved = [(0.0, 0.0, 0.9 if one else 0.0) for one in rng.random(certified) < share]
    asked = [ByPlace(model.model, (0.0,) * 3, (RowsMoved(3, 2, at, at, at, 1.0),))
             for model, at in zip(models, moved, strict=True)]  # fmt: skip
    return census.judge(CensusResult(tuple(models), (), tuple(asked)))[-1].verdict


def _in_heads(heads_of: Sequence[int]) -> Paths:
    return tuple((1, head, ">x1", "x0>") for head in heads_of)


def _followed(seed: int, circuits: Sequence[Paths], spikes: Sequence[int], rate: str = "constant") -> Followed:
    """A model with a circuit each thousand steps."""
    every = tuple(seen(paths, seed, step=1000 * place) for place, paths in enumerate(circuits, start=1))
    steps = tuple(1000 * place for place in range(1, len(circuits) + 1))
    return Followed(rate, seed, 1000 * (len(circuits) + 1), every, tuple(spikes), (), steps)


def _descends(rng: Rng, share: float) -> str:
    """Rule 1 of descent: of twelve models a share keeps its first circuit to the end."""
    models = []
    for seed, stays in enumerate(rng.random(12) < share):
        first, other = (_in_heads(range(100 * seed + at, 100 * seed + at + 6)) for at in (0, 50))
        models.append(_followed(seed, [first, first if stays else other], ()))
    return descent.judge(DescentResult(tuple(models)))[0].verdict


def _rebuilt(rng: Rng, settles: bool, rebuilds: float = 0.0) -> str:
    """Rule 2 of descent: of the ten paths of twelve models some are others at each checkpoint, ever fewer or always as
    many, and more across a spike; spikes come in early intervals, or in any."""
    models = []
    for seed in range(12):
        chance = 1 / np.arange(2, 10) if settles else np.full(8, 0.2)
        spiky = rng.random(8) < (chance if settles else 0.2)
        at, circuits = np.arange(10) + 1000 * seed, []
        for n in range(9):
            circuits.append(_in_heads([int(head) for head in at]))
            if n < 8:
                at = np.where(rng.random(10) < min(chance[n] + rebuilds * spiky[n], 1), at + 10, at)
        models.append(_followed(seed, circuits, [1000 * (n + 1) + 500 for n in range(8) if spiky[n]]))
    return descent.judge(DescentResult(tuple(models)))[2].verdict


def _stopped(rng: Rng, falling: float) -> str:
    """Rule 3 of descent: twelve models each have about two spikes, and so many where the rate falls."""
    models = [
        _followed(seed, [DOUBLING] * 9, [1500] * int(rng.poisson(mean)), rate)
        for rate, mean in (("constant", 2.0), ("falling", falling))
        for seed in range(12)
    ]
    return descent.judge(DescentResult(tuple(models)))[3].verdict


def _deliver(rng: Rng, n: int, share: float) -> str:
    """Rule 3 of conditional: of so many models that hold the bar a share has a circuit that delivers."""
    models = tuple(seen(TIES, number, model=f"relatives-4-layers/seed-{number}", delivers=bool(one))
                   for number, one in enumerate(rng.random(n) < share))  # fmt: skip
    found = ConditionalResult(BAR, (ArmLearned.of(RELATIVES, (), ()),), models)
    return verdict_on("relatives: circuits deliver", conditional.judge(found))


CASES = [
    StudyCase("heads 1", "all models average, on the same sequences", "5 models", False, _averaging),
    StudyCase("heads 2", "heads make no difference", "25 models", False, partial(_more_heads, most=0.7)),
    StudyCase("heads 2", "16 heads alone do better", "25 models", False, partial(_more_heads, most=0.3)),
    StudyCase("heads 3", "1 model in 50 holds the bar", "75 models", False, partial(_holds, share=0.02)),
    StudyCase("heads 3", "1 in 5 of 16 heads and 2 chains holds it", "75 models", False,
              partial(_holds, share=0.0, most=0.2)),
    StudyCase("heads 3", "those of 16 heads would, and diverge", "75 models", False,
              partial(_holds, share=0.0, diverged=True)),
    StudyCase("places 3", "half of the models go by place", "6 models", False, partial(_hold_rows, share=0.5)),
    StudyCase("places 3", "3 models in 10 go by place", "6 models", True, partial(_hold_rows, share=0.3)),
    StudyCase("pruning 1", "half of the models are certified", "20 models", False, partial(_pruned, share=0.5)),
    StudyCase("pruning 2", "6 models in 10 are certified in both arms", "10 seeds", False,
              partial(_does_it, pruned=0.6, whole=0.6)),
    StudyCase("pruning 2", "8 in 10 pruned and 2 in 10 whole are certified", "10 seeds", True,
              partial(_does_it, pruned=0.8, whole=0.2)),
    *(StudyCase("pruning 3", f"1 model in {many} loses a hop", f"{n} models", False,
                partial(_costs, n=n, share=1 / many)) for many, n in ((20, 10), (20, 36), (10, 36))),
    StudyCase("census 1", "half of the circuits are as small", "70 models", False, partial(_small, share=0.5)),
    StudyCase("census 3", "3 searches in 4 end in one circuit, in any model", "70 models", False,
              partial(_themselves, first=0.75)),
    StudyCase("census 3", "the same, but for half of the models' own", "70 models", True,
              partial(_themselves, first=0.75, own=0.5)),
    StudyCase("census 4", "as many gain paths as lose some", "20 models", False, partial(_drift, change=0, spread=1.5)),
    StudyCase("census 4", "a path fewer, on average", "20 models", True, partial(_drift, change=-1, spread=1.5)),
    StudyCase("census 5", "1 certified model in 20 goes by place", "13 models", False,
              partial(_by_place, certified=13, share=0.05)),
    StudyCase("census 5", "1 certified model in 20 goes by place", "40 models", False,
              partial(_by_place, certified=40, share=0.05)),
    StudyCase("descent 1", "half of the circuits are replaced", "12 models", False, partial(_descends, share=0.5)),
    StudyCase("descent 2", "spikes do nothing, at any time", "12 models", False, partial(_rebuilt, settles=False)),
    StudyCase("descent 2", "circuits settle, and spikes are early", "12 models", False,
              partial(_rebuilt, settles=True)),
    StudyCase("descent 2", "spikes change 4 paths in 10 more", "12 models", True,
              partial(_rebuilt, settles=False, rebuilds=0.4)),
    StudyCase("descent 3", "as many spikes at either rate", "12 models", False, partial(_stopped, falling=2.0)),
    StudyCase("descent 3", "a quarter of the spikes at the falling rate", "12 models", True,
              partial(_stopped, falling=0.5)),
    StudyCase("conditional 3", "half of the circuits deliver", "9 models", False, partial(_deliver, n=9, share=0.5)),
    StudyCase("conditional 3", "7 circuits in 10 deliver", "9 models", True, partial(_deliver, n=9, share=0.7)),
]  # fmt: skip
