"""Sections 8 and 9 at a preset's scale: the circuits of its followed runs, and how they came to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.circuits.find import circuit_of_run
from hopscope.circuits.find import record_path as circuit_path
from hopscope.circuits.record import Circuit
from hopscope.emergence.history import Emergence
from hopscope.emergence.of_run import emergence_of_run
from hopscope.emergence.of_run import record_path as emergence_path
from hopscope.experiments.circuit_claims import judge_circuits
from hopscope.experiments.emergence_claims import emergence_claims
from hopscope.parallel import in_processes
from hopscope.training.run_folder import RunFolder


@dataclass(frozen=True)
class Followed:
    """One model: its circuit, and its emergence if it has one."""

    circuit: Circuit
    emergence: Emergence | None


def follow(run: RunFolder, workers: int, tick: Callable[[], None] | None = None) -> None:
    """Find, certify and follow the circuit of every model of a run; what is there already is not done again."""
    jobs = [(run.path, number) for number in range(len(run.seeds))]
    in_processes(_follow_one, jobs, min(workers, len(jobs)), tick)


def followed(run: RunFolder) -> list[Followed]:
    """What stands beside the run, for the models whose circuit has been looked for.

    Raises:
        InputError: a record there is damaged.
    """
    found = []
    for number in range(len(run.seeds)):
        if circuit_path(run, number).exists():
            emergence = emergence_path(run, number)
            found.append(
                Followed(
                    Circuit.load(circuit_path(run, number)), Emergence.load(emergence) if emergence.exists() else None
                )
            )
    return found


def judge(scale: str, run: RunFolder, models: list[Followed], evidence: str) -> list[dict[str, Any]]:
    """Findings on C7 to C11 and C13. C6 and C12 are about transformers A to D and their numbers, and are not judged.

    Args:
        scale: the preset's name.
        run: that was followed.
        models: of `followed`.
        evidence: the run's folder, relative to the report.
    """
    shape = f"{run.recipe.layers} layers x {run.recipe.heads} heads"
    words = f"{scale}: D = {run.problem.hops}, {shape}, {len(models)} seeds"
    emergences = [model.emergence for model in models if model.emergence is not None]
    losses = [run.result["models"][emergence.number]["final_validation_loss"] for emergence in emergences]
    came = [row for row in emergence_claims(scale, emergences, losses, evidence) if row["id"] == "C13"]
    return [*judge_circuits([model.circuit for model in models], words, evidence), *came]


def _follow_one(path: Path, number: int) -> None:
    """One model, in a process of its own on one thread."""
    import torch

    torch.set_num_threads(1)
    run = RunFolder(path)
    if circuit_of_run(run, number).found:
        emergence_of_run(run, number)
