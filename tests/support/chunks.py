"""The attack in parts that several processes share; what is done of it is told with what is left."""

from __future__ import annotations

import os
import pickle
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from attacker import Attacker, Tally


class Chunk(NamedTuple):
    """A part of the attack.

    Attributes:
        what: `options`, `files`, `flips`, or a verb that is killed.
        seconds: that it takes, about.
        count: of cases; of a verb's kills in all.
        seed: of the cases.
        part: of the verb's kills which.
        parts: of how many.
    """

    what: str
    seconds: float
    count: int
    seed: str
    part: int = 0
    parts: int = 1


def all_at_once(
    chunks: Sequence[Chunk], good: Path, room: Path, workers: int, tell: Callable[[str], None]
) -> Iterator[Tally]:
    """What came of every part, in the order of the parts, after `workers` processes have done them."""
    waiting, found = list(enumerate(chunks)), {}
    whole, began = sum(chunk.seconds for chunk in chunks), time.monotonic()
    done, told = 0.0, began
    with selectors.DefaultSelector() as running:
        while waiting or running.get_map():
            while waiting and len(running.get_map()) < workers:
                number, chunk = waiting.pop(0)
                told_by, child = _begun(chunk, good, room / str(number))
                running.register(told_by, selectors.EVENT_READ, (number, child))
            for key, _ in running.select():
                running.unregister(key.fd)
                number, child = key.data
                with os.fdopen(key.fd, "rb") as pipe:
                    found[number] = pickle.loads(pipe.read())
                os.waitpid(child, 0)
                done += chunks[number].seconds
            if time.monotonic() - told > 20 or done == whole:
                told = time.monotonic()
                cases = sum(one.cases.total() for one in found.values())
                faults = sum(len(one.faults) for one in found.values())
                left = (told - began) * (whole / done - 1) / 60
                tell(
                    f"{told - began:.0f} s: {cases:,} cases, {cases / (told - began):.1f} a second, {faults} faults, "
                    f"about {left:.0f} min left"
                )
    yield from (found[number] for number in range(len(chunks)))


def _begun(chunk: Chunk, good: Path, room: Path) -> tuple[int, int]:
    """Where the tally of a part will come from, and the process that does it."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        tally = Tally()
        try:
            _do(chunk, Attacker(good, room, chunk.seed), tally)
        except BaseException as error:
            tally.faults.append(f"[{chunk.what}] the attack itself: {error!r}")
        with os.fdopen(tells, "wb") as pipe:
            pipe.write(pickle.dumps(tally))
        os._exit(0)
    os.close(tells)
    return told, child


def _do(chunk: Chunk, attacker: Attacker, tally: Tally) -> None:
    if chunk.what in ("options", "files", "flips"):
        getattr(attacker, chunk.what)(chunk.count, tally)
    else:
        attacker.kills(chunk.what, chunk.count, chunk.part, chunk.parts, tally)
