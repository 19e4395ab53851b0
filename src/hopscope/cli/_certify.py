"""`hopscope circuit certify`: the certificate of a circuit that is given, not searched for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.cli._one_circuit import AskedModel, asks_a_model, shown_circuit, tell
from hopscope.cli.display import stages_display
from hopscope.cli.options import SEED, GivenPath
from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit


@click.command("certify")
@click.argument("run", type=GivenPath())
@click.argument("paths", nargs=-1)
@click.option("--of", "record", type=GivenPath(), help="A record of a circuit, or a folder with one, instead of paths.")
@asks_a_model
@click.option("--max-loss", type=float, help="Largest loss it may have [default: its record's, or 0.05].")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the sequences that it is judged on.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write its record to.")
@click.option("--json", "as_json", is_flag=True, help="Print its record.")
def certify(
    run: str,
    paths: tuple[str, ...],
    record: str | None,
    max_loss: float | None,
    seed: int,
    out: Path | None,
    as_json: bool,
    asked: AskedModel,
) -> None:
    """Certify a circuit of your own, or one that was found, by today's rules.

    RUN is a run of `hopscope train`, or with --formulation the folder of a language model. PATHS are the circuit's
    attention paths: layer, head, the role that attends, the role attended to. A head or a row instead of a path is in
    use with all that it looks at; every other row of the model is off. Without PATHS it is the circuit that was found
    in RUN, or that of --of.

    Nothing is searched for, and the circuit that is kept beside the run stays as it is. The certificate says which
    parts hold, and of each path what the circuit is without it.

    \b
    Examples:
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0? -> >x1'
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0?'  a row, with all that it looks at
      hopscope circuit certify runs/first                       what was found, by today's rules
      hopscope circuit certify runs/first --of runs/second      another model's circuit, in this one
      hopscope circuit certify runs/first --of mine.json --max-loss 0.1 --json
      hopscope circuit certify my-model 'L1.H2 >x1 -> x0>' 'L2.H1 answer -> >x1' --formulation equations --hops 1
    """
    if paths and record is not None:
        raise InputError("a circuit is given by its paths or by --of a record, not by both")
    if out is not None:
        _see_elsewhere(out, Path(run))
    if asked.of_text(Path(run), max_loss):
        circuit = _of_language_model(Path(run), paths, record, asked, seed)
    else:
        circuit = _of_run(Path(run), paths, record, asked, max_loss, seed)
    if out is not None:
        circuit.save(out)
    tell(circuit, [] if out is None else [out], as_json)


def _see_elsewhere(out: Path, model: Path) -> None:
    """Check, before anything is computed, that a record can be written: in no run, whose circuits are those that were
    found, nor in the model's folder, and in place of nothing but another record.

    Raises:
        InputError: it cannot.
    """
    from hopscope.checks import check_folder, check_outside_runs
    from hopscope.circuits.circuit import FORM

    check_folder(out.parent)
    check_outside_runs(out)
    if model.resolve() in out.resolve().parents:
        raise InputError(f"{out} lies in {model}, the model's own folder; choose a place outside it")
    FORM.check_replaces(out)


def _of_run(
    path: Path, paths: tuple[str, ...], record: str | None, asked: AskedModel, max_loss: float | None, seed: int
) -> Circuit:
    from hopscope.circuits.store import CircuitStore
    from hopscope.lab import Run

    run = Run(path)
    CircuitStore(run).path(asked.number)  # which refuses a model that the run lacks
    here = (path, asked.number, asked.step) if record is None else (Path(record), 0, None)
    given = paths or shown_circuit(*here)
    model = run[asked.number] if asked.step is None else run[asked.number].at(asked.step)
    with stages_display() as progress:
        return model.check(given, max_loss=max_loss, seed=seed, progress=progress)


def _of_language_model(
    folder: Path, paths: tuple[str, ...], record: str | None, asked: AskedModel, seed: int
) -> Circuit:
    from hopscope.circuits.circuit import Circuit
    from hopscope.language.text_model import TextModel, text_circuit_path

    task = asked.task
    given = paths or Circuit.load(text_circuit_path(folder, task) if record is None else record)
    share = 0.95 if asked.faithfulness is None else asked.faithfulness
    with stages_display() as progress:
        model = TextModel(folder, trust_remote_code=asked.trust_remote_code)
        return model.check(given, task.formulation, task.hops, faithfulness=share, seed=seed, progress=progress)
