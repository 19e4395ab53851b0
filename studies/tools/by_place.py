"""Do models tell rows apart by where they stand?

By theory a position finds a row by something that both hold, and the place of a row says nothing about which chain it
belongs to (Lemma 1). A transformer has another way: it reads a block place by place, with a head for each place, and
once it knows the place it chooses among what it has read. That can save a layer where there are no more rows than
heads.

Which of the two a model does is tested on pairs of sequences. They hold the same chains and differ in one block, where
each chain's row stands at the next chain's place. One layer's attention is taken from the second sequence into the
first, at all positions but those of the block, in three ways: its pattern, each weight moved to where its role stands;
what it writes; and its choice among what does not move. A model that looks rows up by what they hold loses nothing by
the third and nothing by one of the others; a model that chooses by place loses by the third or by both others (for the
reasons see `hopscope.circuits.evaluate.elsewhere`; the test is also part `places` of the certificate). A model that
chooses within the block itself is not detected.

(At first only the pattern was taken, at the positions that are asked, and a look-up counted as lost above one half.
That also hits models that rest at a place without reading it. The limit was set when twenty models of three hops had
been examined; the third way was added after the models of `relatives`, three of which the other two ways missed. All
records use all three.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MADE = 0.3
"""A look-up counts as made below this loss. Between two rows that cannot be told apart, the mean costs one half."""

RISES = 0.05
"""A look-up goes by place if its loss rises by more than this, the bar, as in a certificate."""


@dataclass(frozen=True)
class RowsMoved:
    """What a model answers when one layer's attention is taken from a sequence in which the rows of one fact stand
    elsewhere.

    Attributes:
        fact: the fact whose rows are moved, in the order of look-up from 1.
        layer: the layer whose attention is taken, from 1.
        by_pattern: mean squared error of each look-up with the layer's pattern taken from there.
        by_writing: the same with what the layer writes taken from there.
        by_choice: the same with only its pattern on what does not move taken from there.
        beside: for the fact's own look-up, the lowest of the three errors if the value counted as right is that of the
            chain whose row stands at its place in the other sequence.
    """

    fact: int
    layer: int
    by_pattern: tuple[float, ...]
    by_writing: tuple[float, ...]
    by_choice: tuple[float, ...]
    beside: float

    def loss(self, look_up: int) -> float:
        """The loss of a look-up, from 1: by choice, or the lower of the other two if that is higher, since each of
        those has harmless causes of its own."""
        by_pattern, by_writing, by_choice = (
            one[look_up - 1] for one in (self.by_pattern, self.by_writing, self.by_choice)
        )
        return max(min(by_pattern, by_writing), by_choice)


@dataclass(frozen=True)
class ByPlace:
    """By what one model tells rows apart.

    Attributes:
        model: the name of its run.
        losses: loss of each look-up of the unchanged model; None where it diverged, and so makes no look-up.
        moved: one entry for each fact whose rows were moved and each layer; empty for a model that diverged.
        made: how it was trained; see `studies.tools.kept.made_by`.
    """

    model: str
    losses: tuple[float | None, ...]
    moved: tuple[RowsMoved, ...]
    made: str = ""

    def loss(self, look_up: int) -> float:
        """The loss of a look-up, from 1; infinite where the model diverged."""
        loss = self.losses[look_up - 1]
        return math.inf if loss is None else loss

    def makes(self, look_up: int) -> bool:
        """Whether the model makes a look-up, numbered from 1."""
        return self.loss(look_up) < MADE

    def goes_by_place(self, look_up: int) -> bool:
        """Whether the model makes the look-up, from 1, and loses it when some layer's attention is taken from where
        rows stand elsewhere."""
        return self.makes(look_up) and self.rise(look_up) > RISES

    def rise(self, look_up: int) -> float:
        """The highest rise of the look-up's loss over everything that is moved, in any layer."""
        return max((one.loss(look_up) - self.loss(look_up) for one in self.moved), default=0.0)

    def told(self, look_up: int) -> tuple[str, RowsMoved | None]:
        """The look-up's loss in words, and the moved rows that cost it most; None where no row was moved."""
        loss = self.loss(look_up)
        worst = max(self.moved, key=lambda moved: moved.loss(look_up), default=None)
        return "diverged" if math.isinf(loss) else f"{loss:.3f}", worst
