"""The learning study and what all studies of arms share: what counts as learned, what was never learned, the verb."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import rmtree

import pytest
from click.testing import CliRunner
from planted_arms import arm, learns
from planted_circuits import DOUBLING, seen

import hopscope as hs
from hopscope.asking import QUESTIONS
from hopscope.cli.study import command
from hopscope.errors import InputError
from hopscope.paper.recipes import LAPTOP, PLAIN
from hopscope.plot.survival import survival
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.recorded_study import RecordedStudy
from hopscope.studies import heads, learning
from hopscope.studies.tools import arms
from hopscope.studies.tools.arms import ArmLearned, Arms
from hopscope.studies.tools.circuits import HASTY, Search
from hopscope.studies.tools.judgements import Judgement, as_many_as, judgements_table, never
from hopscope.studies.tools.kept import Models, kept, made_by, study_form, told
from hopscope.studies.tools.work import Work
from hopscope.training.plan import Plan
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup

THREE = RetrievalProblem(hops=3)
LONGER = "3-layers-twice-the-steps"
MIXED = ((100, 200, 300), (40, 500, 900), (60, 80, 80), (20, None, None))
ARMS = study_form("learning", Arms)
ARM = arm("3-layers", THREE, MIXED, layers=3, steps=1000)


def verdict(one: ArmLearned) -> str:
    return learning.judge(Arms((one,)))[0].verdict


def test_as_asked():
    """Nine in ten must learn x3 with three layers."""
    good, bad = learns(3, 9), learns(3, 1, 2)
    assert verdict(arm("a", THREE, good + bad, layers=3)) == "as asked"
    assert verdict(arm("a", THREE, learns(3, 8) + bad + bad, layers=3)) == "not as asked"
    assert verdict(arm("a", THREE, good[:2], layers=3, missing=8)) == "inconclusive"
    assert verdict(arm("a", THREE, [], layers=3)) == "not run"


def test_an_answer_says_which_recipe_it_is_of():
    study = learning.LearningStudy(PLAIN, (0, 1))
    asked = [learning.judge(Arms((ArmLearned(one, (), ()),)))[0].asked for one in study.arms]
    assert asked[2:6] == [
        "2 layers: x1 in 2 of 2 seeds",
        "3 layers, twice the steps: x3 in 2 of 2 seeds",
        "2 layers, twice the steps: x1 in 2 of 2 seeds",
        "4 layers, 16 heads: x3 in 2 of 2 seeds",
    ]
    recipe = study.arms[5].recipe
    assert (recipe.heads, recipe.head_dim, recipe.d_model, recipe.weight_decay) == (16, 8, 64, 0.03)
    assert asked[8:10] == [
        "3 layers, 16 heads gain 2: x3 in 2 of 2 seeds",
        "4 layers, 16 heads dropout: x3 in 2 of 2 seeds",
    ]
    assert {(one.recipe.layers, one.recipe.head_dropout, one.recipe.qk_gain) for one in study.arms[9:]} == {
        (4, 0.1, 4.0),
        (3, 0.1, 4.0),
        (2, 0.1, 4.0),
    }
    assert (study.arms[8].recipe.qk_gain, study.arms[8].recipe.weight_decay) == (2.0, 0.1)


def test_what_was_asked_of_every_depth_is_the_laptops_recipe():
    """Heads go only when all hops are learned, so until then it is the same training."""
    *before, four, three, two = learning.standard(PLAIN).arms
    assert [one.recipe.layers for one in (four, three, two)] == [4, 3, 2]
    for one in (four, three, two):
        assert replace(one.recipe, prune_every=LAPTOP.prune_every, steps=LAPTOP.steps, layers=4) == LAPTOP
        assert Plan(LAPTOP).falls_from == one.recipe.steps
        assert {*one.seeds}.isdisjoint(seed for other in before for seed in other.seeds)


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


def test_what_can_no_longer_come_true_is_said_before_all_seeds_are_finished():
    assert verdict(arm("a", THREE, learns(3, 2, 2), layers=3, missing=8)) == "not as asked"


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


def test_what_theory_rules_out_is_never_as_asked():
    shallow = arm("2-layers", THREE, MIXED, layers=2)
    assert shallow.beyond_theory == 3
    assert verdict(shallow) == "not as asked"
    assert verdict(arm("2-layers", THREE, learns(3, 4, 1), layers=2)) == "as asked"
    assert ARM.beyond_theory == 0


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
    assert {run.recipe.schedule for run in short + long} == {"when-learned"}
    assert (short[0].recipe.fall, long[0].recipe.fall) == (0, LAPTOP.fall)
    assert (short[0].recipe.learned_below, long[0].recipe.learned_below) == (0.5, LAPTOP.learned_below)
    of_two = replace(ARM.setup, problem=replace(ARM.setup.problem, chains=2))
    for run in arms.runs_of(of_two):  # or a guess would end it
        run.check_waiting()


def test_a_study_goes_on_from_its_record_alone(tmp_path):
    """Seeds that the record has are not trained again, unless it is of another recipe; what is trained now counts."""
    asked = []

    class Watched(Work):
        def train(self, setups, folder, then=None, *, in_order=False):
            asked.extend((setup.name.split("/")[0], setup.seeds[0]) for setup in setups)

    study = learning.LearningStudy(LAPTOP, (0, 1, 2))
    deep, other = study.arms[0], replace(study.arms[1], recipe=replace(study.arms[1].recipe, clip=7.0))
    kept = Arms(tuple(ArmLearned(one, (0, 2), ((20, 40, None), (20, 40, 60))) for one in (deep, other)))
    ARMS.write(tmp_path / "learning.json", kept)
    found = learning.run(study, tmp_path, Watched())
    assert [seed for name, seed in asked if name == deep.name] == [1]
    assert [seed for name, seed in asked if name == other.name] == [0, 1, 2]
    assert (found.arms[0].seeds, found.arms[0].learned) == ((0, 2), ((20, 40, None), (20, 40, 60)))
    assert found.arms[1].seeds == ()
    (longer,) = [arm for arm in found.arms if arm.name == LONGER]
    assert (longer.budget, longer.seeds) == (2 * deep.recipe.steps, ())
    assert learning.run(replace(study, seeds=(2,)), tmp_path, Watched()).arms[0].seeds == (2,)
    ARMS.write(tmp_path / "learning.json", found)  # with arms not begun
    assert learning.run(study, tmp_path, Work(idle=True)) == found
    (tmp_path / "learning.json").write_text("{")
    with pytest.raises(InputError, match=r"learning\.json"):
        learning.run(study, tmp_path, Watched())


def test_a_longer_budget_trains_those_alone_that_had_not_learned(tmp_path):
    """The others have the same run, to the bit; a shorter one takes none that learned later."""
    study = learning.LearningStudy(PLAIN, (0, 1))
    (three,) = [arm for arm in study.arms if arm.name == "3-layers"]
    kept = Arms((ArmLearned(three, (0, 1), ((20, 40, 2000), (20, 40, None))),))
    ARMS.write(tmp_path / "learning.json", kept)
    all_found = learning.run(study, tmp_path, Work(idle=True)).arms
    (found,) = [arm for arm in all_found if arm.name == LONGER]
    assert (found.seeds, found.learned) == ((0,), ((20, 40, 2000),))
    assert not any(arm.seeds for arm in all_found if "heads" in arm.name)  # of another recipe
    assert learning.judge(Arms((found,)))[0].asked == "3 layers, twice the steps: x3 in 2 of 2 seeds"
    shorter = learning.LearningStudy(replace(LAPTOP, steps=800), (0, 1))
    assert all(arm.seeds == () for arm in learning.run(shorter, tmp_path, Work(idle=True)).arms)


def test_a_run_is_the_same_with_a_longer_budget(tmp_path):
    """On which that rests: the same rows of metrics, as far as the shorter one goes."""
    recipe = replace(LAPTOP, layers=1, heads=2, d_model=8, batch_size=4, validation_size=4, log_every=5)
    rows = []
    for steps in (20, 40):
        arm = Setup(f"to-{steps}", RetrievalProblem(hops=1), replace(recipe, steps=steps), (3,))
        Work(workers=1).train(arms.runs_of(arm), tmp_path)
        rows.append(list(RunFolder(tmp_path / arm.name / "seed-003").rows()))
    assert rows[0][:-1] == rows[1][: len(rows[0]) - 1]


FROM_RECORD = ("learning", "depth", "heads", "plateau", "curriculum", "census", "pruning", "descent")
"""Studies that need no run folder to go on."""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_study_runs_quick_and_goes_on(name, tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 64)
    monkeypatch.setattr("hopscope.plot.style.FORMATS", ("svg",))
    arguments = [name, str(tmp_path / name), "--quick", *([] if name == "searches" else ["--workers", "1"])]
    once, again = (CliRunner().invoke(command, arguments) for _ in range(2))
    assert once.exception is None, once.output
    assert once.stdout == again.stdout
    assert "|" in once.stdout
    assert list((tmp_path / name).glob("*.json"))
    if name in FROM_RECORD:
        rmtree(tmp_path / name / "runs")
        monkeypatch.setattr("hopscope.training.many.train_all", lambda *_, **__: pytest.fail("it is known"))
        assert CliRunner().invoke(command, arguments, catch_exceptions=False).stdout == once.stdout


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


def refused(arguments: list[str]) -> str:
    """What a command says that is refused."""
    said = CliRunner().invoke(command, arguments).exception
    assert isinstance(said, InputError), said
    return str(said)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "searches"])
def test_where_no_study_is_nothing_is_judged_and_nothing_written(name, tmp_path):
    """Neither in a folder that is not there, nor in an empty one, nor in one of something else."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("Dear")
    for folder in ("new", "empty", "foreign"):
        words = refused([name, str(tmp_path / folder), "--judge"])
        assert f"{folder} holds nothing finished of the study {name}; leave --judge out" in words
    assert list(contents(tmp_path)) == [tmp_path / "foreign" / "letter.txt"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("idle", [[], ["--judge"]])
@pytest.mark.parametrize("there", ["quick", "whole"])
def test_a_record_is_not_replaced_by_one_that_knows_less(there, idle, tmp_path, monkeypatch):
    """Neither the whole study's by the quick one's nor the other way round; nothing is trained before that is seen."""
    known = {"quick": heads.quick(PLAIN), "whole": heads.standard(PLAIN)}[there].models[:2]
    seen_before = tuple(
        heads.OneModel(one.problem.chains, one.recipe.layers, one.recipe.heads, one.seeds[0], 0.3, made_by(one))
        for one in known
    )
    study_form("heads", heads.HeadsResult).write(tmp_path / "heads.json", heads.HeadsResult(seen_before))
    (tmp_path / "runs").mkdir()
    before = contents(tmp_path)
    monkeypatch.setattr("hopscope.training.many.train_all", lambda *_, **__: pytest.fail("it is trained"))
    other = [] if there == "quick" else ["--quick"]
    words = refused(["heads", str(tmp_path), *other, *idle])
    version = "whole" if there == "quick" else "quick"
    assert f"heads.json tells of 2 results, of which the {version} study would keep none" in words
    assert contents(tmp_path) == before


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


def test_a_study_goes_into_no_folder_of_something_else(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    assert "is a run; choose another folder" in refused(["heads", str(tmp_path)])
    (tmp_path / "run.json").rename(tmp_path / "depth.json")
    words = f"{tmp_path} holds the study depth; choose another folder for heads"
    assert refused(["heads", str(tmp_path), "--quick"]) == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["heads", "--run", "nope", "--quick"], "heads trains its own models; leave --run out"),
        (["calibration", "--run", "nope", "--quick"], "the quick version asks no run; leave --run out"),
        (["calibration", "--run", "nope", "--judge"], "--judge runs nothing; leave --run out"),
        (["heads", "--judge", "--workers", "2"], "--judge runs nothing; leave --workers out"),
        (["heads", "--judge", "--device", "cpu"], "--judge runs nothing; leave --device out"),
        (["heads", "--judge", "--no-compile"], "--judge runs nothing; leave --no-compile out"),
        (["searches", "--workers", "1"], "searches is one process; leave --workers out"),
        (["text", "--precision", "bf16"], "text does not train by these; leave --precision out"),
    ],
)
def test_options_that_would_do_nothing_are_refused(arguments, words):
    assert words in refused(arguments)


