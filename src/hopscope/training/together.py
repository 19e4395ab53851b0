"""Runs that differ only by their seeds, trained as one ensemble and then laid apart, each into its own run folder.

A small model leaves most of a GPU idle, so that many at once take hardly longer than one. They do not affect one
another: each follows its own plan and becomes, up to rounding, what it would become alone. While it trains, an ensemble
is in a hidden folder beside the runs, where it resumes after a kill like any run; a run that is laid apart appears
complete. It has no state to resume from, since it is finished. Of several processes that are asked for the same runs,
one trains an ensemble and lays it apart, and the others find the finished runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.checks import finite_or_none
from hopscope.errors import InputError
from hopscope.files import lock
from hopscope.tensor_files import load_tensors
from hopscope.training.metrics import MetricsRow
from hopscope.training.plan import Plan
from hopscope.training.progress import Progress
from hopscope.training.run import RunFolder
from hopscope.training.run_records import Result, hash_of
from hopscope.training.setup import Setup

ASIDE = ".together"
"""The folder, beside the runs, in which ensembles train."""

MOST = 64
"""The most models in one ensemble."""

_APART = "apart"
"""The folder in an ensemble's folder that holds the run folders until they are complete."""

_SPENT = ".spent"
"""The suffix of an ensemble's folder once the folders of all its runs are complete."""

_HELD = f"{ASIDE}-"
"""Prefix of the lock file, beside the runs, held by the process that works on an ensemble; the ensemble's name follows.
"""


@dataclass(frozen=True)
class Together:
    """An ensemble, and the runs whose models it trains.

    Attributes:
        setup: the setup of the ensemble; its name is that of the ensemble's folder.
        runs: the setups of the runs, one for each of the ensemble's seeds or for some of them.
    """

    setup: Setup
    runs: tuple[Setup, ...]

    def progress(self, of_all: Progress) -> dict[str, Progress]:
        """The progress of each run, by name, from that of the ensemble."""
        by_seed = dict(zip(self.setup.seeds, of_all.partial_losses, strict=False))
        return {
            run.name: replace(of_all, partial_losses=(by_seed[run.seeds[0]],) if by_seed else ()) for run in self.runs
        }


