"""Run a benchmark: ask the missing questions, keep every reply, and write the summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hopscope.benchmark.answers import Keep, Record, Trial
from hopscope.benchmark.points import Summary
from hopscope.benchmark.results import Results, write_summary
from hopscope.benchmark.settings import HUB, BenchmarkSettings, cells, runs_here
from hopscope.checks import check_count, check_folder, check_items, check_type
from hopscope.errors import InputError, needs_extra
from hopscope.problem.text.formulation import PAPER_CHAINS
from hopscope.problem.text.questions import Question, formulation
from hopscope.records import lock, mend_rows


@runtime_checkable
class Respondent(Protocol):
    """A model that can be asked questions; its `identity` (JSON values) distinguishes models with the same name."""

    name: str
    identity: dict[str, Any]

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Ask each question until it is settled, or weigh its answers in exact mode, and pass each record to `keep`."""


def open_model(name: str, logs: Path, **opening: Any) -> Respondent:
    """Open a model by name: a folder, a GGUF file, `hub/` and the model's name on a hub, or a name for Inspect AI."""
    here = {key: opening.pop(key) for key in ("device", "batch", "trust_remote_code", "precision") if key in opening}
    if runs_here(name):
        from hopscope.benchmark.local import LocalModel

        return LocalModel(name.removeprefix(HUB), **here)
    if "/" not in name or name.startswith((".", "/", "~")):
        raise InputError(f"{name} is neither a folder nor a provider's model; give a model such as openai/gpt-4o")
    try:
        from hopscope.benchmark.hosted import HostedModel
    except ImportError:
        raise needs_extra("a model behind a provider", "inspect-ai", "llm") from None
    return HostedModel(name, logs, **opening)


def benchmark(
    models: Sequence[Respondent | str],
    folder: Path | str = "benchmark",
    formulations: Sequence[str] = (),
    hops: Sequence[int] | None = None,
    count: int = 500,
    settings: BenchmarkSettings | None = None,
    progress: Keep = lambda record: None,
    **opening: Any,
) -> Summary:
    """Ask models the paper's questions, except the questions answered before (Section 4, Figure 2).

        >>> from hopscope.benchmark.answers import Reply
        >>> class First:  # a model of your own: any class like this; this one says the first acceptable answer
        ...     name, identity = "program/first", {}
        ...     def ask(self, questions, settings, keep):
        ...         for question in questions:
        ...             replies = [Reply(question.acceptable[0])]
        ...             keep(Trial(question, settings.rule, settings.attempts, replies).record(self.name))
        >>> hs.benchmark([First()], folder / "asked", ["kingdoms"], count=100).points[0].accuracy
        0.28

    Args:
        models: the models to ask, one after the other: folders, GGUF files, `hub/org/model`, names of Inspect AI, or a
            `Respondent`.
        folder: the folder of the results, new or with results; `docs/benchmark.md` describes its files.
        formulations: equations, lives-with, kingdoms, functions, relatives; all by default.
        hops: values of D for equations, 1 to 6 by default; the other formulations have the D of the paper.
        count: the number of questions at each point.
        settings: how questions are drawn, asked and judged.
        progress: a function that is called with every record, first with the records found in the folder.
        opening: arguments that open models given by name: `device`, `batch`, `precision` and `trust_remote_code` of
            `hopscope.benchmark.local.LocalModel`, and for Inspect AI the arguments of `hosted.HostedModel`.

    Raises:
        InputError: there are no models, a value is out of range, the folder holds other settings or damaged records, a
            name belongs to two models, or a model cannot be opened or asked.
        MachineError: a model's calls kept failing.
    """
    if not check_items("models", models, "models"):
        raise InputError("models must be a list of one model or more, got []")
    for model in models:
        check_type("a model", model, (str, Respondent), "a folder or name as text, or a Respondent")
    settings = BenchmarkSettings() if settings is None else settings
    check_type("settings", settings, BenchmarkSettings, "BenchmarkSettings, as BenchmarkSettings(attempts=5)")
    check_type("progress", progress, Callable, "a function")
    folder, points = check_folder(folder, "the folder of results"), cells(formulations, hops)
    check_count("count", count)
    for cell in points:
        formulation(cell.formulation).check(cell.hops, PAPER_CHAINS, settings.extensions)
    if (folder / "benchmark.json").exists():  # checked before models are opened, which is slow
        Results(folder, settings)
    logs = folder / "inspect"
    opened = [open_model(model, logs, **opening) if isinstance(model, str) else model for model in models]
    questions = [question for cell in points for question in settings.questions(cell, count)]
    busy = f"another program writes to {folder}; wait for it or choose another folder"
    with lock(folder / ".lock", busy):
        results = Results(folder, settings)  # as others left it
        for model in opened:
            results.add_model(model.name, model.identity)
        for model in opened:
            try:
                _ask_missing(model, questions, results, progress)
            finally:
                summary = write_summary(results)
    return summary


def _ask_missing(model: Respondent, questions: Sequence[Question], results: Results, progress: Keep) -> None:
    """Ask one model the questions that it has not answered."""
    settings = results.header.settings
    known = results.records(model.name)
    mend_rows(results.path(model.name))
    missing = {q.id: q for q in questions if (old := known.get(q.id)) is None or old.error is not None}
    for question in questions:
        if question.id not in missing:
            progress(known[question.id])

    def keep(record: Record) -> None:
        results.append(record)
        missing.pop(record.id, None)
        progress(record)

    if missing:
        model.ask(list(missing.values()), settings, keep)
    for question in list(missing.values()):
        trial = Trial(question, settings.rule, settings.attempts, error="no reply")
        keep(trial.record(model.name, settings.mode))
