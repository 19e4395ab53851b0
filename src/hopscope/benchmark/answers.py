"""The answer rules: when a model's text counts as one of the acceptable answers. Never a substring search."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hopscope.checks import check_choice

_WRAPPERS = ("**", "`", '"', "'", "“”", "‘’")


def exact(text: str, acceptable: Sequence[str]) -> str | None:
    """The text without surrounding white space, if it is an acceptable answer (the paper's rule); else None."""
    stripped = text.strip()
    return stripped if stripped in acceptable else None


def lenient(text: str, acceptable: Sequence[str]) -> str | None:
    """As `exact`, but also with one trailing period, quotes, `**`, backticks, or in another case."""
    bare, period = text.strip(), False
    while True:
        if not period and bare.endswith("."):
            bare, period = bare[:-1].strip(), True
            continue
        peeled = _peel(bare)
        if peeled == bare:
            break
        bare = peeled
    folded = {answer.casefold(): answer for answer in acceptable}
    return folded.get(bare.casefold())


def _peel(text: str) -> str:
    """The text without one pair of wrappers."""
    for wrapper in _WRAPPERS:
        left, right = (wrapper[0], wrapper[1]) if wrapper in ("“”", "‘’") else (wrapper, wrapper)
        if len(text) >= len(left) + len(right) and text.startswith(left) and text.endswith(right):
            return text[len(left) : len(text) - len(right)].strip()
    return text


AnswerRule = Callable[[str, Sequence[str]], str | None]
RULES: dict[str, AnswerRule] = {"exact": exact, "lenient": lenient}
"""The answer rules by name; the name is part of every record."""


def rule(name: str) -> AnswerRule:
    """The rule of that name.

    Raises:
        InputError: there is no such rule.
    """
    check_choice("rule", name, RULES)
    return RULES[name]


_AROUND = {"exact": r"\s", "lenient": rf"[\s{re.escape(''.join(_WRAPPERS))}.]"}
"""By rule, what it may strip around an answer; `\\s` is what `str.strip` takes, white space beyond ASCII too."""


def hopeful(name: str, text: str, acceptable: Sequence[str]) -> bool:
    """Whether a rule may still accept `text` with more written after it; never False where it may."""
    around = _AROUND[name]
    begun = re.sub(rf"\A{around}+", "", text)
    whole = re.sub(rf"{around}+\Z", "", begun)
    if name == "lenient":
        begun, whole, acceptable = begun.casefold(), whole.casefold(), [answer.casefold() for answer in acceptable]
    return any(answer.startswith(begun) or answer == whole for answer in acceptable)


def last_line(text: str) -> str:
    """The last line that is not blank, where a model that was asked to think first puts its answer."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
