"""How many seeds have not learned a hop yet, by step: the curves of the learning study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.plot.style import COLUMN, hop_label, hop_look, house, new_figure
from hopscope.studies.learning import ArmLearned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def survival(arms: Sequence[ArmLearned]) -> Figure:
    """The share of seeds that have not learned a hop yet, a panel an arm, a line a hop.

    Every seed is watched until it has learned everything or its budget is spent, so that no estimate is needed: what
    is drawn are the counts.

    Raises:
        InputError: no arm with a seed.
    """
    arms = [arm for arm in arms if arm.seeds]
    if not arms:
        raise InputError("there is nothing to draw: no seed is finished")
    with house():
        figure = new_figure(COLUMN * 0.75 * len(arms), 2.4)
        for axes, arm in zip(figure.subplots(1, len(arms), sharey=True, squeeze=False)[0], arms, strict=True):
            for hop in range(1, arm.hops + 1):
                steps, n = arm.steps(hop), len(arm.seeds)
                look = hop_look(hop)
                left = [1 - number / n for number in range(len(steps) + 1)]
                axes.plot(
                    [0, *steps, arm.budget],
                    [*left, left[-1]],
                    drawstyle="steps-post",
                    color=look.color,
                    linestyle=look.dash,
                    label=hop_label(hop),
                )
            axes.set_title(f"{arm.name.replace('-', ' ')}, {len(arm.seeds)} seeds")
            axes.set_xlabel("step")
            axes.set_xlim(0, arm.budget)
            axes.set_ylim(-0.02, 1.02)
        figure.axes[0].set_ylabel("share of seeds not yet there")
        figure.axes[-1].legend(loc="best")
    return figure
