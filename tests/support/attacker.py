"""Seeded attacks on the command line: odd options, damaged files, kills; each case in a fork and its own folder."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from sandbox import Ended, command, contents

ODD = (
    "", " ", "-1", "0", "1", "2", "3.5", "1e400", "-1e400", "nan", "inf", "1" + "0" * 400, "9" * 5000, "-" + "9" * 5000,
    "9999999999999999999", "9223372036854775808", "0x10", "1_000", "\u0661", "None", "none", "true", "null", "[]", "{}",
    "a" * 100_000, "\u202eevil", "\x1b[31mred", "\udcff", "../..", "/dev/zero", "/dev/full", "/dev/null",
    "fifo", "file", "folder", "folder/x/y", "n" * 300, "1-999999999", "999999999-1", "1,1,1", "0-0", "1;2", "--help",
    "-", "%s%n", "/proc/self/mem", "1.1=previous", "9.9=uniform", "cpu", "meta", "cuda:99", "1000000", "1000000000",
    "1000000000000", "a=b", "a=", "=", "1,2", "equations", "functions", "laptop", "2,1", "1e-300", "0.5",
)  # fmt: skip

TINY = """
    --layers 1 --heads 1 --d-model 8 --head-dim 8 --no-mlp --steps 2 --batch-size 2 --log-every 1 --final-steps 1
    --validation-size 2 --schedule constant --device cpu --precision fp32 --no-compile
