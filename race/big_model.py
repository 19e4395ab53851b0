"""Time and memory of the circuit search in a large model: a planted circuit among a thousand heads.

    python race/big_model.py FOLDER [--layers 32] [--heads 32] [--width 1024] [--threads 2] [--json FILE]

The script makes a GPT-2 of the given size in FOLDER, in which two heads answer equations of one hop and all other heads
are random (from `tests/support/planted_text.py`). It then finds the circuit as `hopscope circuit FOLDER` would. The
exit status is 1 unless the circuit is exactly the planted one. The same command continues an interrupted search; time
is counted over all calls.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import torch

import hopscope as hs
from hopscope import processes
from hopscope.problem.paths import AttentionPath
from hopscope.problem.roles import text_role_names
from hopscope.records import read_json, write_json

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from planted_text import Planted, planted_among_random

from examples.text_model.training import publish


class Clock:
    """The time spent over all calls, which is stored in a file beside the model.

    Args:
        path: the path of that file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._began, self._worked = path, time.monotonic(), time.process_time()
        self._before = (
            read_json(path, "time spent") if path.exists() else {"minutes": 0.0, "core_minutes": 0.0, "gb": 0}
        )

    def spent(self) -> dict[str, float]:
        """Return and store the wall-clock minutes, the minutes of all cores together, and the peak memory in GB."""
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        spent = {
            "minutes": self._before["minutes"] + (time.monotonic() - self._began) / 60,
            "core_minutes": self._before["core_minutes"] + (time.process_time() - self._worked) / 60,
            "gb": max(self._before["gb"], held),
        }
        write_json(self._path, spent)
        return spent


def processor() -> str:
    """Return the name of the processor."""
    told = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in told if line.startswith("model name")), "unknown")


def main() -> None:
    """Make the model, find its circuit, compare it with the planted one, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the model, which is made if it is missing")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--heads", type=int, default=32, help="heads per layer [default: 32]")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None, help="also write the numbers to this file")
    asked = parser.parse_args()
    processes.claim_process()
    processes.tune_process()
    torch.set_num_threads(asked.threads)
    layers, heads = asked.layers, asked.heads
    stand = Planted(layers, heads, asked.width, (layers // 5, heads // 3), (2 * layers // 3, heads // 2))
    if not (asked.folder / "config.json").exists():
        publish(planted_among_random(stand), asked.folder)
    clock = Clock(asked.folder / "spent.time")

    def watch(stage: str, done: int, stages: int) -> None:
        spent = clock.spent()
        print(f"{spent['minutes']:7.1f} min {spent['gb']:5.1f} GB  {stage}", flush=True)

    circuit = hs.LanguageModel(asked.folder).find_circuit(hs.text("equations", 1), effort="quick", progress=watch)
    spent = {name: round(value, 1) for name, value in clock.spent().items()}
    found = sorted(path.path for path in circuit.paths)
    planted = sorted(AttentionPath.parse(path, text_role_names(1)) for path in stand.circuit)
    result = {
        "layers": layers, "heads": heads, "width": asked.width, "threads": asked.threads, "processor": processor(),
        **spent, "found_exactly": found == planted, "paths": [path.describe(text_role_names(1)) for path in found],
        "certified": circuit.certified,
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    if asked.json is not None:
        write_json(asked.json, result)
    if found != planted:
        sys.exit(1)


if __name__ == "__main__":
    main()
