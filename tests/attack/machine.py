"""What a machine does to a program: no file handles left, a disk that is read-only, a clock that goes back, a folder
that has moved, a second process. Prints what should not have happened, a line a fault; status 1 where there is any.

Every case is a fork, so this is run in a process of its own: `python tests/attack/machine.py GOOD ROOM NAME ...`.
"""

from __future__ import annotations

import os
import pickle
import re
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

os.environ |= {"OMP_NUM_THREADS": "1"}

from attacked_verbs import CIRCUIT, EMERGENCE, REPORT, TRAIN
from attacked_verbs import REPRODUCE as REPRODUCE_INTO
from everything_loaded import load
from good_folders import make
from hurrying import quick
from read_only import read_only
from sandbox import Ended, command, contents

REPRODUCE = [*REPRODUCE_INTO, "begun"]
RESUME = ["train", "half", *TRAIN[2:]]


class Cases:
    """The cases, over one set of good folders, which stay as they are."""

    def __init__(self, good: Path, room: Path) -> None:
        self._good, self._room, self._cases = good, room, 0
        self._left: dict[tuple[str, ...], Path] = {}

    def no_handles(self) -> Iterator[str]:
        """With room for k files beside those that are open, a command ends well or in a sentence; then it goes on."""
        for arguments, rooms in ((TRAIN, 6), ([*CIRCUIT, "--overwrite"], 1), (RESUME, 3)):
            wanted, short = self._alone(arguments), 0
            for room in range(rooms):
                inside = self._fresh()
                ended = command(arguments, inside, before=lambda room=room: _few_files(room), seconds=60)
                what = f"{' '.join(arguments[:2])} with room for {room} files"
                short += ended.status == 1
                yield from _wrong(what, ended, (0, 1))
                yield from self._goes_on(what, arguments, inside, wanted)
            if not short:
                yield f"{arguments[0]} never ran out of files"

    def read_only_disk(self) -> Iterator[str]:
        """What is there can be read; what must be written is refused in a sentence, and nothing has changed."""
        looks = [CIRCUIT, ["circuit", "run", "--show"], EMERGENCE, ["check", "run"], ["circuit", "census", "run"]]
        again = [[*CIRCUIT, "--overwrite"], [*EMERGENCE, "--overwrite"]]
        writes = [TRAIN, RESUME, *again, [*REPORT, "--claims-only"], REPRODUCE]
        for arguments, status in [*((one, 0) for one in looks), *((one, 1) for one in writes)]:
            inside = self._fresh()
            before = contents(inside)
            ended = command(arguments, inside, before=lambda: (quick(), read_only()), seconds=60)
            yield from _wrong(f"{' '.join(arguments)} on a read-only disk", ended, (status,))
            if status and "Read-only file system" not in ended.said:
                yield f"{' '.join(arguments)} on a read-only disk says {ended.said!r}"
            if contents(inside) != before:
                yield f"{' '.join(arguments)} on a read-only disk changed something"

    def clock_set_back(self) -> Iterator[str]:
        """A command is killed, the clock goes ten years back and the machine's uptime to nothing: the same bytes."""
        for arguments in (TRAIN, [*CIRCUIT, "--overwrite"], RESUME):
            wanted = self._alone(arguments)
            for moment in (9,) if arguments[0] == "circuit" else (9, 14):
                inside = self._fresh()
                command(arguments, inside, kill_at=moment, before=quick, seconds=60)
                what = f"{' '.join(arguments[:2])} killed at moment {moment}, and the clock set back"
                yield from self._goes_on(what, arguments, inside, wanted, _earlier)

    def moved(self) -> Iterator[str]:
        """Resumed, reported on and checked elsewhere, by another name and through a link: the same bytes."""
        _worked_out_once()
        for arguments in (RESUME, REPORT):
            name, wanted = arguments[1], self._alone(arguments)
            page = _page(self._left_alone(arguments) / name)
            for how in ("moved", "copied", "linked"):
                inside = self._fresh()
                there = inside / "some where" / "else"
                there.parent.mkdir()
                if how == "moved":
                    (inside / name).rename(there)
                elif how == "copied":
                    shutil.copytree(inside / name, there, copy_function=shutil.copyfile)
                else:
                    there.symlink_to(inside / name)
                what = f"{name} {how}"
                here = [arguments[0], "some where/else", *arguments[2:]]
                yield from _wrong(what, command(here, inside, before=quick, seconds=120), (0,))
                yield from _differs(what, contents(there), contents_of(wanted, name))
                again = page.replace("--out tiny", "--out 'some where/else'")
                again = again.replace("hopscope report tiny", "hopscope report 'some where/else' --preset tiny")
                if _page(there) != again:
                    yield f"{what}: another page"
                yield from _wrong(what, command(["check", "some where/else"], inside), (0,))

    def two_at_once(self) -> Iterator[str]:
        """Both come to the bytes of one alone, or one is told that the other is there."""
        _worked_out_once()
        for arguments, times in ((TRAIN, 1), (RESUME, 1), ([*CIRCUIT, "--overwrite"], 1), (REPRODUCE, 1)):
            wanted = self._alone(arguments)
            for trial in range(times):
                inside = self._fresh()
                what = f"two of {' '.join(arguments[:2])} at once ({trial})"
                both = _together(arguments, inside, 2)
                for ended in both:
                    yield from _wrong(what, ended, (0, 2))
                    if ended.status == 2 and "another process" not in ended.said:
                        yield f"{what}: {ended.said!r}"
                if not any(ended.status == 0 for ended in both):
                    yield f"{what}: neither came to its end"
                yield from _differs(what, contents(inside), wanted)

    def _fresh(self) -> Path:
        """A folder with copies of the good ones."""
        self._cases += 1
        inside = self._room / str(self._cases)
        shutil.copytree(self._good, inside)
        return inside

    def _alone(self, arguments: list[str]) -> dict[str, bytes]:
        """What a command leaves that nothing disturbs."""
        return contents(self._left_alone(arguments))

    def _left_alone(self, arguments: list[str]) -> Path:
        """The folder in which nothing disturbed a command."""
        if (asked := tuple(arguments)) not in self._left:
            self._left[asked] = self._fresh()
            ended = command(arguments, self._left[asked], before=quick, seconds=120)
            assert ended.status == 0, ended.said
        return self._left[asked]

    def _goes_on(
        self,
        what: str,
        arguments: list[str],
        inside: Path,
        wanted: dict[str, bytes],
        before: Callable[[], object] = lambda: None,
    ) -> Iterator[str]:
        """Called again, a command comes to the bytes of one left alone."""
        yield from _wrong(
            f"{what}, again", command(arguments, inside, before=lambda: (quick(), before()), seconds=120), (0,)
        )
        yield from _differs(what, contents(inside), wanted)
        shutil.rmtree(inside)


