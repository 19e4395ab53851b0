"""Follows a circuit through training (Section 9.2, Appendix D)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.bootstrap import intervals
from hopscope.circuits.evaluate.vector_evaluator import single
from hopscope.circuits.store import belongs_to
from hopscope.emergence.checkpoints import readable
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.crossing import LEVEL, Crossing, crossings, first_crossings
from hopscope.emergence.history import Emergence, MeasureHistory, PathHistory
from hopscope.emergence.maps_over_time import MapsOverTime
from hopscope.emergence.measures import Measure, defined, measure
from hopscope.emergence.observe import Observation, check_paths, observe
from hopscope.emergence.order import hop_of, order
from hopscope.emergence.plateau import plateau
from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import held_out
from hopscope.training.metrics import learned_below
from hopscope.training.run import RunFolder
from hopscope.words import counted

_TOLD = 3
"""How many troubles are named if nothing can be followed; the rest are counted."""


def track(
    run: RunFolder,
    circuit: Circuit,
    settings: EmergenceConfig | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[Emergence, MapsOverTime]:
    """Follow a circuit through the checkpoints of its run.

    Args:
        run: the run; it may still be training.
        circuit: the circuit of one of its models.
        settings: how the circuit is followed.
        watch: called with the step of every checkpoint that has been measured, and that of the last.

    Returns:
        the record, and the role maps of every head over time.

    Raises:
        InputError: the circuit is of another run or has no paths, or fewer than two checkpoints can be read.
    """
    if not belongs_to(circuit, run):
        raise InputError(
            f"the circuit is of model {circuit.model}, which {run.path} did not train; find this run's own with "
            f"`hopscope circuit {run.path}`"
        )
    paths = [one.path for one in circuit.paths]
    return follow(run, paths, circuit.number, settings or EmergenceConfig(), circuit.losses, watch)


def follow(
    run: RunFolder,
    paths: Sequence[AttentionPath],
    number: int,
    settings: EmergenceConfig,
    circuit_losses: dict[str, float] | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[Emergence, MapsOverTime]:
    """Follow any paths of one model of a run, in the same way as `track`."""
    problem = run.problem
    check_paths(paths, problem, run.recipe.architecture(problem))
    batch = held_out(problem, settings.sequences, settings.seed, "emergence")
    measures = defined(paths, problem)
    troubles: list[str] = []
    steps: list[int] = []
    seen: list[Observation] = []
    progress: list[list[float]] = []
    for step, ensemble in readable(run, troubles.append):
        transformer = single(ensemble, number)
        observation = observe(transformer, problem, batch, paths, settings.ablation)
        if not bool(torch.isfinite(observation.errors).all() and torch.isfinite(observation.attention).all()):
            troubles.append(f"the model of step {step} gives answers that are not finite: training had diverged")
            continue
        steps.append(step)
        seen.append(observation)
        progress.append(measure(transformer, problem, measures))
        if watch is not None:
            watch(step, max(run.checkpoints))
    if len(steps) < 2:
        more = f", and so on, {len(troubles)} in all" if len(troubles) > _TOLD else ""
        raise InputError(
            f"{run.path} has {counted(len(steps), 'checkpoint')} that can be read, and a curve "
            f"needs two{': ' if troubles else ''}{'; '.join(troubles[:_TOLD])}{more}; train with --checkpoint-every"
        )
    emergence = _history(run, paths, number, settings, circuit_losses or {}, steps, seen, measures, progress, troubles)
    return emergence, MapsOverTime.of(steps, [observation.maps for observation in seen], problem.roles)


def _history(
    run: RunFolder,
    paths: Sequence[AttentionPath],
    number: int,
    settings: EmergenceConfig,
    circuit_losses: dict[str, float],
    steps: list[int],
    seen: list[Observation],
    measures: Sequence[Measure],
    progress: list[list[float]],
    troubles: list[str],
) -> Emergence:
    problem, recipe = run.problem, run.recipe
    attention = torch.stack([one.attention for one in seen], dim=1)  # path step sequence
    errors = torch.stack([one.errors for one in seen])  # step sequence hop
    found, resampled = crossings(steps, attention, seed=settings.seed)
    learned, _ = crossings(
        steps, errors.permute(2, 0, 1), level=learned_below(problem.chains), falling=True, seed=settings.seed
    )
    progressed = torch.tensor(progress, dtype=torch.float64).T  # measure step
    return Emergence(
        run=run.record.content_hash,
        model=run.model_hashes[number],
        number=number,
        seed=run.seeds[number],
        hops=problem.hops,
        chains=problem.chains,
        layers=recipe.layers,
        heads=recipe.heads,
        total_steps=run.plans.models[number].end,
        steps_per_epoch=recipe.steps_per_epoch,
        sequences=settings.sequences,
        data_seed=settings.seed,
        ablation=settings.ablation,
        steps=tuple(steps),
        losses=_means(errors.mean(dim=-1)),
        partial_losses=tuple(_means(errors[step].T) for step in range(len(steps))),
        paths=tuple(_path(path, place, problem, seen, found[place], settings.seed) for place, path in enumerate(paths)),
        learned=tuple(learned),
        order=order(paths, found, resampled, problem.hops),
        plateau=plateau(run.regular_metrics, problem.chains, number),
        measures=tuple(
            MeasureHistory(what.name, what.heads, what.hop, tuple(values.tolist()), _settled(steps, values))
            for what, values in zip(measures, progressed, strict=True)
        ),
        circuit=circuit_losses,
        troubles=tuple(troubles),
        asked=problem.target_hops,
    )


def _path(
    path: AttentionPath,
    place: int,
    problem: RetrievalProblem,
    seen: Sequence[Observation],
    crossing: Crossing,
    seed: int,
) -> PathHistory:
    rises = torch.stack([(one.ablated[place] - one.errors).mean(dim=-1) for one in seen])  # step sequence
    layer, head, query, key = path.names(problem.roles)
    return PathHistory(
        layer=layer,
        head=head,
        query=query,
        key=key,
        hop=hop_of(path, problem.hops),
        attention=_means(torch.stack([one.attention[place] for one in seen])),
        foremost=_means(torch.stack([one.foremost[place] for one in seen])),
        change=_means(rises),
        change_interval=tuple(intervals(rises, seed)),
        crossing=crossing,
    )


def _means(values: Float[Tensor, "row sequence"]) -> tuple[float, ...]:
    return tuple(values.double().mean(dim=-1).tolist())


def _settled(steps: Sequence[int], values: Float[Tensor, " step"]) -> float | None:
    """The interpolated step from which on a measure stays above 0.5; a cosine may be above it by chance at first."""
    last_below = max((place for place, value in enumerate(values.tolist()) if not value > LEVEL), default=0)
    crossed = first_crossings(steps[last_below:], values[last_below:]).item()
    return crossed if math.isfinite(crossed) else None
