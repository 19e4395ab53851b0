"""A run held up by other work on its cores says so, once, and only then."""

from __future__ import annotations

import time

import pytest

from hopscope.cli import _progress
from hopscope.cli._progress import CROWDED, crowded, training_bar
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.engine import Engine
from hopscope.training.progress import Progress
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup
from hopscope.training.trainer import train

SETUP = Setup("run", RetrievalProblem(hops=1), Recipe(1, 1, 16, 30, 4, log_every=1, final_steps=1, validation_size=4))
SLOW = Progress(10, 30, ((0.5,),), 1.2, CROWDED - 0.2)


@pytest.mark.parametrize(
    ("progress", "engine", "seconds", "said"),
    [
        (SLOW, Engine(threads=2), 60.0, True),
        (SLOW, Engine(threads=1), 60.0, False),
        (SLOW, Engine("cuda", threads=2), 60.0, False),
        (SLOW, Engine(threads=2), 1.0, False),
        (Progress(10, 30, (), 1.2, CROWDED), Engine(threads=2), 60.0, False),
        (Progress(10, 30), Engine(threads=2), 60.0, False),
    ],
)
def test_who_is_told(progress, engine, seconds, said):
    told = crowded(progress, engine, seconds)
    assert (told is not None) == said
    if told:
        assert "get 55% of them" in told
        assert "--threads 1" in told


def test_it_is_said_once(monkeypatch, capsys):
    monkeypatch.setattr(_progress, "_SECONDS_BEFORE_JUDGING", 0.0)
    with training_bar(SETUP, Engine(threads=2)) as move:
        move(SLOW)
        move(SLOW)
    assert capsys.readouterr().err.count("other work is on the cores") == 1


def test_the_share_is_of_this_run(tmp_path):
    """A watcher that sleeps holds the run up as other work would."""
    seen = []

    def watch(progress: Progress) -> None:
        seen.append(progress.core_share)
        time.sleep(0.05)

    train(SETUP, tmp_path / "run", engine=Engine(threads=1), watch=watch)
    assert seen[0] is None, "up to the first row the run may be compiling"
    assert all(0 < share <= 1.05 for share in seen[1:])
    assert seen[-1] < 0.5
