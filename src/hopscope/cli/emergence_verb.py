"""`hopscope emergence`: a circuit followed through its run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hopscope as hs
from hopscope.cli.display import Display
from hopscope.cli.options import FOLDER, STEP, field_options, json_option
from hopscope.emergence.config import EmergenceConfig

if TYPE_CHECKING:
    from hopscope.emergence.history import Emergence


@click.command()
@click.argument("folder", metavar="RUN", type=FOLDER)
@click.option("--model", type=STEP, default=0, show_default=True, help="Which model of the run, from 0.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw into RUN/figures.")
@click.option("--overwrite", is_flag=True, help="Measure again even if a record is stored.")
@json_option("the record")
@field_options(EmergenceConfig, "config", defaults=True)
def emergence(folder: Path, model: int, figures: bool, overwrite: bool, config: dict[str, Any]) -> tuple[Any, str]:
    """How the heads of a run's circuit emerged, checkpoint by checkpoint.

    RUN needs checkpoints (`hopscope train --checkpoint-every`) and a circuit (`hopscope circuit RUN`). Writes
    emergence.json and emergence-maps.json beside them, and Figures 6, 7 and Appendix D of the paper.

    \b
    Examples:
      hopscope emergence runs/d
      hopscope emergence runs/first --model 1
      hopscope emergence runs/d --json | jq '.paths[] | [.layer, .query, .key, .crossing.step]'
    """
    from hopscope.circuits.store import circuit_path
    from hopscope.paper.section_9 import page_figures

    run = hs.Run(folder)
    how = EmergenceConfig(**config) if config else None
    with Display("checkpoints", "steps") as display:
        found = run.emergence(model, how, overwrite=overwrite, progress=display.update)
    for trouble in found.troubles:
        click.echo(f"left out: {trouble}", err=True)
    lines = describe(found)
    if figures:
        for figure in page_figures(run.metrics, found, hs.Circuit.load(circuit_path(run.path, model))):
            hs.plot.save(figure.figure, run.path / "figures" / figure.name)
            lines.append(f"wrote {run.path / 'figures' / figure.name}.png, .svg and .pdf")
    return found.to_json(), "\n".join(lines)


def describe(emergence: Emergence) -> list[str]:
    """The lines that are printed for people: a table of paths, then hops and plateau."""
    lines = [f"{'path':<28} {'attention':>9}  {'without it':>10}  crosses 0.5 at step (95%), epoch"]
    for path in emergence.paths:
        name, crossing = f"{path.layer:>2}.{path.head}  {path.query:>4} -> {path.key}", path.crossing
        when = _step(crossing.step)
        if crossing.step is not None:
            when += f" ({_step(crossing.low, '...')} to {_step(crossing.high, '...')})"
            when += f", {emergence.epoch(crossing.step):.1f}"
        lines.append(f"{name:<28} {path.attention[-1]:>9.3f}  {path.change[-1]:>+10.3f}  {when}")
    hops = [f"x{hop} {_step(step)}" for hop, step in enumerate(emergence.order.emerged, start=1)]
    left, learned = emergence.plateau.left, ", ".join(map(_step, emergence.plateau.learned))
    lines.append(f"delivered by the paths that have crossed 0.5 by then: {', '.join(hops)}")
    if emergence.chains == 2:
        lines.append("with two chains, attention to both alike is 0.5 and may cross it by chance")
    lines.append(f"plateau at {emergence.plateau.level:g} left at step {_step(left)}; hops learned at step {learned}")
    return lines


def _step(step: float | None, missing: str = "never") -> str:
    return missing if step is None else f"{step:.0f}"
