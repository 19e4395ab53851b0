"""`hopscope study`: questions of our own, asked with many models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hopscope.cli._common import GivenPath, for_people, refuse_given
from hopscope.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hopscope.studies.study import Study
    from hopscope.studies.text import TextStudy
    from hopscope.studies.work import Work

S = TypeVar("S")
R = TypeVar("R")

_JUDGEMENTS = "hopscope judgements"

Ask = Callable[[Path, bool, tuple[Path, ...], "Work"], str]
"""Runs a study in a folder, quick or not, with the runs given and by that work; gives its tables."""


def _recorded(name: str, made: str = "runs") -> Ask:
    """The study of a file of `studies/`; what it makes goes into the folder `made`."""

    def ask(folder: Path, quick: bool, runs: tuple[Path, ...], work: Work) -> str:
        from hopscope.paper import presets, recipes
        from hopscope.records import check_replaces

        study: Study[Any, Any] = import_module(f"hopscope.studies.{name}").STUDY
        check_replaces(folder / "judgements.json", _JUDGEMENTS, "the verdicts of a study")
        recipe = recipes.BY_NAME[study.recipe].recipe
        asked = study.quick(presets.TINY.depth.recipe) if quick else study.standard(recipe)
        found = _found(study, asked, folder, quick, work, made)
        told = _written(study, found, folder)
        if study.figure is None:
            _draw_circuits(asked, folder)
            return told
        return told + _draw(study.figure, found, folder / name)

    return ask


def _found(study: Study[S, R], asked: S, folder: Path, quick: bool, work: Work, made: str) -> R:
    """What a study comes to; where nothing is to be run and nothing of it is in the folder `made`, what it kept."""
    from hopscope.cli._keeping import RecordedStudy
    from hopscope.studies.kept import kept

    before = kept(study.name, folder, study.result)
    asking = RecordedStudy(
        folder / f"{study.name}.json", before, folder / made, partial(study.run, asked, folder), quick
    )
    if not work.idle:
        asking.check()
    found = asking.found(work)
    if found is None:
        raise _nothing(study.name, folder)
    return found


def _nothing(name: str, folder: Path) -> InputError:
    return InputError(f"{folder} holds nothing finished of the study {name}; leave --judge out, or name another folder")


def _written(study: Study[S, R], found: R, folder: Path) -> str:
    """What a study found, judged and written down; its tables."""
    from hopscope.records import write_record
    from hopscope.studies.judgements import Judgements, judgements_table

    judgements = tuple(study.judge(found))
    write_record(folder / f"{study.name}.json", found, kind=f"hopscope study {study.name}", schema=1)
    write_record(folder / "judgements.json", Judgements(judgements), kind=_JUDGEMENTS, schema=1)
    return f"{study.table(found)}\n{judgements_table(judgements)}"


def _draw(figure: str, found: Any, path: Path) -> str:
    """Draw what a study found; says why where there is nothing to draw."""
    from hopscope.plot.style import save

    draw: Callable[[Any], Figure] = getattr(import_module(f"hopscope.plot.{figure}"), figure)
    try:
        save(draw(found), path)
    except InputError as nothing:
        return f"\nNo figure: {nothing}.\n"
    return ""


def _draw_circuits(study: TextStudy, folder: Path) -> None:
    """Draw the circuits of every arm, as far as there are any."""
    from hopscope.circuits.record import Circuit
    from hopscope.plot.style import save
    from hopscope.plot.text_circuits import text_circuits

    for arm in study.arms:
        circuits = [Circuit.load(path) for path in sorted((folder / "circuits").glob(f"{arm.name}-seed-*.json"))]
        if any(one.found for one in circuits):
            save(text_circuits(circuits), folder / f"text-{arm.name}")


def _calibration(folder: Path, quick: bool, runs: tuple[Path, ...], work: Work) -> str:
    from hopscope.cli._keeping import RecordedStudy
    from hopscope.studies import calibration
    from hopscope.studies.calibration_summary import keep_summary, kept_summary, summarised, table

    study = calibration.CalibrationStudy(runs=runs)
    if quick:
        study = replace(study, built=study.built[:1], runs=(), each=1, proof=calibration.QUICK)
    senses = [
        (
            one.sense,
            RecordedStudy(
                at / "calibration.json", kept_summary(at), at / "runs", partial(summarised, one, at / "runs"), quick
            ),
        )
        for one, at in ((study, folder), (study.strict, folder / study.strict.sense))
    ]
    if not work.idle:
        for _, asked in senses:
            asked.check()
    told = []
    for sense, asked in senses:
        found = asked.found(work)
        if found is not None:
            keep_summary(asked.record.parent, found)
            told.append(f"{sense}\n\n{table(found)}")
    if not told:
        raise _nothing("calibration", folder)
    return "\n".join(told)


def _searches(folder: Path, quick: bool, runs: tuple[Path, ...], work: Work) -> str:
    from hopscope.studies import searches

    return searches.table(searches.run(folder, (2,) if quick else (2, 3, 4), () if quick else runs))


STUDIES: dict[str, tuple[str, Ask]] = {
    "learning": ("How surely does the laptop's recipe learn, and after how many steps?", _recorded("learning")),
    "depth": ("Does the depth that training needs follow the theory's?", _recorded("depth")),
    "heads": ("Can heads stand in for a layer?", _recorded("heads")),
    "places": ("Can places stand in for a layer?", _recorded("places")),
    "rows": ("Is a layer saved by a head for every row, and never two?", _recorded("rows")),
    "orders": ("Does training find the order of pairs that needs a layer less?", _recorded("orders")),
    "unsaid": ("Which unsaid part of the paper's recipe keeps transformer D on its plateau?", _recorded("unsaid")),
    "plateau": ("What ends the plateau? One change of the recipe at a time.", _recorded("plateau")),
    "curriculum": ("How little curriculum is enough?", _recorded("curriculum")),
    "census": ("Which circuits do models learn, how alike, and do they change?", _recorded("census")),
    "pruning": ("Can a circuit be certified once spare heads are gone?", _recorded("pruning")),
    "descent": ("Does the last circuit descend from the first, and do spikes rebuild it?", _recorded("descent")),
    "conditional": (
        "Are questions in which look-ups meet learned at the theory's depth, and how?",
        _recorded("conditional"),
    ),
    "text": ("Which circuits answer questions in language models of our own?", _recorded("text", made="circuits")),
    "calibration": ("How often does a certificate pass a false circuit?", _calibration),
    "searches": ("What do different searches find in the same models?", _searches),
}
"""Study: what it asks, and what runs it and gives its table."""


@click.command(epilog="Studies: " + "; ".join(f"{name} ({asks})" for name, (asks, _) in STUDIES.items()))
@click.argument("name", type=click.Choice(list(STUDIES)))
@click.argument("folder", type=GivenPath(file_okay=False, path_type=Path), required=False)
@click.option("--quick", is_flag=True, help="Few and small models: that it works, in seconds.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=GivenPath(file_okay=False, path_type=Path),
    help="A trained run to ask as well, for calibration and searches; may be repeated.",
)
@click.option("--judge", "idle", is_flag=True, help="Run nothing: judge what is finished.")
@click.option("--workers", type=click.IntRange(min=1), default=None, help="Processes that train [default: one a core]")
def command(
    name: str, folder: Path | None, quick: bool, runs: tuple[Path, ...], idle: bool, workers: int | None
) -> None:
    """Run a study, or go on where it was stopped, and print its table.

    FOLDER (by default runs/studies/NAME, or NAME-quick) gets its numbers and verdicts as JSON and its figure; what it
    trains goes into FOLDER/runs. A record that knows more than what would be written is left as it is, and said so: the
    quick version wants a folder of its own. The rules stand in the files of hopscope.studies, and in docs/studies.

    \b
    Examples:
      hopscope study learning
      hopscope study learning --quick
      hopscope study depth --judge                          what is finished so far
      hopscope study calibration calibration --run runs/laptop/sweep/ic-layers-4
    """
    from hopscope.cli._studies import study_bars, waiting
    from hopscope.studies.work import Work

    _refuse_idle_options(name, quick, idle)
    folder = folder or Path("runs/studies") / (f"{name}-quick" if quick else name)
    _check_folder(name, folder)
    click.echo(
        STUDIES[name][1](
            folder,
            quick,
            runs,
            Work(workers=workers, idle=idle, bars=study_bars, waiting=waiting if for_people() else None),
        )
    )


def _refuse_idle_options(name: str, quick: bool, idle: bool) -> None:
    """See that no option was given that would do nothing.

    Raises:
        InputError: one was.
    """
    if idle and name == "searches":
        raise InputError(
            "searches cannot be judged without running it; leave --judge out, what is done is not done again"
        )
    if name not in ("calibration", "searches"):
        refuse_given(f"{name} trains its own models", "runs")
    if name == "searches":
        refuse_given("searches is one process", "workers")
    if quick:
        refuse_given("the quick version asks no run", "runs")
    if idle:
        refuse_given("--judge runs nothing", "runs", "workers")


def _check_folder(name: str, folder: Path) -> None:
    """See that a folder is not in use for something else.

    Raises:
        InputError: it is a run, or holds another study.
    """
    from hopscope.cli._keeping import check_no_run

    check_no_run(folder)
    for other in STUDIES:
        if other != name and (folder / f"{other}.json").exists():
            raise InputError(f"{folder} holds the study {other}; choose another folder for {name}")
