"""The paper, section by section: what is run, the results, and the claims that the results support.

>>> hs.paper.D.problem.hops, hs.paper.D.recipe.layers
(4, 24)
"""

from hopscope.paper.recipes import LAPTOP, SWEEP, A, B, C, D

__all__ = ["LAPTOP", "SWEEP", "A", "B", "C", "D"]