""".split()  # noqa: SIM905 - it is read as a command is
TRAIN = ["train", "new", *TINY, "--hops", "1", "--chains", "2"]
SWEEP = [
    "sweep",
    "new",
    *TINY[2:],
    "--depths",
    "1",
    "--hops",
    "1",
    "--plain-hops",
    "1",
    "--seeds",
    "0",
    "--workers",
    "1",
]
CIRCUIT = ["circuit", "run", "--no-figures", "--effort", "quick"]
ASK = ["benchmark", "--model", "model", "--out", "new", "--formulation", "equations", "--hops", "1", "--count", "2"]

BASES: dict[str, list[list[str]]] = {
    "train": [TRAIN],
    "sweep": [SWEEP],
    "circuit": [CIRCUIT, ["circuit", "run", "--show"], ["circuit", "compare", "run", "run"],
                ["circuit", "census", "run"]],
    "emergence": [["emergence", "run", "--no-figures", "--sequences", "4"]],
    "theory": [["theory", "--hops", "3"], ["theory", "--show", "--hops", "2"], ["theory", "--graph", "graph.json"]],
    "benchmark": [ASK],
    "report": [["report", "tiny", "--preset", "tiny", "--claims-only"]],
    "reproduce": [["reproduce", "--preset", "tiny", "--out", "tiny", "--workers", "1", "--precision", "fp32"]],
    "sample": [["sample", "equations"], ["sample", "vectors"], ["sample", "functions", "--out", "new.jsonl"]],
    "check": [["check", "run"]],
    "study": [["study", "nothing"]],
}  # fmt: skip
"""By verb, commands that end in a moment, to be bent. `study` has no quick one: only what it refuses is tried."""

NEEDS = {"report": "tiny", "reproduce": "tiny", "benchmark": "model"}
"""What a verb is tried on, beside the run."""

WEIGHTS = {"reproduce": 1, "study": 1, "report": 3, "check": 3, "sweep": 8}
"""How often a verb comes; 10 for the others."""

READERS: dict[str, list[list[str]]] = {
    "run": [["train", "run", *TINY], ["circuit", "run", "--show"], CIRCUIT,
            ["emergence", "run", "--no-figures", "--sequences", "4"], ["check", "run"], ["circuit", "census", "run"]],
    "half": [["train", "half", *TRAIN[2:]], ["check", "half"]],
    "asked": [[*ASK[:4], "asked", *ASK[5:]], ["check", "asked"]],
    "tiny": [["report", "tiny", "--preset", "tiny", "--claims-only"], ["check", "tiny"]],
    "graph.json": [["theory", "--graph", "graph.json"]],
}  # fmt: skip
"""By what is damaged, commands that read it."""


@dataclass
class Tally:
    """What came of the cases: how many, with which status, and what should not have happened.

    `long` are those whose options asked for much work that is allowed, which was stopped by SIGTERM.
    """

    cases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int | None] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    long: list[str] = field(default_factory=list)

    def note(self, kind: str, ended: Ended, what: str, more: str = "") -> None:
        self.cases[kind] += 1
        self.statuses[ended.status] += 1
        if ended.status == 130 and kind.startswith("options"):
            self.long.append(what)
        elif ended.status == 130:
            more = more or "no end in time"
        if fault := ended.fault or more:
            self.faults.append(f"[{kind}] {what}: {fault}")
            print(self.faults[-1], file=sys.stderr)


@dataclass
class Attacker:
    """Cases over one set of good folders.

    Attributes:
        good: folder with `run` (a finished run with circuit and emergence), `half` (one that was stopped), `tiny` (a
            reproduction), `asked` (a benchmark), `model` (a language model) and `graph.json`; never changed.
        room: folder for the cases.
        seed: of the cases.
    """

    good: Path
    room: Path
    seed: int = 0

    def options(self, count: int, tally: Tally) -> None:
        """Commands with one or two options or arguments bent."""
        rng = random.Random(f"options {self.seed}")
        verbs = sorted(verb for verb in BASES if (self.good / NEEDS.get(verb, "run")).exists())
        weights = [WEIGHTS.get(verb, 10) for verb in verbs]
        for _ in range(count):
            verb = rng.choices(verbs, weights)[0]
            arguments = list(rng.choice(BASES[verb]))
            for _ in range(rng.choice((1, 1, 2))):
                arguments = _bent(arguments, rng)
            with self._case(*arguments) as (inside, before):
                ended = command(arguments, inside, before=_quick)
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
                files = [path for path in _records(inside / name) if path.is_file()]
                path = rng.choice(files)
                how = _damage(path, rng)
                damaged = contents(inside)
                ended = command(arguments, inside, before=_quick)
                changed = ended.status == 2 and contents(inside) != damaged
                what = f"{how} of {path.relative_to(inside)}, then {' '.join(arguments)}"
                tally.note(f"files read by {arguments[0]}", ended, what[:400], "refused and changed" if changed else "")

    def kills(self, arguments: list[str], needs: tuple[str, ...], moments: int, tally: Tally) -> None:
        """A command killed around its k-th write and called again, for some or all k; then nothing differs."""
        with self._case(*needs) as (inside, _):
            whole = command(arguments, inside, before=hurried, seconds=600)
            assert whole.status == 0, whole.said
            wanted = _sorted_rows(contents(inside))
        moments = min(moments, whole.moments)
        every = sorted(random.Random(f"kills {self.seed}").sample(range(1, whole.moments + 1), moments))
        for moment in every:
            with self._case(*needs) as (inside, _):
                killed = command(arguments, inside, kill_at=moment, before=hurried, seconds=600)
                ended = command(arguments, inside, before=hurried, seconds=600)
                found = _sorted_rows(contents(inside))
                differs = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
                trouble = f"was not killed ({killed.status})" if killed.status != 137 else ""
                trouble = trouble or (f"differs: {differs}" if differs else "")
                what = f"{' '.join(arguments[:2])} killed at moment {moment} of {whole.moments}"
                tally.note(f"kills of {arguments[0]}", ended, what, trouble)

    def _case(self, *names: str) -> _Case:
        return _Case(self, {name for name in names if name in (*READERS, "model")})


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


def _bent(arguments: list[str], rng: random.Random) -> list[str]:
    """Arguments with an option of the verb set to an odd value, or an argument replaced by one."""
    options = [parameter for parameter in _parameters(arguments) if isinstance(parameter, click.Option)]
    places = [place for place, one in enumerate(arguments) if place and not one.startswith("-")]
    if places and (not options or rng.random() < 0.25):
        place = rng.choice(places)
        return [*arguments[:place], rng.choice(ODD), *arguments[place + 1 :]]
    if not options:
        return arguments
    option = rng.choice(options)
    name = rng.choice([*option.opts, *option.secondary_opts])
    if name == "--held-head":  # nothing odd, and minutes of work
        return arguments
    if option.is_flag:
        return [*arguments, name]
    return [*arguments, name, rng.choice(ODD)]


def _parameters(arguments: list[str]) -> list[click.Parameter]:
    from hopscope.cli import program

    found: click.Command = program
    context = click.Context(program)
    for one in arguments:
        if not isinstance(found, click.Group):
            break
        inner = found.get_command(context, one)
        if inner is None:
            inner = found.get_command(context, "find")
            found = inner if inner is not None else found
            break
        found = inner
    if isinstance(found, click.Group) and (inner := found.get_command(context, "find")) is not None:
        found = inner
    return found.params


def _records(root: Path) -> list[Path]:
    kinds = {".json", ".jsonl", ".safetensors"}
    return [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.suffix in kinds)


def _damage(path: Path, rng: random.Random) -> str:
    """Damage a file in one of many ways; gives which."""
    data = path.read_bytes()

    def put(data: bytes) -> Callable[[], object]:
        return lambda: path.write_bytes(data)

    def instead(make: Callable[[], object]) -> Callable[[], object]:
        return lambda: (path.unlink(), make())

    ways: dict[str, Callable[[], object]] = {
        "truncation": put(data[: rng.randrange(len(data) + 1)]),
        "emptying": put(b""),
        "a flipped bit": lambda: flip(path, rng.randrange(8 * len(data))) if data else None,
        "noise": put(rng.randbytes(200)),
        "zeros": put(bytes(len(data))),
        "deep nesting": put(b"[" * 200_000 + b"]" * 200_000),
        "deep objects": put(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
        "a long number": put(b'{"kind": ' + b"9" * 5000 + b"}"),
        "removal": path.unlink,
        "a folder": instead(path.mkdir),
        "a pipe": instead(lambda: os.mkfifo(path)),
        "/dev/zero": instead(lambda: path.symlink_to("/dev/zero")),
        "a loop": instead(lambda: path.symlink_to(path)),
        "doubling": put(data + data),
        "other fields": lambda: _other_fields(path, rng, sealed=False),
        "other fields, sealed": lambda: _other_fields(path, rng, sealed=True),
    }
    name = rng.choice([*ways, "other fields", "other fields, sealed", "other fields, sealed"])
    ways[name]()
    return name


def _other_fields(path: Path, rng: random.Random, sealed: bool) -> None:
    """A value somewhere inside replaced; with a seal that fits, as whoever wrote it on purpose would have it."""
    from hopscope.seals import seal

    text = path.read_bytes().split(b"\n")[0] if path.suffix == ".jsonl" else path.read_bytes()
    try:
        value = json.loads(text)
    except ValueError:
        return
    if not isinstance(value, dict):
        return
    holder: Any = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = rng.choice(keys)
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.3:
            break
        holder = holder[key]
    holder[key] = rng.choice(
        [None, True, -1, 0, 10**30, 0.9, 1e300, "", "x", "\u202e", "9" * 5000, [], {}, [[]], [0.9], {"a": 1}, "x" * 9]
    )
    there = value.pop("seal", None)
    if sealed and isinstance(there, dict):
        value = {**value, "seal": seal(value, str(there.get("run")))}
    elif there is not None:
        value["seal"] = there
    path.write_text(json.dumps(value) + "\n")


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def flips(folder: Path, count: int, seed: int) -> Iterator[tuple[Path, bytes]]:
    """Flip single bits of a folder's files, one at a time: the file, and what it held before."""
    rng = random.Random(f"flips {seed}")
    files = _records(folder)
    for _ in range(count):
        path = rng.choice(files)
        before = path.read_bytes()
        flip(path, rng.randrange(8 * len(before)))
        yield path, before
        path.write_bytes(before)


