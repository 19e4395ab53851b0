"""What the file of a study offers, and the road that every study takes: run, judged, written down, drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import hopscope as hs
from studies.tools import records
from studies.tools.judgements import Judgement, judgements_table
from studies.tools.work import Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

S = TypeVar("S")
R = TypeVar("R")

TINY = hs.Recipe(
    layers=2, heads=2, d_model=32, mlp=False, steps=200, batch_size=64, examples=None, learning_rate=1e-2,
    schedule="warmup-stable-decay", clip=1.0, initial=hs.InitialWeights(qk_gain=4.0), log_every=10, final_steps=10,
    validation_size=32,
)  # fmt: skip
"""The recipe of quick versions: it learns one hop."""


@dataclass(frozen=True)
class Study(Generic[S, R]):
    """One of our own questions, beyond the paper's.

    Attributes:
        name: the name of the file, of the command's argument, and of the record.
        question: what it asks.
        result: the type of what is found; the record holds it.
        standard: makes the study of a recipe, with the sample sizes of the module's docstring.
        quick: makes a version of a tiny recipe that runs in seconds and only shows that the study runs.
        run: trains and measures, in a folder, what is missing; if only judged, it reads what exists.
        judge: judges what was found by the rules of the module's docstring.
        table: makes a Markdown table of what was found.
        recipe: the recipe that the standard version is about.
        conditions: gives the names of what can be trained alone; None where nothing can.
    """

    name: str
    question: str
    result: type[R]
    standard: Callable[[hs.Recipe], S]
    quick: Callable[[hs.Recipe], S]
    run: Callable[[S, Path, Work], R]
    judge: Callable[[R], list[Judgement]]
    table: Callable[[R], str]
    recipe: hs.Recipe = hs.recipes.PLAIN
    conditions: Callable[[S], list[str]] | None = None


@dataclass(frozen=True)
class Answer:
    """The answer of a study: what was found, the verdicts by its rules, and both as text."""

    result: Any
    judgements: tuple[Judgement, ...]
    text: str


def answer(
    study: Study[S, R], draw: Callable[[R], Figure] | None, folder: Path, work: Work, *, quick: bool = False
) -> Answer:
    """Run a study in a folder, or continue where it was stopped; then judge it, write down the numbers and verdicts,
    and draw them.

    The folder holds `runs/`, NAME.json, judgements.json and NAME.png. Where it has a record but no runs, as in
    results/studies, the record is judged, and no run replaces it.

    Raises:
        InputError: there is no such condition, the folder holds something else, or there is nothing to judge.
    """
    version = study.quick(TINY) if quick else study.standard(study.recipe)
    _check_conditions(study, version, work)
    record = folder / f"{study.name}.json"
    if (folder / "run.json").exists():
        raise hs.InputError(f"{folder} is a run folder; choose another folder for the study")
    if others := [path for path in folder.glob("*.json") if path not in (record, folder / "judgements.json")]:
        raise hs.InputError(f"{others[0]} is of another study; choose another folder for {study.name}")
    if record.exists() and not (folder / "runs").exists():
        if not work.judge_only:
            raise hs.InputError(f"{record} is of runs that are not there; add --judge, or choose a new folder")
        found = records.read(record, study.result)
    elif work.judge_only and not (folder / "runs").exists():
        raise hs.InputError(f"{folder} holds nothing of the study {study.name}; leave --judge out")
    else:
        found = study.run(version, folder, work)
    judgements = tuple(study.judge(found))
    records.write(record, found)
    records.write(folder / "judgements.json", judgements)
    text = f"{study.table(found)}\n{judgements_table(judgements)}"
    if draw is not None:
        try:
            hs.plot.save(draw(found), folder / study.name)
        except hs.InputError as nothing:
            text += f"\nNo figure: {nothing}.\n"
    return Answer(found, judgements, text)


def _check_conditions(study: Study[S, R], version: S, work: Work) -> None:
    """Check that every pattern of conditions matches some condition.

    Raises:
        InputError: a pattern matches no condition, or the study has no conditions.
    """
    names = study.conditions(version) if study.conditions else []
    for pattern in work.conditions:
        if not any(map(Work(conditions=(pattern,)).selects, names)):
            options = f"it has {', '.join(names)}" if names else "it trains all or nothing"
            raise hs.InputError(f"{study.name} has no condition {pattern!r}; {options}")
