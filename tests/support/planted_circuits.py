"""Circuits of planted models, for the studies that count them."""

from __future__ import annotations

from collections.abc import Sequence

from studies.tools.circuits import NamedPath, Seen

TIES: tuple[NamedPath, ...] = ((1, 1, ">x1", "x0>"), (1, 1, ">x2", "x1>"), (1, 1, ">x3", "x2>"))
SERIAL: tuple[NamedPath, ...] = (*TIES, (2, 1, "x0?", ">x1"), (3, 1, "x0?", ">x2"), (4, 1, "x0?", ">x3"))
DOUBLING: tuple[NamedPath, ...] = (*TIES, (2, 1, "x0?", ">x1"), (2, 2, ">x3", ">x2"), (3, 1, "x0?", ">x3"))


def seen(
    paths: Sequence[NamedPath],
    seed: int = 0,
    again: Sequence[Sequence[NamedPath]] = (),
    strict: Sequence[NamedPath] = (),
    strategy: str = "doubling",
    **changes: object,
) -> Seen:
    """A model with that circuit."""
    known = {"model": f"4-layers/seed-{seed:03d}", "layers": 4, "step": None, "hops": 3, "loss": 0.01, "delivers": True}
    known |= {"certified": (), "strict_again": ()} | changes
    ends = tuple(tuple(one) for one in again)
    return Seen(seed=seed, strategy=strategy, paths=tuple(paths), again=ends, strict=tuple(strict), **known)
