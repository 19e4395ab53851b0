"""Studies by name: a study is run in a folder, or continued, then judged, recorded and drawn there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hopscope.checks import check_items, check_outside_runs, check_path
from hopscope.errors import InputError
from hopscope.training.work import Work
from studies.tools.judgements import JUDGEMENTS, Judgement, Judgements, judgements_table
from studies.tools.recorded_study import RecordedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from studies.text import TextStudy
    from studies.tools.study import Study

S = TypeVar("S")
R = TypeVar("R")

QUESTIONS: Mapping[str, str] = {
    "learning": "How surely does the laptop's recipe learn, and after how many steps?",
    "depth": "Does the depth that training needs follow the theory's?",
    "heads": "Can heads stand in for a layer?",
    "places": "Can places stand in for a layer?",
    "rows": "Is a layer saved by a head for every row, and never two?",
    "orders": "Does training find the order of pairs that needs a layer less?",
    "unsaid": "Which unsaid part of the paper's recipe keeps transformer D on its plateau?",
    "plateau": "What ends the plateau? One change of the recipe at a time.",
    "curriculum": "How little curriculum is enough?",
    "census": "Which circuits do models learn, how alike, and do they change?",
    "pruning": "Can a circuit be certified once spare heads are gone?",
    "descent": "Does the last circuit descend from the first, and do spikes rebuild it?",
    "conditional": "Are questions in which look-ups meet learned at the theory's depth, and how?",
    "text": "Which circuits answer questions in language models of our own?",
    "calibration": "How often does a certificate pass a false circuit?",
    "searches": "What do different searches find in the same models?",
}
"""The question of each study."""

TAKE_RUNS = ("calibration", "searches")
"""The studies that can also be asked of runs that are already trained."""

WITHOUT_ENGINE = ("text", "calibration", "searches")
"""The studies that train nothing, or models of text: device, precision and compilation do not apply to them."""

_MADE = {"text": "circuits"}
"""The folder of what a study makes, for studies where it is not `runs`."""


@dataclass(frozen=True)
class StudyAnswer:
    """The answer of a study.

    Attributes:
        name: name of the study.
        folder: the folder with its record, its figure and what it trained.
        result: the result, of the study's own type; for `calibration`, one summary per sense of circuits; for
            `searches`, a list of what each search found.
        judgements: the verdicts by the study's rules; empty if it has none.
        told: the result as tables in Markdown, with the reason if no figure was drawn.
    """

    name: str
    folder: Path
    result: Any
    judgements: tuple[Judgement, ...]
    told: str

    def to_json(self) -> dict[str, Any]:
        """The answer for machines: the study's name, its folder, its judgements and what was found."""
        from hopscope.records import plain

        judgements, result = plain(self.judgements), plain(self.result)
        return {"study": self.name, "folder": str(self.folder), "judgements": judgements, "result": result}


def study(
    name: str,
    folder: Path | str | None = None,
    *,
    quick: bool = False,
    runs: Iterable[Path | str] = (),
    work: Work | None = None,
    **options: Any,
) -> StudyAnswer:
    """Run one of our own studies, which train many models, or continue where it was stopped.

        >>> answer = study("depth", folder / "depth", quick=True, workers=1)
        >>> answer.judgements[0].verdict in ("as asked", "not as asked", "inconclusive", "not run")
        True

    Args:
        name: one of `studies.tools.asking.QUESTIONS`.
        folder: the folder for its numbers, verdicts, figure and runs; `runs/studies/NAME` by default, or NAME-quick.
        quick: train only few and small models, to see that the study works.
        runs: trained runs to study as well, for `calibration` and `searches`.
        work: how the work is done.
        options: fields of `Work` to pass instead of `work`: `workers=1, precision="fp32"`; with `idle=True` nothing is
            run, and what is finished is judged; with `arms=("K/*", "N/8")` only arms of such names are trained.

    Raises:
        InputError: there is no such study, arm or option, the folder holds something else, or its record knows more
            than this study would find.
    """
    if not isinstance(name, str) or name not in QUESTIONS:
        raise InputError(f"a study is one of {', '.join(QUESTIONS)}, got {name!r}")
    paths = tuple(check_path("a run", one) for one in check_items("runs", runs, "paths of runs"))
    if paths and name not in TAKE_RUNS:
        raise InputError(f"{name} trains its own models; leave runs out")
    if paths and quick:
        raise InputError("the quick version asks no run; leave runs out")
    if folder is None:
        folder = Path("runs/studies") / (f"{name}-quick" if quick else name)
    at = check_path("a study", folder)
    _check_folder(name, at)
    work = Work.of(work, options, "a study")
    if name not in _APART:
        return _recorded(name, at, quick, work)
    _check_arms(name, work.arms, ())
    return _APART[name](at, quick, paths, work)


def _check_folder(name: str, folder: Path) -> None:
    """Check that a folder is not in use for something else.

    Raises:
        InputError: the folder is a run or inside one, or holds another study.
    """
    check_outside_runs(folder)
    for other in QUESTIONS:
        if other != name and (folder / f"{other}.json").exists():
            raise InputError(f"{folder} holds the study {other}; choose another folder for {name}")


