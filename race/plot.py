"""Plot the results of `race/many_models.py --json FILE`: `python race/plot.py FILE` writes a .png beside FILE."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hopscope.plot.style import BLUE, COLUMN, house, new_figure


def main() -> None:
    """Draw a panel for each number of models, with a bar for each racer."""
    path = Path(sys.argv[1])
    told = json.loads(path.read_text())
    races = told["races"]
    with house():
        figure = new_figure(COLUMN * len(races), 2.4)
        panels = figure.subplots(1, len(races), sharey=True, squeeze=False)[0]
        for axes, race in zip(panels, races, strict=True):
            rates = {name: race["models"] * one["steps_per_second"] for name, one in race["racers"].items()}
            names = list(rates)[::-1]
            bars = axes.barh(
                names, [rates[name] for name in names], color=[BLUE if name == "hopscope" else "0.7" for name in names]
            )
            axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=7)
            axes.grid(visible=False)
            axes.set_title(f"{race['models']} model{'s' if race['models'] > 1 else ''}")
            axes.set_xlabel("steps per second, all models together")
            axes.set_xlim(0, 1.15 * max(rates.values()))
        where = f"{told['device']}, {told.get('precision', 'fp32')}"
        setting = f"{told['layers']} layers, d_model 128, 8 heads, batch {told['batch']}, {where}"
        figure.suptitle(setting, fontsize=8)
        figure.savefig(path.with_suffix(".png"), dpi=200)


if __name__ == "__main__":
    main()
