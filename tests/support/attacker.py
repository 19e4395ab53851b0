"""Seeded attacks on the command line: odd options, damaged files, kills; each case in a fork and its own folder."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from attacked_verbs import BASES, KILLS, NEEDS, READERS, WEIGHTS
from bending import bent
from damaging import damage, flips, records
from flipped import unnoticed
from hurrying import quick
from sandbox import Ended, command, contents


@dataclass
class Tally:
    """What came of the cases: how many, with which status, and what should not have happened.

    `long` are those whose options asked for much work that is allowed, which was stopped by SIGTERM.
    """

    cases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int | None] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    long: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what came of others."""
        self.cases += other.cases
        self.statuses += other.statuses
        self.faults += other.faults
        self.long += other.long

    def note(self, kind: str, ended: Ended, what: str, more: str = "") -> None:
        self.cases[kind] += 1
        self.statuses[ended.status] += 1
        if ended.status == 130 and kind.startswith("options"):
            self.long.append(what)
        elif ended.status == 130:
            more = more or "no end in time"
        if fault := ended.fault or more:
            self.faults.append(f"[{kind}] {what}: {fault}")
            print(self.faults[-1], file=sys.stderr, flush=True)


@dataclass
class Attacker:
    """Cases over one set of good folders.

    Attributes:
        good: folder with `run` (a finished run with circuit and emergence), `half` (one that was stopped), `tiny` (a
            reproduction), `begun` (the same but for one run's end and what follows from all), `asked` (a benchmark),
            `model` (a language model) and `graph.json`; never changed.
        room: folder for the cases.
        seed: of the cases.
    """

    good: Path
    room: Path
    seed: str = "0"

    def options(self, count: int, tally: Tally) -> None:
        """Commands with one or two options or arguments bent."""
        rng = random.Random(f"options {self.seed}")
        verbs = sorted(verb for verb in BASES if (self.good / NEEDS.get(verb, "run")).exists())
        weights = [WEIGHTS.get(verb, 10) for verb in verbs]
        for _ in range(count):
            verb = rng.choices(verbs, weights)[0]
            arguments = list(rng.choice(BASES[verb]))
            for _ in range(rng.choice((1, 1, 2))):
                arguments = bent(arguments, rng)
            with self._case(*arguments) as (inside, before):
                ended = command(arguments, inside, before=quick)
                changed = ended.status == 2 and contents(inside) != before
                tally.note(f"options of {verb}", ended, repr(arguments)[:400], "refused and changed" if changed else "")

    def files(self, count: int, tally: Tally) -> None:
        """Commands on folders of which one file is damaged."""
        rng = random.Random(f"files {self.seed}")
        names = sorted(name for name in READERS if (self.good / name).exists())
        for _ in range(count):
            name = rng.choice(names)
            arguments = rng.choice(READERS[name])
            with self._case(name, *arguments) as (inside, _):
                files = [path for path in records(inside / name) if path.is_file()]
                path = rng.choice(files)
                how = damage(path, rng)
                damaged = contents(inside)
                ended = command(arguments, inside, before=quick)
                changed = ended.status == 2 and contents(inside) != damaged
                what = f"{how} of {path.relative_to(inside)}, then {' '.join(arguments)}"
                tally.note(f"files read by {arguments[0]}", ended, what[:400], "refused and changed" if changed else "")

    def kills(self, verb: str, count: int, part: int, parts: int, tally: Tally) -> None:
        """A command killed around its k-th write and called again, for some k; then nothing differs.

        Of the `count` moments that are tried, every `parts`-th from `part` on is in this call.
        """
        arguments, needs, *_ = KILLS[verb]
        with self._case(needs) as (inside, _):
            whole = command(arguments, inside, before=quick, seconds=600)
            assert whole.status == 0, whole.said
            wanted = _sorted_rows(contents(inside))
        every = range(1, whole.moments + 1)
        for moment in random.Random(f"kills {self.seed}").sample(every, min(count, len(every)))[part::parts]:
            with self._case(needs) as (inside, _):
                killed = command(arguments, inside, kill_at=moment, before=quick, seconds=600)
                ended = command(arguments, inside, before=quick, seconds=600)
                found = _sorted_rows(contents(inside))
                differs = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
                trouble = f"was not killed ({killed.status})" if killed.status != 137 else ""
                trouble = trouble or (f"differs: {differs}" if differs else "")
                what = f"{' '.join(arguments[:2])} killed at moment {moment} of {whole.moments}"
                tally.note(f"kills of {verb}", ended, what, trouble)

    def flips(self, count: int, tally: Tally) -> None:
        """Single bits flipped in the files of a run and of the reproduction, where there is one."""
        names = [name for name in ("run", "tiny") if (self.good / name).exists()]
        with self._case(*names) as (inside, _):
            for name in names:
                share = count // len(names) + (name == "run") * (count % len(names))
                for path, before in flips(inside / name, share, self.seed):
                    tally.cases["flipped bits"] += 1
                    if missed := unnoticed(inside / name, path, before):
                        tally.faults.append(missed)

    def _case(self, *names: str) -> _Case:
        return _Case(self, {name for name in names if name in (*READERS, "model", "begun")})


class _Case:
    """A folder for one case, with copies of what it needs."""

    def __init__(self, attacker: Attacker, needs: set[str]) -> None:
        self._attacker, self._needs = attacker, needs
        self._inside = attacker.room / "case"

    def __enter__(self) -> tuple[Path, dict[str, bytes]]:
        inside = self._inside
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir(parents=True)
        for name in self._needs:
            source = self._attacker.good / name
            if name == "model":
                (inside / name).symlink_to(source)
            elif source.is_dir():
                shutil.copytree(source, inside / name)
            else:
                shutil.copy(source, inside / name)
        os.mkfifo(inside / "fifo")
        (inside / "file").write_text("a file")
        (inside / "folder").mkdir()
        return inside, contents(inside)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._inside, ignore_errors=True)


def _sorted_rows(found: dict[str, bytes]) -> dict[str, bytes]:
    """Benchmark records come in the order of the replies."""
    return {name: b"\n".join(sorted(data.split(b"\n"))) if "records" in name else data for name, data in found.items()}
