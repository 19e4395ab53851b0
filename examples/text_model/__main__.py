"""`python -m examples.text_model FOLDER`: train a small language model of our own."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import train_text_model

EPILOG = """examples:
  python -m examples.text_model own
  python -m examples.text_model --show
  python -m examples.text_model own-3 --set most_hops=3 --set layers=5 --set steps=3400
  hopscope benchmark --model own --formulation equations --hops 1,2,3 --exact
"""


def main(arguments: list[str] | None = None) -> int:
    """Train a model into a folder, or continue an interrupted training, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.text_model",
        description="Train a small language model on the text of equations and write it to FOLDER. The same "
        "command continues an interrupted training. OMP_NUM_THREADS sets the number of threads.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a value of the recipe")
    parser.add_argument("--show", action="store_true", help="print the recipe as JSON and train nothing")
    asked = parser.parse_args(arguments)
    try:
        recipe = TextModelRecipe().varied(dict(map(_change, asked.set)))
        if asked.show:
            print(json.dumps(asdict(recipe), indent=2))
            return 0
        if asked.folder is None:
            parser.error("FOLDER is missing; only --show works without it")
        train_text_model(recipe, asked.folder, lambda row: print(json.dumps(row), flush=True))
    except hs.InputError as error:
        print(f"text_model: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("text_model: interrupted; the same command continues from what is on disk", file=sys.stderr)
        return 130
    return 0


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise hs.InputError(f"--set takes NAME=VALUE, such as steps=3000, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
