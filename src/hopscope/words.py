"""Wording of messages to people."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, what: str) -> str:
    """A number with its noun in the singular or plural: `1 head`, `3 heads`.

    >>> counted(1, "path"), counted(0, "path")
    ('1 path', '0 paths')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time, as roughly as people would tell it.

    >>> duration(89), duration(90), duration(5400)
    ('89 s', '2 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table, which ends with a line break.

    >>> print(markdown_table(("layers", "models"), [(2, 10), (3, 9)]), end="")
    | layers | models |
    |---|---|
    | 2 | 10 |
    | 3 | 9 |
    """
    first = [*headings]
    cells = [[f" {cell} |" if cell != "" else " |" for cell in row] for row in (first, *rows)]
    head, *body = [f"|{''.join(row)}\n" for row in cells]
    return "".join([head, "|---" * len(first), "|\n", *body])
