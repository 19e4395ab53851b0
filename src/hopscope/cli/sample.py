"""`hopscope sample`: examples of the problem, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from hopscope.checks import check_folder, check_outside_runs
from hopscope.cli.options import COUNT, PATH, SEED, field_options, given, json_option
from hopscope.errors import InputError, needs_extra
from hopscope.files import check_file, replacing
from hopscope.machine import check_fits
from hopscope.problem.graph import look_ups
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.formulation import Extensions, Formulation
from hopscope.problem.text.questions import FORMULATIONS, question

_COUNT = click.option("--count", type=COUNT, default=1, show_default=True, help="Number of examples.")
_SEED = click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the draw.")
_CHAINS = click.option("--chains", type=int, default=4, show_default=True, help="N, the number of interleaved chains.")


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
@click.option("--hops", type=int, help="D, retrieval steps per chain. [default: 3, or the graph's]")
@click.option("--graph", default="chain", show_default=True, help="chain, functions or relatives.")
@_CHAINS
@click.option("--symbol-dim", type=int, default=4, show_default=True, help="K, the dimension of a symbol.")
@click.option(
    "--order", default="deepest-first", show_default=True, help="deepest-first, shallowest-first or as in 1,3,2."
)
@click.option("--position", default="token", show_default=True, help="token, pair or none.")
@click.option("--curriculum/--no-curriculum", default=True, show_default=True, help="Ask for every hop, or the last.")
@_COUNT
@_SEED
@json_option("each sequence, a line with inputs, targets and roles,")
@click.option("--out", type=PATH, help="Write these lines into a .jsonl file instead.")
def vectors(hops: int | None, graph: Any, count: int, seed: int, as_json: bool, out: Path | None, **rest: Any) -> None:
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
      hopscope sample vectors --graph relatives
    """
    problem = RetrievalProblem(look_ups(graph) if hops is None else hops, graph=graph, **rest)
    if out is not None and out.suffix != ".jsonl":
        raise InputError(f"--out must end in .jsonl, got {out.name}")
    check_fits(32 * count * problem.sequence_length * (problem.input_dim + problem.target_dim))

    import torch

    from hopscope.problem.vectors import sample

    batch = sample(problem, count, torch.Generator().manual_seed(seed))
    columns = (batch.inputs.tolist(), batch.targets.tolist(), batch.chain.tolist(), batch.role.tolist())
    records = []
    for inputs, targets, *where in zip(*columns, strict=True):
        named = [[chain, problem.roles[role]] for chain, role in zip(*where, strict=True)]
        records.append({"inputs": inputs, "targets": targets, "roles": named})
    if as_json or out is not None:
        _output(records, out)
        return
    for number, record in enumerate(records, start=1):
        click.echo(f"sequence {number}")
        for (chain, role), row in zip(record["roles"], record["inputs"], strict=True):
            click.echo(f"  chain {chain}  {role:>4}  " + " ".join(f"{value:6.2f}" for value in row))


def _add_formulation(form: Formulation[Any]) -> None:
    @click.option("--hops", type=int, default=form.paper_hops, show_default=True, help="D, the number of hops.")
    @_CHAINS
    @_COUNT
    @_SEED
    @click.option("--roles", is_flag=True, help="Add `mentions`: every symbol's place and role.")
    @click.option("--text", is_flag=True, help="Print the prompts as plain text instead.")
    @json_option("one question a line, as without it,")
    @click.option("--out", type=PATH, help="Write a .jsonl or .parquet file instead.")
    @field_options(Extensions, skip=tuple({part.name for part in fields(Extensions)} - form.allowed))
    def run(
        hops: int, chains: int, count: int, seed: int, roles: bool, text: bool, as_json: bool, out: Path | None,
        **_: Any,
    ) -> None:  # fmt: skip
        if text and (as_json or out is not None):
            raise InputError("--text prints for people, --json and --out give records for machines; leave out either")
        extensions = Extensions(**given(Extensions))
        drawn = (question(form.name, hops, seed, index, chains, extensions) for index in range(count))
        if text:
            for item in drawn:
                click.echo(f"{item.prompt}\nCorrect: {item.answer}\n")
        else:
            _output((item.record(roles) for item in drawn), out)

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
    command.command(form.name)(run)


def _output(records: Iterable[dict[str, Any]], path: Path | None) -> None:
    """Print records as JSON lines, or write them to a .jsonl or .parquet file."""
    if path is None:
        for record in records:
            click.echo(json.dumps(record))
        return
    check_folder(path.parent)
    check_outside_runs(path)
    if path.suffix not in (".jsonl", ".parquet"):
        raise InputError(f"--out must end in .jsonl or .parquet, got {path.name}")
    if path.suffix == ".parquet":
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise needs_extra("a .parquet file (a .jsonl file needs nothing)", "pyarrow", "parquet") from None
    if path.exists():
        check_file(path, "samples")
        try:
            there = parquet.read_schema(path).names if path.suffix == ".parquet" else _first_record(path)
        except (ValueError, RecursionError, OSError):
            there = None
        if not (isinstance(there, dict | list) and ("latent" in there or {"inputs", "targets", "roles"} <= {*there})):
            raise InputError(f"{path} holds no samples, which would replace it; it was left untouched, write elsewhere")
    with replacing(path) as temporary:
        if path.suffix == ".parquet":  # formulations differ in these two columns, and Parquet wants one type a column
            as_text = ("latent", "extensions")
            rows = [{key: json.dumps(v) if key in as_text else v for key, v in record.items()} for record in records]
            parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)


def _first_record(path: Path) -> Any:
    with path.open("rb") as file:
        return json.loads(file.readline())


for _form in FORMULATIONS.values():
    _add_formulation(_form)
