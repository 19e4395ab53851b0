"""Do models tell rows apart by where they stand?

By theory a position finds a row by something that both hold, and the place of a row says nothing of whose it is (Lemma
1). A transformer has another way: it reads a block place by place, a head a place, and once it knows the place it
chooses among what it has read. That can save a layer, where there are not more rows than heads.

Which way a model goes is asked of pairs of sequences. They hold the same chains and differ in one block, where each
chain's row stands at the next chain's place. The patterns of the positions that are asked are taken, in one layer, from
the second sequence into the first, each weight from the role it is on to the same role of the same chain. Who looks for
what rows hold looks at the same roles in both, so that nothing changes. Who goes by places now chooses what stands at
the wrong one, and brings the next chain's. (An interchange intervention, Geiger et al. 2021, on patterns.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.studies.kept import Models
from hopscope.studies.work import Work
from hopscope.training.setup import Setup

MADE, LOST = 0.3, 0.5
"""A look-up is made below the one loss, and no longer above the other. Of two rows that cannot be told apart the mean
costs one half."""


@dataclass(frozen=True)
class RowsMoved:
    """What a model answers with the patterns of one layer from where the rows of one fact stand elsewhere.

    Attributes:
        fact: whose rows, in the order of look-up from 1.
        layer: from 1.
        losses: mean squared errors by look-up.
        next: that of the fact's own look-up, if the next chain's value is called right.
    """

    fact: int
    layer: int
    losses: tuple[float, ...]
    next: float


@dataclass(frozen=True)
class ByPlace:
    """What tells rows apart in one model.

    Attributes:
        model: its run's name.
        losses: of the model as it is, by look-up.
        moved: for each fact whose rows were moved, and each layer.
        made: how it was trained; see `hopscope.studies.kept.made_by`.
    """

    model: str
    losses: tuple[float, ...]
    moved: tuple[RowsMoved, ...]
    made: str = ""

    def makes(self, look_up: int) -> bool:
        """Whether the model makes a look-up, from 1."""
        return self.losses[look_up - 1] < MADE

    def goes_by_place(self, look_up: int) -> bool:
        """Whether it makes the look-up, from 1, and loses it with some layer's patterns from where rows stand
        elsewhere."""
        return self.makes(look_up) and self.most(look_up) > LOST

    def most(self, look_up: int) -> float:
        """The highest loss of the look-up, whatever is moved, in any layer."""
        return max((one.losses[look_up - 1] for one in self.moved), default=self.losses[look_up - 1])


def places_of(
    setups: Sequence[Setup],
    folder: Path,
    before: Sequence[ByPlace],
    work: Work,
    facts: Callable[[RetrievalProblem], Sequence[int]],
    sequences: int = 512,
) -> tuple[ByPlace, ...]:
    """By what every model tells rows apart that is finished and there, or that was asked before.

    Args:
        setups: a run of one model each.
        folder: where the run folders are.
        before: models that were asked before, perhaps on another machine.
        work: how; idle, nothing is asked.
        facts: of a problem, those whose rows are moved, from 1.
        sequences: so many pairs.
    """
    models = Models(setups, before)
    there = [setup for setup in models.left if (folder / setup.name / "result.json").exists()]
    if work.idle or not there:
        return models.all

    from hopscope.circuits.on_vectors import single
    from hopscope.studies.moving_rows import ask_by_place
    from hopscope.training.run import RunFolder

    for setup in there:
        transformer = single(RunFolder(folder / setup.name).transformer(None), 0)
        asked = ask_by_place(setup.name, transformer, setup.problem, facts(setup.problem), sequences)
        models.add(setup.name, asked)
    return models.all
