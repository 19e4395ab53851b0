"""A seeded attack on the command line: `python tests/attack [--seed 1] [--cases 100]` prints a line a fault.

Options are bent, files damaged, commands killed at a write and called again, single bits flipped. Every case is a fork,
in a folder of its own. A fault is a traceback, another status than 0, 1, 2 or 130, no word, no end, a refusal that
changed a file, bytes other than those of the undisturbed command, and a flipped bit that passes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

from command_line import Ended, call_in_fork
from killing import contents, import_all
from odd_input import damage, flips, with_odd_value

from hopscope.integrity import check

TINY = """
    --layers 1 --heads 1 --d-model 8 --head-dim 8 --no-mlp --steps 2 --batch-size 2 --log-every 1 --final-steps 1
    --validation-size 2 --schedule constant --device cpu --precision fp32 --no-compiled --hops 1 --chains 2
""".split()  # noqa: SIM905 - it is read as a command is
TRAIN = ["train", "new", *TINY]
CIRCUIT = ["circuit", "run", "--no-figures", "--effort", "quick"]
SHOW = ["circuit", "run", "--show"]
SWEEP = ["sweep", "new", *TINY[2:-4], *"--depths 1 --hops 1 --plain-hops 1 --seeds 0 --workers 1".split()]  # noqa: SIM905

COMMANDS = [
    TRAIN, SWEEP, CIRCUIT, SHOW, ["emergence", "run", "--no-figures", "--sequences", "4"],
    ["theory", "--hops", "3"], ["theory", "--show", "--hops", "2"],
    ["sample", "equations"], ["sample", "vectors"], ["sample", "functions", "--roles"], ["check", "run"],
]  # fmt: skip
"""Commands that end in a moment, to be bent."""

READERS = [["train", "run", *TINY], SHOW, CIRCUIT, ["check", "run"]]
"""Commands that read the run, of which a file is damaged."""


class Attack:
    """Cases over one good run; `faults` has what should not have happened, a line each."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.faults: list[str] = []
        self.cases = 0
        self._random = random.Random(seed)
        self._good, self._room = folder / "good", folder / "room"
        self._good.mkdir()
        for arguments in (["train", "run", *TINY], CIRCUIT):
            ended = call_in_fork(arguments, self._good, seconds=600)
            assert ended.status == 0, ended.said

    def bend_options(self) -> None:
        """A command with one or two options or arguments bent."""
        arguments = list(self._random.choice(COMMANDS))
        for _ in range(self._random.choice((1, 1, 2))):
            arguments = with_odd_value(arguments, self._random)
        with self._case() as inside:
            before = contents(inside)
            ended = call_in_fork(arguments, inside)
            self._note(ended, repr(arguments)[:400], changed=contents(inside) != before, may_be_long=True)

    def damage_files(self) -> None:
        """A command on a run of which one file is damaged."""
        arguments = self._random.choice(READERS)
        with self._case() as inside:
            path = self._random.choice(sorted(path for path in (inside / "run").rglob("*.*") if path.is_file()))
            how = damage(path, self._random)
            damaged = contents(inside)
            ended = call_in_fork(arguments, inside)
            self._note(ended, f"{how} of {path.name}, then {arguments[:3]}", changed=contents(inside) != damaged)

    def kill(self, count: int) -> None:
        """Commands killed around a write and called again: then nothing differs."""
        for arguments in (TRAIN, SWEEP, [*CIRCUIT, "--overwrite"]):
            with self._case() as inside:
                whole = call_in_fork(arguments, inside, seconds=600)
                wanted = contents(inside)
            for moment in self._random.sample(range(1, whole.moments + 1), min(count, whole.moments)):
                with self._case() as inside:
                    killed = call_in_fork(arguments, inside, kill_at=moment, seconds=600)
                    ended = call_in_fork(arguments, inside, seconds=600)
                    what = f"{arguments[:2]} killed at moment {moment} of {whole.moments}"
                    self._note(ended, what, changed=False)
                    if killed.status != 137 or contents(inside) != wanted:
                        self.faults.append(f"{what}: other bytes than those of one left alone")

    def flip_bits(self, count: int) -> None:
        """Single bits flipped in the files of the run: `check` names the file, or it says the same."""
        with self._case() as inside:
            for path, before in flips(inside / "run", count, str(self._random.random())):
                self.cases += 1
                named = any(path.name in found.trouble for found in check(inside / "run") if found.trouble)
                if not named and (path.suffix != ".json" or json.loads(path.read_text()) != json.loads(before)):
                    self.faults.append(f"{path.name} has a flipped bit and passes")

    @contextmanager
    def _case(self) -> Iterator[Path]:
        """A folder with copies of the good files."""
        shutil.copytree(self._good, self._room)
        os.mkfifo(self._room / "fifo")
        (self._room / "file").write_text("a file")
        (self._room / "folder").mkdir()
        try:
            yield self._room
        finally:
            shutil.rmtree(self._room)

    def _note(self, ended: Ended, what: str, *, changed: bool, may_be_long: bool = False) -> None:
        """Note a fault; a command may be asked for much work, and must then hear SIGTERM."""
        self.cases += 1
        fault = ended.fault
        if ended.status == 2 and changed:
            fault = "refused, and changed a file"
        if ended.status == 130 and not may_be_long:
            fault = "no end in time"
        if fault:
            self.faults.append(f"{what}: {fault}")
            print(self.faults[-1], file=sys.stderr, flush=True)


def main() -> int:
    """Attack, and print what came of it."""
    parser = argparse.ArgumentParser(prog="tests/attack", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="commands with bent options or on damaged files")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import_all()
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), options.seed)
        attack.flip_bits(options.cases)
        for number in range(options.cases):
            attack.damage_files() if number % 3 == 0 else attack.bend_options()
        attack.kill(max(1, options.cases // 25))
    print(f"{attack.cases} cases, {len(attack.faults)} faults", *attack.faults, sep="\n")
    return 1 if attack.faults else 0


if __name__ == "__main__":
    sys.exit(main())
