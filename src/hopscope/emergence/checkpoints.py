"""The checkpoints of a run, one after the other; those that cannot be used are named and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.training.run import RunFolder


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
    plans = run.plans
    last = plans.end if run.finished else last
    return [step for step in range(last + 1) if plans.checkpoints(step) and step not in run.checkpoints]


def _planned(run: RunFolder, step: int) -> bool:
    plans = run.plans
    return step <= plans.end and (plans.checkpoints(step) or plans.checkpoints_in_jump(step))
