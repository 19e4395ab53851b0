"""`hopscope sample`: examples of the problem, one JSON object per line."""

from __future__ import annotations

import json
from typing import Any

import click

from hopscope.cli.options import COUNT, SEED, all_of, field_options
from hopscope.machine import check_fits
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.formulation import Extensions, Formulation
from hopscope.problem.text.questions import FORMULATIONS, question

_draw_options = all_of(
    click.option("--count", type=COUNT, default=1, show_default=True, help="Number of examples."),
    click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the draw."),
    click.option("--text/--json", help="Print plain text for people, or one example a line as JSON.  [default: json]"),
)


@click.group()
def sample() -> None:
    """Print examples of the problem, as vectors or as text.

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
      hopscope sample equations --hops 5 --count 500 --seed 0
      hopscope sample relatives --count 500 > relatives.jsonl
    """


@sample.command()
@_draw_options
@field_options(RetrievalProblem, "fields", defaults=True)
def vectors(count: int, seed: int, text: bool, fields: dict[str, Any]) -> None:
    """Sequences of the vector formulation (Section 6).

    \b
    `inputs`  N(2D+1) rows of 2K numbers: the symbol, then the position code
    `targets` N rows, one a query in the order the queries stand
    `roles`   N(2D+1) pairs [chain, role], role as in "x0>", ">x1" or "x0?"

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
    """
    problem = RetrievalProblem(**fields)
    check_fits(32 * count * problem.sequence_length * (problem.input_dim + problem.target_dim))

    import torch

    from hopscope.problem.vectors import sample

    batch = sample(problem, count, torch.Generator().manual_seed(seed))
    columns = (batch.inputs.tolist(), batch.targets.tolist(), batch.chain.tolist(), batch.role.tolist())
    for inputs, targets, *location in zip(*columns, strict=True):
        named = [[chain, problem.roles[role]] for chain, role in zip(*location, strict=True)]
        if not text:
            click.echo(json.dumps({"inputs": inputs, "targets": targets, "roles": named}))
        for (chain, role), row in zip(named, inputs, strict=True) if text else ():
            click.echo(f"chain {chain}  {role:>4}  " + " ".join(f"{value:6.2f}" for value in row))


def _add_formulation(form: Formulation[Any]) -> None:
    @click.option("--hops", type=int, default=form.paper_hops, show_default=True, help="D, the number of hops.")
    @click.option("--chains", type=int, default=4, show_default=True, help="N, chains interleaved in one text.")
    @_draw_options
    @click.option("--roles", is_flag=True, help="Add `mentions`: every symbol's place and role.")
    @field_options(Extensions, "extensions", *form.allowed, defaults=True)
    def draw(
        hops: int, chains: int, count: int, seed: int, text: bool, roles: bool, extensions: dict[str, Any]
    ) -> None:
        changed = Extensions(**extensions)
        for index in range(count):
            item = question(form.name, hops, seed, index, chains, changed)
            click.echo(f"{item.prompt}\nCorrect: {item.answer}\n" if text else json.dumps(item.record(roles)))

    draw.__doc__ = f"""{(form.__doc__ or "").splitlines()[0]}

    One JSON object a line: id, formulation, hops, chains, seed, index, extensions, prompt (exactly the model's input),
    prompt_hash, answer, acceptable, guess (chance), shortcut (what a clever guesser reaches), lines (where the facts
    that lead to the answer stand), latent (the structure behind the text).

    \b
    Examples:
      hopscope sample {form.name} --count 500 --seed 0
      hopscope sample {form.name} --count 1 --text
    """
    sample.command(form.name)(draw)


for _form in FORMULATIONS.values():
    _add_formulation(_form)
