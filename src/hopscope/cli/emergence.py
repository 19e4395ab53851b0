"""`hopscope emergence`: a circuit followed through its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.display import Display
from hopscope.cli.options import FOLDER, field_options, given, json_option
from hopscope.emergence.config import EmergenceConfig
from hopscope.words import counted

if TYPE_CHECKING:
    from hopscope.emergence.history import Emergence


@click.command()
@click.argument("folder", metavar="RUN", type=FOLDER)
@click.option("--model", default=0, show_default=True, help="Which model of the run, from 0.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw into RUN/figures.")
@click.option("--overwrite", is_flag=True, help="Measure again even if it was measured before.")
@json_option("the record")
@field_options(EmergenceConfig, show_defaults=True)
def command(folder: Path, model: int, figures: bool, overwrite: bool, as_json: bool, **_: Any) -> None:
    """How the heads of a run's circuit came to be, checkpoint by checkpoint.

    RUN needs checkpoints (`hopscope train --checkpoint-every`) and a circuit (`hopscope circuit RUN`). Writes
    emergence.json and emergence-maps.json beside them, and Figures 6, 7 and Appendix D of the paper.

    \b
    Examples:
      hopscope emergence runs/d
      hopscope emergence runs/first --model 1
      hopscope emergence runs/d --json | jq '.paths[] | [.layer, .query, .key, .crossing.step]'
    """
    from hopscope.emergence.track import emergence_of_run
    from hopscope.training.run import RunFolder

    run = RunFolder(folder)
    chosen = given(EmergenceConfig)
    config = EmergenceConfig(**chosen) if chosen else None
    with Display() as display:

        def progress(step: int, last: int) -> None:
            display.update("checkpoints", step, last, "steps")

        emergence = emergence_of_run(run, model, config, progress=progress, overwrite=overwrite)
    drawn: list[Path] = []
    if figures:
        from hopscope.circuits.circuit import Circuit
        from hopscope.circuits.store import circuit_path
        from hopscope.paper.section_9 import page_figures
        from hopscope.plot.style import save

        circuit = Circuit.load(circuit_path(run.path, model))
        for figure in page_figures(run.metrics, emergence, circuit):
            drawn.append(run.path / "figures" / figure.name)
            save(figure.figure, drawn[-1])
    for trouble in emergence.troubles:
        click.echo(f"left out: {trouble}", err=True)
    if as_json:
        click.echo(json.dumps(emergence.to_json()))
        return
    click.echo("\n".join(describe(emergence)))
    for stem in drawn:
        click.echo(f"wrote {stem}.png, .svg and .pdf")


def describe(emergence: Emergence) -> list[str]:
    """The lines that are printed for people: a table of paths, then hops, plateau and measures."""
    from hopscope.training.metrics import learned_below

    lines = [f"{'path':<28} {'attention':>9}  {'without it':>10}  crosses 0.5 at step (95%), epoch"]
    for path in emergence.paths:
        name, crossing = f"{path.layer:>2}.{path.head}  {path.query:>4} -> {path.key}", path.crossing
        when = _step(crossing.step)
        if crossing.step is not None:
            when += f" ({_step(crossing.low, '...')} to {_step(crossing.high, '...')})"
            when += f", {emergence.epoch(crossing.step):.1f}"
        lines.append(f"{name:<28} {path.attention[-1]:>9.3f}  {path.change[-1]:>+10.3f}  {when}")
    hops = [f"x{hop} {_step(step)}" for hop, step in enumerate(emergence.order.emerged, start=1)]
    fell = sum(path.fell_back for path in emergence.paths)
    again = f"; {fell} of {counted(len(emergence.paths), 'path')} fell below it again afterwards" if fell else ""
    lines.append(f"delivered by the paths that have crossed 0.5 by then: {', '.join(hops)}{again}")
    if emergence.chains == 2:
        lines.append("with two chains a look at both alike has an attention of 0.5 and may cross it by chance")
    left, learned = emergence.plateau.left, emergence.plateau.learned
    if left is not None:
        stay = f"plateau at {emergence.plateau.level:g} left at step {left} (epoch {emergence.epoch(left):.0f})"
    elif learned and learned[0] is not None:  # with one chain nobody need guess: its level is 0
        stay = "no plateau was seen"
    else:
        stay = f"plateau at {emergence.plateau.level:g} not left"
    below = ", ".join(map(_step, learned))
    lines.append(f"{stay}; losses by hop below {learned_below(emergence.chains):.2g} at step {below or 'unknown'}")
    for measure in emergence.measures:
        heads = " and ".join(f"{layer}.{head}" for layer, head in measure.heads)
        settled = "never" if measure.settled is None else f"from step {measure.settled:.0f}"
        of = f" of x{measure.hop}" if measure.hop else ""
        lines.append(f"{measure.name}{of}, {heads}: {measure.values[-1]:.2f} at the end, above 0.5 {settled}")
    return lines


def _step(step: float | None, missing: str = "never") -> str:
    return missing if step is None else f"{step:.0f}"
