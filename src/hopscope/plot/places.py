"""Two hops by chains and layers: how many seeds have not learned each hop yet, by step, a panel an arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.plot.survival import survival
from hopscope.studies.arms import Arms
from hopscope.studies.places import PlacesResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def places(found: PlacesResult) -> Figure:
    """The curves of all arms.

    Raises:
        InputError: no arm with a seed.
    """
    return survival(Arms(found.arms))
