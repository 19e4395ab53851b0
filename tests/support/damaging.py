"""Files damaged: cut, emptied, flipped, nested, replaced, or with another value inside."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def records(root: Path) -> list[Path]:
    kinds = {".json", ".jsonl", ".safetensors"}
    return [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.suffix in kinds)


def damage(path: Path, rng: random.Random) -> str:
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
        "deep nesting": put(b"[" * 200_000 + b"]" * 200_000),
        "removal": path.unlink,
        "a folder": instead(path.mkdir),
        "a pipe": instead(lambda: os.mkfifo(path)),
        "/dev/zero": instead(lambda: path.symlink_to("/dev/zero")),
        "other fields": lambda: _other_fields(path, rng, sealed=False),
        "other fields, sealed": lambda: _other_fields(path, rng, sealed=True),
    }
    name = rng.choice([*ways, "other fields", "other fields, sealed", "other fields, sealed"])
    ways[name]()
    return name


def _other_fields(path: Path, rng: random.Random, sealed: bool) -> None:
    """A value somewhere inside replaced; with a seal that fits, as whoever wrote it on purpose would have it."""
    from hopscope.records import seal

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


def flips(folder: Path, count: int, seed: str) -> Iterator[tuple[Path, bytes]]:
    """Flip single bits of a folder's files, one at a time: the file, and what it held before."""
    rng = random.Random(f"flips {seed}")
    files = records(folder)
    for _ in range(count):
        path = rng.choice(files)
        before = path.read_bytes()
        flip(path, rng.randrange(8 * len(before)))
        yield path, before
        path.write_bytes(before)
