"""`hopscope sample`: examples of the problem. `hopscope theory`: how many layers a chain of D hops needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

import hopscope as hs
from hopscope.cli.options import COUNT, SEED, NumberList, all_of, field_options, json_option, refuse_given
from hopscope.machine import check_fits
from hopscope.problem.text.formulation import Formulation
from hopscope.problem.text.questions import FORMULATIONS, question
from hopscope.theory import depth
from hopscope.words import markdown_table

_draw_options = all_of(
    click.option("--count", type=COUNT, default=1, help="Number of examples."),
    click.option("--seed", type=SEED, default=0, help="Seed of the draw."),
    click.option("--text/--json", help="Print plain text for people, or one example a line as JSON."),
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
@field_options(hs.RetrievalProblem, "fields", defaults=True)
def vectors(count: int, seed: int, text: bool, fields: dict[str, Any]) -> None:
    """Sequences of the vector formulation (Section 6).

    \b
    `inputs`  N(2D+1) rows of 2K numbers: the symbol, then the position code
    `targets` N rows, one per query, in the order of the queries
    `roles`   N(2D+1) pairs [chain, role] with a role such as "x0>", ">x1" or "x0?"

    \b
    Examples:
      hopscope sample vectors --hops 3 --count 8 --seed 0 --json
    """
    problem = hs.RetrievalProblem(**fields)
    check_fits(32 * count * problem.sequence_length * (problem.input_dim + problem.target_dim))

    import torch

    batch = hs.sample(problem, count, torch.Generator().manual_seed(seed))
    columns = (batch.inputs.tolist(), batch.targets.tolist(), batch.chain.tolist(), batch.role.tolist())
    for inputs, targets, *location in zip(*columns, strict=True):
        named = [[chain, problem.roles[role]] for chain, role in zip(*location, strict=True)]
        if not text:
            click.echo(json.dumps({"inputs": inputs, "targets": targets, "roles": named}))
        for (chain, role), row in zip(named, inputs, strict=True) if text else ():
            click.echo(f"chain {chain}  {role:>4}  " + " ".join(f"{value:6.2f}" for value in row))


def _add_formulation(form: Formulation[Any]) -> None:
    @click.option("--hops", type=int, default=form.paper_hops, help="D, the number of hops.")
    @click.option("--chains", type=int, default=4, help="N, chains interleaved in one text.")
    @_draw_options
    @click.option("--roles", is_flag=True, help="Add `mentions`: every symbol's place and role.")
    @field_options(hs.Extensions, "extensions", *form.allowed, defaults=True)
    def draw(count: int, text: bool, roles: bool, extensions: dict[str, Any], **numbers: int) -> None:
        for index in range(count):
            item = question(form.name, index=index, extensions=hs.Extensions(**extensions), **numbers)
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


_MOST = 256
_DEPTHS = ("D", "Theorem 1", "no mask", "causal", "one head", "one head per row")
_ORDERS = ("D", "order, first to last", "in this order", "one head per row", "in the best", "at most")


@click.command()
@click.option("--hops", type=NumberList(), default="1-16", help="5, a range 1-64, or a list 1,2,4.")
@click.option("--show", is_flag=True, help="Draw what one chain's query knows after each layer, and what attends.")
@click.option("--causal/--no-mask", default=True, help="The mask, for --show.")
@click.option("--order", help="Order of the pairs: deepest-first, shallowest-first, or as in 1,2,4,3.")
@click.option("--best-order", is_flag=True, help="An order of the pairs that needs the fewest layers, and how many.")
@json_option("all of it")
def theory(hops: tuple[int, ...], show: bool, causal: bool, order: str | None, best_order: bool) -> tuple[Any, str]:
    """How many layers D hops need: the paper's bound, and the exact minimum.

    \b
    Theorem 1         the paper's lower bound, ceil(log3(2D))
    no mask           exact without a mask, ceil(log3(4D + 1)), with at least two heads per layer
    causal            exact under a causal mask, floor(log2 D) + 2
    one head          exact if a position attends to one place per layer
    one head per row  exact by a rule that one head for each row of a block suggests (beyond Assumption 1)

    The exact numbers are for Assumptions 1 and 2 of Section 5 and for chains that are interleaved in blocks, with the
    deepest or the shallowest pairs first. Under a causal mask, no other order of the pairs needs more layers. For D of
    4, 8 to 13 and 16 or more, others can need fewer, down to 1 + ceil(log3(2D + 1)). --order and --best-order give the
    layers that one order needs ("in this order"; also with one head per row), the fewest of all orders ("in the best"),
    and the most ("at most").

    \b
    Examples:
      hopscope theory --hops 1-64
      hopscope theory --hops 1,2,4,8 --json
      hopscope theory --hops 5 --show --no-mask
      hopscope theory --hops 4 --order 1,2,4,3
      hopscope theory --hops 1-16 --best-order
    """
    if best_order and order is not None:
        raise hs.InputError("--best-order finds an order and --order states one; leave out either")
    if show and len(hops) > 1:
        raise hs.InputError("--show takes one chain; give one number, as in --hops 5")
    if not show:
        refuse_given("the table has both masks", "causal")
    if not (show or best_order or order is not None):
        return _table(_DEPTHS, [asdict(depth.depths(chain)) for chain in sorted(hops)])
    if max(hops) > _MOST:
        rule = f"hops must be at most {_MOST} with --show, --order or --best-order"
        raise hs.InputError(f"{rule}, got {max(hops)}; leave these out")
    problems = []
    for chain in sorted(hops):
        stated = ",".join(map(str, depth.best_order(chain))) if best_order else order or "deepest-first"
        problems.append(hs.RetrievalProblem(chain, order=stated, causal=causal))
    if show:
        return _chain(problems[0])
    rows = [
        {
            "hops": problem.hops,
            "order": ",".join(map(str, problem.blocks)),
            "layers": depth.minimum_in_order(problem),
            "head_a_row": depth.minimum_in_order(problem, head_a_row=True),
            "fewest": depth.minimum_best_order(problem.hops),
            "most": depth.minimum_causal(problem.hops),
        }
        for problem in problems
    ]
    return _table(_ORDERS, rows)


def _table(headings: tuple[str, ...], rows: list[dict[str, Any]]) -> tuple[Any, str]:
    table = markdown_table(headings, [row.values() for row in rows])
    return rows, f"{table}\nNumbers of layers that D hops need; `hopscope theory --help` explains the columns."


def _chain(problem: hs.RetrievalProblem) -> tuple[Any, str]:
    from hopscope.theory.attention_schedule import describe
    from hopscope.theory.information_flow import flow_until
    from hopscope.theory.scene import problem_scene

    schedule, flow = hs.theory.shortest_schedule(problem), flow_until(problem_scene(problem))
    named = (path.names(problem.roles) for path in schedule)
    record = {
        "hops": problem.hops,
        "layers": schedule[-1].layer + 1,
        "growth": [flow.asked(layer) for layer in range(len(flow.holdings))],
        "schedule": [{"layer": layer, "query": query, "key": key} for layer, _, query, key in named],
    }
    return record, describe(problem).rstrip()
