"""Several processes asked for the same runs: each is trained once, as its record says, and none is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cut_short import contents
from seeds_apart import PROBLEM, RECIPE, runs

from hopscope import files
from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.records import RecordFormat
from hopscope.training import many, together, trainer
from hopscope.training import run as run_module
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE, Execution
from hopscope.training.many import finished, train_all
from hopscope.training.run import _RUN, RunFolder
from hopscope.training.run_records import RunRecord
from hopscope.training.setup import Setup
from hopscope.training.trainer import train

FP32 = Execution(precision="fp32", threads=1, device="cpu")
ENGINE = REFERENCE
SETUP = Setup("run", PROBLEM, RECIPE, (0,))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(trainer, "HELD_OUT", 8)


@pytest.fixture
def impatient(monkeypatch):
    """Who finds an ensemble held does not wait."""
    monkeypatch.setattr(together, "lock", lambda path, busy, patience: files.lock(path, busy))


def found_in(folder: Path, setups: list[Setup]) -> list[together.Together]:
    return together.together(setups, folder, lambda _: True)


def trained(folder: Path, setups: list[Setup]) -> None:
    train_all(setups, folder, execution=replace(FP32, workers=1), as_ensembles=True)


@pytest.fixture
def none_learns(monkeypatch):
    def update(*_: object) -> None:
        raise AssertionError("it was trained before")

    def forbid() -> None:
        monkeypatch.setattr(Ensemble, "update", update)

    return forbid


def test_who_comes_late_does_not_train_an_ensemble_again(none_learns, tmp_path):
    """It found what was to be trained, and waited while another trained it."""
    (late,) = found_in(tmp_path, runs())
    trained(tmp_path, runs())
    before = contents(tmp_path)
    none_learns()
    many._train_and_lay_apart(late, tmp_path, FP32)
    assert contents(tmp_path) == before


def test_who_comes_late_trains_what_the_other_left(tmp_path):
    trained(tmp_path / "alone", runs())
    (late,) = found_in(tmp_path, runs())
    trained(tmp_path, runs(range(2)))
    many._train_and_lay_apart(late, tmp_path, FP32)
    assert len(finished(runs(), tmp_path)) == 3
    assert not [one.trouble for one in check(tmp_path) if one.trouble]


def test_an_ensemble_that_is_being_laid_apart_is_known_for_what_it_is(none_learns, tmp_path):
    """Its folder has another name then, and some of its runs have folders while the others have none."""
    trained(tmp_path, runs())
    before = contents(tmp_path)
    (begun,) = found_in(tmp_path / "elsewhere", runs())
    spent = (tmp_path / begun.setup.name).with_suffix(together._SPENT)
    RunFolder.create(spent, begun.setup, ENGINE)
    apart = spent / together._APART / "arm"
    apart.mkdir(parents=True)
    (tmp_path / "arm" / "seed-2").rename(apart / "seed-2")
    (late,) = found_in(tmp_path, runs())
    assert (late.setup.name, [one.name for one in late.runs]) == (begun.setup.name, ["arm/seed-2"])
    none_learns()
    many._train_and_lay_apart(late, tmp_path, FP32)  # as if who laid it apart had been killed
    together.clear(tmp_path)
    assert contents(tmp_path) == before


def test_an_ensemble_that_goes_while_it_is_looked_at_is_looked_for_again(monkeypatch, tmp_path):
    setups = runs()
    (begun,) = found_in(tmp_path, setups)
    RunFolder.create(tmp_path / begun.setup.name, begun.setup, ENGINE)
    plain, once = RunFolder.__init__, [True]

    def opened(self: RunFolder, path: Path) -> None:
        if once and path.name == Path(begun.setup.name).name:
            once.clear()
            (path / "run.json").unlink()
            for setup in setups[:2]:
                (tmp_path / setup.name).mkdir(parents=True)
        plain(self, path)

    monkeypatch.setattr(RunFolder, "__init__", opened)
    assert found_in(tmp_path, setups) == []  # one is left, which is trained alone


@pytest.mark.usefixtures("impatient")
def test_an_ensemble_has_one_process_at_a_time(tmp_path):
    (one,) = found_in(tmp_path, runs())
    spent = (tmp_path / one.setup.name).with_suffix(together._SPENT)
    with together.alone_with(one, tmp_path):
        with pytest.raises(InputError, match=r"another process is training in .*; wait for it, or stop it"):
            many._train_and_lay_apart(one, tmp_path, FP32)
        (spent / together._APART / "arm" / "seed-0").mkdir(parents=True)
        with pytest.raises(InputError, match="another process is training in"):
            together.clear(tmp_path)
        assert spent.exists()
    together.clear(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("impatient")
def test_what_a_kill_leaves_of_a_hold_goes_and_a_hold_stays(tmp_path):
    one, other = found_in(tmp_path, runs()), found_in(tmp_path, runs(range(5)))
    left = tmp_path / f"{together._HELD}{Path(one[0].setup.name).name}"
    left.touch()
    with together.alone_with(other[0], tmp_path):
        together.clear(tmp_path)
        assert len(list(tmp_path.iterdir())) == 1
        assert not left.exists()


TWO = """
import sys
from pathlib import Path
from seeds_apart import RECIPE, runs
from dataclasses import replace
import hopscope.training.trainer as trainer
from hopscope.training.execution import Execution
from hopscope.training.many import train_all

