"""Follow a circuit through training (Section 9.2, Appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.store import CircuitStore
from hopscope.display import Display, reporting
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import MAPS_OVER_TIME, STEPS_PER_EPOCH, Emergence, MapsOverTime, PathHistory
from hopscope.emergence.timing import crossings, hop_of, order, plateau
from hopscope.errors import InputError
from hopscope.model.fast import single
from hopscope.model.hooks import Pattern
from hopscope.model.role_maps import Coordinates, RoleMaps, role_maps
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.statistics import intervals
from hopscope.training.data import held_out
from hopscope.training.metrics import learned_below
from hopscope.training.run import RunFolder
from hopscope.words import counted


def emergence_of_run(
    run: RunFolder,
    number: int = 0,
    settings: EmergenceConfig | None = None,
    *,
    step: int | None = None,
    patterns: Patterns = "own",
    progress: Callable[[int, int], None] | bool = False,
    overwrite: bool = False,
) -> Emergence:
    """Measure how the circuit of a model of a run emerged, and save the result in the run's folder.

    A stored record of the same circuit and settings is returned if it covers all checkpoints that exist, unless
    `overwrite` is given. Without `settings`, 32 sequences are used, as in the paper, or a stored record with more. The
    circuit is that of the checkpoint at `step`, by default the last, with its own patterns or those of Appendix E.

    Raises:
        InputError: there is no such model or circuit, or too few checkpoints can be read.
    """
    wanted = settings or EmergenceConfig()
    store = CircuitStore(run)
    circuit = store.load(number, step)
    paths = [AttentionPath.named(*path, circuit.roles) for path in circuit.named_paths(patterns)]
    losses = circuit.losses
    if patterns == "imposed" and circuit.imposed:
        losses = {"imposed": circuit.imposed.loss}
    if not paths:
        raise InputError(
            f"model {number} of {run.path} has no circuit (`{store.command(number, step)} --show` says why), so "
            "there is nothing to follow"
        )
    path = emergence_path(run.path, number, step, patterns)
    if path.exists() and not overwrite:
        known = Emergence.load(path)
        same = known.model == run.model_hashes[number] and known.follows(circuit, patterns) and known.circuit == losses
        enough = known.sequences >= wanted.sequences if settings is None else known.sequences == wanted.sequences
        if same and enough and known.data_seed == wanted.seed and set(known.steps) >= set(run.checkpoints):
            return known
    with reporting(progress, Display("checkpoints", "steps")) as report:
        emergence, maps = follow(run, paths, number, wanted, losses, report)
    if patterns == "own" and step is None:
        MAPS_OVER_TIME.write(maps_over_time_path(run.path, number), maps, run.hash)
    emergence.save(path)
    return emergence


def emergence_path(folder: Path, number: int, step: int | None = None, patterns: Patterns = "own") -> Path:
    """Return the path of the record of a model's emergence: `emergence.json`, or `emergence-imposed.json`."""
    model = "-imposed" * (patterns == "imposed") + (f"-{number}" if number else "")
    return folder / (f"emergence{model}.json" if step is None else f"emergence/step-{step:06d}{model}.json")


def maps_over_time_path(folder: Path, number: int) -> Path:
    """Return the path of a model's role maps over time."""
    return folder / (f"emergence-maps-{number}.json" if number else "emergence-maps.json")


def follow(
    run: RunFolder,
    paths: Sequence[AttentionPath],
    number: int,
    settings: EmergenceConfig,
    circuit_losses: Mapping[str, float] | None = None,
    progress: Callable[[int, int], None] = lambda step, last: None,
) -> tuple[Emergence, MapsOverTime]:
    """Follow paths of one model through its run; returns the record, and role maps of every head over time.

    `circuit_losses`, the losses of the circuit of these paths, are stored in the record. For the other arguments see
    `emergence_of_run`.

    Raises:
        InputError: there are fewer than two checkpoints, a checkpoint is damaged, or the model has diverged.
    """
    problem = run.problem
    batch = held_out(problem, settings.sequences, settings.seed, "emergence")
    observed: dict[int, Observation] = {}
    if len(steps := sorted(run.checkpoints)) < 2:
        raise InputError(
            f"{run.path} has {counted(len(steps), 'checkpoint')}, and a curve needs two; train with --checkpoint-every"
        )
    for step in steps:
        observed[step] = found = observe(single(run.transformer(step), number), problem, batch, paths)
        if not bool(torch.isfinite(found.errors).all() and torch.isfinite(found.attention).all()):
            raise InputError(f"model {number} of {run.path} has diverged at step {step}, and cannot be followed")
        progress(step, steps[-1])
    emergence = _history(run, paths, number, settings, dict(circuit_losses or {}), observed)
    maps = MapsOverTime.of([*observed], [found.maps for found in observed.values()], problem.roles)
    return emergence, maps


