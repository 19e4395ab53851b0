"""Extensions beyond the paper's prompts. Each is off unless asked for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from hopscope.checks import check_choice, check_flag, make_plain
from hopscope.errors import InputError

Names = Literal["paper", "extended", "random"]
LineOrder = Literal["blocks", "reversed", "shuffled"]
Links = Literal["drawn", "fixed"]


@dataclass(frozen=True)
class Extensions:
    """Departures from the formats of Appendix A; the defaults depart from nothing.

        >>> (shuffled,) = hs.questions("equations", hops=2, count=1, extensions=hs.Extensions(lines="shuffled"))

    Args:
        names: which names are used: `paper`, the published names; `extended`, as many names as needed, in blocks like
            the paper's (more hops, any number of chains); `random`, names in random order, so that they do not reveal
            their level.
        lines: order of the lines: `blocks`, the published order; `reversed`, the blocks in reverse order, that of the
            question's symbol first; `shuffled`, all lines in one random order.
        links: which symbol leads to which in kingdoms: `drawn` for every question, or `fixed` as in both examples
            of the paper, which agree in all five links; then only the lines' order and the condition asked for vary.
        latin: make the functions' values at each argument all differ (a Latin square), so that no floor is above 1/4.
        repeat: number of times that the facts are printed, 1 in the paper.
        filler: number of dots printed on a line after the question, as room to compute without words.
        shots: number of solved questions printed before the one asked.
        think: ask for the reasoning first and the answer alone on the last line.

    Raises:
        InputError: a value is out of range, or two extensions exclude each other.
    """

    names: Names = "paper"
    lines: LineOrder = "blocks"
    links: Links = "drawn"
    latin: bool = False
    repeat: int = 1
    filler: int = 0
    shots: int = 0
    think: bool = False

    def __post_init__(self) -> None:
        make_plain(self)
        for name, choices in (("names", get_args(Names)), ("lines", get_args(LineOrder)), ("links", get_args(Links))):
            check_choice(name, getattr(self, name), choices)
        for name in ("latin", "think"):
            check_flag(name, getattr(self, name))
        for name, least in (("repeat", 1), ("filler", 0), ("shots", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_000:
                raise InputError(f"{name} must be a whole number in {least}..10000, got {value!r}")
        if self.think and self.shots:
            raise InputError("solved questions show no reasoning, so shots and think exclude each other; drop one")
        if self.links == "fixed" and self.shots:
            raise InputError("solved questions would give fixed links away, so the two exclude each other; drop one")

    def changed(self) -> dict[str, Any]:
        """The extensions that are on, by name; empty for the paper's format."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
