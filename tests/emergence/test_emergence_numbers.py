"""Crossings, spreads and plateaus."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hopscope.emergence.timing import Plateau, crossings, first_crossings, hop_of, plateau
from hopscope.lab import train
from hopscope.paper.section_7 import TrainedModel
from hopscope.plot.training import Panel
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_names
from hopscope.training.execution import Execution
from hopscope.training.metrics import Metrics, rows_of
from hopscope.training.recipe import Recipe
from studies.tools.followed import checkpoints_after_learning


def slow_crossing(steps, curve, level=0.5):
    """The same by a loop: the segment is walked from point to point."""
    if curve[0] > level:
        return float(steps[0])
    for (x0, y0), (x1, y1) in zip(
        zip(steps, curve, strict=True), list(zip(steps, curve, strict=True))[1:], strict=False
    ):
        if y1 > level:
            return x0 + (x1 - x0) * (level - y0) / (y1 - y0)
    return math.nan


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.integers(1, 50))
def test_crossings_are_those_of_a_loop(curve, every):
    steps = [every * number for number in range(len(curve))]
    found = first_crossings(steps, torch.tensor(curve, dtype=torch.float64)).item()
    assert found == pytest.approx(slow_crossing(steps, curve), nan_ok=True)
    mirrored = first_crossings(steps, torch.tensor(curve, dtype=torch.float64) - 1, -0.5).item()
    assert mirrored == pytest.approx(found, abs=1e-6 * steps[-1], nan_ok=True)


def test_crossings_at_the_ends_and_beside_what_is_no_number():
    steps = [0, 10, 20, 30]
    rows = [[0.9, 0.1, 0.9, 0.9], [0.5, 0.5, 0.5, 0.5], [0.0, math.nan, 1.0, 1.0], [0.0, 0.2, 0.4, 0.6]]
    found = first_crossings(steps, torch.tensor(rows)).tolist()
    assert found == pytest.approx([0.0, math.nan, 20.0, 25.0], nan_ok=True)


def test_intervals_come_from_the_sequences():
    """Two kinds of sequences, which cross at 10 and at 30: the mean crosses between, and the interval spans them."""
    curve = torch.zeros(1, 5, 40)
    curve[0, 1:, ::2] = 0.9
    curve[0, 3:, 1::2] = 0.9
    (found,), resampled = crossings([0, 10, 20, 30, 40], curve)
    assert found.low <= found.step <= found.high
    assert found.low == pytest.approx(9.0, abs=2.5)
    assert found.high == pytest.approx(26, abs=3)
    assert resampled.shape[0] == 1
    (same,), _ = crossings([0, 10, 20, 30, 40], curve)
    assert same == found
    (never,), _ = crossings([0, 10, 20, 30, 40], curve * 0.5)
    assert (never.step, never.low, never.high, never.between) == (None, None, None, None)


def metrics(*hops, every=10):
    rows = [
        row for n, losses in enumerate(zip(*hops, strict=True), 1) for row in rows_of(every * n, [losses], [losses])
    ]
    return Metrics.of_rows(rows, [0], range(1, len(hops) + 1))


def test_plateau_starts_ends_and_ignores_a_dip():
    found = plateau(metrics([1.0, 0.76, 0.74, 0.72, 0.3, 0.2], [1.0, 0.78, 0.75, 0.75, 0.75, 0.4]), chains=4)
    assert (found.reached, found.left, found.length) == (20, 50, 30)
    assert found.learned == (50, 60)
    # A dip below the threshold that does not last is not the end.
    dip = plateau(metrics([0.76, 0.69, 0.75, 0.6, 0.6], [0.75] * 5), chains=4)
    assert (dip.left, dip.learned) == (40, (None, None))
    stuck = plateau(metrics([0.75] * 4, [0.75] * 4), chains=4)
    assert (stuck.left, stuck.length) == (None, None)
    assert plateau(metrics([], []), chains=4) == Plateau(0.75, None, None, (None, None))
    gone = metrics([0.6, math.nan, 0.2], [0.2, math.nan, 0.2])
    assert plateau(gone, chains=4).left == 30  # a diverged row is not off the plateau
    spike = plateau(metrics([0.75, 0.6, 0.4, 0.1, 0.9, 0.1], [0.75] * 6), chains=4)
    assert (spike.left, spike.learned) == (20, (30, None))  # what was learned once has left it


def test_a_path_is_drawn_with_the_furthest_symbol_it_touches():
    right = {("x0?", "x0>"): 1, ("x0?", ">x1"): 1, (">x1", "x0>"): 1, (">x1", ">x3"): 3, ("x2>", ">x2"): 2}
    for (query, key), hop in right.items():
        assert hop_of(AttentionPath.named(1, 1, query, key, role_names(3)), 3) == hop


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