@dataclass(frozen=True)
class Observation:
    """The measurements of one model on one batch.

    Attributes:
        attention: mean weight along each path over the chains, by sequence.
        foremost: share of chains in which the path's key gets more weight than any other position, by sequence.
        errors: squared errors by sequence and target hop.
        ablated: squared errors by sequence and target hop, with each path ablated.
        maps: role maps of every head.
    """

    attention: Float[Tensor, "path sequence"]
    foremost: Float[Tensor, "path sequence"]
    errors: Float[Tensor, "sequence hop"]
    ablated: Float[Tensor, "path sequence hop"]
    maps: RoleMaps


@torch.no_grad()
def observe(
    transformer: Transformer, problem: RetrievalProblem, batch: Batch, paths: Sequence[AttentionPath]
) -> Observation:
    """Measure one model on a batch with a single leading axis. One forward pass gives the patterns. For each path,
    another pass, which begins at the path's layer, gives the errors without the path."""
    evaluator = VectorEvaluator(transformer, problem, batch)
    patterns = transformer.patterns(batch.inputs[None])
    weights, foremost = zip(*(_along(path, patterns, evaluator.where) for path in paths), strict=True)
    return Observation(
        attention=torch.stack(weights),
        foremost=torch.stack(foremost),
        errors=evaluator.errors([{}])[0],
        ablated=evaluator.errors([{path.row: UNIFORM} for path in paths]),
        maps=role_maps(patterns, evaluator.where),
    )


def _along(
    path: AttentionPath, patterns: Sequence[Pattern], where: Coordinates
) -> tuple[Float[Tensor, " sequence"], Float[Tensor, " sequence"]]:
    """Return the mean weight along a path, and how often it is the largest weight of its row, by sequence."""
    pattern = patterns[path.layer][0, :, path.head]  # sequence query key
    query = where.place[..., path.query]
    key = where.place[..., path.key]
    rows = pattern.gather(1, query[..., None].expand(-1, -1, pattern.shape[-1]))  # sequence chain key
    weight = rows.gather(2, key[..., None])[..., 0]
    others = rows.scatter(2, key[..., None], -1.0).amax(dim=-1)
    return weight.mean(dim=-1), (weight > others).float().mean(dim=-1)


def _history(
    run: RunFolder,
    paths: Sequence[AttentionPath],
    number: int,
    settings: EmergenceConfig,
    circuit_losses: dict[str, float],
    observed: dict[int, Observation],
) -> Emergence:
    problem, recipe, steps, seed = run.problem, run.recipe, [*observed], settings.seed

    def stacked(name: str, dim: int = 0) -> Tensor:
        return torch.stack([getattr(found, name) for found in observed.values()], dim=dim)

    attention, foremost = stacked("attention", 1), stacked("foremost", 1)  # path step sequence
    errors = stacked("errors")  # step sequence hop
    rises = (stacked("ablated", 1) - errors).mean(dim=-1)  # path step sequence
    found = crossings(steps, attention, seed=seed)
    learned = crossings(steps, -errors.permute(2, 0, 1), -learned_below(problem.chains), seed)
    histories = [
        PathHistory(
            *path.names(problem.roles),
            hop=hop_of(path, problem.hops),
            attention=_means(attention[place]),
            foremost=_means(foremost[place]),
            change=_means(rises[place]),
            change_interval=tuple(intervals(rises[place], seed)),
            crossing=found[place],
        )
        for place, path in enumerate(paths)
    ]
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
        data_seed=seed,
        steps=tuple(steps),
        losses=_means(errors.mean(dim=-1)),
        partial_losses=tuple(_means(by_hop.T) for by_hop in errors),
        paths=tuple(histories),
        learned=tuple(learned),
        order=order(paths, found, problem.hops),
        plateau=plateau(run.regular_metrics, problem.chains, number),
        circuit=circuit_losses,
        asked=problem.target_hops,
    )


def _means(values: Float[Tensor, "row sequence"]) -> tuple[float, ...]:
    return tuple(values.double().mean(dim=-1).tolist())