def contents_of(found: dict[str, bytes], name: str) -> dict[str, bytes]:
    """Of a folder's contents, those of one folder inside."""
    return {path.removeprefix(f"{name}/"): data for path, data in found.items() if path.startswith(f"{name}/")}


def _wrong(what: str, ended: Ended, statuses: Sequence[int]) -> Iterator[str]:
    if fault := ended.fault:
        yield f"{what}: {fault}"
    elif ended.status not in statuses:
        yield f"{what}: status {ended.status}, {ended.said!r}"
    elif ended.said.count("hopscope: ") > 1 or len(ended.said) > 1000:
        yield f"{what}: more than a sentence, {ended.said!r}"


def _differs(what: str, found: dict[str, bytes], wanted: dict[str, bytes]) -> Iterator[str]:
    differ = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if differ:
        yield f"{what}: differs from one left alone in {differ}"


def _page(folder: Path) -> str:
    """The report's page but for its date; nothing where there is none."""
    path = folder / "report.html"
    return re.sub(r"<time.*?</time>|Made [-0-9: ]* UTC", "", unescape(path.read_text())) if path.exists() else ""


def _worked_out_once() -> None:
    """What every report works out anew that depends on no file, here, so that the forks know it."""
    from hopscope.paper import section_4, section_5
    from hopscope.paper.presets import named

    tiny = named("tiny")
    section_4.run(tiny.benchmark, Path("none"))
    section_5.run(tiny.theory, ())


def _few_files(room: int) -> None:
    quick()
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    limit = next(limit for limit in range(1000) if limit - len([one for one in used if one < limit]) == room)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _earlier() -> None:
    now, since = time.time, time.monotonic()
    plain = time.monotonic
    time.time = lambda: now() - 10 * 365 * 86_400  # type: ignore[assignment]
    time.monotonic = lambda: plain() - since  # type: ignore[assignment]


def _together(arguments: list[str], inside: Path, count: int) -> list[Ended]:
    """A command several times at once."""
    start, children = time.time() + 0.1, []
    for _ in range(count):
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:
            time.sleep(max(0.0, start - time.time()))
            ended = command(arguments, inside, before=quick, seconds=120)
            os.write(tells, pickle.dumps(ended))
            os._exit(0)
        os.close(tells)
        children.append((child, told))
    found = []
    for child, told in children:
        with os.fdopen(told, "rb") as pipe:
            found.append(pickle.loads(pipe.read()))
        os.waitpid(child, 0)
    return found


def main(good: str, room: str, *names: str) -> int:
    """Make the good folders, then run the cases of these names."""
    load()
    make(Path(good))
    cases, found = Cases(Path(good), Path(room)), 0
    for name in names:
        for fault in getattr(cases, name)():
            print(f"{name}: {fault}", flush=True)
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
