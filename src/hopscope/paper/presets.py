"""The two scales of everything: `laptop`, in minutes on two cores, and `paper`, the exact recipes.

In the folder of a preset the runs of its depth study lie in `sweep/`, transformers trained by themselves in
`transformers/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hopscope.circuits.search.budget import Effort
from hopscope.paper import recipes
from hopscope.paper.depth import DepthStudy, run_name
from hopscope.paper.recipes import A, B, C, D
from hopscope.training.many import finished
from hopscope.training.run import Run
from hopscope.training.setup import Setup


@dataclass(frozen=True)
class Preset:
    """What `hopscope reproduce` runs.

    Attributes:
        name: of the preset; findings' scales begin with it.
        summary: in words, for the report.
        depth: training by depth (Section 7).
        transformers: trained by themselves.
        compared: runs whose circuits are found and compared (Section 8), as paths in the preset's folder.
        watched: runs whose heads are followed as they emerge (Section 9), likewise.
        effort: of the search for circuits.
    """

    name: str
    summary: str
    depth: DepthStudy
    transformers: tuple[Setup, ...]
    compared: tuple[str, ...]
    watched: tuple[str, ...]
    effort: Effort

    def finished(self, folder: Path, names: Iterable[str]) -> list[Run]:
        """Those of the runs at `names`, paths in the preset's folder, that are at their end.

        Raises:
            InputError: another run lies where one of them belongs.
        """
        runs = {f"sweep/{name}": run for name, run in finished(self.depth.setups(), folder / "sweep").items()}
        single = finished(self.transformers, folder / "transformers")
        runs |= {f"transformers/{name}": run for name, run in single.items()}
        return [runs[name] for name in dict.fromkeys(names) if name in runs]


LAPTOP = Preset(
    name="laptop",
    summary="small transformers, D = 3, minutes on two cores",
    depth=DepthStudy(
        scale="laptop",
        recipe=recipes.LAPTOP,
        layers=(1, 2, 3, 4),
        hops=3,
        plain_hops=3,
        seeds=(0, 1),
        plain_seeds=(0,),
        seeds_at_minimum=(0, 1, 2),
        followed=4,
    ),
    transformers=(),
    compared=(f"sweep/{run_name(True, 4)}",),
    watched=(f"sweep/{run_name(True, 4)}",),
    effort="quick",  # Minutes count here.
)

PAPER = Preset(
    name="paper",
    summary="the exact recipes of the paper; days on a CPU, made for a GPU",
    depth=DepthStudy(
        scale="paper",
        recipe=recipes.SWEEP,
        layers=tuple(range(1, 9)),
        hops=5,
        plain_hops=3,
        seeds=tuple(range(8)),
        plain_seeds=tuple(range(8)),
    ),
    transformers=(A, B, C, D),
    compared=("transformers/a", "transformers/b", "transformers/c"),
    watched=("transformers/d",),
    effort="thorough",
)

BY_NAME: Mapping[str, Preset] = {preset.name: preset for preset in (LAPTOP, PAPER)}
"""What the command line calls them."""
