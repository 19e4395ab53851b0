"""Follows a circuit through training (Section 9.2, Appendix D)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.bootstrap import intervals
from hopscope.circuits.evaluate.vector_evaluator import single
from hopscope.circuits.store import CircuitStore
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import STEPS_PER_EPOCH, Emergence, MapsOverTime, MeasureHistory, PathHistory
from hopscope.emergence.observe import Measure, Observation, check_paths, defined, measure, observe
from hopscope.emergence.timing import LEVEL, Crossing, crossings, first_crossings, hop_of, order, plateau
from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
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
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Emergence, MapsOverTime]:
    """Follow a circuit through the checkpoints of its run.

    Args:
        run: the run; it may still be training.
        circuit: the circuit of one of its models.
        settings: how the circuit is followed.
        progress: called with the step of every checkpoint that has been measured, and that of the last.

    Returns:
        the record, and the role maps of every head over time.

    Raises:
        InputError: the circuit is of another run or has no paths, or fewer than two checkpoints can be read.
    """
    if not CircuitStore(run).is_of_run(circuit):
        raise InputError(
            f"the circuit is of model {circuit.model}, which {run.path} did not train; find this run's own with "
            f"`hopscope circuit {run.path}`"
        )
    paths = [path.path for path in circuit.paths]
    return follow(run, paths, circuit.number, settings or EmergenceConfig(), circuit.losses, progress)


def follow(
    run: RunFolder,
    paths: Sequence[AttentionPath],
    number: int,
    settings: EmergenceConfig,
    circuit_losses: dict[str, float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Emergence, MapsOverTime]:
    """Follow any paths of one model of a run, in the same way as `track`."""
    problem = run.problem
    check_paths(paths, problem, run.recipe.architecture(problem))
    batch = held_out(problem, settings.sequences, settings.seed, "emergence")
    measures = defined(paths, problem)
    troubles: list[str] = []
    steps: list[int] = []
    seen: list[Observation] = []
    measured: list[list[float]] = []
    for step, ensemble in readable(run, troubles.append):
        transformer = single(ensemble, number)
        observation = observe(transformer, problem, batch, paths, settings.ablation)
        if not bool(torch.isfinite(observation.errors).all() and torch.isfinite(observation.attention).all()):
            troubles.append(f"the model of step {step} gives answers that are not finite: training had diverged")
            continue
        steps.append(step)
        seen.append(observation)
        measured.append(measure(transformer, problem, measures))
        if progress is not None:
            progress(step, max(run.checkpoints))
    if len(steps) < 2:
        more = f", and so on, {len(troubles)} in all" if len(troubles) > _TOLD else ""
        raise InputError(
            f"{run.path} has {counted(len(steps), 'checkpoint')} that can be read, and a curve "
            f"needs two{': ' if troubles else ''}{'; '.join(troubles[:_TOLD])}{more}; train with --checkpoint-every"
        )
    emergence = _history(run, paths, number, settings, circuit_losses or {}, steps, seen, measures, measured, troubles)
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
    measured: list[list[float]],
    troubles: list[str],
) -> Emergence:
    problem, recipe = run.problem, run.recipe
    attention = torch.stack([one.attention for one in seen], dim=1)  # path step sequence
    errors = torch.stack([one.errors for one in seen])  # step sequence hop
    found, resampled = crossings(steps, attention, seed=settings.seed)
    learned, _ = crossings(
        steps, errors.permute(2, 0, 1), level=learned_below(problem.chains), falling=True, seed=settings.seed
    )
    progressed = torch.tensor(measured, dtype=torch.float64).T  # measure step
    return Emergence(
        run=run.hash,
        model=run.model_hashes[number],
        number=number,
        seed=run.seeds[number],
        hops=problem.hops,
        chains=problem.chains,
        layers=recipe.layers,
        heads=recipe.heads,
        total_steps=run.schedule.of_model(number).end,
        steps_per_epoch=STEPS_PER_EPOCH,
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


def readable(run: RunFolder, trouble: Callable[[str], None]) -> Iterator[tuple[int, Transformer]]:
    """The step and the transformer of each checkpoint, in order, as far as the run has come.

    Args:
        run: the run, finished or still training.
        trouble: called with a sentence for each checkpoint that is missing, damaged, foreign, on no schedule or not
            finite.

    Raises:
        InputError: the run has no checkpoint at all.
    """
    found = run.checkpoints
    if not found:
        raise InputError(f"{run.path} has no checkpoint yet; let the run come to one")
    for step in _missing(run, max(found)):
        trouble(f"the checkpoint of step {step} is missing")
    for path in sorted((run.path / "checkpoints").iterdir()):
        if path not in found.values() and not path.name.startswith("."):
            trouble(f"{path.name} is not a checkpoint")
    for step, path in sorted(found.items()):
        if not _planned(run, step):
            trouble(f"{path.name} is on no schedule of this run")
            continue
        try:
            transformer = run.transformer(step)
        except (InputError, OSError) as error:
            trouble(str(error))
            continue
        if not all(bool(torch.isfinite(weight).all()) for weight in transformer.state_dict().values()):
            trouble(f"{path.name} has weights that are not finite: training had diverged")
            continue
        yield step, transformer


def _missing(run: RunFolder, last: int) -> list[int]:
    """The steps up to `last` (of a finished run, up to its end) that should have a checkpoint and have none."""
    schedule = run.schedule
    last = schedule.end if run.finished else last
    return [step for step in range(last + 1) if schedule.checkpoints(step) and step not in run.checkpoints]


def _planned(run: RunFolder, step: int) -> bool:
    return step <= run.schedule.end and run.schedule.checkpoints(step)


def emergence_of_run(
    run: RunFolder,
    number: int = 0,
    settings: EmergenceConfig | None = None,
    *,
    step: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    overwrite: bool = False,
) -> Emergence:
    """How the circuit of a model of a run emerged, kept in the run's folder.

    An existing record is returned as it is if it was made of the same circuit and settings, of all checkpoints that
    are there (some of its own may be gone since), and all could be used. Role maps that are lost are made again by
    `overwrite` alone.

    Args:
        run: the run, finished or still training.
        number: the model's number within the run, from 0.
        settings: how the circuit is followed; None for the paper's 32 sequences, or more where they were measured.
        step: the step of the checkpoint whose circuit is followed; None for the last.
        progress: called with the step of each checkpoint done, and that of the last.
        overwrite: measure again even if there is a record.

    Raises:
        InputError: there is no such model, no circuit, a circuit of another model, or too few checkpoints, the run is
            not of chains.
    """
    if run.problem.graph != "chain":
        raise InputError(f"emergence follows circuits of chains, and {run.path} is of {run.problem.graph}")
    wanted = settings or EmergenceConfig()
    store = CircuitStore(run)
    circuit = store.load(number, step)
    if not circuit.found:
        raise InputError(
            f"model {number} of {run.path} has no circuit (`{store.command(number, step)} --show` says why), so "
            "there is nothing to follow"
        )
    path, maps_path = emergence_path(run.path, number, step), maps_over_time_path(run.path, number)
    if path.exists() and not overwrite:
        known = Emergence.load(path)
        same = known.model == run.model_hashes[number] and known.follows(circuit) and known.circuit == circuit.losses
        alike = (known.data_seed, known.ablation) == (wanted.seed, wanted.ablation)
        enough = known.sequences >= wanted.sequences if settings is None else known.sequences == wanted.sequences
        if same and alike and enough and not known.troubles and set(known.steps) >= set(run.checkpoints):
            return known
    emergence, maps = track(run, circuit, wanted, progress)
    maps.save(maps_path, run.hash)
    emergence.save(path)
    return emergence


def emergence_path(folder: Path, number: int, step: int | None = None) -> Path:
    """The path at which the emergence of a model is kept."""
    model = f"-{number}" if number else ""
    return folder / (f"emergence{model}.json" if step is None else f"emergence/step-{step:06d}{model}.json")


def maps_over_time_path(folder: Path, number: int) -> Path:
    """The path at which a model's role maps over time are kept."""
    return folder / (f"emergence-maps-{number}.json" if number else "emergence-maps.json")
