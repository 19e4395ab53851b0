"""What studies are made of: arms and their tables, judgements of counts, models known again, results not to be lost."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
import torch
from planted_arms import ARM, ARMS, MIXED, THREE, arm, learns
from planted_circuits import DOUBLING, seen
from studies.tools.kept import Models, made_by, told
from studies.tools.recorded_study import RecordedStudy
from who_works import note

from hopscope.errors import InputError
from hopscope.paper.recipes import LAPTOP
from hopscope.plot.style import PAGE
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Setup
from studies.figures.survival import survival
from studies.tools import arms
from studies.tools.arms import ArmLearned, Arms
from studies.tools.circuits import HASTY, Search
from studies.tools.judgements import Judgement, as_many_as, falls_with, judgements_table, never
from studies.tools.work import Work


def test_a_study_that_is_cut_short_has_some_seeds_of_every_arm(tmp_path):
    """The first seed of each, the longest first, then the second."""
    asked: list[str] = []

    class Cut(Work):
        def train(self, setups, folder, then=None, *, in_order=False):
            assert in_order
            asked.extend(setup.name for setup in setups)

    short, long = (arm(f"{layers}-layers", THREE, learns(3, 2), layers=layers).setup for layers in (2, 4))
    arms.learned("learning", [short, long], tmp_path, Cut())
    assert asked == ["4-layers/seed-000", "2-layers/seed-000", "4-layers/seed-001", "2-layers/seed-001"]


def test_seeds_that_are_missing_count_as_long_as_they_can_change_the_answer():
    """Three of five: known by the third, and by the third that cannot, unless any seed may refute the claim."""

    def told(yes: int, n: int, refuted: bool | None) -> str:
        return as_many_as("", 3, yes, n, 5, refuted=refuted).verdict

    assert [told(3, n, None) for n in (3, 4, 5)] == ["as asked"] * 3
    assert [told(3, n, False) for n in (3, 4, 5)] == ["inconclusive", "inconclusive", "as asked"]
    assert told(3, 3, True) == "not as asked"
    assert [told(0, n, None) for n in (0, 1, 2, 3)] == ["not run", "inconclusive", "inconclusive", "not as asked"]


def test_what_never_happens_needs_many_and_a_control():
    """None of 36 is at most 9.7%, none of 35 may be a tenth."""
    assert never("", "", 36, happened=False).verdict == "as asked"
    assert never("", "", 35, happened=False).verdict == "inconclusive"
    assert never("", "", 35, happened=False, rare=0.2).verdict == "as asked"
    assert never("", "", 36, happened=True, lacking="no control").verdict == "not as asked"
    silent = never("", "", 36, happened=False, lacking="no control")
    assert (silent.verdict, silent.reason) == ("inconclusive", "no control")


def test_the_table_counts_those_that_never_learn():
    """A median over those that did learn would say 300 for x3."""
    lines = arms.table(Arms((ARM,))).splitlines()
    assert "| x3 | 3 | 3 | 3 of 4 (19% to 99%) | 300 | - | 900 |" in lines[4]
    assert "| x1 | 3 | 2 | 4 of 4 (40% to 100%) | 40 | 100 | 100 |" in lines[2]


def test_times_are_by_hop_asked_for():
    last = arm("no-curriculum", replace(THREE, curriculum=False), [[700], [None]])
    assert last.hops == (3,)
    assert last.times(3) == [700, None] == last.everything()
    assert ARM.everything() == [300, 900, 80, None]


def test_the_curves_end_where_the_counts_do():
    axes = survival(Arms((ARM, arm("nothing", THREE, [])))).axes
    assert len(axes) == 1
    ends = [line.get_ydata()[-1] for line in axes[0].lines]
    assert ends == pytest.approx([0, 0.25, 0.25])
    assert axes[0].lines[2].get_xdata().tolist() == [0, 80, 300, 900, 1000]
    heights = [line.get_transform().transform((900, 0.25))[1] for line in axes[0].lines]
    assert all(above - below > 2 for below, above in pairwise(heights))  # dots: none hides another
    with pytest.raises(InputError, match="no seed is finished"):
        survival(Arms(()))


def test_many_curves_are_no_wider_than_a_page():
    """Names of any length stay above their own panel, so that letters keep their size."""
    many = [replace(ARM, setup=replace(ARM.setup, name=f"{n}-layers-16-heads-dropout-later")) for n in range(6)]
    figure = survival(Arms(tuple(many)))
    figure.draw_without_rendering()
    assert figure.get_figwidth() == PAGE
    rows = figure.axes[:4], figure.axes[4:]
    for one, other in (pair for row in rows for pair in pairwise(row)):
        assert one.get_tightbbox().x1 < other.get_tightbbox().x0


def test_round_trip(tmp_path):
    found = Arms((ARM, arm("other", RetrievalProblem(hops=4, order="1,2,4,3"), learns(4, 1))))
    ARMS.write(tmp_path / "a.json", found)
    assert ARMS.read(tmp_path / "a.json") == found


def test_an_answer_says_why():
    table = judgements_table([Judgement("it learns", "inconclusive", "1 of 2", 2, "seeds are missing")])
    assert table.splitlines()[-1] == "| it learns | inconclusive | 1 of 2; seeds are missing | 2 |"


def test_a_run_ends_where_its_study_says():
    short, long = (arms.runs_of(ARM.setup, to_the_end=to_the_end) for to_the_end in (False, True))
    assert [run.seeds for run in short] == [(0,), (1,), (2,), (3,)]
    assert {run.recipe.schedule for run in short + long} == {"decay-when-learned"}
    assert (short[0].recipe.decay_fraction, long[0].recipe.decay_fraction) == (0, LAPTOP.fall)
    assert (short[0].recipe.learned_below, long[0].recipe.learned_below) == (0.5, LAPTOP.learned_below)
    of_two = replace(ARM.setup, problem=replace(ARM.problem, chains=2))
    for run in arms.runs_of(of_two):  # or a guess would end it
        run.check_waiting()


def test_a_model_is_known_by_how_it_was_made_and_looked_at():
    """Planted: the same model under another name, by another seed, after another search, and of unknown making."""
    one, two = (Setup(name, RetrievalProblem(hops=3), LAPTOP, (7,)) for name in ("one", "two"))
    known = seen(DOUBLING, 7, made=made_by(one, HASTY))
    assert Models([two], [known], HASTY).all == (known,)
    assert Models([two], [known], HASTY).left == []
    for setup, search in ((two, Search()), (replace(two, seeds=(8,)), HASTY)):
        models = Models([setup], [known], search)
        assert (models.left, models.all) == ([setup], ())
    models = Models([one], [replace(known, made="")], HASTY)
    assert models.left == [one]
    models.add("one", replace(known, made=""))
    assert models.all == (known,)


def test_what_a_study_comes_to_must_be_all_that_was_known(tmp_path):
    """Seeds that are not trained yet count before, and do not afterwards; a longer budget makes them no others."""
    whole = arm("4-layers", THREE, MIXED, layers=4, steps=1000)
    longer = replace(whole.setup, recipe=replace(whole.setup.recipe, steps=2000))
    fewer = ArmLearned(longer, whole.seeds[:1], whole.learned[:1])
    assert told(Arms((fewer,))) < told(Arms((whole,))) == told(Arms((fewer,)), planned=True)
    asking = RecordedStudy(tmp_path / "a.json", Arms((whole,)), tmp_path, lambda work: Arms((fewer,)), quick=False)
    asking.check()
    with pytest.raises(InputError, match="tells of 4 results, of which the whole study would keep 1"):
        asking.found(Work())
    model, other = seen(DOUBLING, 7, made="made"), seen(DOUBLING, 8, made="")
    assert len(told((model, replace(model, loss=0.3), other))) == 2


@pytest.mark.parametrize(("workers", "jobs"), [(1, 3), (2, 2), (2, 1), (None, 0)])
def test_jobs_take_a_thread_each_and_one_worker_is_this_process(workers, jobs, tmp_path):
    told: list[int] = []
    work = Work(workers=workers, waiting=lambda what, n: nullcontext(told.append))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        work.each("notes", note, [(tmp_path / f"{n}",) for n in range(jobs)])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    noted = [path.read_text().split() for path in sorted(tmp_path.iterdir())]
    here = {process == str(os.getpid()) for process, _ in noted}
    assert here == ({min(workers or 1, jobs) == 1} if jobs else set())
    assert [threads for _, threads in noted] == ["1"] * jobs
    assert told[-1:] == [jobs][: bool(jobs)]


def test_what_falls_by_the_most_alone_does_not_fall_with_more() -> None:
    more = [1, 2, 4, 8] * 5
    rng = Random(0)
    noise = [rng.gauss(0, 0.05) for _ in more]
    alone = [(0.2 if one == 8 else 0.7) + wobble for one, wobble in zip(more, noise, strict=True)]
    falls = [0.7 - 0.05 * one + wobble for one, wobble in zip(more, noise, strict=True)]
    assert falls_with("it", more, falls).verdict == "as asked"
    assert falls_with("it", more, [-one for one in falls]).verdict == "not as asked"
    assert falls_with("it", more, alone).verdict == "inconclusive"
    assert falls_with("it", more, noise).verdict == "inconclusive"
    turns = [one + 2 if many == 8 else one for one, many in zip(falls, more, strict=True)]
    assert falls_with("it", more, turns).verdict == "inconclusive"  # falls, and rises at the most
    assert falls_with("it", [8] * 5, falls[:5]).verdict == "not run"
    assert falls_with("it", [1, 8], [1.0, 0.0]).verdict == "inconclusive"
    assert "without the most" in falls_with("it", more, falls).ours
