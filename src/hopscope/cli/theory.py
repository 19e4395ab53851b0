"""`hopscope theory`: how many layers a chain of D hops needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from hopscope.cli.options import FILE, json_option, numbers, refuse_given
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import best_order as find_best_order
from hopscope.theory.depth import depths, minimum_best_order, minimum_causal, minimum_in_order
from hopscope.words import counted

_MOST_SHOWN, _MOST_WITNESSED = 256, 16
_WIDEST = 10_000
_EXACT = "Exact under Assumptions 1 and 2 of Section 5, for chains interleaved in blocks"
_DEPTHS = (
    "D", "Theorem 1\nat least", "no mask\nexactly", "causal\nexactly", "one head\nexactly", "a head a row\nexactly"
)  # fmt: skip
_DEPTHS_CAPTION = (
    f"{_EXACT}, deepest or shallowest pairs first. No-mask needs two heads a layer; with one, as causal. A head a row, "
    "for every row of a block: causal, and beyond Assumption 1."
)
_ORDERS = (
    "D", "order, first to last", "in this order\nexact", "a head a row\nexact", "in the best\nexact", "in any\nat most"
)  # fmt: skip


@click.command()
@click.option("--hops", default="1-16", show_default=True, help="5, a range 1-64, or a list 1,2,4.")
@click.option("--show", is_flag=True, help="Draw what one chain's query knows after each layer, and what attends.")
@click.option("--figure", type=FILE, help="Save the figure as .png, .svg or .pdf.")
@click.option("--causal/--no-mask", default=True, show_default=True, help="The mask, for --show and --witness.")
@click.option("--order", help="Order of the pairs: deepest-first, shallowest-first, or as in 1,2,4,3.")
@click.option("--best-order", is_flag=True, help="An order of the pairs that needs the fewest layers, and how many.")
@click.option("--one-head", is_flag=True, help="Each position may attend to only one place in each layer, for --show.")
@click.option("--witness", is_flag=True, help="Build a transformer by hand at the exact minimum and run it.")
@click.option("--graph", help="Conditional retrieval: functions, relatives, or a JSON file with a graph of facts.")
@json_option("all of it")
def command(
    hops: str, show: bool, figure: Path | None, causal: bool, order: str | None, best_order: bool, one_head: bool,
    witness: bool, graph: str | None, as_json: bool,
) -> None:  # fmt: skip
    """How many layers D hops need: the paper's bound, and the exact minimum.

    \b
    theorem_1        the paper's lower bound, ceil(log3(2D))
    no_mask          exact without a mask, ceil(log3(4D + 1))
    causal           exact under a causal mask, floor(log2 D) + 2
    causal_one_head  exact where a position attends to one place a layer
    causal_head_a_row  exact where layers have a head for every row of a block, which goes beyond Assumption 1

    Exact under Assumptions 1 and 2 of Section 5, for chains interleaved in blocks, the deepest or the shallowest pairs
    first. From D = 4 on other orders of the pairs can need fewer layers under a causal mask, down to
    1 + ceil(log3(2D + 1)), and never need more: --order, --best-order.

    \b
    Examples:
      hopscope theory --hops 1-64
      hopscope theory --hops 1,2,4,8 --json
      hopscope theory --hops 5 --show --no-mask
      hopscope theory --hops 5 --figure flow.svg
      hopscope theory --hops 4 --witness
      hopscope theory --hops 4 --order 1,2,4,3
      hopscope theory --hops 1-16 --best-order
      hopscope theory --graph functions
    """
    if best_order and order is not None:
        raise InputError("--best-order finds an order and --order gives one; leave out either")
    if graph is not None:
        refuse_given(
            "--graph tells its depth alone", "hops", "show", "figure", "causal", "order", "best_order", "one_head",
            "witness",
        )  # fmt: skip
        _print_graph(graph, as_json)
        return
    if one_head and not show:
        raise InputError("--one-head is for --show; add that, or leave it out")
    if witness:
        refuse_given("--witness builds and runs a transformer, and shows no flow", "show", "figure")
    chains = sorted(numbers(hops, "hops"))
    ordered = best_order or order is not None
    if ordered and chains[-1] > _MOST_SHOWN:
        raise InputError(f"orders are written out up to {_MOST_SHOWN} hops, got {chains[-1]}; ask for fewer")
    if not (show or witness):
        refuse_given("the table and the figure have both masks", "causal")
    if show or witness or figure is not None:
        if len(chains) > 1:
            raise InputError(
                f"--show, --figure and --witness take one chain, got hops {hops!r}; give one number, as in --hops 5"
            )
        problem = replace(_problem(chains[0], order, best_order), causal=causal)
        if witness:
            _print_witness(problem, as_json)
        else:
            _print_chain(problem, show, figure, one_head, as_json)
    elif ordered:
        rows = [_order_row(_problem(chain, order, best_order)) for chain in chains]
        _print_table("Layers under a causal mask, by the order of the pairs", _ORDERS, rows, f"{_EXACT}.", as_json)
    else:
        rows = [asdict(depths(chain)) for chain in chains]
        _print_table("Layers for a chain of D hops", _DEPTHS, rows, _DEPTHS_CAPTION, as_json)


def _problem(hops: int, order: str | None, best: bool) -> RetrievalProblem:
    order = ",".join(map(str, find_best_order(hops))) if best else order
    return RetrievalProblem(hops, order=order or "deepest-first")


def _order_row(problem: RetrievalProblem) -> dict[str, object]:
    return {
        "hops": problem.hops,
        "order": ",".join(map(str, problem.blocks)),
        "layers": minimum_in_order(problem),
        "head_a_row": minimum_in_order(problem, head_a_row=True),
        "fewest": minimum_best_order(problem.hops),
        "most": minimum_causal(problem.hops),
    }


def _print_table(
    title: str, headings: Sequence[str], rows: Sequence[dict[str, object]], caption: str, as_json: bool
) -> None:
    if as_json:
        click.echo(json.dumps(rows))
        return

    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap="\n" not in heading)
    for row in rows:
        table.add_row(*map(str, row.values()))
    console = Console()
    least = console.measure(table, options=console.options.update(max_width=_WIDEST)).minimum
    console.width = max(console.width, least)  # wider than the terminal, rather than a number or an order in two
    console.print(table)


def _print_chain(problem: RetrievalProblem, show: bool, figure: Path | None, one_head: bool, as_json: bool) -> None:
    if problem.hops > _MOST_SHOWN:
        raise InputError(f"--show and --figure go up to {_MOST_SHOWN} hops, got {problem.hops}; the table goes further")
    if figure is not None:
        from hopscope.checks import check_folder, check_outside_runs
        from hopscope.paper.section_5 import save_flow

        check_folder(figure.parent)
        check_outside_runs(figure)
        save_flow(problem, figure)
    if as_json:
        from hopscope.theory.information_flow import flow_until
        from hopscope.theory.scene import problem_scene
        from hopscope.theory.schedule import shortest_schedule

        schedule = shortest_schedule(problem, one_place=one_head)
        flow = flow_until(problem_scene(problem))
        growth = [flow.asked(layer) for layer in range(len(flow.holdings))]
        named = (path.names(problem.roles) for path in schedule)
        attentions = [{"layer": layer, "query": query, "key": key} for layer, _, query, key in named]
        record = {"hops": problem.hops, "layers": schedule[-1].layer + 1, "growth": growth, "schedule": attentions}
        click.echo(json.dumps(record))
        return
    if figure is not None:
        click.echo(f"wrote {figure}")
    if show:
        from hopscope.theory.schedule import describe

        click.echo(describe(problem, one_place=one_head), nl=False)


def _print_witness(problem: RetrievalProblem, as_json: bool) -> None:
    hops = problem.hops
    if hops > _MOST_WITNESSED:
        raise InputError(f"--witness goes up to {_MOST_WITNESSED} hops, got {hops}; ask for fewer")

    from hopscope.theory.witness import build_witness
    from hopscope.theory.witness.built import try_witness

    trial = try_witness(build_witness(hops, causal=problem.causal, order=problem.order))
    if as_json:
        named = (path.names(problem.roles) for path in trial.circuit)
        circuit = [(layer, query, key, head) for layer, head, query, key in named]
        without = [one._asdict() | {"layer": one.layer + 1} for one in trial.without]
        click.echo(json.dumps(trial._asdict() | {"circuit": circuit, "without": without}))
        return
    heads = counted(trial.heads, "head")
    click.echo(f"{counted(trial.layers, 'layer')}, {heads} a layer, {counted(len(trial.circuit), 'attention path')}:")
    for path in trial.circuit:
        click.echo(f"  {path.describe(problem.roles)}")
    click.echo(f"loss of x1 ... x{hops} on {trial.sequences} random sequences: {max(trial.losses):.1e} at most")
    for missing in trial.without:
        click.echo(f"without layer {missing.layer + 1}: loss of x{hops} {missing.loss:.2f}; {missing.why}")


def _print_graph(source: str, as_json: bool) -> None:
    from hopscope.problem.graph import read_graph
    from hopscope.theory.information_flow import flow_until
    from hopscope.theory.scene import graph_scene

    graph, found = read_graph(source), {}
    order = range(len(graph.steps), 0, -1)
    for mask, name in (("causal", "causal mask"), ("no_mask", "no mask")):
        scene = graph_scene(graph, order, mask == "causal")
        flow, by_row = flow_until(scene), len(flow_until(scene, head_a_row=True).holdings) - 1
        layers = len(flow.holdings) - 1
        growth = [[symbol for symbol in flow.asked(layer) if symbol in graph.symbols] for layer in range(layers + 1)]
        found[mask] = {"layers": layers, "growth": growth, "head_a_row": by_row}
        if not as_json:
            click.echo(
                f"{source}, {name}: {counted(layers, 'layer')} until the answer, {graph.values[-1]}, is known; "
                f"with a head a row {by_row}"
            )
            for layer, symbols in enumerate(growth):
                click.echo(f"  {f'layer {layer}' if layer else 'start':<8} {', '.join(symbols)}")
    if as_json:
        click.echo(json.dumps({"graph": source, **found}))
