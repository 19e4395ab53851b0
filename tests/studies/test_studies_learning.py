"""The learning study: what counts as learned, what was asked, what was never learned, and the verb."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from hopscope.cli.study import STUDIES, command
from hopscope.errors import InputError
from hopscope.plot.survival import survival
from hopscope.studies import learning
from hopscope.studies.learning import ArmLearned

ARM = ArmLearned(
    name="3-layers",
    layers=3,
    hops=3,
    hop=3,
    wanted=3,
    budget=1000,
    log_every=20,
    seeds=(5, 6, 7, 8),
    learned=((100, 200, 300), (40, 500, 900), (60, 80, 80), (20, None, None)),
)


def test_as_asked():
    assert ARM.verdict == "as asked"
    assert replace(ARM, wanted=4).verdict == "not as asked"
    assert replace(ARM, seeds=(5, 6), learned=ARM.learned[:2]).verdict == "not finished"
    assert replace(ARM, seeds=(), learned=(), wanted=0).verdict == "not finished"


def test_what_theory_rules_out_is_never_as_asked():
    shallow = replace(ARM, layers=2, hop=1)
    assert shallow.beyond_theory == 3
    assert shallow.verdict == "not as asked"
    assert ARM.beyond_theory == 0


def test_the_table_counts_those_that_never_learn():
    """A median over those that did learn would say 300 for x3."""
    lines = learning.table([ARM]).splitlines()
    assert "| x3 | 3 of 4 | 3 of 4 (19% to 99%) | 300 | - | 900 | 0 | as asked |" in lines[4]
    assert "| x1 |  | 4 of 4 (40% to 100%) | 40 | 100 | 100 |" in lines[2]


def test_the_curves_end_where_the_counts_do():
    axes = survival([ARM, replace(ARM, seeds=(), learned=())]).axes
    assert len(axes) == 1
    ends = [line.get_ydata()[-1] for line in axes[0].lines]
    assert ends == pytest.approx([0, 0.25, 0.25])
    assert axes[0].lines[2].get_xdata().tolist() == [0, 80, 300, 900, 1000]
    with pytest.raises(InputError, match="no seed is finished"):
        survival([])


def test_round_trip(tmp_path):
    learning.save([ARM], tmp_path)
    assert learning.load(tmp_path) == (ARM,)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_quick_and_goes_on(name, tmp_path):
    once, again = (CliRunner().invoke(command, [name, str(tmp_path / name), "--quick"]) for _ in range(2))
    assert once.exception is None, once.output
    assert once.stdout == again.stdout
    assert "|" in once.stdout
    assert list((tmp_path / name).glob("*.json"))
