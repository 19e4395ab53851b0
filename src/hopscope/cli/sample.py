"""`hopscope sample`: examples of the problem, one JSON object a line."""

from __future__ import annotations

import json
from typing import Any

import click

from hopscope.problem.retrieval import RetrievalProblem


@click.group()
def command() -> None:
    """Print examples of the problem, as vectors or as text.

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
    """


@command.command()
@click.option("--hops", type=int, default=3, show_default=True, help="D, retrieval steps a chain.")
@click.option("--chains", type=int, default=4, show_default=True, help="N, interleaved chains.")
@click.option("--symbol-dim", type=int, default=4, show_default=True, help="K, numbers in a symbol.")
@click.option("--order", default="deepest-first", show_default=True, help="deepest-first or shallowest-first.")
@click.option("--position", default="token", show_default=True, help="token, pair or none.")
@click.option("--curriculum/--no-curriculum", default=True, show_default=True, help="Ask for every hop, or the last.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Sequences to print.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the draw.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: inputs, targets, roles.")
def vectors(count: int, seed: int, as_json: bool, **fields: Any) -> None:
    """Sequences of the vector formulation (Section 6).

    \b
    `inputs`  N(2D+1) rows of 2K numbers: the symbol, then the position code
    `targets` N rows, one a query in the order the queries stand
    `roles`   N(2D+1) pairs [chain, role], role as in "x0>", ">x1" or "x0?"

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
      hopscope sample vectors --hops 1 --chains 2
    """
    problem = RetrievalProblem(**fields)

    import torch

    from hopscope.problem.vectors import sample

    batch = sample(problem, count, torch.Generator().manual_seed(seed))
    chain, role = batch.chain.tolist(), batch.role.tolist()
    inputs, targets = batch.inputs.tolist(), batch.targets.tolist()
    for i in range(count):
        roles = [[c, problem.roles[r]] for c, r in zip(chain[i], role[i], strict=True)]
        if as_json:
            click.echo(json.dumps({"inputs": inputs[i], "targets": targets[i], "roles": roles}))
            continue
        click.echo(f"sequence {i + 1}")
        for (c, name), row in zip(roles, inputs[i], strict=True):
            click.echo(f"  chain {c}  {name:>4}  " + " ".join(f"{value:6.2f}" for value in row))
