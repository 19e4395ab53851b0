"""Whether a flipped bit is noticed, or can change nothing."""

from __future__ import annotations

import json
from pathlib import Path

from hopscope.integrity import check


def unnoticed(folder: Path, path: Path, before: bytes) -> str:
    """What is wrong where a changed file passes as good; empty where it is refused by name or says the same."""
    found = [one for one in check(folder) if one.trouble]
    if found:
        return "" if any(path.name in one.trouble for one in found) else f"[flipped bits] {path.name} is not named"
    now = path.read_bytes()
    if path.suffix == ".json" and json.loads(now) == json.loads(before):
        return ""
    at = next(place for place, pair in enumerate(zip(now, before, strict=True)) if pair[0] != pair[1])
    return f"[flipped bits] {path.name} was changed at byte {at} and passes"
