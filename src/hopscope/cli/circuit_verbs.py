"""`hopscope circuit`: find the circuit of a trained model and certify it. `hopscope emergence`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hopscope as hs
from hopscope.checks import check_outside_runs
from hopscope.cli.options import COUNT, FOLDER, PATH, STEP, all_of, field_options, json_option, refuse_given
from hopscope.display import stages_display
from hopscope.records import plain

if TYPE_CHECKING:
    from hopscope.language.text_batch import LanguageTask


class _RunOrVerb(click.Group):
    """A group in which `circuit RUN` means `circuit find RUN`; a folder named like a verb is written `./certify`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `find` in front of anything that does not begin with a verb."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["find", *args])


@click.group(cls=_RunOrVerb, add_help_option=False)
def circuit() -> None:
    """Find circuits and certify them."""


_SHARE = "How far a text circuit must get from guessing to the model  [default: 0.95; with --task or --form 0.8]."
_TASK = "Task for a language model: a JSONL file, ioi, induction, code, or code-chains, with the roles of all chains."
_EXTENSIONS = ("form", "names", "lines")
_model_options = all_of(
    click.argument("path", metavar="RUN", type=PATH),
    click.option("--model", "number", type=STEP, default=0, help="Which model of the run."),
    click.option("--checkpoint", "step", type=STEP, help="Step of the checkpoint  [default: the last]."),
    click.option("--formulation", help="Formulation of the questions for a language model: equations, ..."),
    click.option("--hops", type=COUNT, help="D of those questions  [default: the paper's]."),
    field_options(hs.Extensions, "extensions", *_EXTENSIONS),
    click.option("--task", metavar="FILE", help=_TASK),
    click.option("--faithfulness", type=float, help=_SHARE),
    click.option("--trust-remote-code", is_flag=True, help="Let a model folder run code of its own, with your rights."),
    click.option("--device", default="cpu", help="Where a language model computes: cpu, cuda, ..."),
    click.option("--precision", type=click.Choice(["fp32", "bf16"]), default="fp32", help="Of its weights."),
)


@circuit.command("find")
@_model_options
@field_options(hs.SearchConfig, "search", defaults=True)
@click.option("--show", is_flag=True, help="Print the stored circuit; do not search.")
@click.option("--overwrite", is_flag=True, help="Search again even if a circuit is stored.")
@click.option("--out", type=PATH, help="Folder for a language model's circuit  [default: MODEL/circuits].")
@click.option("--figures/--no-figures", default=True, help="Draw circuit and attention maps.")
@json_option("circuit.json")
def find(path: Path, show: bool, figures: bool, overwrite: bool, out: Path | None, **options: Any) -> tuple[Any, str]:
    """Find the circuit of a trained model, certify it, draw it.

    RUN is a run of `hopscope train` or, with --formulation or --task, a language model: a Hugging Face folder or a GGUF
    file. With --show, RUN can also be a record or the folder of one.

    The circuit of a run is written to its folder as circuit.json (circuit-N.json for model N, and
    circuits/step-NNNNNN.json for a checkpoint), and figures to RUN/figures. The circuit of a language model is written
    to the folder of --out or, by default, to `circuits` in the model's folder. A model that does not solve the problem
    gets a record that says "no circuit". If a search is interrupted, the same command continues it. A certified circuit
    with other settings is replaced only with --overwrite. `docs/circuits.md` explains checks, tags and columns.

    \b
    Examples:
      hopscope circuit runs/first                       find, certify, draw
      hopscope circuit runs/first --show                print the stored circuit
      hopscope circuit results/explorers/d --show       a record without its run
      hopscope circuit runs/first --model 3 --json
      hopscope circuit runs/first --max-loss 0.1        with another loss threshold
      hopscope circuit runs/first --checkpoint 1000     of the model before it was finished
      hopscope circuit my-model --formulation equations --hops 2
      hopscope circuit my-model --task ioi.jsonl --out c --effort quick    a task of your own
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0? -> >x1'   a circuit of your own
    """
    from hopscope.language.language_model import text_circuit_path

    task = _task(path, options)
    if task is None:
        refuse_given("only a language model's circuit has --out", "out")
    if show:
        refuse_given("--show searches nothing", *options["search"], "overwrite", "faithfulness")
        stored = _stored(path, task, options, out)
        return stored.to_json(), str(stored)
    if out is not None:
        check_outside_runs(out)
    if path.is_file() and task is None:
        raise hs.InputError(f"{path} is a file; give a run's folder, --task for a GGUF file, or --show for a record")
    model, how = _model(path, task, options), {"overwrite": overwrite, **options["search"]}
    if task is not None:
        how |= {"task": task, "faithfulness": options["faithfulness"], "out": out}
    found = model.find_circuit(**how)
    record = text_circuit_path(path, task, out) if task else None
    drawn = _draw(model, found, options["step"], record) if figures else []
    lines = [str(found), *(f"wrote {file}" for file in drawn)]
    lines += [f"next: hopscope explore {record or path}"] * found.found
    return found.to_json(), "\n".join(lines)


