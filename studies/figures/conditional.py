"""Questions in which look-ups meet: how many seeds have not made each look-up yet, by step, a panel for each depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from studies.conditional import ConditionalResult
from studies.figures.survival import survival
from studies.tools.arms import Arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def conditional(found: ConditionalResult) -> Figure:
    """The curves of all arms, in which x1, x2, ... are the look-ups in their order.

    Raises:
        InputError: no arm has a finished seed.
    """
    return survival(Arms(found.arms))
