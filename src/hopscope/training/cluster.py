"""A Ray cluster, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_count, check_number


@dataclass(frozen=True)
class RayCluster:
    """Where runs are trained, and what each of them takes.

    Args:
        address: on Ray: of the cluster, as Ray writes it; `None` for the one in RAY_ADDRESS, and failing that for this
            machine alone.
        cpus_each: on Ray: cores a run.
        gpus_each: on Ray: of a GPU a run: 0.25 lets four share one; 0 trains on CPUs.
    """

    address: str | None = None
    cpus_each: int = 1
    gpus_each: float = 0.0

    def __post_init__(self) -> None:
        check_count("cpus_each", self.cpus_each)
        check_number("gpus_each", self.gpus_each, 0.0)