@circuit.command("certify")
@_model_options
@click.argument("paths", nargs=-1)
@field_options(hs.SearchConfig, "search", "max_loss", "seed", defaults=True)
@click.option("--from", "graph", type=PATH, help="A graph of EAP-IG or MIB, in JSON, whose heads are the circuit.")
@click.option("--out", type=FOLDER, help="The folder that the stored circuit of a language model was written to.")
@json_option("its record")
def certify(path: Path, paths: tuple[str, ...], graph: Path | None, **options: Any) -> tuple[Any, str]:
    """Certify a circuit of your own, or the stored one again.

    RUN is a run of `hopscope train` or, with --formulation or --task, a language model. PATHS are the attention paths
    of the circuit. A path names a layer, a head, the role that attends and the role attended to. Redundant paths are
    joined by "or". A head or a row can be given in place of a path: it is active with everything that it attends to, or
    replaced as stated, e.g. by its mean. Every other row of the model is uniform. Without PATHS, the command certifies
    the circuit that is stored in RUN. With --from, the circuit consists of the heads in a graph (whose a0.h0 is L1.H1),
    each active in all its rows. MLPs are never ablated.

    Nothing is searched for or stored. The printed card states which checks the circuit passes, and the loss without
    each path.

    \b
    Examples:
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0? -> >x1'
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0? -> >x1 or L3.H1 x0? -> >x1' 'L1.H2 x0?=mean'
      hopscope circuit certify runs/first 'L1.H1 >x1 -> x0>' 'L2.H1 x0?'  a row, with all that it attends to
      hopscope circuit certify runs/first --seed 1              the stored circuit, on other sequences
      hopscope circuit certify my-model 'L1.H2 >x1 -> x0>' 'L2.H1 answer -> >x1' --formulation equations --hops 1
      hopscope circuit certify my-model --from graph.json --task ioi.jsonl    found by EAP-IG
    """
    task = _task(path, options)
    if graph is not None and paths:
        raise hs.InputError(f"--from says which circuit; leave {paths[0]!r} out")
    claimed: Any = paths or graph or _stored(path, task, options, options["out"])
    model = _model(path, task, options)
    if graph is not None:
        from hopscope.language.mib import heads_of_graph

        claimed = heads_of_graph(graph, (model.model if task else model.transformer).shape)
    how = {} if task is None else {"task": task, "faithfulness": options["faithfulness"]}
    checked = model.check(claimed, **how, **options["search"])
    return checked.to_json(), str(checked)


def _task(path: Path, options: dict[str, Any]) -> LanguageTask | None:
    """Return the task that the options give a language model; None for a run or a stored record."""
    formulation, task, hops = options["formulation"], options["task"], options["hops"]
    if formulation is not None or task is not None:
        refuse_given("for a language model, --faithfulness sets the threshold", "max_loss")
        refuse_given("the folder of a language model has one model and no checkpoints", "number", "step")
    if formulation is not None:
        refuse_given("--formulation says what is asked", "task")
        return hs.text(formulation, hops, hs.Extensions(**options["extensions"]))
    if task is not None:
        refuse_given("a task has its own prompts", *_EXTENSIONS)
        return _prompt_task(path, task, options["trust_remote_code"], hops)
    from hopscope.language.model_folder import is_model_folder

    if (is_model_folder(path) and not (path / "run.json").exists()) or path.suffix == ".gguf":
        raise hs.InputError(f"{path} is a language model; pass --formulation equations, or --task FILE.jsonl")
    only = ("hops", *_EXTENSIONS, "faithfulness", "trust_remote_code", "device", "precision")
    refuse_given("without --formulation or --task it is no language model", *only)
    return None


