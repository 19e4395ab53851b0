"""Training and searches killed at their k-th write: called again they come to the bytes of one left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hopscope.training.run import RunFolder

HERE = Path(__file__).parent

ONE_RUN = """
import os, sys
from pathlib import Path
import filelock  # or each fork would import it again
from killing import killed_everywhere
import hopscope.training.trainer as trainer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution, REFERENCE
from hopscope.training.recipe import Recipe, Setup

trainer._SECONDS_BETWEEN_STATES = 0.0
trainer.HELD_OUT = 8
recipe = Recipe(layers=1, heads=1, d_model=8, steps=4, batch_size=2, log_every=2, final_steps=1, validation_size=2,
                checkpoint_every=2)
setup = Setup("tiny", RetrievalProblem(hops=1, chains=2), recipe, seeds=(1, 2))
root = Path(sys.argv[1])

def program(folder):
    trainer.train(setup, folder, execution=REFERENCE)

moments, alone = killed_everywhere(program, lambda name: root / name, every=3)
assert {"run.json", "metrics.jsonl", "result.json", "state.safetensors"} <= set(alone)
assert not [name for name in alone if name.endswith(".tmp")]
print(moments)
"""


ONE_SEARCH = """
import shutil, sys
from pathlib import Path
from killing import contents, import_all, killed_everywhere
from small_models import disguised_witness
from hopscope.circuits.checks.card import CertificateConfig
from hopscope.lab.run import RunModel
from hopscope.circuits.search.config import SearchBudget
from hopscope.training.execution import Execution, REFERENCE
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder

import_all()
witness, root = disguised_witness(1), Path(sys.argv[1])
shape = witness.transformer.shape
Recipe.architecture = lambda self, problem: shape
recipe = Recipe(layers=shape.layers, heads=shape.heads, d_model=shape.d_model, head_dim=shape.head_dim, mlp=False,
                steps=1, batch_size=1, checkpoint_every=1, log_every=1, final_steps=1)
run = RunFolder.create(root / "run", Setup("witness", witness.problem, recipe, (0,)), REFERENCE)
run.save_checkpoint(1, witness.transformer.state_dict())
budget = SearchBudget(orders=1, growing=1, sequences=8, confirming=8, deciding=8)
proof = CertificateConfig(sequences=8, deciding=8, few=8, draws=2, halves=4)

def program(folder):
    RunModel(RunFolder(folder), 0).find_circuit(effort=budget, proof=proof)

def fresh(name):
    return Path(shutil.copytree(root / "run", root / name))

moments, alone = killed_everywhere(program, fresh, every=13)
assert set(alone) - set(contents(root / "run")) == {"circuit.json"}
print(moments)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")
@pytest.mark.parametrize(("program", "least"), [(ONE_RUN, 30), (ONE_SEARCH, 15)], ids=["training", "search"])
def test_a_program_killed_at_any_write_loses_nothing(program, least, tmp_path):
    """Training at every third write and a search at every thirteenth, each killed once more, somewhere else."""
    path = os.pathsep.join([str(HERE.parent / "support"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert int(shown.stdout) > least


MANY_RUNS = """
import sys
from pathlib import Path
from hopscope import processes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution
from hopscope.training.side_by_side import train_all
from hopscope.training.recipe import Recipe, Setup

folder, runs, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
shape = {"layers": 1, "heads": 1, "d_model": 8, "batch_size": 4, "log_every": 5, "final_steps": 1, "validation_size": 2}
setups = [Setup(f"run-{seed}", RetrievalProblem(hops=1), Recipe(steps=steps, **shape), (seed,)) for seed in range(runs)]
processes.raise_on_stop_signals()
execution = Execution(precision="fp32", compiled=False, workers=2)
train_all(setups, folder, execution=execution)
"""

KILLING = """
import os, signal, sys

if "spawn_main" in " ".join(sys.orig_argv):  # a worker
    from hopscope.training.run import RunFolder

    plain, seen = RunFolder.append_metrics, 0

    def append(self, rows):
        global seen
        plain(self, rows)
        seen += 1
        if str(seen) == os.environ["KILL_AT"]:
            os.kill(os.getppid(), signal.SIGKILL)  # its parent

    RunFolder.append_metrics = append
"""


def in_workers(text: str, folder: Path, **variables: str) -> dict[str, str]:
    """An environment in which workers, which import nothing of the script that asks for them, run this first."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(text)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **variables}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_workers_end_with_their_parent_and_lose_nothing(tmp_path):
    """Killed when a worker has written its k-th row, and called again at once: two writers must not meet."""

    def called(folder: str, kill_at: int) -> int:
        command = [sys.executable, "-c", MANY_RUNS, str(tmp_path / folder), "3", "300"]
        return subprocess.run(command, env=in_workers(KILLING, tmp_path / "site", KILL_AT=str(kill_at))).returncode

    assert called("alone", 0) == 0
    assert called("killed", 8) == -9
    assert called("killed", 0) == 0
    found = [
        {str(path.relative_to(tmp_path / folder)): path.read_bytes() for path in (tmp_path / folder).rglob("*.json*")}
        for folder in ("alone", "killed")
    ]
    assert len(found[0]) == 9
    assert found[0] == found[1]


SLOW = """
import sys, time

if "spawn_main" in " ".join(sys.orig_argv):  # a worker
    from hopscope.training.ensemble import Ensemble
    from hopscope.training.run import RunFolder

    update, save = Ensemble.update, RunFolder.save_state

    def slowly(self, *given):
        time.sleep(0.01)
        return update(self, *given)

    def one_later_than_the_other(self, *given):
        time.sleep(0.1 + self.seeds[0])
        save(self, *given)

    Ensemble.update, RunFolder.save_state = slowly, one_later_than_the_other
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="orders as POSIX has them")
@pytest.mark.parametrize(
    ("order", "whole_group"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGTERM, False)]
)
def test_workers_save_their_state_on_a_stop_signal_and_begin_nothing_new(order, whole_group, tmp_path):
    """By Ctrl-C, which a terminal tells workers too, by who ends the whole group, or by an order to the parent."""
    folder, environment = tmp_path / "runs", in_workers(SLOW, tmp_path / "site")
    command = [sys.executable, "-c", MANY_RUNS, str(folder), "4", "10000"]
    parent = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while sum(path.stat().st_size > 0 for path in folder.glob("*/metrics.jsonl")) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    (os.killpg if whole_group else os.kill)(parent.pid, order)
    errors = parent.communicate(timeout=60)[1]
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert sorted(path.name for path in folder.iterdir()) == ["run-0", "run-1"]
    assert all(RunFolder(path).load_state() is not None for path in folder.iterdir())