def test_there_are_no_processes_of_a_negative_number():
    assert CliRunner().invoke(command, ["heads", "--workers", "-1", "--judge"]).exit_code == 2


def test_what_cannot_be_judged_alone_says_so(tmp_path):
    told = CliRunner().invoke(command, ["searches", str(tmp_path), "--judge"])
    assert "leave --judge out" in str(told.exception)


def test_what_was_kept_is_judged_without_its_runs(tmp_path):
    """And by the rules of today, whatever was judged then."""
    kept = arm("4-layers", THREE, learns(3, 39) + learns(3, 1, 2), layers=4)
    ARMS.write(tmp_path / "learning.json", Arms((kept,)))
    told = CliRunner().invoke(command, ["learning", str(tmp_path), "--judge"])
    assert told.exception is None, told.output
    assert "4 layers: x3 in 38 of 40 seeds | as asked | 39 of 40 (87% to 100%)" in told.stdout
    assert (tmp_path / "learning.png").exists()
    assert ARMS.read(tmp_path / "learning.json") == Arms((kept,))


def test_from_python_a_study_answers_as_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.training.trainer.HELD_OUT", 64)
    folder = tmp_path / "one"
    answer = hs.study("plateau", folder, quick=True, workers=1)
    shown = CliRunner().invoke(command, ["plateau", str(folder), "--quick", "--judge"], catch_exceptions=False)
    assert shown.stdout == f"{answer.told}\n"
    assert (answer.name, answer.folder, answer.result) == ("plateau", folder, kept("plateau", folder, Arms))
    assert answer.judgements[0].asked.startswith("learning-rate/0.003 moves")
    assert hs.study("plateau", folder, quick=True, idle=True) == answer
    with pytest.raises(InputError, match=r"a study is one of learning, .*, got 'nonsense'"):
        hs.study("nonsense")
    with pytest.raises(InputError, match="plateau trains its own models; leave runs out"):
        hs.study("plateau", tmp_path / "two", runs=["run"])
    with pytest.raises(InputError, match="holds the study plateau; choose another folder for depth"):
        hs.study("depth", tmp_path / "one")
