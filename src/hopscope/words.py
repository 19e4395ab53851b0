"""Wording of messages to people."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, what: str) -> str:
    """A number with its noun in the singular or plural: `1 head`, `3 heads`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time in round numbers: `89 s`, `2 min`, `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table, which ends with a line break."""
    first = [*headings]
    cells = [[f" {cell} |" if cell != "" else " |" for cell in row] for row in (first, *rows)]
    head, *body = [f"|{''.join(row)}\n" for row in cells]
    return "".join([head, "|---" * len(first), "|\n", *body])
