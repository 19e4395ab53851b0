"""Figures, one file each: typed values in, matplotlib figures out; nothing is measured here.

The names of this package are the functions; the file of each has the same name.

    >>> import hopscope as hs
    >>> names = "ic-layers-1-seed-0", "ic-layers-2-seed-0", "non-ic-layers-2-seed-0"
    >>> runs = [hs.Run(f"runs/tiny/sweep/{name}") for name in names]
    >>> len(hs.plot.figure_4(*runs).axes)
    2
    >>> figure = hs.plot.figure_6(runs[1].metrics)
    >>> [path.name for path in hs.plot.save(figure, "losses")]
    ['losses.png', 'losses.svg', 'losses.pdf']
"""

from hopscope.plot.appendix_c import appendix_c, one_prompt
from hopscope.plot.appendix_d import appendix_d
from hopscope.plot.figure_2 import figure_2
from hopscope.plot.figure_3 import figure_3
from hopscope.plot.figure_4 import figure_4
from hopscope.plot.figure_5 import figure_5
from hopscope.plot.figure_6 import figure_6
from hopscope.plot.figure_7 import figure_7
from hopscope.plot.style import save
from hopscope.plot.training import training

__all__ = [
    "appendix_c",
    "appendix_d",
    "figure_2",
    "figure_3",
    "figure_4",
    "figure_5",
    "figure_6",
    "figure_7",
    "one_prompt",
    "save",
    "training",
]
