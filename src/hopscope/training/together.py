"""Runs that differ by their seeds alone, trained as one ensemble and then laid apart, each into its own folder.

On a GPU a small model leaves most of it idle, so that many at once take hardly longer than one. They do not feel one
another: each comes to what it would come to alone, by its own plan, up to rounding. While it trains, an ensemble lies
in a hidden folder beside the runs, where it goes on after a kill like any run; a run that is laid apart appears whole.
It has no state to go on from, for it is at its end. Of several processes that are asked for the same runs one trains an
ensemble and lays it apart, and the others find the runs there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.errors import InputError
from hopscope.files import holding, number_or_null
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
"""Models of an ensemble."""

_APART = "apart"
"""In an ensemble's folder: the folders of its runs, until they are whole."""

_SPENT = ".spent"
"""What the folder of an ensemble ends in once those of all its runs are."""

_HELD = f"{ASIDE}-"
"""What a file begins with, beside the runs, that whoever is at an ensemble holds; then comes the ensemble's name."""


@dataclass(frozen=True)
class Together:
    """An ensemble, and the runs whose models it trains.

    Attributes:
        setup: of the ensemble; its name is that of its folder.
        runs: one a seed of the ensemble, or of some of them.
    """

    setup: Setup
    runs: tuple[Setup, ...]

    def progress(self, of_all: Progress) -> dict[str, Progress]:
        """Where each run stands, by name, from where the ensemble does."""
        by_seed = dict(zip(self.setup.seeds, of_all.partial_losses, strict=False))
        return {
            run.name: replace(of_all, partial_losses=(by_seed[run.seeds[0]],) if by_seed else ()) for run in self.runs
        }


def together(setups: Sequence[Setup], folder: Path, fits: Callable[[Setup], bool]) -> list[Together]:
    """Ensembles of those setups of one seed that differ by nothing else and have no folder yet; first those begun.

    What is left over trains alone: setups that nobody is like, and those that keep checkpoints while any model of an
    ensemble would be learning. Where the same runs are wanted under several names, some are left for when these have
    their folders.

    Args:
        setups: runs, none of them finished.
        folder: where their folders are.
        fits: whether an ensemble fits into the memory there is.
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

    Gives it with those runs that have no folder by now, for another process may have been at it; None where all have.

    Args:
        ensemble: as it was found.
        folder: where the folders of the runs are.

    Raises:
        InputError: another process is still at it.
    """
    path = folder / ensemble.setup.name
    with _holding(path):
        _bring_to_an_end(path.with_suffix(_SPENT), folder)
        runs = tuple(run for run in ensemble.runs if not (folder / run.name).exists())
        yield replace(ensemble, runs=runs) if runs else None


@contextmanager
def _holding(ensemble: Path, patience: float = 10.0) -> Iterator[None]:
    """Hold an ensemble by a file that is there as long as the hold is; its folder may go meanwhile, or not be there."""
    held = ensemble.parent.with_name(f"{_HELD}{ensemble.stem}")
    held.parent.mkdir(parents=True, exist_ok=True)
    busy = f"another process is training in {ensemble}; wait for it, or stop it"
    with holding(held, busy, patience):
        try:
            yield
        finally:
            with suppress(OSError):  # some systems remove no file that is open
                held.unlink()


def lay_apart(ensemble: Together, folder: Path) -> None:
    """Give each run of a trained ensemble its folder, and take the ensemble's away, if it has no other models.

    Within `alone_with`.

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
        own = RunFolder.create(aside / setup.name, setup, run.engine)
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
        spent = run.path.rename(run.path.with_suffix(_SPENT))  # a kill leaves what is known for what it is
        _bring_to_an_end(spent, folder)
    else:  # what nobody wants today may be wanted tomorrow
        _give_out(run.path, folder)


def clear(folder: Path) -> None:
    """Bring to its end what a kill has cut short: runs of spent ensembles get their folders.

    Raises:
        InputError: another process is at one of them.
    """
    aside = folder / ASIDE
    for spent in aside.glob(f"*{_SPENT}"):
        with _holding(spent):
            _bring_to_an_end(spent, folder)
    for held in folder.glob(f"{_HELD}*"):
        with suppress(InputError), _holding(aside / held.name.removeprefix(_HELD), patience=0.0):
            pass  # what a kill has left goes with the hold
    with suppress(OSError):  # it is not there, or something in it
        aside.rmdir()


def _bring_to_an_end(spent: Path, folder: Path) -> None:
    """Give the runs of a spent ensemble their folders and take its own away, if it is there."""
    if spent.exists():
        _give_out(spent, folder)
        shutil.rmtree(spent)


def is_being_laid_apart(path: Path) -> bool:
    """Whether a file is of a run that is being laid apart."""
    parts = path.parts
    return any(parts[n] == ASIDE and parts[n + 2] == _APART for n in range(len(parts) - 2))


def _give_out(ensemble: Path, folder: Path) -> None:
    """Move runs that lie apart in an ensemble's folder to where they belong, but for those that are there by now."""
    for path in sorted((ensemble / _APART).rglob("run.json")):
        target = folder / path.parent.relative_to(ensemble / _APART)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            path.parent.rename(target)


def _rows(of_model: Iterable[MetricsRow], plan: Plan) -> list[MetricsRow]:
    """The rows that a model alone would have had. The ensemble may have some in between, for other models' sake."""
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
    """The last of several rows, told with the updates that each is of, with the training losses of all."""
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
    """The mean over all updates; None where one is no number."""
    told = [float("nan") if loss is None else loss for loss in losses]
    return number_or_null(sum(n * loss for n, loss in zip(updates, told, strict=True)) / sum(updates))
