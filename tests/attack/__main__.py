"""The whole attack: `make attack`, or `python tests/attack --help`. Prints a table; status 1 where any fault is.

The cases follow from seed and counts, however many processes share them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "INSPECT_LOG_LEVEL": "error"}

from attacked_verbs import KILLS
from attacker import Tally
from chunks import Chunk, all_at_once
from everything_loaded import load
from good_folders import make, make_small, with_model
from tables import table


def main() -> int:
    """Attack, and say what came of it."""
    options = _options()
    load(language=options.cases >= 1000)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        good = Path(name) / "good"
        if options.cases >= 1000:
            make(good)
            with_model(good, _model(Path(name) / "model"))
        else:
            make_small(good)
        _progress(f"{time.monotonic() - began:.0f} s: good folders are made")
        tally = Tally()
        chunks = _chunks(options, good)
        for done in all_at_once(chunks, good, Path(name) / "room", options.workers, _progress):
            tally.add(done)
    print(table(tally))
    computed = sum(os.times()[:4])  # children's too
    print(f"{time.monotonic() - began:.0f} seconds, {computed:.0f} of them on cores; {len(tally.faults)} faults")
    return 1 if tally.faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/attack", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="commands with odd options or on damaged files")
    parser.add_argument("--kills", type=int, default=200, help="commands killed at a write and called again")
    parser.add_argument("--flips", type=int, default=1000, help="single bits flipped in a run folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes [default: cores]")
    return parser.parse_args()


def _chunks(options: argparse.Namespace, good: Path) -> list[Chunk]:
    """The work in parts of a minute at most, the longest first."""
    bent = options.cases * 7 // 10
    parts = [
        *(Chunk("flips", 0.03 * count, count, f"{options.seed}.{part}") for part, count in _parted(options.flips, 250)),
        *(Chunk("options", 0.25 * count, count, f"{options.seed}.{part}") for part, count in _parted(bent, 50)),
        *(
            Chunk("files", 0.2 * count, count, f"{options.seed}.{part}")
            for part, count in _parted(options.cases - bent, 50)
        ),
    ]
    for verb, (_, needs, share, seconds) in KILLS.items():
        count = round(share * options.kills)
        if count and (good / needs).exists() and (good.joinpath("tiny").exists() or verb != "emergence"):
            many = -(-count // 10)
            parts += [Chunk(verb, seconds * count / many, count, str(options.seed), part, many) for part in range(many)]
    return sorted(parts, key=lambda one: -one.seconds)


def _parted(count: int, most: int) -> list[tuple[int, int]]:
    """A count in parts of `most`: number and size of each."""
    return [(part, min(most, count - part * most)) for part in range(-(-count // most))]


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _model(folder: Path) -> Path:
    """A language model of no use, in a fork: training computes."""
    child = os.fork()
    if child == 0:
        from dataclasses import replace

        from own_small import RECIPE

        from examples.text_model.training import train_text_model

        train_text_model(replace(RECIPE, steps=2), folder)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return folder


if __name__ == "__main__":
    sys.exit(main())
