"""`hopscope benchmark`: language models on the five text formulations (Section 4, Figure 2)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import click

import hopscope as hs
from hopscope.benchmark.answers import Record
from hopscope.benchmark.redaction import holds_secret, redacted, shown
from hopscope.benchmark.settings import cells, runs_here
from hopscope.checks import check_outside_runs
from hopscope.cli.options import COUNT, PATH, NumberList, field_options, json_option, refuse_given
from hopscope.display import Display, for_people

_COLUMNS = ("model", "formulation", "D", "n", "accuracy", "95% interval", "guess")
"""The columns of the printed table, which must fit into a terminal."""

_PRECISION = "Of the weights of a model that runs here; auto: bf16 if stored so and quicker here."


@click.command()
@click.option("--model", "models", multiple=True, required=True, help="Folder, GGUF file, hub/org/model, or Inspect's.")
@click.option("--formulation", "formulations", multiple=True, help="Only this one. May be repeated.  [default: all]")
@click.option("--hops", type=NumberList(), help="D of equations: 3, 1-6, 1,2,4.  [default: 1-6]")
@click.option("--count", type=COUNT, default=500, help="Number of questions at each point.")
@click.option("--out", type=PATH, default="benchmark", help="Results folder.")
@click.option("--exact", is_flag=True, help="Compute the accuracy from log-probabilities instead of sampling.")
@field_options(hs.BenchmarkSettings, "settings", skip=("mode", "reasoning_effort", "extensions"), defaults=True)
@click.option("--reasoning-effort", help="For providers that know it; none: no reasoning.")
@field_options(hs.Extensions, "extensions", defaults=True)
@click.option("--base-url", help="Address of an OpenAI-compatible endpoint.")
@click.option("-M", "arguments", multiple=True, metavar="NAME=VALUE", help="A provider's argument (Inspect's -M).")
@click.option("--connections", type=COUNT, default=16, help="Calls in flight at a time.")
@click.option("--timeout", type=COUNT, default=60, help="Seconds to wait for a reply to a call.")
@click.option("--device", help="Where a model folder runs.  [default: a GPU if there is one]")
@click.option("--batch", type=COUNT, default=64, help="Sequences that a folder reads at a time.")
@click.option("--precision", type=click.Choice(["auto", "fp32", "bf16"]), default="auto", help=_PRECISION)
@click.option("--trust-remote-code", is_flag=True, help="Let a model folder run code of its own, with your rights.")
@json_option("the content of summary.json")
def benchmark(
    models: tuple[str, ...], formulations: tuple[str, ...], hops: tuple[int, ...] | None, count: int, out: Path,
    exact: bool, settings: dict[str, Any], reasoning_effort: str | None, extensions: dict[str, Any],
    arguments: tuple[str, ...], **opening: Any,
) -> tuple[Any, str]:  # fmt: skip
    """Put the paper's questions to language models and draw Figure 2.

    By default, each model answers 500 questions for each D of equations and for each of the other four formulations.
    A question is asked again until the reply is one of the acceptable answers. Results are plain files in the folder
    of --out. The same command continues a run that was stopped, and another --model adds to its results. Keys come from
    the environment (OPENAI_API_KEY, ...) and are never written to a file.

    \b
    Examples:
      hopscope benchmark --model openai/gpt-4o --model anthropic/claude-sonnet-4-0
      hopscope benchmark --model path/to/model-folder --exact
      hopscope benchmark --model openai-api/local/my-model --base-url http://localhost:8000/v1
      hopscope benchmark --model hf/gpt2 --formulation equations --hops 1,2 --count 50
    """
    settings |= {"mode": "exact" if exact else "sample", "reasoning_effort": reasoning_effort}
    chosen = hs.BenchmarkSettings(**settings, extensions=hs.Extensions(**extensions))
    if len(set(models)) != len(models):
        raise hs.InputError(f"a model was named twice: {', '.join(models)}; name each once")
    folders = [runs_here(name) for name in models]
    if all(folders):
        why = "a model folder runs here and has no provider"
        refuse_given(why, "base_url", "arguments", "connections", "timeout", "reasoning_effort")
    if not any(folders):
        refuse_given("no model is a folder", "device", "batch", "precision", "trust_remote_code")
    check_outside_runs(out)
    opening["arguments"] = _arguments(arguments)
    opening["display"] = "rich" if for_people() else "none"
    total, done = len(cells(formulations, hops)) * count * sum(folders), itertools.count(1)

    from hopscope.benchmark.results import as_markdown
    from hopscope.benchmark.run import benchmark
    from hopscope.paper.section_4 import figure_2

    with Display("asking", "questions") as update:
        if total:
            update(0, total)

        def progress(record: Record) -> None:
            """Progress of models that run in this process; Inspect shows the others."""
            if record.model.startswith("local/"):
                update(next(done), total, shown(record.model))

        summary = benchmark(models, out, formulations, hops, count, chosen, progress, **opening)
    if any(point.accuracy is not None for point in summary.points):
        hs.plot.save(figure_2(summary.points), out / "figure-2")
    lines = as_markdown(summary.points, _COLUMNS).splitlines()
    if unanswered := sum(point.unanswered for point in summary.points):
        lines.append(f"questions unanswered, their records say why: {unanswered}; the same command asks again")
    lines.append(f"more columns, every answer and a figure are in {shown(str(out))}")
    return json.loads((out / "summary.json").read_text()), "\n".join(lines)


def _arguments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments in NAME=VALUE pairs; values in JSON are decoded, and secrets are refused."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise hs.InputError(f"-M takes NAME=VALUE, got {redacted(pair)!r}")
        try:
            found[name] = json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            found[name] = value
        if holds_secret({name: found[name]}) or holds_secret(value):
            raise hs.InputError(
                f"-M {redacted(name)} would put a secret on the command line; set the provider's variable instead"
            )
    return found
