"""The whole attack: `make attack`, or `python tests/attack [CASES] [SEED]`. Prints counts; status 1 where any fault is.

One process computes at a time, on one thread; run it with `chrt -i 0` beside other work.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "INSPECT_LOG_LEVEL": "error"}


def main(cases: int = 10_000, seed: int = 0) -> int:
    """Attack, and say what came of it."""
    import filelock
    import matplotlib.pyplot
    import scipy.stats
    import torch._dynamo
    from attacker import ASK, CIRCUIT, SWEEP, TRAIN, Attacker, Tally, flips
    from flipped import unnoticed
    from good_folders import make, make_small, with_model

    import hopscope.report.page  # noqa: F401 - or each fork would import all these anew

    torch.set_num_threads(1)
    whole = cases >= 1000
    if whole:
        import inspect_ai
        import transformers

        assert all((inspect_ai, transformers))
    assert all((filelock, matplotlib, scipy))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        good, room = Path(name) / "good", Path(name) / "room"
        if whole:
            make(good)
            with_model(good, _model(Path(name) / "model"))
        else:
            make_small(good)
        attacker, tally = Attacker(good, room, seed), Tally()
        attacker.options(cases * 7 // 10, tally)
        attacker.files(cases - cases * 7 // 10, tally)
        print(f"{time.monotonic() - began:.0f} s: options and files", file=sys.stderr)
        for arguments, needs, most in (
            (TRAIN, (), 100),
            ([*CIRCUIT, "--anew"], ("run",), 40),
            (["emergence", "run", "--anew", "--no-figures", "--sequences", "4"], ("run",), 40),
            (ASK, ("model",), 40),
            (SWEEP, (), 40),
            (["report", "tiny", "--preset", "tiny"], ("tiny",), 20),
            (["reproduce", "--preset", "tiny", "--out", "new", "--workers", "1", "--precision", "fp32"], ("tiny",), 10),
        ):
            if not all((good / need).exists() for need in needs) or (not whole and arguments[0] == "emergence"):
                continue
            attacker.kills(arguments, needs, max(2, round(most * min(1.0, cases / 10_000))), tally)
            print(f"{time.monotonic() - began:.0f} s: kills of {arguments[0]}", file=sys.stderr)
        for path, before in flips(good / "run", max(200, min(1000, cases // 2)), seed):
            tally.cases["flipped bits"] += 1
            if missed := unnoticed(good / "run", path, before):
                tally.faults.append(missed)
    for kind, count in sorted(tally.cases.items()):
        print(f"| {kind} | {count:,} | {sum(_of(fault, kind) for fault in tally.faults)} |")
    print("by status:", dict(sorted((str(status), count) for status, count in tally.statuses.items())))
    print(f"{time.monotonic() - began:.0f} s, {len(tally.faults)} faults, {len(tally.long)} stopped in allowed work:")
    for what in tally.long:
        print(f"  {what}")
    for fault in tally.faults:
        print(f"  {fault}")
    return 1 if tally.faults else 0


def _of(fault: str, kind: str) -> bool:
    return fault.startswith(f"[{kind}]")


def _model(folder: Path) -> Path:
    """A language model of no use, in a fork: training computes."""
    child = os.fork()
    if child == 0:
        from dataclasses import replace

        from own_small import RECIPE

        from hopscope.benchmark.own_model.training import train_text_model

        train_text_model(replace(RECIPE, steps=2), folder)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return folder


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