def _recorded(name: str, folder: Path, quick: bool, work: Work) -> StudyAnswer:
    """The answer of a study that is a file of `studies/` with a `STUDY`."""
    from hopscope.paper import presets, recipes
    from studies.tools.kept import study_form

    asked: Study[Any, Any] = import_module(f"studies.{name}").STUDY
    JUDGEMENTS.check_replaces(folder / "judgements.json")
    recipe = recipes.BY_NAME[asked.recipe].recipe
    version = asked.quick(presets.TINY.depth.recipe) if quick else asked.standard(recipe)
    if work.arms:
        all_arms = asked.run(version, folder, Work(idle=True)).arms if asked.some_arms else ()
        _check_arms(name, work.arms, [arm.name for arm in all_arms])
    found = _found(asked, version, folder, quick, work)
    judgements = tuple(asked.judge(found))
    study_form(name, asked.result).write(folder / f"{name}.json", found)
    JUDGEMENTS.write(folder / "judgements.json", Judgements(judgements))
    told = f"{asked.table(found)}\n{judgements_table(judgements)}"
    if asked.figure is None:
        _draw_circuits(version, folder)
    else:
        told += _draw(asked.figure, found, folder / name)
    return StudyAnswer(name, folder, found, judgements, told)


def _check_arms(name: str, patterns: Any, arms: Sequence[str]) -> None:
    """Check that these are patterns, each of which matches some arm.

    Raises:
        InputError: an item is not a pattern, a pattern matches no arm, or the study has no arms.
    """
    if patterns and not arms:
        raise InputError(f"{name} has no arms to choose among; leave arms out")
    for pattern in check_items("arms", patterns, "names"):
        if not isinstance(pattern, str) or not any(map(Work(arms=(pattern,)).wants, arms)):
            raise InputError(f"{name} has no arm {pattern!r}; it has {', '.join(arms)}")


def _found(asked: Study[S, R], version: S, folder: Path, quick: bool, work: Work) -> R:
    """The result of a study; if nothing is to be run and nothing that it made is there, the result on record."""
    from studies.tools.kept import kept

    before, made = kept(asked.name, folder, asked.result), folder / _MADE.get(asked.name, "runs")
    asking = RecordedStudy(folder / f"{asked.name}.json", before, made, partial(asked.run, version, folder), quick)
    if not work.idle:
        asking.check()
    found = asking.found(work)
    if found is None:
        raise _nothing(asked.name, folder)
    return found


def _nothing(name: str, folder: Path) -> InputError:
    return InputError(
        f"{folder} holds nothing finished of the study {name}; leave --judge out (in Python idle=True), or "
        "name another folder"
    )


def _draw(figure: str, found: Any, path: Path) -> str:
    """Draw what a study found. Returns an empty text, or the reason if there is nothing to draw."""
    from hopscope.plot.style import save

    draw: Callable[[Any], Figure] = getattr(import_module(f"studies.figures.{figure}"), figure)
    try:
        save(draw(found), path)
    except InputError as nothing:
        return f"\nNo figure: {nothing}.\n"
    return ""


def _draw_circuits(version: TextStudy, folder: Path) -> None:
    """Draw the circuits of every arm that has any."""
    from hopscope.circuits.circuit import Circuit
    from hopscope.plot.style import save
    from studies.figures.text_circuits import text_circuits

    for arm in version.arms:
        circuits = [Circuit.load(path) for path in sorted((folder / "circuits").glob(f"{arm.name}-seed-*.json"))]
        if any(one.found for one in circuits):
            save(text_circuits(circuits), folder / f"text-{arm.name}")


def _calibration(folder: Path, quick: bool, runs: tuple[Path, ...], work: Work) -> StudyAnswer:
    from studies.calibration import study as calibration
    from studies.calibration.summary import keep_summary, kept_summary, summarised, table

    whole = calibration.CalibrationStudy(runs=runs)
    if quick:
        whole = replace(whole, built=whole.built[:1], runs=(), each=1, sequences=128, proof=calibration.QUICK)
    senses = [
        (
            one.sense,
            RecordedStudy(
                at / "calibration.json", kept_summary(at), at / "runs", partial(summarised, one, at / "runs"), quick
            ),
        )
        for one, at in ((whole, folder), (whole.strict, folder / whole.strict.sense))
    ]
    if not work.idle:
        for _, asked in senses:
            asked.check()
    summaries = {}
    for sense, asked in senses:
        found = asked.found(work)
        if found is not None:
            keep_summary(asked.record.parent, found)
            summaries[sense] = found
    if not summaries:
        raise _nothing("calibration", folder)
    told = "\n".join(f"{sense}\n\n{table(found)}" for sense, found in summaries.items())
    return StudyAnswer("calibration", folder, summaries, (), told)


def _searches(folder: Path, quick: bool, runs: tuple[Path, ...], work: Work) -> StudyAnswer:
    from studies import searches

    if work.idle:
        raise InputError(
            "searches cannot be judged without running it; leave --judge out (in Python idle=True), what is done is "
            "not done again"
        )
    found = searches.run(folder, (2,) if quick else (2, 3, 4), () if quick else runs)
    return StudyAnswer("searches", folder, found, (), searches.table(found))


_APART: Mapping[str, Callable[[Path, bool, tuple[Path, ...], Work], StudyAnswer]] = {
    "calibration": _calibration,
    "searches": _searches,
}
"""The studies that are not a file with a `STUDY`."""