def together(setups: Sequence[Setup], folder: Path, fits: Callable[[Setup], bool]) -> list[Together]:
    """Ensembles of the setups that have one seed, differ by nothing else and have no folder yet; ensembles that were
    begun come first.

    Other setups train alone: those that differ from all others, and those with `checkpoint_jump_every`, which in an
    ensemble would keep checkpoints while any model is learning. Where the same runs are wanted under several names, the
    other names are left until the first ones have their folders.

    Args:
        setups: setups of runs, none of them finished.
        folder: the folder that holds their run folders.
        fits: says whether an ensemble fits into memory.
    """
    alike: dict[tuple[object, object], list[Setup]] = {}
    for setup in setups:
        alone = len(setup.seeds) > 1 or setup.recipe.checkpoint_jump_every is not None
        if not alone and not (folder / setup.name).exists():
            alike.setdefault((setup.problem, setup.recipe), []).append(setup)
    found: dict[str, Together] = {}
    for path in sorted((folder / ASIDE).glob("*/run.json")):
        try:
            run = RunFolder(path.parent)
        except InputError:
            if path.exists():
                raise
            return together(setups, folder, fits)  # another process has laid it apart just now
        theirs = alike.get((run.problem, run.recipe), [])
        runs = _by_seed(one for one in theirs if one.seeds[0] in run.seeds)
        if runs:
            name = f"{ASIDE}/{run.path.name.removesuffix(_SPENT)}"
            found[name] = Together(Setup(name, run.problem, run.recipe, run.seeds), runs)
            alike[run.problem, run.recipe] = [one for one in theirs if one not in runs]
    for theirs in alike.values():
        while len(runs := _by_seed(theirs)) > 1:
            while len(runs) > MOST or not fits(_ensemble(runs)):
                runs = runs[: len(runs) // 2]
            if len(runs) < 2 or (setup := _ensemble(runs)).name in found:
                break
            found[setup.name] = Together(setup, runs)
            theirs = [one for one in theirs if one not in runs]
    return list(found.values())


def _by_seed(setups: Iterable[Setup]) -> tuple[Setup, ...]:
    """The first setup of every seed: the same run may be wanted under several names."""
    first: dict[int, Setup] = {}
    for setup in setups:
        first.setdefault(setup.seeds[0], setup)
    return tuple(first.values())


def _ensemble(runs: Sequence[Setup]) -> Setup:
    seeds = tuple(run.seeds[0] for run in runs)
    setup = replace(runs[0], seeds=seeds)
    return replace(setup, name=f"{ASIDE}/{hash_of(setup)}")


@contextmanager
def alone_with(ensemble: Together, folder: Path) -> Iterator[Together | None]:
    """A context in which no other process trains an ensemble or lays it apart.

    Gives the ensemble with only those runs that still have no folder, since another process may have made some; None
    where all have one.

    Args:
        ensemble: the ensemble as it was found.
        folder: the folder that holds the run folders.

    Raises:
        InputError: another process is still working on it.
    """
    path = folder / ensemble.setup.name
    with _holding(path):
        _bring_to_an_end(path.with_suffix(_SPENT), folder)
        runs = tuple(run for run in ensemble.runs if not (folder / run.name).exists())
        yield replace(ensemble, runs=runs) if runs else None


@contextmanager
def _holding(ensemble: Path, patience: float = 10.0) -> Iterator[None]:
    """Hold an ensemble by a lock file, which exists only meanwhile; the ensemble's folder may be missing or go away."""
    held = ensemble.parent.with_name(f"{_HELD}{ensemble.stem}")
    held.parent.mkdir(parents=True, exist_ok=True)
    busy = f"another process is training in {ensemble}; wait for it, or stop it"
    with lock(held, busy, patience):
        try:
            yield
        finally:
            with suppress(OSError):  # some systems cannot remove an open file
                held.unlink()


def lay_apart(ensemble: Together, folder: Path) -> None:
    """Give each run of a trained ensemble its folder, and remove the ensemble's if it has no other models.

    Call this within `alone_with`.

    Raises:
        InputError: a file of the ensemble is damaged.
    """
    run = RunFolder(folder / ensemble.setup.name)
    aside = run.path / _APART
    shutil.rmtree(aside, ignore_errors=True)  # what a killed process left
    plans, rows = run.plans.models, run.rows()
    apart = []
    for setup in ensemble.runs:
        model = run.seeds.index(setup.seeds[0])
        own = RunFolder.create(aside / setup.name, setup, run.execution)
        own.append_metrics(_rows([row for row in rows if row.model == model], plans[model]))
        apart.append((setup, own, model))
    for step, path in run.checkpoints.items():
        _, weights = load_tensors(path, run.record.content_hash)
        for _, own, model in apart:
            last = step == run.result.steps  # since its own end a model has stayed as it was
            at = plans[model].end if last else step
            if last or (step < plans[model].end and plans[model].checkpoints(step)):
                own.save_checkpoint(at, {name: one[model : model + 1] for name, one in weights.items()}, last=last)
    for _, own, model in apart:
        told = replace(run.result.models[model], model=0, hash=own.model_hashes[0])
        own.finish(Result(plans[model].end, run.result.held_out, (told,)))
    if len(apart) == len(run.seeds):
        spent = run.path.rename(run.path.with_suffix(_SPENT))  # so that after a kill it is recognised
        _bring_to_an_end(spent, folder)
    else:  # the other models may be wanted later
        _give_out(run.path, folder)


def clear(folder: Path) -> None:
    """Finish what a kill cut short: runs of ensembles that were laid apart get their folders, and these ensembles go.

    Raises:
        InputError: another process is working on one of these ensembles.
    """
    aside = folder / ASIDE
    for spent in aside.glob(f"*{_SPENT}"):
        with _holding(spent):
            _bring_to_an_end(spent, folder)
    for held in folder.glob(f"{_HELD}*"):
        with suppress(InputError), _holding(aside / held.name.removeprefix(_HELD), patience=0.0):
            pass  # the hold removes a lock file that a killed process left
    with suppress(OSError):  # it is missing or not empty
        aside.rmdir()


def _bring_to_an_end(spent: Path, folder: Path) -> None:
    """Give the runs of a spent ensemble their folders and remove the ensemble's own, if it exists."""
    if spent.exists():
        _give_out(spent, folder)
        shutil.rmtree(spent)


def is_being_laid_apart(path: Path) -> bool:
    """Whether a file belongs to a run that is being laid apart."""
    parts = path.parts
    return any(parts[n] == ASIDE and parts[n + 2] == _APART for n in range(len(parts) - 2))


def _give_out(ensemble: Path, folder: Path) -> None:
    """Move the run folders in an ensemble's folder to where they belong, except those that exist there by now."""
    for path in sorted((ensemble / _APART).rglob("run.json")):
        target = folder / path.parent.relative_to(ensemble / _APART)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.parent.rename(target)
            except OSError:
                if not target.exists():  # else another process has just given the same run its folder
                    raise


def _rows(of_model: Iterable[MetricsRow], plan: Plan) -> list[MetricsRow]:
    """The rows that a model alone would have had. The ensemble may have more in between, for other models' sake."""
    wanted = set(plan.rows(plan.end))
    rows, before, since = [], 0, list[tuple[int, MetricsRow]]()
    for row in of_model:
        since.append((row.step - before, row))
        before = row.step
        if row.step in wanted:
            rows.append(replace(_as_one(since), model=0))
            since.clear()
    return rows


def _as_one(since: Sequence[tuple[int, MetricsRow]]) -> MetricsRow:
    """The last of several rows, with training losses averaged over all; each is given with its number of updates."""
    updates, last = [number for number, _ in since], since[-1][1]
    if len(since) == 1:
        return last
    by_hop = zip(*(row.train_partial_losses for _, row in since), strict=True)
    return replace(
        last,
        train_loss=_mean(updates, [row.train_loss for _, row in since]),
        train_partial_losses=tuple(_mean(updates, losses) for losses in by_hop),
    )


def _mean(updates: Sequence[int], losses: Sequence[float | None]) -> float | None:
    """The mean over all updates; None where a loss is not a number."""
    told = [float("nan") if loss is None else loss for loss in losses]
    return finite_or_none(sum(n * loss for n, loss in zip(updates, told, strict=True)) / sum(updates))
