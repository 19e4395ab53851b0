"""Heads whose attention is fixed beforehand, in training and after.

They are part of the architecture, so that later use of the model (analysis, ablation, further training) meets the heads
that it was trained with. Their query and key weights do nothing; values and output are learned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hopscope.checks import check_count, check_items, make_plain
from hopscope.errors import InputError

HeldPattern = Literal["previous", "itself", "uniform", "nothing"]
"""`previous`: all weight on the position before (the first position on itself). `itself`: all weight on the position
itself. `uniform`: equal weights on all positions that may be seen. `nothing`: no weight at all, which forbids the head;
it then writes a constant."""


@dataclass(frozen=True)
class HeldHead:
    """A head held to a pattern.

        >>> import hopscope as hs
        >>> hs.HeldHead(1, 2, "previous").head
        2

    Args:
        layer: number of the layer, from 1.
        head: number of the head in its layer, from 1.
        pattern: one of `HeldPattern`.

    Raises:
        InputError: the pattern is unknown, or a number is below 1.
    """

    layer: int
    head: int
    pattern: HeldPattern

    def __post_init__(self) -> None:
        make_plain(self)
        for name in ("layer", "head"):
            check_count(f"the {name} of a held head", getattr(self, name))
        if self.pattern not in get_args(HeldPattern):
            raise InputError(f"a head is held to one of {', '.join(get_args(HeldPattern))}, got {self.pattern!r}")

    @classmethod
    def parse(cls, text: str) -> HeldHead:
        """The head that `1.2=previous` names: layer 1, head 2.

        Raises:
            InputError: the text is not of this form.
        """
        match = re.fullmatch(r"\s*(\d{1,9})\.(\d{1,9})=(\w+)\s*", text)
        if match is None:
            raise InputError(f"a held head is written LAYER.HEAD=PATTERN, as in 1.2=previous, got {text!r}")
        return cls(int(match[1]), int(match[2]), match[3])  # type: ignore[arg-type]  # checked when made


def check_held(held: Sequence[HeldHead], layers: int, heads: int) -> None:
    """Check that held heads exist.

    Raises:
        InputError: an entry is not a `HeldHead`, the architecture lacks it, or it is held twice.
    """
    seen = set()
    for head in check_items("held", held, "held heads"):
        if not isinstance(head, HeldHead):
            raise InputError(f"held must be heads, as in HeldHead(1, 1, 'previous'), got {head!r}")
        if head.layer > layers or head.head > heads:
            raise InputError(
                f"head {head.layer}.{head.head} cannot be held: there are {layers} layers of {heads} heads, from 1"
            )
        if (head.layer, head.head) in seen:
            raise InputError(f"head {head.layer}.{head.head} is held twice; keep head")
        seen.add((head.layer, head.head))
