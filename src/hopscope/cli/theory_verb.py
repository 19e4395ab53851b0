"""`hopscope theory`: how many layers a chain of D hops needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

import hopscope as hs
from hopscope.cli.options import NumberList, json_option, refuse_given
from hopscope.theory import depth
from hopscope.words import markdown_table

_MOST = 256
_DEPTHS = ("D", "Theorem 1", "no mask", "causal", "one head", "a head a row")
_ORDERS = ("D", "order, first to last", "in this order", "a head a row", "in the best", "at most")


@click.command()
@click.option("--hops", type=NumberList(), default="1-16", show_default=True, help="5, a range 1-64, or a list 1,2,4.")
@click.option("--show", is_flag=True, help="Draw what one chain's query knows after each layer, and what attends.")
@click.option("--causal/--no-mask", default=True, show_default=True, help="The mask, for --show.")
@click.option("--order", help="Order of the pairs: deepest-first, shallowest-first, or as in 1,2,4,3.")
@click.option("--best-order", is_flag=True, help="An order of the pairs that needs the fewest layers, and how many.")
@json_option("all of it")
def theory(hops: tuple[int, ...], show: bool, causal: bool, order: str | None, best_order: bool) -> tuple[Any, str]:
    """How many layers D hops need: the paper's bound, and the exact minimum.

    \b
    Theorem 1     the paper's lower bound, ceil(log3(2D))
    no mask       exact without a mask, ceil(log3(4D + 1)), with at least two heads a layer
    causal        exact under a causal mask, floor(log2 D) + 2
    one head      exact where a position attends to one place a layer
    a head a row  exact where layers have a head for every row of a block, which goes beyond Assumption 1

    Exact under Assumptions 1 and 2 of Section 5, for chains interleaved in blocks, the deepest or the shallowest pairs
    first. From D = 4 on other orders of the pairs can need fewer layers under a causal mask, down to
    1 + ceil(log3(2D + 1)), and never need more: --order, --best-order.

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
    ordered = best_order or order is not None
    if show and len(hops) > 1:
        raise hs.InputError("--show takes one chain; give one number, as in --hops 5")
    if (show or ordered) and max(hops) > _MOST:
        raise hs.InputError(
            f"hops must be at most {_MOST} with --show, --order or --best-order, got {max(hops)}; leave these out"
        )
    if not show:
        refuse_given("the table has both masks", "causal")
    if not (show or ordered):
        return _table(_DEPTHS, [asdict(depth.depths(chain)) for chain in sorted(hops)])
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


def _table(headings: Sequence[str], rows: Sequence[dict[str, Any]]) -> tuple[Any, str]:
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
