"""Plot results as matplotlib figures; nothing is measured here. The figures of the paper are in `paper/`.

>>> import hopscope as hs
>>> run = hs.Run("runs/tiny/sweep/ic-layers-2-seed-0")
>>> figure = hs.plot.figure_6(run.metrics)
>>> [path.name for path in hs.plot.save(figure, "losses")]
['losses.png', 'losses.svg', 'losses.pdf']
"""

from hopscope.plot.card import card
from hopscope.plot.checkpoints import checkpoints
from hopscope.plot.circuit import appendix_c, appendix_c_prompts, figure_5
from hopscope.plot.style import (
    BLUE,
    COLUMN,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PAGE,
    PURPLE,
    VERMILION,
    hop_label,
    hop_look,
    house,
    new_figure,
    save,
    thousands,
)
from hopscope.plot.training import figure_6, training

__all__ = [
    "BLUE",
    "COLUMN",
    "FAINT",
    "GREEN",
    "INK",
    "ORANGE",
    "PAGE",
    "PURPLE",
    "VERMILION",
    "appendix_c",
    "appendix_c_prompts",
    "card",
    "checkpoints",
    "figure_5",
    "figure_6",
    "hop_label",
    "hop_look",
    "house",
    "new_figure",
    "save",
    "thousands",
    "training",
]
