"""`python -m studies`: questions of our own, asked with many models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hopscope.cli.options import GivenPath, engine_options, refuse_given, say_precision
from hopscope.exit import run_and_exit
from hopscope.processes import claim_process
from hopscope.signals import raise_on_stop_signals
from studies.tools.asking import QUESTIONS, TAKE_RUNS, WITHOUT_ENGINE, study

_ENGINE = ("device", "precision", "compiled")


@click.command(epilog="Studies: " + "; ".join(f"{name} ({asks})" for name, asks in QUESTIONS.items()))
@click.argument("name", metavar="NAME", type=click.Choice(list(QUESTIONS)))
@click.argument("folder", type=GivenPath(file_okay=False, path_type=Path), required=False)
@click.option("--quick", is_flag=True, help="A few small models, to see in a minute or two that it works.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=GivenPath(file_okay=False, path_type=Path),
    help="A trained run to include, for calibration and searches; may be repeated.",
)
@click.option(
    "--arms",
    multiple=True,
    metavar="NAME",
    help="Train only the arms whose names match, as in 'K/*'; may be repeated.",
)
@click.option("--judge", "idle", is_flag=True, help="Train nothing; judge what is finished.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=None,
    help="Processes that train [default: one per core; on a GPU, one]",
)
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and numbers as JSON.")
@engine_options
def command(
    name: str,
    folder: Path | None,
    quick: bool,
    runs: tuple[Path, ...],
    arms: tuple[str, ...],
    idle: bool,
    workers: int | None,
    as_json: bool,
    device: str | None,
    precision: Any,
    compiled: bool | None,
) -> None:
    """Run a study, or go on where it was stopped, and print its table.

    FOLDER (by default runs/studies/NAME, or NAME-quick) gets its numbers and verdicts as JSON and its figure; what it
    trains goes into FOLDER/runs. A record that knows more than what would be written is left as it is, and said so: the
    quick version wants a folder of its own. The rules stand in the files of studies, and in docs/studies.

    \b
    Examples:
      python -m studies learning
      python -m studies learning --quick
      python -m studies depth --judge                          what is finished so far
      python -m studies depth --judge --json | jq '.judgements[] | [.asked, .verdict]'
      python -m studies plateau --arms 'K/*' --arms N/8        these first; the others are told as far as they are known
      python -m studies unsaid --device cuda                   the seeds of each arm at once, on a GPU
      python -m studies calibration calibration --run runs/laptop/sweep/ic-layers-4-seed-0
    """
    from hopscope.cli.display import jobs_display, runs_display
    from hopscope.training.work import Work

    _refuse_idle_options(name, quick, idle)
    if not idle and name not in WITHOUT_ENGINE:
        say_precision(device, precision)
    work = Work(workers, device, precision, compiled, runs_display, jobs_display, idle, arms)
    answer = study(name, folder, quick=quick, runs=runs, work=work)
    click.echo(json.dumps(answer.to_json()) if as_json else answer.told)


def _refuse_idle_options(name: str, quick: bool, idle: bool) -> None:
    """Check that no option was given that would do nothing.

    Raises:
        InputError: one was given.
    """
    if name not in TAKE_RUNS:
        refuse_given(f"{name} trains its own models", "runs")
    if name == "searches" and not idle:
        refuse_given("searches is one process", "workers")
    if name in WITHOUT_ENGINE:
        refuse_given(f"{name} does not train by these", *_ENGINE)
    if quick:
        refuse_given("the quick version asks no run", "runs")
    if idle and name != "searches":
        refuse_given("--judge runs nothing", "runs", "arms", "workers", *_ENGINE)


if __name__ == "__main__":
    claim_process()
    raise_on_stop_signals()
    run_and_exit(command, "python -m studies")
