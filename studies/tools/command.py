"""The end of a program of `studies`: what became of it as an exit status and, where it failed, one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable

import hopscope as hs


def status(program: Callable[[], object]) -> int:
    """Run a program; 0, or 2 where its input was wrong and 130 where it was interrupted, which it says."""
    try:
        program()
    except hs.InputError as error:
        print(f"studies: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("studies: interrupted; the same command continues from what is on disk", file=sys.stderr)
        return 130
    return 0
