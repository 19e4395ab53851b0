"""The metrics of a run: one row per logged step and model on disk, one table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from hopscope.checks import check_count, finite_or_none
from hopscope.errors import InputError, needs_extra
from hopscope.words import counted

if TYPE_CHECKING:
    import pandas

LEARNED = 0.5
"""Partial loss below which a hop counts as learned in the problem of four chains (Section 7.2)."""

ON_PLATEAU = 0.93
"""A hop is on its plateau until its loss falls below this share of the loss of averaging the candidates."""

Array = np.ndarray[Any, np.dtype[Any]]

_TABLES = ("train_loss", "validation_loss", "partial_losses", "train_partial_losses", "heads")


def learned_below(chains: int) -> float:
    """Return the loss below which a hop is learned: 2/3 of the loss of averaging the candidates; 0.5 for one chain."""
    return LEARNED if chains == 1 else 2 * (1 - 1 / chains) / 3


@dataclass(frozen=True)
class MetricsRow:
    """A line of metrics.jsonl. A loss that is not a number is None (null in the file).

    Attributes:
        step: number of updates done.
        model: number of the model, from 0, in the order of the run's seeds.
        train_loss: mean training loss over the steps since the previous row.
        validation_loss: loss on fresh sequences.
        partial_losses: validation losses by target hop.
        train_partial_losses: training losses by target hop, averaged like `train_loss`.
        heads: number of heads left after this step; None if the recipe does not prune.
    """

    step: int
    model: int
    train_loss: float | None
    validation_loss: float | None
    partial_losses: tuple[float | None, ...]
    train_partial_losses: tuple[float | None, ...]
    heads: int | None = None


def rows_of(
    step: int,
    training: Sequence[Sequence[float]],
    validation: Sequence[Sequence[float]],
    heads: Sequence[int | None] | None = None,
) -> list[MetricsRow]:
    """Return the rows after `step` updates, one per model, given the losses by model and hop and the heads left."""
    by_model = zip(training, validation, heads or [None] * len(training), strict=True)
    return [
        MetricsRow(
            step,
            model,
            train_loss=finite_or_none(sum(train) / len(train)),
            validation_loss=finite_or_none(sum(fresh) / len(fresh)),
            partial_losses=tuple(map(finite_or_none, fresh)),
            train_partial_losses=tuple(map(finite_or_none, train)),
            heads=left,
        )
        for model, (train, fresh, left) in enumerate(by_model)
    ]


@dataclass(frozen=True, eq=False)
class Metrics:
    """All metrics of a run, one row per logged step; NaN where a model diverged.

    `MetricsRow` explains the losses and `heads`.

    Attributes:
        seeds: the models' seeds.
        hops: the target hops.
        steps: number of updates done at each row, in increasing order.
        learned: the partial loss below which a hop counts as learned.
    """

    seeds: tuple[int, ...]
    hops: tuple[int, ...]
    steps: Int[Array, " row"]
    train_loss: Float[Array, "row model"]
    validation_loss: Float[Array, "row model"]
    partial_losses: Float[Array, "row model hop"]
    train_partial_losses: Float[Array, "row model hop"]
    heads: Float[Array, "row model"]
    learned: float = LEARNED

    def __repr__(self) -> str:
        """One line, for notebooks; `frame()` is the table."""
        return f"<metrics of {counted(len(self.seeds), 'model')}: {counted(len(self.steps), 'row')}>"

    @classmethod
    def of_rows(
        cls, rows: Sequence[MetricsRow], seeds: Sequence[int], hops: Sequence[int], learned: float = LEARNED
    ) -> Metrics:
        """Build the table from a run's rows. An incomplete last step, left by a killed process, is dropped.

        Raises:
            InputError: steps do not increase, a step lacks the row of a model, or a row lacks the loss of a hop.
        """
        models = len(seeds)
        rows = rows[: len(rows) // models * models]
        steps = [row.step for row in rows[::models]]
        expected = [(step, model) for step in steps for model in range(models)]
        if [(row.step, row.model) for row in rows] != expected or sorted(set(steps)) != steps:
            raise InputError(f"metrics must have one row for each of {models} models at every step, in rising order")
        if any(len(losses) != len(hops) for row in rows for losses in (row.partial_losses, row.train_partial_losses)):
            raise InputError(f"metrics must have a partial loss for each of {len(hops)} hops in every row")

        def table(name: str) -> Array:
            shape = (len(steps), models, len(hops)) if name.endswith("partial_losses") else (len(steps), models)
            return np.array([getattr(row, name) for row in rows], dtype=np.float64).reshape(shape)  # None is NaN

        tables = {name: table(name) for name in _TABLES}
        return cls(tuple(seeds), tuple(hops), np.array(steps, dtype=np.int64), **tables, learned=learned)

    def __len__(self) -> int:
        return len(self.steps)

    def first_below(self, threshold: float | None = None) -> tuple[tuple[int | None, ...], ...]:
        """Return, by model and hop, the first logged step at which the validation loss is below `threshold`, or None if
        it never is. The default threshold is `learned`."""
        below = self.partial_losses < (self.learned if threshold is None else threshold)
        return tuple(tuple(first_step(self.steps, hop) for hop in model.T) for model in below.swapaxes(0, 1))

    def every(self, steps: int) -> Metrics:
        """Return only the rows at multiples of `steps`, e.g. for a figure: each of the last steps also has a row.

        Raises:
            InputError: `steps` is not a whole number of at least 1.
        """
        check_count("steps", steps)
        return self._rows(self.steps % steps == 0)

    def after(self, step: int, until: int | None = None) -> Metrics:
        """Return only the rows after `step`, up to and including `until`."""
        return self._rows((self.steps > step) & (True if until is None else self.steps <= until))

    def frame(self) -> pandas.DataFrame:
        """Return a pandas table with columns `step`, `seed`, `hop`, the four losses and `heads`.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise needs_extra("a frame", "pandas", "frames") from None
        columns = {"step": self.steps[:, None, None], "seed": np.array(self.seeds)[:, None], "hop": np.array(self.hops)}
        for name in _TABLES:
            table = getattr(self, name)
            columns[name.replace("losses", "loss")] = table if table.ndim == 3 else table[:, :, None]
        shape = self.partial_losses.shape
        return pandas.DataFrame({name: np.broadcast_to(values, shape).ravel() for name, values in columns.items()})

    def _rows(self, wanted: Bool[Array, " row"]) -> Metrics:
        tables = {name: getattr(self, name)[wanted] for name in ("steps", *_TABLES)}
        return replace(self, **tables)


def below(losses: Float[Array, "*row hop"], threshold: float, *, hops: int | None = None) -> Bool[Array, "*row"]:
    """Return whether the losses of at least `hops` hops (None for all) are below `threshold`. NaN is not below."""
    count = (losses < threshold).sum(axis=-1)
    return np.asarray(count >= (losses.shape[-1] if hops is None else hops))


def first_step(steps: Int[Array, " row"], reached: Bool[Array, " row"]) -> int | None:
    """Return the first of `steps` at which `reached` is true; None if `reached` is never true."""
    return int(steps[reached.argmax()]) if reached.any() else None
