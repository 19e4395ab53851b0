"""The one table of a run's metrics."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from hopscope.emergence.timing import plateau
from hopscope.errors import InputError
from hopscope.lab.run import train
from hopscope.paper.section_7 import TrainedModel
from hopscope.plot.training import Panel
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution
from hopscope.training.metrics import LEARNED, Metrics, learned_below, rows_of
from hopscope.training.recipe import Recipe
from studies.tools.followed import checkpoints_after_learning

NAN = float("nan")


def table(*partial: list[list[float]], every: int = 10) -> Metrics:
    """Two models, two hops; training losses are ten more."""
    rows = []
    for place, losses in enumerate(partial, start=1):
        rows += rows_of(every * place, [[10 + loss for loss in model] for model in losses], losses)
    return Metrics.of_rows(rows, seeds=[7, 8], hops=[1, 2])


FALLING = table([[0.9, 0.9], [0.5, 0.9]], [[0.4, 0.9], [NAN, 0.9]], [[0.6, 0.49], [0.1, 0.9]])


def test_the_first_step_below_is_below_and_the_first():
    """0.5 is not below 0.5, a diverged row is below nothing, and coming up again later changes nothing."""
    assert FALLING.first_below() == ((20, 30), (30, None))
    assert FALLING.first_below(0.45) == ((20, None), (30, None))
    assert FALLING.first_below(2.0) == ((10, 10), (10, 10))
    assert LEARNED == 0.5
    assert all(type(step) is int for step in FALLING.first_below()[0])


def test_learned_is_two_thirds_of_a_guess():
    """To the bit what it has always been with four chains; and never what a guess may come to."""
    assert learned_below(4) == LEARNED == learned_below(1)
    assert [learned_below(chains) for chains in (2, 3, 8)] == pytest.approx([1 / 3, 4 / 9, 7 / 12])
    of_two = replace(FALLING, learned=learned_below(2))
    assert of_two.first_below() == FALLING.first_below(1 / 3) == ((None, None), (30, None))


def test_axes_are_row_model_and_hop():
    assert FALLING.steps.tolist() == [10, 20, 30]
    assert FALLING.partial_losses.shape == (3, 2, 2)
    assert FALLING.partial_losses[2, 0].tolist() == [0.6, 0.49]
    assert FALLING.validation_loss[2].tolist() == pytest.approx([0.545, 0.5])
    assert FALLING.train_loss[2, 1] == pytest.approx(10.5)
    assert FALLING.train_partial_losses[0, 1].tolist() == [10.5, 10.9]
    assert np.isnan(FALLING.validation_loss[1, 1])


def test_rows_by_step():
    assert FALLING.every(20).steps.tolist() == [20]
    assert FALLING.after(10).partial_losses[0, 0].tolist() == [0.4, 0.9]
    assert len(FALLING.after(10)) > 1
    assert FALLING.after(10, 20).partial_losses[:, 0].tolist() == [[0.4, 0.9]]


def test_a_step_that_a_killed_writer_left_without_a_model_does_not_count():
    rows = rows_of(10, [[1.0], [1.0]], [[1.0], [1.0]])
    assert len(Metrics.of_rows([*rows, *rows_of(20, [[1.0]], [[1.0]])], [0, 1], [1])) == 1
    assert len(Metrics.of_rows([], [0, 1], [1])) == 0
    assert Metrics.of_rows([], [0, 1], [1]).first_below() == ((None,), (None,))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (rows_of(10, [[1.0]], [[1.0]]) * 2, "one row for each of 1 models at every step, in rising order"),
        ([*rows_of(20, [[1.0]], [[1.0]]), *rows_of(10, [[1.0]], [[1.0]])], "rising order"),
        (rows_of(10, [[1.0], [1.0]], [[1.0], [1.0]]), "each of 1 models"),
        (rows_of(10, [[1.0, 1.0]], [[1.0, 1.0]]), "each of 1 hops"),
    ],
)
def test_rows_that_are_no_table_are_refused(rows, words):
    with pytest.raises(InputError, match=words):
        Metrics.of_rows(rows, [0], [1])


def test_the_frame_is_long():
    frame = FALLING.frame()
    assert list(frame.columns) == [
        "step", "seed", "hop", "train_loss", "validation_loss", "partial_loss", "train_partial_loss", "heads",
    ]  # fmt: skip
    assert len(frame) == 3 * 2 * 2
    one = frame[(frame.step == 30) & (frame.seed == 7) & (frame.hop == 2)]
    assert one.partial_loss.item() == 0.49
    assert one.train_partial_loss.item() == pytest.approx(10.49)
    assert one.validation_loss.item() == pytest.approx(0.545)
    assert frame.groupby("hop").partial_loss.min().tolist() == [0.1, 0.49]


def test_without_pandas_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install -c constraints.txt '\.\[frames\]'"):
        FALLING.frame()


def test_a_single_low_loss_among_the_last_steps_is_not_learning(tmp_path):
    """Each of the last steps has a row; whether a hop was learned is asked at regular steps, in all rooms alike."""
    recipe = Recipe(layers=1, heads=1, d_model=8, steps=10, batch_size=2, log_every=4, final_steps=5, mlp=False)
    recipe = replace(recipe, checkpoint_every=2)
    run = train(recipe, RetrievalProblem(hops=1), tmp_path / "run", execution=Execution(device="cpu", compiled=False))
    steps = run.metrics.steps.tolist()
    assert steps == [4, 6, 7, 8, 9, 10]
    for low, learned in ((7, None), (8, 8)):
        losses = np.array([0.2 if step == low else 0.75 for step in steps])[:, None]
        run.__dict__["metrics"] = replace(run.metrics, validation_loss=losses, partial_losses=losses[..., None])
        assert run.regular_metrics.steps.tolist() == [4, 8]
        assert TrainedModel.of(run)[0].crossings == (learned,)
        assert plateau(run.regular_metrics, 4).learned == (learned,)
        assert checkpoints_after_learning(run) == ([8, 10] if learned else [])
        (line, *_) = Panel("run", run.metrics, recipe.log_every).lines.first_below()
        assert line == (learned,)
