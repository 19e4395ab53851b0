"""Figure 6: losses over the training of one model, and its validation loss hop by hop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.plot.style import BLUE, PAGE, VERMILION, hop_label, hop_look, house, new_figure, thousands
from hopscope.plot.training import Panel, draw_panel, thinned
from hopscope.training.metrics import Metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_6(metrics: Metrics, model: int = 0) -> Figure:
    """Left: training and validation loss. Right: validation loss by hop, marked where it falls below 0.5.

    Args:
        metrics: the metrics of a run.
        model: the number of the model, from 0.

    Raises:
        InputError: there are no rows of that model.
    """
    if not len(metrics) or model >= len(metrics.seeds):
        raise InputError(f"the metrics have no row of model {model} yet")
    steps = metrics.steps.tolist()
    with house():
        figure = new_figure(PAGE, 2.6)
        left, right = figure.subplots(1, 2, sharex=True)
        lines = (
            (metrics.train_loss, "training", VERMILION),
            (metrics.validation_loss, "validation", BLUE),
        )
        for losses, label, color in lines:
            left.plot(*thinned(steps, losses[:, model].tolist()), color=color, linewidth=1.1, label=label)
        left.set_title("Loss")
        left.set_ylim(0, 1.05)
        left.set_ylabel("mean squared error")
        left.legend(loc="upper right")
        draw_panel(right, Panel("Validation loss by hop", metrics, model=model))
        for hop in metrics.hops:
            look = hop_look(hop)
            right.plot([], [], color=look.color, marker=look.marker, linestyle=look.dash, label=hop_label(hop))
        right.legend(loc="upper right")
        for axes in (left, right):
            axes.set_xlim(0, steps[-1])
            axes.set_xlabel("step")
            thousands(axes)
    return figure
