"""The share of the time that a run's thread is on its core."""

from __future__ import annotations

import time

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import REFERENCE
from hopscope.training.progress import Progress
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.trainer import train

SETUP = Setup("run", RetrievalProblem(hops=1), Recipe(1, 1, 16, 30, 4, log_every=1, final_steps=1, validation_size=4))


def test_the_share_is_of_this_run(tmp_path):
    """A watcher that sleeps holds the run up as other work would."""
    seen = []

    def watch(progress: Progress) -> None:
        seen.append(progress.core_share)
        time.sleep(0.05)

    train(SETUP, tmp_path / "run", execution=REFERENCE, watch=watch)
    assert seen[0] is None, "up to the first row the run may be compiling"
    assert all(0 < share <= 1.05 for share in seen[1:])
    assert seen[-1] < 0.5
