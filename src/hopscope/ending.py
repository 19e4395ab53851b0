"""What went wrong, for people: one line that a terminal shows as it is."""

from __future__ import annotations

import re

from hopscope.errors import lacking

_LONGEST_WORD, _LONGEST = 300, 2000


def readable(text: str) -> str:
    """Text without control characters and marks of direction, and with values shortened that nobody would read."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text.replace("\n", " "))
    shown = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: _shortened(word[0], 60), shown)
    return shown if len(shown) <= _LONGEST else _shortened(shown, _LONGEST // 2)


def _shortened(text: str, kept: int) -> str:
    return f"{text[:kept]}...({len(text) - 2 * kept} characters)...{text[-kept:]}"


def trouble_of_the_machine(error: BaseException) -> str | None:
    """What the machine lacks, in words, if that is what an error comes from."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        if isinstance(one, OSError):
            return f"{one.filename or 'this machine'}: {one.strerror}" if one.strerror else str(one)
        if trouble := lacking("out of memory" if isinstance(one, MemoryError) else str(one)):
            return trouble
        seen.append(one)
        one = one.__cause__ or one.__context__
    return None
