"""The exit status of the programs in `studies`, with a sentence on standard error if a program fails."""

from __future__ import annotations

import sys
from collections.abc import Callable

import hopscope as hs


def status(program: Callable[[], object]) -> int:
    """Run a program and return its exit status: 0, 2 if its input is wrong, or 130 if it is interrupted."""
    try:
        program()
    except hs.InputError as error:
        print(f"studies: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("studies: interrupted; the same command continues from what is on disk", file=sys.stderr)
        return 130
    return 0
