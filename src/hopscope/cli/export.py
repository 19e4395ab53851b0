"""`hopscope export`: a trained model in the form that another library opens."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hopscope.checks import check_outside_runs
from hopscope.cli.options import FOLDER, STEP, json_option, refuse_given
from hopscope.errors import InputError

_LIBRARIES = click.Choice(["transformer-lens", "huggingface"])


@click.command()
@click.argument("source", metavar="RUN", type=FOLDER)
@click.option("--to", "library", type=_LIBRARIES, required=True, help="The library that will open it.")
@click.option("--out", type=FOLDER, required=True, help="A new or empty folder.")
@click.option("--model", type=int, default=0, help="Which model of the run, from 0.", show_default=True)
@click.option("--checkpoint", "step", type=STEP, help="Step of the checkpoint [default: the last].")
@json_option("the path of what was written")
def command(source: Path, library: str, out: Path, model: int, step: int | None, as_json: bool) -> None:
    """Write a model for another library.

    RUN is a run folder, whose models take vectors, for TransformerLens: out come configuration, weights, and an open.py
    that makes a TransformerBridge of them without hopscope. In Python `run[0].to_transformer_lens()` is that bridge.
    For Hugging Face it is a folder with a model of text, as `python -m examples.text_model` trains one,
    without what hopscope keeps beside it.

    \b
    Examples:
      hopscope export runs/first --to transformer-lens --out first-lens
      hopscope export runs/first --to transformer-lens --out early --model 1 --checkpoint 800
      hopscope export own --to huggingface --out own-plain
    """
    from hopscope.language.model_folder import export_model_folder, is_model_folder

    check_outside_runs(out)
    is_run = (source / "run.json").exists()
    of_text = not is_run and is_model_folder(source)
    if not (is_run or of_text):
        raise InputError(f"{source} holds neither a run nor a model of text; give the folder of one")
    if of_text != (library == "huggingface"):
        raise InputError(
            "models of vectors have no tokens for Hugging Face's library; pass --to transformer-lens"
            if is_run
            else f"{source} is a model of Hugging Face's, which TransformerLens opens itself: "
            "TransformerBridge.boot_transformers"
        )
    if of_text:
        refuse_given("a folder with a model of text has one model and no checkpoints", "model", "step")
        export_model_folder(source, out)
    else:
        from hopscope.circuits.evaluate.vector_evaluator import single
        from hopscope.model.transformer_lens import export_to_transformer_lens
        from hopscope.training.run import RunFolder

        run = RunFolder(source)
        export_to_transformer_lens(single(run.transformer(step), model), run.problem.sequence_length, out)
    click.echo(json.dumps({"path": str(out)}) if as_json else str(out))
