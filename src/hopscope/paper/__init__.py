"""The paper, section by section: what is run, what came of it, and which of the claims it bears out.

>>> hs.paper.D.problem.hops, hs.paper.D.recipe.layers
(4, 24)
"""

from hopscope.paper.recipes import LAPTOP, SWEEP, A, B, C, D

__all__ = ["LAPTOP", "SWEEP", "A", "B", "C", "D"]
