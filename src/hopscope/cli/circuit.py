"""`hopscope circuit`: find the circuit of a trained model and certify it; compare circuits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.compare import census, compare
from hopscope.cli.display import stages_display
from hopscope.cli.options import COUNT, PATH, SEED, STEP, all_of, any_given, choice, json_option, refuse_given
from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit
    from hopscope.language.text_batch import TextTask

_OF_RUNS = ("number", "step", "max_loss")
_OF_LANGUAGE_MODELS = ("hops", "faithfulness", "trust_remote_code")


class _RunOrVerb(click.Group):
    """`circuit RUN` finds; `circuit compare ...` compares. A folder named like a verb is written `./compare`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `find` in front of anything that does not begin with a verb."""
        if not args or args[0] not in self.commands:
            args = ["find", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunOrVerb, add_help_option=False)
def command() -> None:
    """Find circuits and compare them."""


command.add_command(compare)
command.add_command(census)


_SHARE = "Share of the way from guessing to the language model that its circuit must go [default: 0.95]."
_model_options = all_of(
    click.option("--model", "number", type=STEP, default=0, show_default=True, help="Which model of the run."),
    click.option("--checkpoint", "step", type=STEP, help="Step of the checkpoint to look at [default: the last]."),
    click.option("--max-loss", type=float, help="Largest loss a circuit may have [default: 0.05]."),
    click.option("--formulation", help="Formulation of the questions for a language model: equations, ..."),
    click.option("--hops", type=COUNT, help="D of those questions [default: the paper's]."),
    click.option("--faithfulness", type=float, help=_SHARE),
    click.option("--trust-remote-code", is_flag=True, help="Let a model folder run code of its own, with your rights."),
    click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of search and certificate."),
)
"""Which model's circuit is meant, and how much it may lose."""

_EFFORT = "Effort of the search: for one circuit, or for the different ones that the model holds."


@command.command("find")
@click.argument("path", metavar="RUN", type=PATH)
@_model_options
@click.option("--effort", **choice("quick", "thorough", default="thorough", help=_EFFORT))
@click.option("--show", is_flag=True, help="Print the circuit that was found before; do not search.")
@click.option("--overwrite", is_flag=True, help="Search again even if a circuit was found before.")
@click.option("--figures/--no-figures", default=None, help="Draw circuit and attention maps [default: after a search].")
@json_option("circuit.json")
def find(path: Path, show: bool, figures: bool | None, as_json: bool, **options: Any) -> None:
    """Find the circuit of a trained model, certify it, draw it.

    RUN is a run of `hopscope train`, or with --formulation the folder of a language model (Hugging Face's), whose
    record is then FOLDER/circuits/FORMULATION-D-hops.json. For --show a circuit.json does too, or a folder with one.

    Writes circuit.json beside the run (circuit-N.json for model N; circuits/step-NNNNNN.json for a checkpoint), and
    figures under RUN/figures. A model that does not solve the problem gets a record that says "no circuit". An
    interrupted search of a run continues. A certified circuit that is there already is printed, and drawn with
    --figures; --overwrite searches again.

    \b
    Strategies, how an answer comes about:
      serial        the query walks the chain alone, from pair to pair
      line by line  pairs, or lines, take over what their neighbour has taken over, one more a layer
      doubling      pairs take over what others hold, all of it, so that reach doubles

    \b
    Columns of the table:
      weight        mean attention along the path in the model
      loss without  squared error (of a language model the Brier score) of the circuit, its patterns imposed, without
                    this path
      own patterns  the same where the rest of the circuit makes its own patterns
      feeds         which later query (Q), key (K) or value (V) uses what the path brings

    \b
    Examples:
      hopscope circuit runs/first                       find, certify, draw
      hopscope circuit runs/first --show                print what was found
      hopscope circuit runs/first --figures             and draw it again
      hopscope circuit results/explorers/d --show       what somebody else found
      hopscope circuit runs/first --model 3 --json
      hopscope circuit runs/first --max-loss 0.1        with another loss threshold
      hopscope circuit runs/first --checkpoint 1000     what it did before it was finished
      hopscope circuit my-model --formulation equations --hops 2
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0? -> >x1'   a circuit of your own
      hopscope circuit compare runs/a runs/b runs/c     circuits side by side
      hopscope circuit census runs/sweep/*              what many models learned
    """
    task = _text_task(path, **options)
    if show:
        refuse_given(
            "--show searches nothing", "max_loss", "effort", "seed", "overwrite", "faithfulness", "trust_remote_code"
        )
        if figures:
            refuse_given("--show draws nothing", "figures")
        _print(_kept(path, task, options["number"], options["step"]), as_json)
        return
    search: Callable[..., Circuit]
    if task is not None:
        from hopscope.language.language_model import LanguageModel, text_circuit_path

        record = text_circuit_path(path, task)
        text_model = LanguageModel(path, trust_remote_code=options["trust_remote_code"])
        search = partial(text_model.find_circuit, task)
    elif path.is_file():
        raise InputError(f"{path} is a file, and a circuit is found in the folder of a run; --show prints a record")
    else:
        from hopscope.circuits.store import CircuitStore
        from hopscope.processes import tune_process
        from hopscope.training.run import RunFolder

        tune_process()
        store = CircuitStore(RunFolder(path))
        record = store.path(options["number"], options["step"])
        search = partial(store.find, options["number"], options["step"])
    before = _written_at(record)
    how = {name: options[name] for name in ("effort", "max_loss", "faithfulness", "seed") if any_given(name)}
    with stages_display() as progress:
        circuit = search(progress=progress, overwrite=options["overwrite"], **how)
    draws = before != _written_at(record) if figures is None else figures
    _print(circuit, as_json, _draw(path, record, circuit, options["step"], task) if draws else [])