def _prompt_task(path: Path, task: str, trust_remote_code: bool = False, hops: int | None = None) -> hs.PromptTask:
    """Return the task in a file, or the built-in task of that name."""
    if task not in ("code", "code-chains"):
        refuse_given("only the tasks code and code-chains have D", "hops")
    if task == "code":
        return hs.prompts.code(hops=hops or 1)
    if task == "ioi":
        return hs.prompts.ioi()
    if task not in ("induction", "code-chains"):
        if not Path(task).exists():
            raise hs.InputError(f"--task must be a JSONL file, or induction, ioi, code or code-chains, got {task!r}")
        return hs.PromptTask.read(task)
    from hopscope.language.model_folder import open_tokenizer

    tokenizer = open_tokenizer(path, trust_remote_code=trust_remote_code)
    return hs.prompts.induction(tokenizer) if task == "induction" else hs.prompts.code_chains(tokenizer, hops=hops or 1)


def _model(path: Path, task: LanguageTask | None, options: dict[str, Any]) -> Any:
    """Return the language model at `path` if there is a task, else the chosen model of a run."""
    from hopscope.circuits.store import CircuitStore
    from hopscope.processes import tune_process

    tune_process()
    if task is not None:
        how = {name: options[name] for name in ("trust_remote_code", "device", "precision")}
        return hs.LanguageModel(path, **how)
    run, number, step = hs.Run(path), options["number"], options["step"]
    CircuitStore(run).path(number)  # which refuses a model that the run lacks
    return run[number] if step is None else run[number].at(step)


def _stored(path: Path, task: LanguageTask | None, options: dict[str, Any], out: Path | None = None) -> hs.Circuit:
    """Return the stored circuit of a run or a language model, or that of a record without its run, as in `results/`."""
    from hopscope.circuits.store import CircuitStore, circuit_path
    from hopscope.cli.folder_verbs import record_without_run
    from hopscope.language.language_model import text_circuit_path

    if task is not None:
        return hs.Circuit.load(text_circuit_path(path, task, out))
    if path.is_file():
        refuse_given(f"{path} is one record", "number", "step")
        return hs.Circuit.load(path)
    number, step = options["number"], options["step"]
    if (path / "run.json").exists():
        return CircuitStore(hs.Run(path)).load(number, step)
    alone = None if number or step is not None else record_without_run(path)
    return hs.Circuit.load(alone or circuit_path(path, number, step))


def _draw(model: Any, circuit: hs.Circuit, step: int | None, record: Path | None) -> list[Path]:
    """Draw a circuit, its card and, for a run, its attention by role; return the paths of the files."""
    figures = record.parent if record else model.run.path / "figures"
    suffix = (f"-{circuit.number}" if circuit.number else "") + ("" if step is None else f"-step-{step:06d}")
    stem = figures / (record.stem if record else f"circuit{suffix}")
    drawn = {stem: circuit.plot()} if circuit.found else {}
    if circuit.card is not None:
        drawn[stem.with_name(f"{stem.name}-card")] = circuit.plot_card()
    if record is None:
        drawn[figures / f"maps{suffix}"] = hs.plot.appendix_c(model.attention(), model.problem, circuit)
        batch = model.evaluator.batch[:3]
        prompts = model.transformer.patterns(batch.inputs[None]), batch.role[0].tolist()
        drawn[figures / f"prompts{suffix}"] = hs.plot.appendix_c_prompts(*prompts, model.problem)
    return [file for stem, figure in drawn.items() for file in hs.plot.save(figure, stem)]


