"""A search killed at every fifth write, and then at another: called again it comes to the bytes of one left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import shutil, sys
from pathlib import Path
from killing import contents, import_all, killed_everywhere
from small_models import disguised_witness
from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.store import CircuitStore
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
    CircuitStore(RunFolder(folder)).find(effort=budget, proof=proof)

def fresh(name):
    return Path(shutil.copytree(root / "run", root / name))

moments, alone = killed_everywhere(program, fresh, every=13)
assert set(alone) - set(contents(root / "run")) == {"circuit.json"}
print(moments)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")
def test_search_killed_at_any_write_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent.parent / "support"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert int(shown.stdout) > 15