@command.command("certify")
@click.argument("path", metavar="RUN", type=PATH)
@click.argument("paths", nargs=-1)
@click.option("--of", "record", type=PATH, help="A record of a circuit, or a folder with one, instead of paths.")
@_model_options
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write its record to.")
@json_option("its record")
def certify(
    path: Path, paths: tuple[str, ...], record: Path | None, out: Path | None, as_json: bool, **options: Any
) -> None:
    """Certify a circuit of your own, or one that was found.

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
      hopscope circuit certify runs/first                       what was found, on other sequences
      hopscope circuit certify runs/first --of runs/second      another model's circuit, in this one
      hopscope circuit certify runs/first --of mine.json --max-loss 0.1 --json
      hopscope circuit certify my-model 'L1.H2 >x1 -> x0>' 'L2.H1 answer -> >x1' --formulation equations --hops 1
    """
    if paths and record is not None:
        raise InputError("a circuit is given by its paths or by --of a record, not by both")
    if out is not None:
        _check_out(out, path)
    task = _text_task(path, **options)
    number, step = options["number"], options["step"]
    check: Callable[..., Circuit]
    if task is not None:
        from hopscope.language.language_model import LanguageModel

        check = LanguageModel(path, trust_remote_code=options["trust_remote_code"]).check
        how: dict[str, Any] = {"task": task}
        how |= {name: options[name] for name in ("faithfulness",) if any_given(name)}
    else:
        from hopscope.circuits.store import CircuitStore
        from hopscope.lab import Run

        run = Run(path)
        CircuitStore(run).path(number)  # which refuses a model that the run lacks
        check = (run[number] if step is None else run[number].at(step)).check
        how = {"max_loss": options["max_loss"]}
    claimed = paths or (_kept(path, task, number, step) if record is None else _kept(record, None, 0, None))
    with stages_display() as progress:
        circuit = check(claimed, seed=options["seed"], progress=progress, **how)
    if out is not None:
        circuit.save(out)
    _print(circuit, as_json, [] if out is None else [out])


