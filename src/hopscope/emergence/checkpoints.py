"""The checkpoints of a run, one after the other; what cannot be trusted is named and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.training.run import RunFolder


def readable(run: RunFolder, trouble: Callable[[str], None]) -> Iterator[tuple[int, Transformer]]:
    """Steps and transformers, in order, as far as the run has come.

    Args:
        run: finished or still training.
        trouble: told, in a sentence each, of checkpoints that are missing, damaged, foreign or not finite.

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
    """Steps up to `last`, or up to the end of a finished run, that the schedule asks for and that are not there."""
    plans = run.plans
    last = plans.end if run.finished else last
    return [step for step in range(last + 1) if plans.checkpoints(step) and step not in run.checkpoints]


def _planned(run: RunFolder, step: int) -> bool:
    plans = run.plans
    return step <= plans.end and (plans.checkpoints(step) or plans.checkpoints_in_jump(step))
