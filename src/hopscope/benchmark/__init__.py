"""Language models on the retrieval problem (Section 4): asking, judging, counting; nothing of training.

`hopscope.benchmark(...)` is `hopscope.benchmark.run.benchmark`: Python binds a package's module over a function of its
name, so the module itself can be called.
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from hopscope.benchmark.run import benchmark

        return benchmark(*arguments, **named)


sys.modules[__name__].__class__ = _Room
