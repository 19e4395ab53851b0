"""Do models tell rows apart by where they stand?

By theory a position finds a row by something that both hold, and the place of a row says nothing of whose it is (Lemma
1). A transformer has another way: it reads a block place by place, a head a place, and once it knows the place it
chooses among what it has read. That can save a layer, where there are not more rows than heads.

Which way a model goes is asked of pairs of sequences. They hold the same chains and differ in one block, where each
chain's row stands at the next chain's place. One layer's attention is taken from the second sequence into the first, at
all positions but those of the block: by its pattern, each weight to where its role stands; by what it writes; and by
the choice among what does not move. Who looks for what rows hold loses nothing by the third and by one of the others,
and who chooses by place loses by the third or by both others (why: `hopscope.circuits.elsewhere`; it is the
certificate's part `places` too). Not seen is who chooses within the block itself.

(At first the pattern alone was taken, at the positions that are asked, and a look-up counted as lost above one half.
That also hits who rests at a place without reading it. The limit was set when twenty models of three hops had been
looked at, the third way added when the models of `relatives` had been, of which the other two missed three. What is
told in records was asked by all three.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MADE = 0.3
"""A look-up is made below this loss. Of two rows that cannot be told apart the mean costs one half."""

RISES = 0.05
"""A look-up goes by place if its loss rises by more: the bar, as in a certificate."""


@dataclass(frozen=True)
class RowsMoved:
    """What a model answers with the attention of one layer from where the rows of one fact stand elsewhere.

    Attributes:
        fact: whose rows, in the order of look-up from 1.
        layer: from 1.
        by_pattern: mean squared errors by look-up, with the layer's pattern from there.
        by_writing: the same with what it writes from there.
        by_choice: the same with its pattern from there on what does not move.
        beside: of the fact's own look-up, the lowest of the three, if that chain's value is called right whose row
            stands there at its place.
    """

    fact: int
    layer: int
    by_pattern: tuple[float, ...]
    by_writing: tuple[float, ...]
    by_choice: tuple[float, ...]
    beside: float

    def loss(self, look_up: int) -> float:
        """Of a look-up, from 1: by choice, or the lower of the others, since each has harmless causes of its own."""
        by_pattern, by_writing, by_choice = (
            one[look_up - 1] for one in (self.by_pattern, self.by_writing, self.by_choice)
        )
        return max(min(by_pattern, by_writing), by_choice)


@dataclass(frozen=True)
class ByPlace:
    """What tells rows apart in one model.

    Attributes:
        model: its run's name.
        losses: of the model as it is, by look-up; None where it diverged: it makes none.
        moved: for each fact whose rows were moved, and each layer; none of a model that diverged.
        made: how it was trained; see `hopscope.studies.kept.made_by`.
    """

    model: str
    losses: tuple[float | None, ...]
    moved: tuple[RowsMoved, ...]
    made: str = ""

    def loss(self, look_up: int) -> float:
        """Of a look-up, from 1; infinite where the model diverged."""
        loss = self.losses[look_up - 1]
        return math.inf if loss is None else loss

    def makes(self, look_up: int) -> bool:
        """Whether the model makes a look-up, from 1."""
        return self.loss(look_up) < MADE

    def goes_by_place(self, look_up: int) -> bool:
        """Whether it makes the look-up, from 1, and loses by it with some layer's attention from where rows stand
        elsewhere."""
        return self.makes(look_up) and self.rise(look_up) > RISES

    def rise(self, look_up: int) -> float:
        """The highest rise of the look-up's loss, whatever is moved, in any layer."""
        return max((one.loss(look_up) - self.loss(look_up) for one in self.moved), default=0.0)

    def told(self, look_up: int) -> tuple[str, RowsMoved | None]:
        """The look-up's loss in words, and where moved rows cost it most; None where no row was moved."""
        loss = self.loss(look_up)
        worst = max(self.moved, key=lambda moved: moved.loss(look_up), default=None)
        return "diverged" if math.isinf(loss) else f"{loss:.3f}", worst
