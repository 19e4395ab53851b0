"""`hopscope benchmark`: language models on the five text formulations (Section 4, Figure 2)."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from hopscope.benchmark.names import is_secret
from hopscope.errors import InputError


@click.command()
@click.option("--model", "models", multiple=True, required=True, help="A model folder, or Inspect's name of a model.")
@click.option("--formulation", "formulations", multiple=True, help="Only this one. May be repeated.  [default: all]")
@click.option("--hops", default="1,2,3,4,5,6", show_default=True, help="D of equations, as 1,2,3.")
@click.option("--count", type=click.IntRange(min=1), default=500, show_default=True, help="Questions at each point.")
@click.option("--out", type=click.Path(path_type=Path), default="benchmark", show_default=True, help="Results folder.")
@click.option("--exact", is_flag=True, help="Weigh the answers by log-probabilities instead of sampling.")
@click.option("--rule", default="exact", show_default=True, help="Answer rule: exact or lenient.")
@click.option("--temperature", type=float, default=1.0, show_default=True, help="Of the sampling.")
@click.option("--attempts", type=int, default=20, show_default=True, help="Replies before a question is left.")
@click.option("--max-tokens", type=int, default=32, show_default=True, help="Longest reply.")
@click.option("--reasoning-effort", help="Passed to providers that know it; `none` to switch reasoning off.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the questions.")
@click.option(
    "--names", default="paper", show_default=True, help="Extension: extended or random (needs --formulation)."
)
@click.option("--lines", default="blocks", show_default=True, help="Extension: reversed or shuffled lines.")
@click.option("--repeat", type=int, default=1, show_default=True, help="Extension: print the facts again.")
@click.option("--filler", type=int, default=0, show_default=True, help="Extension: dots at the end.")
@click.option("--shots", type=int, default=0, show_default=True, help="Extension: solved questions first.")
@click.option("--think", is_flag=True, help="Extension: ask for the reasoning before the answer.")
@click.option("--base-url", help="Address of an OpenAI-compatible endpoint.")
@click.option(
    "-M", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument of the provider (Inspect's -M)."
)
@click.option("--connections", type=click.IntRange(min=1), default=16, show_default=True, help="Calls at a time.")
@click.option(
    "--timeout", type=click.IntRange(min=1), default=60, show_default=True, help="Seconds a call may be silent."
)
@click.option("--price", metavar="IN,OUT", help="Dollars for a million tokens, where the provider does not say.")
@click.option("--device", help="Where a model folder runs.  [default: a GPU if there is one]")
@click.option(
    "--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Sequences of a model folder at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print what summary.json holds.")
def command(
    models: tuple[str, ...],
    formulations: tuple[str, ...],
    hops: str,
    count: int,
    out: Path,
    exact: bool,
    as_json: bool,
    base_url: str | None,
    arguments: tuple[str, ...],
    connections: int,
    timeout: int,
    price: str | None,
    device: str | None,
    batch: int,
    **options: Any,
) -> None:
    """Put the paper's questions to language models and draw Figure 2.

    Equations over D and the other four formulations, 500 questions each, every question until its answer is
    acceptable. Results are plain files in the folder of --out; the same command continues a run that was stopped, and
    another --model adds to it. Keys come from the environment (OPENAI_API_KEY, ...) and are written nowhere.

    \b
    Examples:
      hopscope benchmark --model openai/gpt-4o --model anthropic/claude-sonnet-4-0
      hopscope benchmark --model path/to/model-folder --exact
      hopscope benchmark --model openai-api/local/my-model --base-url http://localhost:8000/v1
      hopscope benchmark --model hf/gpt2 --formulation equations --hops 1,2 --count 50
    """
    from hopscope.benchmark.board import Board
    from hopscope.benchmark.run import benchmark
    from hopscope.benchmark.settings import Settings, cells
    from hopscope.plot.benchmark_figure import draw_figure
    from hopscope.problem.text.extensions import Extensions
    from hopscope.problem.text.questions import formulation

    extensions = Extensions(
        **{name: options.pop(name) for name in ("names", "lines", "repeat", "filler", "shots", "think")}
    )
    settings = Settings(mode="exact" if exact else "sample", extensions=extensions, **options)
    points = cells(formulations, _numbers(hops, "--hops"))
    for point in points:
        formulation(point.formulation).check(point.hops, 4, extensions)
    if len(set(models)) != len(models):
        raise InputError(f"a model was named twice: {', '.join(models)}; name each once")
    provider = {
        "logs": out / "inspect",
        "base_url": base_url,
        "arguments": _arguments(arguments),
        "connections": connections,
        "timeout": timeout,
        "price": _price(price),
    }
    asked = [_open(name, device, batch, provider) for name in models]
    live = not as_json and sys.stderr.isatty()
    board = Board([model.name for model in asked], points, count)
    with board.live() if live else nullcontext():
        summary = benchmark(asked, points, count, settings, out, board.see)
    draw_figure(out)
    if as_json:
        click.echo(json.dumps(summary))
    else:
        board.close(summary, out)


def _open(name: str, device: str | None, batch: int, provider: dict[str, Any]) -> Any:
    """The model of that name: a folder on disk, or anything Inspect knows."""
    folder = Path(name)
    if folder.is_dir():
        from hopscope.benchmark.local import LocalModel

        return LocalModel(folder, device, batch)
    if "/" not in name or name.startswith((".", "/", "~")):
        raise InputError(
            f"{name} is neither a folder nor a provider's model; give a model folder, or a name such as openai/gpt-4o"
        )
    from hopscope.benchmark.hosted import HostedModel

    return HostedModel(name, **provider)


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} takes whole numbers such as 1,2,3, got {text!r}") from None


def _arguments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is JSON is taken as such."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"-M takes NAME=VALUE, got {pair!r}")
        if is_secret(name):
            raise InputError(f"-M {name} would put a secret on the command line; set the provider's variable instead")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _price(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        into, out = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--price takes two numbers such as 2.5,10, got {text!r}") from None
    return into, out
