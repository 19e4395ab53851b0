"""`python -m examples.text_model FOLDER`: train a model of our own."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from hopscope.checks import check_path
from hopscope.errors import InputError
from hopscope.exit import run_and_exit
from hopscope.signals import raise_on_stop_signals


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(), required=False)
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a value of the recipe.")
@click.option("--show", is_flag=True, help="Print the recipe as JSON and train nothing.")
def command(folder: str | None, changes: tuple[str, ...], show: bool) -> None:
    """Train a small language model on the text of equations and write it to FOLDER.

    Interrupted, it goes on from where it was. Threads are PyTorch's: set OMP_NUM_THREADS.

    \b
    Examples:
      python -m examples.text_model own
      python -m examples.text_model --show
      python -m examples.text_model own-3 --set most_hops=3 --set layers=5 --set steps=3400
      hopscope benchmark --model own --formulation equations --hops 1,2,3 --exact
    """
    from examples.text_model.recipe import TextModelRecipe

    recipe = TextModelRecipe().varied(dict(_change(text) for text in changes))
    if show:
        click.echo(json.dumps(asdict(recipe), indent=2))
        return
    if folder is None:
        raise click.UsageError("Missing argument 'FOLDER'; only --show does without")
    from examples.text_model.training import train_text_model

    train_text_model(recipe, check_path("a language model", folder), lambda row: click.echo(json.dumps(row)))


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set takes NAME=VALUE, such as steps=3000, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    raise_on_stop_signals()
    run_and_exit(command, "python -m examples.text_model")