trainer.HELD_OUT = 64
choice = Execution(precision="fp32", threads=1, device="cpu", workers=1)
print("here", flush=True)
input()
setups = runs(range(6), recipe=replace(RECIPE, steps=60, checkpoint_every=2))
train_all(setups, Path(sys.argv[1]), execution=choice, as_ensembles=True)
"""


@pytest.mark.slow
def test_two_processes_in_one_folder_destroy_nothing(tmp_path):
    support = Path(__file__).parent.parent / "support"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support), *sys.path]), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", TWO, str(tmp_path)]
    both = [subprocess.Popen(command, env=environment, text=True, **pipes) for _ in range(2)]
    for one in both:
        one.stdout.readline()
    for one in both:
        one.stdin.write("\n")
        one.stdin.flush()
    told = [one.communicate(timeout=120)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    assert len(list(tmp_path.glob("arm/*/result.json"))) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["arm"]
    assert not [one.trouble for one in check(tmp_path) if one.trouble]


def first_comes(other: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process begins its run between this one's look at the folder and its own record."""

    class Late(RecordFormat[RunRecord]):
        def write(self, path: Path, value: RunRecord, run: str = "") -> None:
            monkeypatch.setattr(run_module, "_RUN", _RUN)
            RunFolder.create(path.parent, other, replace(ENGINE, precision="bf16"))
            super().write(path, value, run)

    monkeypatch.setattr(run_module, "_RUN", Late(**vars(_RUN)))


def test_a_run_that_two_begin_has_the_record_of_the_first(monkeypatch, tmp_path):
    first_comes(SETUP, monkeypatch)
    assert RunFolder.create(tmp_path / "run", SETUP, ENGINE).execution.precision == "bf16"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]
    first_comes(replace(SETUP, seeds=(7,)), monkeypatch)
    with pytest.raises(InputError, match=r"holds a run with seeds = \[7\], not \[0\]"):
        RunFolder.create(tmp_path / "other", SETUP, ENGINE)


def test_a_disk_that_knows_no_links_will_do(monkeypatch, tmp_path):
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    assert RunFolder.create(tmp_path / "run", SETUP, ENGINE).execution == ENGINE
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_what_a_kill_leaves_of_a_record_goes(tmp_path):
    """Of a process that was killed when it had given the record its name."""
    begun = RunFolder.create(tmp_path / "run", SETUP, ENGINE)
    (begun.path / run_module._DRAFT).write_bytes((begun.path / "run.json").read_bytes())
    train(SETUP, begun.path, execution=ENGINE)
    alone = train(SETUP, tmp_path / "alone", execution=ENGINE)
    assert contents(begun.path) == contents(alone.path)


def test_a_run_trains_as_its_record_says_when_it_has_waited_its_turn(monkeypatch, tmp_path):
    begun, seen = RunFolder.create(tmp_path / "run", SETUP, ENGINE), []
    hold, plain_init = RunFolder.writing, Ensemble.__init__

    @contextmanager
    def waited(self: RunFolder):
        elsewhere = replace(begun.record, execution=replace(ENGINE, precision="bf16"))
        _RUN.write(begun.path / "run.json", elsewhere, begun.record.content_hash)
        with hold(self):
            yield

    monkeypatch.setattr(RunFolder, "writing", waited)
    monkeypatch.setattr(
        Ensemble, "__init__", lambda self, *given: (seen.append(given[-1].precision), plain_init(self, *given))[1]
    )
    assert train(SETUP, begun.path, execution=ENGINE).execution.precision == "bf16"
    assert seen == ["bf16"]


def test_a_run_that_another_process_lays_apart_at_the_same_moment_is_there_once(monkeypatch, tmp_path):
    """Two ensembles that share a seed, as of two calls that ask for runs that overlap."""
    trained(tmp_path / "theirs", runs())
    theirs, rename = tmp_path / "theirs" / "arm" / "seed-1", Path.rename

    def late(path: Path, target: Path) -> Path:
        if target.name == "seed-1" and not target.exists():
            rename(theirs, target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    trained(tmp_path, runs())
    assert len(finished(runs(), tmp_path)) == 3
    assert not theirs.exists()
    assert not (tmp_path / together.ASIDE).exists()


def test_a_run_that_cannot_be_given_its_folder_is_told_of(monkeypatch, tmp_path):
    def full(path: Path, target: Path) -> Path:
        if target.name == "seed-1":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(path, target)

    rename = Path.rename
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        trained(tmp_path, runs())
