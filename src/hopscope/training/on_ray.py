"""Many runs on a Ray cluster: as many at once as it has room for, each in a worker process of its own.

The run folders, on a path that every machine of the cluster sees, are the whole ledger: a worker that is killed is
started again and continues from its folder, and so does everything when the driver is killed and called again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.checks import check_count, check_number, make_plain
from hopscope.errors import InputError, in_a_line, needs_extra

if TYPE_CHECKING:
    from hopscope.training.execution import Execution
    from hopscope.training.recipe import Setup

_LIVES = 50
"""How often the worker of one run may be killed before the run itself is taken to be the cause."""


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


def train_on_ray(
    setups: Sequence[Setup], folder: Path, execution: Execution, cluster: RayCluster, tick: Callable[[], None]
) -> None:
    """Train setups into `folder / setup.name` on a cluster, in this order; the first failure stops the others.

    Args:
        setups: setups of runs, none of them finished.
        folder: the folder of their run folders, seen by every machine of the cluster.
        execution: how steps are computed, except for device and threads.
        cluster: the cluster, and what each run takes of it.
        tick: called now and then.
    """
    each = replace(execution, device="cuda" if cluster.gpus_each else "cpu", threads=cluster.cpus_each)
    with _connected(cluster) as ray:
        task = ray.remote(num_cpus=cluster.cpus_each, num_gpus=cluster.gpus_each, max_retries=_LIVES)(_train)
        pending = [task.remote(setup, folder.resolve() / setup.name, each) for setup in setups]
        try:
            while pending:
                done, pending = ray.wait(pending, timeout=1.0)
                ray.get(done)
                tick()
        except BaseException as error:
            for run in pending:
                ray.cancel(run, force=True)
            if isinstance(cause := getattr(error, "cause", None), InputError):
                raise cause from None
            raise


def _train(setup: Setup, folder: Path, execution: Execution) -> None:
    """Train one run in a worker process of Ray, which runs nothing but hopscope."""
    from hopscope import processes
    from hopscope.training.trainer import train

    processes.claim_process()
    processes.tune_process()
    train(setup, folder, execution=execution)


@contextmanager
def _connected(cluster: RayCluster) -> Iterator[Any]:
    """Ray connected to the cluster, or to one that lasts as long as the context; a connection that exists is used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise needs_extra("training on a cluster", "Ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise InputError(
            f"no Ray cluster answers at {cluster.address!r} ({in_a_line(error)}); start one with ray start"
        ) from None
    try:
        for kind, needed in (("CPU", cluster.cpus_each), ("GPU", cluster.gpus_each)):  # or the run would wait for ever
            largest = max((node["Resources"].get(kind, 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
            if needed > largest:
                raise InputError(f"a run needs {needed:g} {kind}, and no machine of the cluster has over {largest:g}")
        yield ray
    finally:
        ray.shutdown()
