"""Language models on the retrieval problem (Section 4): asking, judging, counting. Knows nothing of training.

`hopscope.benchmark(...)` is `hopscope.benchmark.run.benchmark`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopscope.benchmark.points import Summary


class _Room(ModuleType):
    """A module that can be called: Python binds a package's module over any function of its name."""

    def __call__(self, *arguments: Any, **named: Any) -> Summary:
        from hopscope.benchmark.run import benchmark

        return benchmark(*arguments, **named)


sys.modules[__name__].__class__ = _Room