@click.command()
@click.argument("folders", metavar="RUN...", type=FOLDER, nargs=-1, required=True)
@click.option("--model", type=STEP, default=0, help="Which model of the run, from 0.")
@click.option("--figures/--no-figures", default=True, help="Draw into RUN/figures, or beside --out.")
@click.option("--overwrite", is_flag=True, help="Measure again even if a record is stored.")
@click.option("--circuit", "record", type=PATH, help="Circuit of a language model, to follow through folders of it.")
@click.option("--task", metavar="FILE", help="Its task, if it was not a formulation.")
@click.option("--hops", type=COUNT, help="D of the tasks code and code-chains  [default: 1].")
@click.option("--out", type=PATH, help="File for what was found in a language model; its figure is drawn beside it.")
@json_option("the record")
@field_options(hs.EmergenceConfig, "config", defaults=True)
def emergence(
    folders: tuple[Path, ...], model: int, figures: bool, overwrite: bool, config: dict[str, Any], **language: Any
) -> tuple[Any, str]:
    """How the heads of a run's circuit emerged, checkpoint by checkpoint.

    RUN needs checkpoints (`hopscope train --checkpoint-every`) and a circuit (`hopscope circuit RUN`). The command
    writes two files to RUN, emergence.json and emergence-maps.json, and for a circuit of the Appendix E procedure a
    third, emergence-imposed.json. It draws Figures 6, 7 and Appendix D of the paper. With --circuit, pass the
    folders of a language model's checkpoints instead, in order; folders with the same files are measured once.

    \b
    Examples:
      hopscope emergence runs/d
      hopscope emergence runs/first --model 1
      hopscope emergence runs/d --json | jq '.paths[] | [.layer, .query, .key, .crossing.step]'
      hopscope emergence own/training/step-* own --circuit own/circuits/equations-2-hops.json
    """
    if language["record"] is not None:
        refuse_given("folders of a language model have no run", "model", "overwrite", *config)
        return _followed(folders, figures, **language)
    refuse_given("a run has its own task and folder", "task", "hops", "out")
    if len(folders) > 1:
        raise hs.InputError(f"give one run, or --circuit to follow it through folders, got {len(folders)} folders")
    from hopscope.circuits.store import circuit_path
    from hopscope.paper.section_9 import page_figures

    run = hs.Run(folders[0])
    how = hs.EmergenceConfig(**config) if config else None
    found = run.emergence(model, how, overwrite=overwrite)
    circuit, imposed = hs.Circuit.load(circuit_path(run.path, model)), None
    lines = [str(found)]
    if circuit.named_paths("imposed"):
        imposed = run.emergence(model, how, patterns="imposed", overwrite=overwrite)
        lines += ["", "the circuit of the Appendix E procedure, whose patterns are imposed:", str(imposed)]
    if figures:
        for figure in page_figures(run.metrics, circuit, found, imposed):
            hs.plot.save(figure.figure, run.path / "figures" / figure.name)
            lines.append(f"wrote {run.path / 'figures' / figure.name}.png, .svg and .pdf")
    return found.to_json(), "\n".join(lines)


def _followed(
    folders: tuple[Path, ...], figures: bool, record: Path, task: str | None, hops: int | None, out: Path | None
) -> tuple[Any, str]:
    """Follow a language model's circuit through the folders of its checkpoints; return the record and a table."""
    from hopscope.emergence.language import TEXT_EMERGENCE, follow_checkpoints

    circuit = hs.Circuit.load(record)
    if (text := circuit.text) is None:
        raise hs.InputError(f"{record} is a circuit of a run; follow it with `hopscope emergence RUN`")
    if out is not None and out.suffix != ".json":  # its figure has the same name with another ending
        raise hs.InputError(f"the name of --out must end in .json, got {out.name!r}")
    if out is not None:  # before all checkpoints are measured
        check_outside_runs(out)
        TEXT_EMERGENCE.check_replaces(out)
    if task is not None:
        asked: LanguageTask = _prompt_task(folders[-1], task, hops=hops)
    elif circuit.hops:
        asked = hs.text(text.formulation, circuit.hops, hs.Extensions(**text.extensions))
    else:
        raise hs.InputError(f"{record} is of a task of your own; pass --task, the file of {text.formulation}")
    with stages_display() as progress:
        found = follow_checkpoints(folders, circuit, asked, progress=progress)
    if out is not None:
        TEXT_EMERGENCE.write(out, found)
        if figures:
            hs.plot.save(hs.plot.checkpoints(found), out.with_suffix(""))
    return plain(found), str(found)
