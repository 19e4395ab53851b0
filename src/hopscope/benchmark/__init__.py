"""Benchmark language models on the retrieval problem (Section 4): ask questions, judge replies and count answers.

`hopscope.benchmark(...)` calls `hopscope.benchmark.run.benchmark`. The module itself can be called, since Python would
replace a function of the package's name with the package's module.
"""

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from hopscope.benchmark.run import benchmark

        return benchmark(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule
