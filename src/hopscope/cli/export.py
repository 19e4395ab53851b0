"""`hopscope export`: a trained model in the form that another library opens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

import click

from hopscope.cli.options import GivenPath, refuse_given

FORMS = ("transformer-lens", "huggingface")


@click.command()
@click.argument("source", metavar="RUN", type=GivenPath(file_okay=False, path_type=Path))
@click.option("--to", "form", type=click.Choice(FORMS), required=True, help="The library that will open it.")
@click.option("--out", type=GivenPath(file_okay=False, path_type=Path), required=True, help="A new or empty folder.")
@click.option("--model", type=int, default=0, help="Which model of the run, from 0.", show_default=True)
@click.option("--checkpoint", "step", type=click.IntRange(min=0), help="Step of the checkpoint [default: the last].")
def command(source: Path, form: str, out: Path, model: int, step: int | None) -> None:
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
    from hopscope.checks import check_outside_runs
    from hopscope.errors import InputError
    from hopscope.language.model_folder import export_model_folder, is_model_folder

    check_outside_runs(out)
    of_text = is_model_folder(source) and not (source / "run.json").exists()
    wanted = cast(Literal["transformer-lens", "huggingface"], form)
    if not of_text and not (source / "run.json").exists():
        raise InputError(f"{source} holds neither a run nor a model of text; give the folder of one")
    if wanted == "huggingface" and not of_text:
        raise InputError(
            f"{source} is no folder with a model of text, and models of vectors have no tokens for Hugging Face's "
            "library to take; pass --to transformer-lens"
        )
    if wanted == "transformer-lens" and of_text:
        raise InputError(
            f"{source} is a model of Hugging Face's, which TransformerLens opens itself: "
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
    click.echo(str(out))
