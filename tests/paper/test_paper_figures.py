"""Figures show what the data say, are the same bytes each time, and leave matplotlib's settings alone."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from made_results import metrics, trained
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from hopscope.errors import InputError
from hopscope.paper.section_7_figures import final_losses, partial_losses
from hopscope.plot.style import save
from hopscope.plot.training import Panel, training

LOST = [None, None, None]
"""A seed that diverged."""


def line(axes: Axes, *, label: str) -> Line2D:
    return next(line for line in axes.get_lines() if line.get_label() == label)


def test_final_losses_are_means_with_every_seed_as_a_dot() -> None:
    high = trained(1, losses=[[0.7, 0.8, 0.75], [0.71, 0.81, 0.76]])
    axes = final_losses([*trained(2), *high, *trained(1, curriculum=False)], {"exact": 3}).axes[0]
    mean = line(axes, label="IC, D = 3")
    np.testing.assert_array_equal(mean.get_xdata(), [1, 2])
    np.testing.assert_allclose(mean.get_ydata(), [0.755, 0.21])
    seeds = line(axes, label="_seeds IC, D = 3")
    np.testing.assert_allclose(sorted(seeds.get_ydata()), [0.2, 0.22, 0.75, 0.76])
    assert all(abs(x - round(x)) < 0.3 for x in seeds.get_xdata())
    np.testing.assert_allclose(line(axes, label="no IC, D = 3").get_ydata(), [0.11])
    np.testing.assert_array_equal(line(axes, label="exact").get_xdata(), [3, 3])


def test_a_diverged_seed_is_a_cross_and_not_in_the_mean() -> None:
    losses = [[0.1, 0.2, 0.3], LOST, [9.0, 9.0, 9.0]]
    for figure, name, value in (
        (final_losses(trained(4, losses=losses)), "IC, D = 3", 0.2),
        (partial_losses(trained(4, losses=losses)), "$x_{2}$", 0.2),
    ):
        axes = figure.axes[0]
        np.testing.assert_allclose(line(axes, label=name).get_ydata(), [value])
        assert len(line(axes, label=f"_off the scale {name}").get_xdata()) == 2
        assert any("diverged" in text.get_text() for text in axes.texts)


def test_partial_losses_by_hop() -> None:
    axes = partial_losses([*trained(2), *trained(1), *trained(1, curriculum=False)]).axes[0]
    for hop in (1, 2, 3):
        np.testing.assert_allclose(line(axes, label=f"$x_{{{hop}}}$").get_ydata(), [0.1 * hop + 0.01] * 2)


def test_training_lines_and_crossings() -> None:
    figure = training(Panel("1 layer", metrics()), Panel("with a <title>", metrics()))
    first, second = figure.axes[:2]
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("1 layer", "with a <title>")
    shown = line(first, label="_seed 8 hop 1")
    np.testing.assert_array_equal(shown.get_xdata(), [10, 20, 30, 40, 50])
    np.testing.assert_allclose(shown.get_ydata(), [0.7, 0.5, 0.3, 0.1, -0.1])
    marks = [float(mark.get_xdata()[0]) for mark in first.get_lines() if mark.get_label() == "_crossing hop 1"]
    assert marks == [30, 30]
    assert not [mark for mark in first.get_lines() if mark.get_label() == "_crossing hop 2"]
    assert any(list(line.get_ydata()) == [0.5, 0.5] for line in first.get_lines())


def test_lines_and_marks_go_through_evenly_spaced_rows() -> None:
    axes = training(Panel("a", metrics(), every=20)).axes[0]
    assert list(line(axes, label="_seed 7 hop 1").get_xdata()) == [20, 40]
    assert list(line(axes, label="_crossing hop 1").get_xdata()) == [40]
    alone = [str(drawn.get_label()) for drawn in training(Panel("a", metrics(), model=1)).axes[0].get_lines()]
    assert [label for label in alone if "seed" in label] == ["_seed 8 hop 1", "_seed 8 hop 2"]


def test_panels_without_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"takes runs, as hs\.Run\('runs/first'\), got 'runs/first'"):
        training("runs/first")
    with pytest.raises(InputError, match="at least one panel"):
        training()
    with pytest.raises(InputError, match="no row at a multiple of 7 steps"):
        Panel("a", metrics(), every=7)


def test_saving_gives_the_same_bytes_and_three_files(tmp_path: Path) -> None:
    first = save(final_losses([*trained(1), *trained(2)]), tmp_path / "a.b" / "one")
    second = save(final_losses([*trained(1), *trained(2)]), tmp_path / "two")
    assert [path.suffix for path in first] == [".png", ".svg", ".pdf"]
    assert first[0].name == "one.png"
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert not list(tmp_path.rglob("*.tmp"))
    svg = first[1].read_text()
    assert "<dc:date" not in svg
    assert "<text" not in svg


@pytest.mark.slow
def test_the_users_settings_neither_change_nor_matter(tmp_path: Path) -> None:
    plain = save(final_losses(trained(1)), tmp_path / "plain")[1].read_bytes()
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "svg.fonttype": "none"}):
        before = dict(matplotlib.rcParams)
        loud = save(final_losses(trained(1)), tmp_path / "loud")[1].read_bytes()
        assert dict(matplotlib.rcParams) == before
    assert loud == plain
