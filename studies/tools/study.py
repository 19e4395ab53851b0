"""The parts that the file of a study defines, and how every study is run, judged, recorded and drawn."""

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
"""The recipe of the quick versions, with which a model learns one hop."""


@dataclass(frozen=True)
class Study(Generic[S, R]):
    """One of our own questions, beyond the paper's.

    Attributes:
        name: the name of the study, which is also the name of its file, its record and the command's argument.
        question: the question that the study asks.
        result: the type of the result, which is stored in the record.
        standard: returns the study of a recipe, with the sample sizes in the module's docstring.
        quick: returns a version with a tiny recipe, which runs in seconds and only shows that the study runs.
        run: trains and measures what is missing in a folder and returns the result; with `judge_only`, only reads it.
        judge: judges a result by the rules in the module's docstring.
        table: returns a Markdown table of a result.
        recipe: the recipe of the standard version.
        conditions: returns the names of the conditions that can be trained separately; None if the study has none.
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
    """The answer of a study: its result, the verdicts by its rules, and both as text."""

    result: Any
    judgements: tuple[Judgement, ...]
    text: str


def answer(
    study: Study[S, R], draw: Callable[[R], Figure] | None, folder: Path, work: Work, *, quick: bool = False
) -> Answer:
    """Run a study in a folder, or continue where it stopped; then judge it, store the numbers and verdicts, and draw
    them.

    The folder contains `runs/`, NAME.json, judgements.json and NAME.png. If the folder has a record but no runs, as in
    results/studies, the record can only be judged, and no run replaces it.

    Raises:
        InputError: a condition does not exist, the folder contains something else, or there is nothing to judge.
    """
    version = study.quick(TINY) if quick else study.standard(study.recipe)
    _check_conditions(study, version, work)
    record = folder / f"{study.name}.json"
    if (folder / "run.json").exists():
        raise hs.InputError(f"{folder} is a run folder; choose another folder for the study")
    if others := [path for path in folder.glob("*.json") if path not in (record, folder / "judgements.json")]:
        raise hs.InputError(f"{others[0]} belongs to another study; choose another folder for {study.name}")
    if record.exists() and not (folder / "runs").exists():
        if not work.judge_only:
            raise hs.InputError(f"{record} has no runs, so it can only be judged; add --judge, or choose a new folder")
        found = records.read(record, study.result)
    elif work.judge_only and not (folder / "runs").exists():
        raise hs.InputError(f"{folder} has no results of the study {study.name}; leave out --judge")
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
    """Check that every pattern of `work.conditions` matches a condition.

    Raises:
        InputError: a pattern matches no condition, or the study has no conditions.
    """
    names = study.conditions(version) if study.conditions else []
    for pattern in work.conditions:
        if not any(map(Work(conditions=(pattern,)).selects, names)):
            options = f"choose from {', '.join(names)}" if names else "leave out --conditions"
            raise hs.InputError(f"{study.name} has no condition {pattern!r}; {options}")