def _sorted_rows(found: dict[str, bytes]) -> dict[str, bytes]:
    """Benchmark records come in the order of the replies."""
    return {name: b"\n".join(sorted(data.split(b"\n"))) if "records" in name else data for name, data in found.items()}


def _quick() -> None:
    """In a fork: pictures cost seconds and are not what is attacked, but for drawings that a page takes up."""
    from matplotlib.figure import Figure

    plain = Figure.savefig

    def savefig(self: Figure, path: Any, *given: Any, **options: Any) -> None:
        if options.get("format") == "svg":
            plain(self, path, *given, **options)
        else:
            Path(path).write_bytes(b"picture")

    Figure.savefig = savefig  # type: ignore[method-assign]
    hurried()


def hurried() -> None:
    """In a fork: everything small, and states after every row; what is written stays the same in kind and order."""
    import hopscope.circuits.find as find
    import hopscope.training.trainer as trainer
    from hopscope.circuits.certificate import Proof
    from hopscope.circuits.search import budget

    trainer.HELD_OUT = 64
    trainer._SECONDS_BETWEEN_STATES = 0.0
    few = budget.Budget(orders=2, growing=1, sequences=16, confirming=32, every_subset=2, pairs=2)
    budget.EFFORTS.update(quick=few, thorough=few)
    find.Proof = lambda: Proof(sequences=32, few=16, draws=6)  # type: ignore[assignment,misc]
