"""Orders to stop that come when no update is under way: none is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace

import pytest
from small_runs import one_seed_each

from hopscope.processes import in_processes
from hopscope.training import trainer
from hopscope.training.execution import Execution
from hopscope.training.side_by_side import train_all

FP32 = Execution(precision="fp32", threads=1, device="cpu")


def test_a_stop_signal_while_the_result_is_written_begins_no_other_run(monkeypatch, tmp_path):
    measured, sent = trainer.held_out_errors, []

    def ordered(*given: object):
        if not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return measured(*given)

    monkeypatch.setattr(trainer, "HELD_OUT", 8)
    monkeypatch.setattr(trainer, "held_out_errors", ordered)
    with pytest.raises(KeyboardInterrupt):
        train_all(one_seed_each(), tmp_path, execution=replace(FP32, workers=1))
    assert [path.parent.name for path in tmp_path.rglob("result.json")] == ["seed-0"]
    assert [path.name for path in (tmp_path / "condition").iterdir()] == ["seed-0"]
    train_all(one_seed_each(), tmp_path, execution=replace(FP32, workers=1))
    assert len(list(tmp_path.rglob("result.json"))) == 3


LOST = """
import os, signal, sys
from hopscope.processes import raise_on_stop_signals
raise_on_stop_signals()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
except KeyboardInterrupt:
    pass  # as torch does when the order comes while it imports NumPy
import hopscope as hs
from dataclasses import replace
hs.train(replace(hs.recipes.LAPTOP, steps=5), hs.RetrievalProblem(hops=1), sys.argv[1])
"""


def test_a_stop_signal_whose_exception_was_lost_stops_the_training_that_follows(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOST, tmp_path / "run"], capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr
    assert not (tmp_path / "run" / "result.json").exists()


TWICE = """
import os, signal, sys
from hopscope.processes import deferred, raise_on_stop_signals
raise_on_stop_signals()
for wanted in range(12):
    lines = []
    def send(frame, event, argument):
        lines.append(event)
        if len(lines) == wanted:
            os.kill(os.getpid(), signal.SIGINT)
        return send
    try:
        with deferred() as stopped:
            sys.settrace(send)
            os.kill(os.getpid(), signal.SIGTERM)
            sys.settrace(None)
        assert stopped()
    except KeyboardInterrupt:
        sys.settrace(None)
"""


def test_two_stop_signals_at_once_do_not_wait_for_one_another():
    """As a batch system sends them: to the group, and once more by what started the process."""
    subprocess.run([sys.executable, "-c", TWICE], timeout=60, check=True)


SCRIPT = """
import os.path
from hopscope.processes import in_processes
print("begun", in_processes(os.path.basename, [("a/b",), ("c",)], 2), globals().get("__file__"))
"""


@pytest.mark.parametrize("given", [[], pytest.param(["-"], marks=pytest.mark.slow)])
def test_a_script_with_workers_needs_no_main_guard(given, tmp_path):
    """Workers do not run it once more; what it knows of itself is there again."""
    (script := tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, *(given or [str(script)])]
    done = subprocess.run(command, input=SCRIPT if given else None, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"begun ['b', 'c'] {'<stdin>' if given else script}\n", "")


@pytest.mark.parametrize("number", [1, 3])
def test_a_stop_signal_while_workers_start_cancels_waiting_jobs(number, monkeypatch):
    plain, jobs = ProcessPoolExecutor.submit, list[Future[None]]()

    def submit(pool: ProcessPoolExecutor, *given: object) -> Future[None]:
        jobs.append(plain(pool, *given))
        if len(jobs) == number:
            os.kill(os.getpid(), signal.SIGINT)
        return jobs[-1]

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        in_processes(time.sleep, [(0.5,)] * 6, 2)
    assert not [job for job in jobs if job.done() and not job.cancelled() and job.exception() is None]
