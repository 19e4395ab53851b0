"""What a file of this room offers to the verb `hopscope study NAME`: its `STUDY`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from hopscope.studies.judgements import Judgement
from hopscope.studies.work import Work
from hopscope.training.recipe import Recipe

S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True)
class Study(Generic[S, R]):
    """One of our own questions.

    Attributes:
        name: of the file, of the verb's argument, and of the record.
        result: type of what is found; the record holds it.
        standard: what is asked of a recipe, at the sample sizes of the docstring.
        quick: the same in seconds, to see that it works.
        run: trains and measures what is not there yet, in a folder; with idle work it reads what is there.
        judge: by the rules of the docstring.
        table: of what was found, as Markdown.
        figure: function and file of `plot/` that draws what was found; None where the verb draws something else.
        recipe: that the standard version asks about.
        some_arms: whether it trains but the arms that its work wants; what is found then has `arms`, with all of them.
    """

    name: str
    result: type[R]
    standard: Callable[[Recipe], S]
    quick: Callable[[Recipe], S]
    run: Callable[[S, Path, Work], R]
    judge: Callable[[R], list[Judgement]]
    table: Callable[[R], str]
    figure: str | None
    recipe: Literal["plain", "laptop", "d"] = "plain"
    some_arms: bool = False
