"""`hopscope circuit`: find the circuit of a trained model and certify it; compare circuits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli._certify import certify
from hopscope.cli._circuits import census, compare
from hopscope.cli._one_circuit import AskedModel, asks_a_model, shown_circuit, tell
from hopscope.cli.display import stages_display
from hopscope.cli.options import SEED, GivenPath, any_given, refuse_given
from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.store import CircuitStore
    from hopscope.training.run import RunFolder


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


command.add_command(certify)
command.add_command(compare)
command.add_command(census)


@command.command("find")
@click.argument("run", type=GivenPath())
@asks_a_model
@click.option(
    "--effort",
    type=click.Choice(["quick", "thorough"]),
    default="thorough",
    show_default=True,
    help="Effort of the search: for one circuit, or for the different ones that the model holds.",
)
@click.option(
    "--max-loss",
    type=float,
    help="Largest loss a circuit may have [default: 0.05].",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the search.")
@click.option("--show", is_flag=True, help="Print the circuit that was found before; do not search.")
@click.option("--overwrite", is_flag=True, help="Search again even if a circuit was found before.")
@click.option(
    "--figures/--no-figures", default=None, help="Draw the circuit and attention maps [default: after a search]."
)
@click.option("--json", "as_json", is_flag=True, help="Print circuit.json.")
def find(
    run: str,
    show: bool,
    overwrite: bool,
    figures: bool | None,
    as_json: bool,
    asked: AskedModel,
    **settings: Any,
) -> None:
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
    if show:
        refuse_given(
            "--show searches nothing", "max_loss", "effort", "seed", "overwrite", "faithfulness", "trust_remote_code"
        )
        if figures:
            refuse_given("--show draws nothing", "figures")
    if asked.of_text(Path(run), settings["max_loss"]):
        circuit, written = _of_language_model(Path(run), asked, show, overwrite, figures, settings)
        tell(circuit, written, as_json)
        return
    from hopscope.circuits.store import CircuitStore
    from hopscope.training.run import RunFolder

    if show:
        tell(shown_circuit(Path(run), asked.number, asked.step), [], as_json)
        return
    if Path(run).is_file():
        raise InputError(f"{run} is a file, and a circuit is found in the folder of a run; --show prints a record")
    folder = RunFolder(run)
    store = CircuitStore(folder)
    record = store.path(asked.number, asked.step)
    before = _written_at(record)
    circuit = _found(store, asked, overwrite, settings)
    draws = before != _written_at(record) if figures is None else figures
    tell(circuit, _draw(folder, circuit, asked.step) if draws else [], as_json)


def _written_at(record: Path) -> int | None:
    """When a record was written, in nanoseconds; None where there is none."""
    return record.stat().st_mtime_ns if record.exists() else None


def _of_language_model(
    folder: Path, asked: AskedModel, show: bool, overwrite: bool, figures: bool | None, settings: dict[str, Any]
) -> tuple[Circuit, list[Path]]:
    """The circuit of a language model, and the figures drawn of it."""
    from hopscope.circuits.circuit import Circuit
    from hopscope.language.text_model import TextModel, text_circuit_path
    from hopscope.plot import figure_5, save

    task = asked.task
    path = text_circuit_path(folder, task)
    if show:
        return Circuit.load(path), []
    search = {name: settings[name] for name in ("effort", "seed") if any_given(name)}
    if asked.faithfulness is not None:
        search["faithfulness"] = asked.faithfulness
    before = _written_at(path)
    with stages_display() as progress:
        model = TextModel(folder, trust_remote_code=asked.trust_remote_code)
        circuit = model.find_circuit(task.formulation, task.hops, overwrite=overwrite, progress=progress, **search)
    draws = before != _written_at(path) if figures is None else figures
    return circuit, save(figure_5(circuit), path.with_suffix("")) if draws and circuit.found else []


def _found(store: CircuitStore, asked: AskedModel, overwrite: bool, options: dict[str, Any]) -> Circuit:
    from hopscope.processes import tune_process

    tune_process()
    described = {name: value for name, value in options.items() if any_given(name)}
    with stages_display() as progress:
        return store.find(asked.number, asked.step, progress=progress, overwrite=overwrite, **described)


def _draw(folder: RunFolder, circuit: Circuit, step: int | None) -> list[Path]:
    import torch

    from hopscope.circuits.checks.claimed import silent_heads
    from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
    from hopscope.plot import appendix_c, figure_5, one_prompt, save
    from hopscope.training.data import held_out

    suffix = (f"-{circuit.number}" if circuit.number else "") + ("" if step is None else f"-step-{step:06d}")
    transformer = single(folder.transformer(step), circuit.number)
    written = []
    if circuit.found:
        written += save(figure_5(circuit), folder.path / "figures" / f"circuit{suffix}")
    evaluator = VectorEvaluator(transformer, folder.problem, held_out(folder.problem, 128, 0, "maps"))
    maps, silent = evaluator.role_maps().same[0], silent_heads(evaluator.part(8))
    written += save(appendix_c(maps, folder.problem, circuit, silent=silent), folder.path / "figures" / f"maps{suffix}")
    patterns = transformer.patterns(held_out(folder.problem, 1, 0, "prompt").inputs[None])
    prompt = torch.stack([pattern[0, 0] for pattern in patterns])
    written += save(one_prompt(prompt, silent=silent), folder.path / "figures" / f"prompt{suffix}")
    return written
