"""Section 7: training by depth, with and without the implicit curriculum (IC).

For each formulation and number of layers an ensemble is trained. Figure 4 comes from it, the losses over time, and
claims C3, C4 and C5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import depths
from hopscope.training.metrics import LEARNED
from hopscope.training.recipe import Recipe
from hopscope.training.run import Run
from hopscope.training.setup import Setup

FAILED = 0.7
"""Training failed when the final validation loss stays above this (Section 7.2)."""


@dataclass(frozen=True)
class DepthStudy:
    """What is trained.

    Attributes:
        scale: the preset's name.
        recipe: of every run; its `layers` are varied.
        layers: the depths.
        hops: D with the implicit curriculum.
        plain_hops: D without.
        seeds: one model each, with the implicit curriculum.
        plain_seeds: likewise without.
        seeds_at_minimum: in place of `seeds` at the least depth that can learn every hop, floor(log2 D) + 2: nothing
            can be done there in more than one place, and whether training finds it is a lottery. Empty for `seeds`.
        followed: the depth whose runs with the implicit curriculum keep checkpoints, for circuits and emergence;
            `None` for none.
        checkpoint_every: steps between these.
    """

    scale: str
    recipe: Recipe
    layers: tuple[int, ...]
    hops: int
    plain_hops: int
    seeds: tuple[int, ...]
    plain_seeds: tuple[int, ...]
    seeds_at_minimum: tuple[int, ...] = ()
    followed: int | None = None
    checkpoint_every: int = 50

    def setups(self) -> list[Setup]:
        """One run of an ensemble for each formulation and depth."""
        return [
            Setup(
                run_name(curriculum, layers),
                self.problem(curriculum),
                self.recipe_of(curriculum, layers),
                self.seeds_at(curriculum, layers),
            )
            for curriculum in (True, False)
            for layers in self.layers
            if self.seeds_at(curriculum, layers)
        ]

    def seeds_at(self, curriculum: bool, layers: int) -> tuple[int, ...]:
        """The seeds of one formulation and depth."""
        if not curriculum:
            return self.plain_seeds
        at_minimum = layers == depths(self.hops).causal
        return self.seeds_at_minimum if at_minimum and self.seeds_at_minimum else self.seeds

    def recipe_of(self, curriculum: bool, layers: int) -> Recipe:
        """The recipe of one formulation and depth."""
        recipe = replace(self.recipe, layers=layers)
        if curriculum and layers == self.followed:
            return replace(recipe, checkpoint_every=self.checkpoint_every, checkpoint_precision="bf16")
        return recipe

    def problem(self, curriculum: bool) -> RetrievalProblem:
        """The problem of one formulation."""
        return RetrievalProblem(hops=self.hops if curriculum else self.plain_hops, curriculum=curriculum)


def run_name(curriculum: bool, layers: int) -> str:
    """The run folder of one formulation and depth."""
    return f"{'ic' if curriculum else 'non-ic'}-layers-{layers}"


def summarise(run: Run, name: str) -> dict[str, Any]:
    """What a finished run came to: a group of Figure 4.

    `crossings` holds, for each seed and hop asked for, the first logged step at which the validation loss of that hop
    was below 0.5, or null.
    """
    models = run.result.models
    return {
        "hops": run.problem.hops,
        "chains": run.problem.chains,
        "curriculum": run.problem.curriculum,
        "layers": run.recipe.layers,
        "seeds": list(run.seeds),
        "final_validation_loss": [model.final_validation_loss for model in models],
        "final_partial_losses": [list(model.final_partial_losses) for model in models],
        "held_out_loss": [model.held_out_loss for model in models],
        "held_out_standard_error": [model.held_out_standard_error for model in models],
        "crossings": [list(hops) for hops in run.metrics.first_below()],
        "run": name,
    }


def history(run: Run) -> dict[str, Any]:
    """Partial validation losses over time, for the figure of a run's training.

    Evenly spaced: the last steps, each of which has a row, would be a smear.
    """
    even = run.metrics.every(run.recipe.log_every)
    return {
        "layers": run.recipe.layers,
        "hops": list(run.problem.target_hops),
        "steps": even.steps.tolist(),
        "seeds": list(run.seeds),
        "partial_losses": even.partial_losses.transpose(1, 0, 2).tolist(),
        "crossings": run.metrics.first_below(),
    }


def judge(study: DepthStudy, groups: Sequence[dict[str, Any]], evidence: str) -> list[dict[str, Any]]:
    """Findings on C3, C4 and C5 by their rules, from the data alone.

    Args:
        study: what was trained.
        groups: of `summarise`, for both formulations.
        evidence: the folder that holds them, relative to the report.
    """
    with_curriculum = sorted((group for group in groups if group["curriculum"]), key=lambda group: group["layers"])
    without = [group for group in groups if not group["curriculum"]]
    return [
        {"scale": f"{study.scale}: {scale}", "run": evidence, **finding}
        for finding, scale in (
            (_curriculum_is_needed(without), _scale(without)),
            (_later_hops_need_more_layers(with_curriculum), _scale(with_curriculum)),
            (_hops_come_in_order(with_curriculum), _scale(with_curriculum)),
        )
    ]


def _curriculum_is_needed(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """C3: without IC, every final validation loss is above 0.7. A diverged run failed too."""
    losses = [loss for group in groups for loss in group["final_validation_loss"]]
    if not losses:
        return _unjudged("C3")
    known = [loss for loss in losses if loss is not None]
    failed = sum(loss is None or loss > FAILED for loss in losses)
    return {
        "id": "C3",
        "ours": f"{failed} of {len(losses)} runs end above {FAILED}; the lowest at {min(known, default=1.0):.3f}",
        "interval": (min(known), max(known)) if known else None,
        "verdict": "reproduced" if failed == len(losses) else "not reproduced",
    }


def _later_hops_need_more_layers(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """C4: the least depth at which a hop can be learned never falls from hop to hop, and rises from first to last.

    A hop can be learned at a depth if a seed ends with its partial loss below 0.5 there: one that fails may only have
    been unlucky. A hop that no seed learned at any depth needs more layers than were tried.
    """
    if len(groups) < 2:
        return _unjudged("C4")
    hops = range(groups[0]["hops"])
    needed = [next((group for group in groups if _learners(group, hop)), None) for hop in hops]
    beyond = groups[-1]["layers"] + 1
    numbers = [group["layers"] if group else beyond for group in needed]
    words = ", ".join(
        f"x{hop + 1} from {_layers(group['layers'])} ({_learners(group, hop)} of {len(group['seeds'])} seeds)"
        if group
        else f"x{hop + 1} at no depth tried"
        for hop, group in enumerate(needed)
    )
    deepest = groups[-1]
    losses = " ".join(_shown(_mean_at(deepest, hop)) for hop in hops)
    return {
        "id": "C4",
        "ours": f"learned: {words}; mean partial losses at {_layers(deepest['layers'])}: {losses}",
        "interval": None,
        "verdict": "reproduced" if numbers == sorted(numbers) and numbers[-1] > numbers[0] else "not reproduced",
    }


def _hops_come_in_order(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """C5: in every run with IC, the hops that fall below 0.5 are the first ones, each later than the one before."""
    runs = [crossings for group in groups for crossings in group["crossings"]]
    telling = [crossings for crossings in runs if sum(step is not None for step in crossings) > 1]
    if not telling:
        return _unjudged("C5")
    ordered = sum(_in_order(crossings) for crossings in runs)
    means = [_mean([crossings[hop] for crossings in telling]) for hop in range(groups[0]["hops"])]
    words = ", ".join(f"x{hop + 1} at {mean:.0f}" for hop, mean in enumerate(means) if mean is not None)
    return {
        "id": "C5",
        "ours": f"{ordered} of {len(runs)} runs in order ({len(telling)} learned two hops or more); mean step: {words}",
        "interval": None,
        "verdict": "reproduced" if ordered == len(runs) else "not reproduced",
    }


def _in_order(crossings: Sequence[int | None]) -> bool:
    reached = [step for step in crossings if step is not None]
    first_ones = all(step is not None for step in crossings[: len(reached)])
    return first_ones and all(one < later for one, later in pairwise(reached))


def _unjudged(claim: str) -> dict[str, Any]:
    return {"id": claim, "ours": "", "interval": None, "verdict": "not run"}


def _scale(groups: Sequence[dict[str, Any]]) -> str:
    if not groups:
        return "nothing"
    layers = sorted(group["layers"] for group in groups)
    seeds = max(len(group["seeds"]) for group in groups)
    return f"D = {groups[0]['hops']}, {layers[0]}..{layers[-1]} layers x {seeds} seed{'s' if seeds > 1 else ''}"


def _learners(group: dict[str, Any], hop: int) -> int:
    """How many seeds end with this hop's partial loss below 0.5."""
    return sum(_below(losses[hop], LEARNED) for losses in group["final_partial_losses"])


def _layers(number: int) -> str:
    return f"{number} layer{'s' if number > 1 else ''}"


def _mean_at(group: dict[str, Any], hop: int) -> float | None:
    """Mean final partial loss of a hop over seeds; None if a seed diverged."""
    losses = [losses[hop] for losses in group["final_partial_losses"]]
    return None if None in losses else _mean(losses)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _below(value: float | None, bound: float) -> bool:
    return value is not None and value < bound


def _shown(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.3f}"
