"""Runs that differ only by their seeds, trained as one ensemble and split into per-seed run folders.

A small model leaves most of a GPU idle, so many are trained at once there, each by its own schedule: up to rounding,
those of models trained alone. An ensemble trains in a hidden folder beside the runs, where it resumes after a kill like
any run; a run folder split from it appears complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hopscope.records import load_tensors, lock
from hopscope.training.execution import Execution, least_memory, memory_of
from hopscope.training.recipe import Setup
from hopscope.training.run import Result, RunFolder
from hopscope.training.schedule import Schedule
from hopscope.training.trainer import Progress, train

ENSEMBLES = ".ensembles"
"""The folder, beside the runs, in which ensembles train."""

MOST_MODELS = 64
"""The most models in one ensemble."""

MEMORY_MARGIN = 4
"""Memory there must be, in multiples of the least that an ensemble takes."""


def train_ensembles(
    setups: Sequence[Setup],
    folder: Path,
    execution: Execution,
    progress: Callable[[dict[str, Progress]], None] = lambda runs: None,
) -> None:
    """Train the setups that have one seed and differ by nothing else as ensembles; the others are left to the caller.

    `progress` is called with the progress of an ensemble, by the names of its runs.

    Raises:
        InputError: another process trains ensembles in this folder.
    """

    def fits(ensemble: Setup) -> bool:
        resolved = execution.resolve(ensemble)
        return MEMORY_MARGIN * least_memory(ensemble, resolved) <= memory_of(resolved)

    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another process trains ensembles in {folder}; wait for it, or stop it"
    with lock(folder / f"{ENSEMBLES}.lock", busy, 10.0):
        for path in (folder / ENSEMBLES).glob("*"):  # what a call that was killed left
            if not (path / "run.json").exists():
                shutil.rmtree(path)
            elif (ensemble := RunFolder(path)).finished:
                split(ensemble, [setup for setup in setups if ensemble.has_models_of(setup)], folder)
        for whole, runs in seed_groups(setups, folder, fits):

            def show(at: Progress, runs: Sequence[Setup] = runs) -> None:
                progress({run.name: at for run in runs})

            split(train(whole, folder / whole.name, execution=execution, progress=show), runs, folder)
        with suppress(OSError):  # it is missing, or has ensembles of another call's runs
            (folder / ENSEMBLES).rmdir()


def seed_groups(
    setups: Sequence[Setup], folder: Path, fits: Callable[[Setup], bool]
) -> list[tuple[Setup, list[Setup]]]:
    """Ensembles of the setups that have one seed, differ by nothing else and have no folder yet, with these setups: as
    large as memory allows, by `fits`. A run may have several names."""
    alike: dict[tuple[object, object], list[Setup]] = {}
    for setup in setups:
        if len(setup.seeds) == 1 and not (folder / setup.name).exists():
            alike.setdefault((setup.problem, setup.recipe), []).append(setup)
    groups = []
    for runs in alike.values():
        seeds, size = [*dict.fromkeys(run.seeds[0] for run in runs)], MOST_MODELS
        while size > 1 and not fits(replace(runs[0], seeds=tuple(seeds[:size]))):
            size //= 2
        for start in range(0, len(seeds), size):
            ensemble = replace(runs[0], seeds=tuple(seeds[start : start + size]))
            if len(ensemble.seeds) > 1:
                named = replace(ensemble, name=f"{ENSEMBLES}/{ensemble.content_hash}")
                groups.append((named, [run for run in runs if run.seeds[0] in ensemble.seeds]))
    return groups


def split(ensemble: RunFolder, setups: Sequence[Setup], folder: Path) -> None:
    """Give each of these runs of a trained ensemble its folder, unless it has one, then remove the ensemble's; a call
    that was killed is made good by another."""
    drafts = ensemble.path / "split"
    shutil.rmtree(drafts, ignore_errors=True)  # what a killed process left
    schedule, rows, result = ensemble.schedule, ensemble.rows(), ensemble.result
    runs: list[tuple[Path, RunFolder, int, Schedule]] = []
    for setup in setups:
        if not (folder / setup.name).exists():
            model = ensemble.seeds.index(setup.seeds[0])
            run, alone = RunFolder.create(drafts / setup.name, setup, ensemble.execution), schedule.of_model(model)
            own = [replace(row, model=0) for row in rows if row.model == model and row.step <= alone.end]
            run.append_metrics(own)  # those that the model would have had alone, and those at other models' ends
            runs.append((folder / setup.name, run, model, alone))
    for step, path in ensemble.checkpoints.items():
        _, weights = load_tensors(path, ensemble.hash)
        for _, run, model, alone in runs:
            last = step == result.steps  # since its own end a model has stayed as it was
            if last or (step < alone.end and alone.checkpoints(step)):
                weights_alone = {name: tensor[model : model + 1] for name, tensor in weights.items()}
                run.save_checkpoint(alone.end if last else step, weights_alone, last=last)
    for target, run, model, alone in runs:
        of_model = replace(result.models[model], model=0, hash=run.model_hashes[0])
        run.finish(Result(alone.end, result.held_out, (of_model,)))
        target.parent.mkdir(parents=True, exist_ok=True)
        run.path.rename(target)
    (ensemble.path / "run.json").unlink()  # first, so that what a kill leaves is known not to be an ensemble
    shutil.rmtree(ensemble.path)
