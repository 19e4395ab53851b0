"""A Ray cluster, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_count, check_number, make_plain


@dataclass(frozen=True)
class RayCluster:
    """Where runs are trained, and what each of them takes.

    Args:
        address: address of the Ray cluster; `None` uses RAY_ADDRESS, or this machine alone if that is unset.
        cpus_each: CPU cores per run (Ray only).
        gpus_each: GPUs per run (Ray only); 0.25 lets four runs share one, 0 trains on CPUs.
    """

    address: str | None = None
    cpus_each: int = 1
    gpus_each: float = 0.0

    def __post_init__(self) -> None:
        make_plain(self)
        check_count("cpus_each", self.cpus_each)
        check_number("gpus_each", self.gpus_each, 0.0)
