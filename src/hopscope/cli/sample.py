"""`hopscope sample`: examples of the problem, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from hopscope.checks import check_folder, check_outside_runs
from hopscope.cli.options import SEED, GivenPath, field_options, given
from hopscope.errors import InputError, needs_extra
from hopscope.files import check_file, replacing
from hopscope.machine import check_fits
from hopscope.problem.graph import look_ups
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import Formulation
from hopscope.problem.text.questions import FORMULATIONS, question


@click.group()
def command() -> None:
    """Print examples of the problem, as vectors or as text.

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
      hopscope sample equations --hops 5 --count 500 --seed 0
      hopscope sample relatives --count 500 --out relatives.parquet
    """


@command.command()
@click.option("--hops", type=int, default=None, help="D, retrieval steps per chain. [default: 3, or the graph's]")
@click.option("--graph", default="chain", show_default=True, help="chain, functions or relatives.")
@click.option("--chains", type=int, default=4, show_default=True, help="N, the number of interleaved chains.")
@click.option("--symbol-dim", type=int, default=4, show_default=True, help="K, the dimension of a symbol.")
@click.option(
    "--order", default="deepest-first", show_default=True, help="deepest-first, shallowest-first or as in 1,3,2."
)
@click.option("--position", default="token", show_default=True, help="token, pair or none.")
@click.option("--curriculum/--no-curriculum", default=True, show_default=True, help="Ask for every hop, or the last.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Sequences to print.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the draw.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line: inputs, targets, roles.")
@click.option("--out", type=GivenPath(path_type=Path), help="Write these lines into a .jsonl file instead.")
def vectors(
    hops: int | None, graph: Any, count: int, seed: int, as_json: bool, out: Path | None, **fields: Any
) -> None:
    """Sequences of the vector formulation (Section 6).

    \b
    `inputs`  N(2D+1) rows of 2K numbers: the symbol, then the position code
    `targets` N rows, one a query in the order the queries stand
    `roles`   N(2D+1) pairs [chain, role], role as in "x0>", ">x1" or "x0?"; rows of distractors, which conditional
              graphs have, are chains after the N whole ones

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
      hopscope sample vectors --hops 3 --count 500 --out vectors.jsonl
      hopscope sample vectors --hops 1 --chains 2
      hopscope sample vectors --graph relatives
    """
    problem = RetrievalProblem(look_ups(graph) if hops is None else hops, graph=graph, **fields)
    if out is not None and out.suffix != ".jsonl":
        raise InputError(f"--out must end in .jsonl, got {out.name}")
    check_fits(32 * count * problem.sequence_length * (problem.input_dim + problem.target_dim))

    import torch

    from hopscope.problem.vectors import sample

    batch = sample(problem, count, torch.Generator().manual_seed(seed))
    chain, role = batch.chain.tolist(), batch.role.tolist()
    inputs, targets = batch.inputs.tolist(), batch.targets.tolist()
    named = [
        [[c, problem.roles[r]] for c, r in zip(chains, roles, strict=True)]
        for chains, roles in zip(chain, role, strict=True)
    ]
    if as_json or out is not None:
        records = [
            {"inputs": rows, "targets": asked, "roles": roles}
            for rows, asked, roles in zip(inputs, targets, named, strict=True)
        ]
        _tell(out, records)
        return
    for i in range(count):
        click.echo(f"sequence {i + 1}")
        for (c, name), row in zip(named[i], inputs[i], strict=True):
            click.echo(f"  chain {c}  {name:>4}  " + " ".join(f"{value:6.2f}" for value in row))


def _formulation(form: Formulation[Any]) -> None:
    """Add the subcommand of a formulation."""

    def run(
        hops: int,
        chains: int,
        count: int,
        seed: int,
        roles: bool,
        text: bool,
        as_json: bool,
        out: Path | None,
        **extensions: Any,
    ) -> None:
        if text and as_json:
            raise InputError("--text prints for people and --json for machines; leave out either")
        if text and out is not None:
            raise InputError("--text prints for people and --out writes records for machines; leave out either")
        dress = Extensions(**given(Extensions))
        drawn = (question(form.name, hops, seed, index, chains, dress) for index in range(count))
        if text:
            for item in drawn:
                click.echo(f"{item.prompt}\nCorrect: {item.answer}\n")
            return
        _tell(out, (item.record(roles) for item in drawn))

    run.__doc__ = f"""{(form.__doc__ or "").splitlines()[0]}

    One JSON object a line: id, formulation, hops, chains, seed, index, extensions, prompt (exactly what a model is
    given), prompt_hash, answer, acceptable, guess (chance), shortcut (what a clever guesser reaches), lines (where
    the facts that lead to the answer stand), latent (the structure behind the text).

    \b
    Examples:
      hopscope sample {form.name} --count 500 --seed 0
      hopscope sample {form.name} --count 1 --text
      hopscope sample {form.name} --count 500 --out {form.name}.parquet
    """
    options = [
        click.option(
            "--hops", type=int, default=form.paper_hops, show_default=True, help="D, the number of retrieval steps."
        ),
        click.option("--chains", type=int, default=4, show_default=True, help="Number of interleaved chains."),
        click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Number of questions."),
        click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the draw."),
        click.option("--roles", is_flag=True, help="Add `mentions`: every symbol's place and role."),
        click.option("--text", is_flag=True, help="Print the prompts as plain text instead."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as without it."),
        click.option("--out", type=GivenPath(path_type=Path), help="Write a .jsonl or .parquet file instead."),
        field_options(Extensions, skip=tuple({part.name for part in fields(Extensions)} - form.allowed)),
    ]
    for option in reversed(options):
        run = option(run)
    command.command(form.name)(run)


def _tell(out: Path | None, records: Iterable[dict[str, Any]]) -> None:
    """Print records as JSON lines, or write them into a file."""
    if out is not None:
        _write(out, records)
        return
    for record in records:
        click.echo(json.dumps(record))


def _write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write records as JSON lines or Parquet, by the file's ending."""
    check_folder(path.parent)
    check_outside_runs(path)
    if path.suffix == ".jsonl":
        _check_replaces(path, _first_line)
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        return
    if path.suffix != ".parquet":
        raise InputError(f"--out must end in .jsonl or .parquet, got {path.name}")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise needs_extra("a .parquet file (a .jsonl file needs nothing)", "pyarrow", "parquet") from None
    _check_replaces(path, lambda there: parquet.read_schema(there).names)
    # Their shape differs between formulations, and Parquet wants one a column: they travel as JSON.
    rows = [{key: json.dumps(v) if key in {"latent", "extensions"} else v for key, v in row.items()} for row in records]
    with replacing(path) as temporary:
        parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)


def _check_replaces(path: Path, columns: Callable[[Path], Any]) -> None:
    """Check that nothing but samples would be replaced.

    Args:
        path: the path of the file to write.
        columns: reads what a file there has: an object by column, or the columns' names.

    Raises:
        InputError: something else is there, such as the records of a benchmark.
    """
    if not path.exists():
        return
    check_file(path, "samples")
    try:
        there = columns(path)
    except (ValueError, RecursionError, OSError):
        there = None
    if not (isinstance(there, dict | list) and ("latent" in there or {"inputs", "targets", "roles"} <= {*there})):
        raise InputError(f"{path} holds no samples, which would replace it; it was left untouched, write elsewhere")


def _first_line(path: Path) -> Any:
    with path.open("rb") as file:
        return json.loads(file.readline())


for _form in FORMULATIONS.values():
    _formulation(_form)
