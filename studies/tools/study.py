"""What the file of a question offers to the command `python -m studies NAME`: its `STUDY`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from hopscope.training.recipe import Recipe
from hopscope.training.work import Work
from studies.tools.judgements import Judgement

S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True)
class Study(Generic[S, R]):
    """One of our own questions, beyond the paper's.

    Attributes:
        name: the name of the file, of the command's argument, and of the record.
        result: the type of what is found; the record holds it.
        standard: makes the study of a recipe, with the sample sizes of the module's docstring.
        quick: makes a version that runs in seconds and only shows that the study runs.
        run: trains and measures, in a folder, what is not there yet; with idle work it only reads what is there.
        judge: judges what was found by the rules of the module's docstring.
        table: makes a Markdown table of what was found.
        figure: the name of the function and file of `plot/` that draws what was found; None where the command draws
            something else.
        recipe: the recipe that the standard version is about.
        some_arms: whether it can train only the arms that its work wants; what is found then has `arms`, with all of
            them.
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
