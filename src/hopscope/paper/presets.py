"""The scales of a reproduction: `laptop` takes minutes on two cores; `figure-4` has all depths of Figure 4 at the
laptop's width; `paper` has the exact recipes; `paper-short` has A's shape and many seeds; `tiny` takes a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hopscope.model.architecture import InitialWeights
from hopscope.paper import recipes
from hopscope.paper.models import ModelStudy
from hopscope.paper.section_7 import DepthStudy
from hopscope.training.recipe import Recipe, Setup


@dataclass(frozen=True)
class Preset:
    """What `hopscope reproduce` runs.

    Attributes:
        name: the name of the preset; the scales of findings begin with it.
        summary: a description of the preset for the report.
        depth: training by depth (Section 7).
        models: models whose circuits are found (Section 8), and models whose heads are followed (Section 9).
        questions: number of fresh questions of every formulation that test guessing (Section 4).
        simulated_hops: the number of hops of the longest simulated chain (Section 5).
    """

    name: str
    summary: str
    depth: DepthStudy
    models: ModelStudy = field(default_factory=lambda: ModelStudy(""))
    questions: int = 2000
    simulated_hops: int = 64


def _followed_sweep(depth: DepthStudy, summary: str, **counts: int) -> Preset:
    """Return a preset that searches for circuits in the depth study's followed runs, with `quick` effort."""
    assert depth.followed is not None
    setups = tuple(depth.runs(True, depth.followed))
    return Preset(depth.scale, summary, depth, ModelStudy(depth.scale, setups, setups, "sweep", "quick"), **counts)


LAPTOP = _followed_sweep(
    DepthStudy(
        scale="laptop",
        recipe=replace(recipes.LAPTOP, steps=1_800, decay_fraction=0.2, log_every=10),
        layers=(1, 2, 3),
        hops=3,
        plain_hops=3,
        seeds=(0, 1, 2),
        followed=3,
    ),
    "small transformers, D = 3, up to the least depth at which theory allows it; minutes on two cores",
)

MORE_OF_A = tuple(
    Setup(f"a-seed-{seed}", recipes.A.problem, replace(recipes.A.recipe, checkpoint_every=None), (seed,))
    for seed in range(3, 10)
)
"""Seven more models with A's recipe; with A, B and C they are the ten models over which claims are judged."""

_NINE = tuple(range(9))
"""Nine seeds, one more than in the paper. With eight, C3 might not reach the 36 pairs that it needs to hold."""

PAPER = Preset(
    name="paper",
    summary="the exact recipes of the paper; days on a CPU, made for a GPU",
    depth=DepthStudy(scale="paper", recipe=recipes.SWEEP, layers=tuple(range(1, 9)), hops=5, plain_hops=3, seeds=_NINE),
    models=ModelStudy("paper", (recipes.A, recipes.B, recipes.C, *MORE_OF_A), (recipes.D,)),
)

FIGURE_4 = Preset(
    name="figure-4",
    summary="Figure 4 at the laptop's width, five hops with the curriculum and three without; hours on two cores",
    depth=replace(
        PAPER.depth, scale="figure-4", recipe=replace(recipes.PLAIN, steps=4_800, log_every=10), seeds=tuple(range(8))
    ),
)

PAPER_SHORT = Preset(
    name="paper-short",
    summary="ten transformers of A's shape, a sixth of A's steps and a decaying rate; half an hour of a core per model",
    depth=replace(PAPER.depth, scale="paper-short", layers=()),
    models=ModelStudy(
        "paper-short", tuple(Setup(f"seed-{seed}", recipes.A.problem, recipes.A_SHORT, (seed,)) for seed in range(10))
    ),
)

TINY = _followed_sweep(
    DepthStudy(
        scale="tiny",
        recipe=Recipe(
            layers=2,
            heads=8,
            d_model=32,
            head_dim=8,
            mlp=False,
            steps=300,
            batch_size=64,
            examples=None,
            learning_rate=1e-2,
            schedule="warmup-stable-decay",
            clip=1.0,
            initial=InitialWeights(qk_gain=4.0),
            log_every=10,
            final_steps=10,
            validation_size=32,
        ),
        layers=(1, 2),
        hops=1,
        plain_hops=1,
        seeds=(0,),
        followed=2,
        checkpoint_every=50,
    ),
    "two layers and one hop, to see that everything works; a minute",
    questions=20,
    simulated_hops=4,
)

BY_NAME: Mapping[str, Preset] = {preset.name: preset for preset in (LAPTOP, FIGURE_4, PAPER, PAPER_SHORT, TINY)}
"""The presets by the names that the command line knows."""