def _text_task(path: Path, formulation: str | None, hops: int | None, **_: Any) -> TextTask | None:
    """The task that a language model is asked; None where the path is not that of a language model."""
    if formulation is not None:
        refuse_given("a language model has --faithfulness", *_OF_RUNS)
        from hopscope.language.text_batch import text

        try:
            return text(formulation, hops)
        except InputError as error:
            raise InputError(str(error).partition("; pass names=")[0]) from None
    from hopscope.language.model_folder import is_model_folder

    if is_model_folder(path) and not (path / "run.json").exists():
        raise InputError(f"{path} is a language model; pass --formulation equations")
    if any_given(*_OF_LANGUAGE_MODELS):
        raise InputError("--hops, --faithfulness and --trust-remote-code are for language models; pass --formulation")
    return None


def _check_out(out: Path, model: Path) -> None:
    """Check, before anything is computed, that a record can be written outside runs and models, over nothing else."""
    from hopscope.checks import check_folder, check_outside_runs
    from hopscope.circuits.circuit import FORM

    check_folder(out.parent)
    check_outside_runs(out)
    if model.resolve() in out.resolve().parents:
        raise InputError(f"{out} lies in {model}, the model's own folder; choose a place outside it")
    FORM.check_replaces(out)


def _written_at(record: Path) -> int | None:
    """When a record was written, in nanoseconds; None where there is none."""
    return record.stat().st_mtime_ns if record.exists() else None


def _print(circuit: Circuit, as_json: bool, written: Sequence[Path] = ()) -> None:
    if as_json:
        click.echo(json.dumps(circuit.to_json()))
        return
    click.echo(circuit)
    for path in written:
        click.echo(f"wrote {path}")


def _kept(path: Path, task: TextTask | None, number: int, step: int | None) -> Circuit:
    """The circuit in the record of a run or language model; or a record that stands by itself, as under `results/`."""
    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.store import CircuitStore, circuit_path
    from hopscope.training.run import RunFolder

    if task is not None:
        from hopscope.language.language_model import text_circuit_path

        return Circuit.load(text_circuit_path(path, task))
    if path.is_file():
        if number or step is not None:
            raise InputError(f"{path} is one record; --model and --checkpoint choose among those of a run")
        return Circuit.load(path)
    if not (path / "run.json").exists():
        return Circuit.load(circuit_path(path, number, step))
    return CircuitStore(RunFolder(path)).load(number, step)


def _draw(path: Path, record: Path, circuit: Circuit, step: int | None, task: TextTask | None) -> list[Path]:
    """Draw the circuit, and of a run's model its attention by role and on one prompt; gives the files."""
    import torch

    from hopscope.circuits.checks.evidence import silent_heads
    from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
    from hopscope.plot import appendix_c, figure_5, one_prompt, save
    from hopscope.training.data import held_out
    from hopscope.training.run import RunFolder

    if task is not None:
        return save(figure_5(circuit), record.with_suffix("")) if circuit.found else []
    folder, figures = RunFolder(path), path / "figures"
    suffix = (f"-{circuit.number}" if circuit.number else "") + ("" if step is None else f"-step-{step:06d}")
    transformer = single(folder.transformer(step), circuit.number)
    written = []
    if circuit.found:
        written += save(figure_5(circuit), figures / f"circuit{suffix}")
    evaluator = VectorEvaluator(transformer, folder.problem, held_out(folder.problem, 128, 0, "maps"))
    maps, silent = evaluator.role_maps().same[0], silent_heads(evaluator.part(8))
    written += save(appendix_c(maps, folder.problem, circuit, silent=silent), figures / f"maps{suffix}")
    patterns = transformer.patterns(held_out(folder.problem, 1, 0, "prompt").inputs[None])
    prompt = torch.stack([pattern[0, 0] for pattern in patterns])
    return written + save(one_prompt(prompt, silent=silent), figures / f"prompt{suffix}")
