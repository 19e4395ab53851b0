"""An ensemble in training: M models, their optimiser, and one update of them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.adamw import MOMENTS
from hopscope.training.ensemble_part import EnsemblePart
from hopscope.training.execution import Execution, models_at_once
from hopscope.training.head_dropout import HeadScales
from hopscope.training.pruning import Left, prune
from hopscope.training.recipe import Recipe


class Ensemble:
    """M models of one recipe, each with its own weights and data, updated together.

    On a CPU they are computed in parts of some models: models do not depend on one another, so the parts
    affect memory and speed only.
    """

    def __init__(
        self,
        problem: RetrievalProblem,
        recipe: Recipe,
        seeds: Sequence[int],
        execution: Execution,
        at_once: int | None = None,
    ) -> None:
        self.problem, self.recipe = problem, recipe
        size = at_once or models_at_once(problem, recipe, len(seeds), execution)
        self._parts = [
            EnsemblePart(problem, recipe, seeds[start : start + size], execution)
            for start in range(0, len(seeds), size)
        ]
        self._slices = [slice(start, start + size) for start in range(0, len(seeds), size)]

    def update(
        self, batch: Batch, rates: Sequence[float], scales: HeadScales | None = None
    ) -> Float[Tensor, "model hop"]:
        """One update of every model, with its heads' outputs multiplied by `scales`.

        Returns the losses by hop before the update, with the same scales.

        Args:
            batch: the training batch.
            rates: the learning rate of each model; a model with rate 0 stays as it is.
            scales: factors on the heads' outputs; None leaves them as they are.
        """
        losses = [
            part.update(batch[where], rates[where], None if scales is None else scales[where])
            for part, where in zip(self._parts, self._slices, strict=True)
        ]
        return torch.cat(losses)

    @property
    def left(self) -> Left:
        """The heads that have not been pruned."""
        return torch.cat([part.left for part in self._parts])

    @property
    def heads_left(self) -> list[int] | None:
        """Number of heads left, by model; None where the recipe does not prune."""
        return None if self.recipe.prune_every is None else self.left.flatten(1).sum(dim=1).tolist()

    def prune(self, batch: Batch, cost: float, models: Sequence[bool]) -> list[bool]:
        """Remove for good the heads that the models marked in `models` can do without; see `hopscope.training.pruning`.

        Returns, for each model, whether any of its heads was removed.
        """
        before = self.left
        due = torch.tensor(models)[:, None, None]
        left = torch.where(due, prune(before, partial(self.losses_with, batch=batch), cost), before)
        some_went: list[bool] = (left != before).flatten(1).any(dim=1).tolist()
        for part, where in zip(self._parts, self._slices, strict=True):
            part.keep(left[where])
        return some_went

    @torch.no_grad()
    def losses_with(self, left: Left, batch: Batch) -> Float[Tensor, " model"]:
        """The loss of each model, averaged over hops, with these heads alone; no head is removed for good."""
        losses = [
            part.losses_with(left[where], batch[where]) for part, where in zip(self._parts, self._slices, strict=True)
        ]
        return torch.cat(losses).mean(dim=1).double().cpu()

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Float[Tensor, "model hop"]:
        """Losses by hop, without an update."""
        return torch.cat([part.losses(batch[where]) for part, where in zip(self._parts, self._slices, strict=True)])

    def weights(self) -> dict[str, Tensor]:
        """Every weight, stacked over all models."""
        states = [part.transformer.state_dict() for part in self._parts]
        return {name: torch.cat([state[name] for state in states]) for name in states[0]}

    def state(self) -> dict[str, Tensor]:
        """Weights and moments: all that the next update depends on, except which heads are left."""
        state = self.weights()
        for moment in MOMENTS:
            parts = [part.moments(moment) for part in self._parts]
            state |= {f"{moment}.{name}": torch.cat([part[name] for part in parts]) for name in parts[0]}
        return state

    def load_state(self, state: dict[str, Tensor], step: int, left: Left | None = None) -> None:
        """Continue from `state` as it was after `step` updates.

        Args:
            state: tensors as `state` returns them.
            step: updates done.
            left: the heads that were left; None for those whose output weights are not all zero.

        Raises:
            InputError: a tensor is missing, has another shape, or is one too many.
        """
        mine = {name: tensor.shape for name, tensor in self.state().items()}
        theirs = {name: tensor.shape for name, tensor in state.items()}
        if mine != theirs:
            wrong = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
            raise InputError(f"{wrong[0]} is missing, of another shape, or one too many for this recipe")
        for part, where in zip(self._parts, self._slices, strict=True):
            mine_left = None if left is None else left[where]
            part.load({name: tensor[where] for name, tensor in state.items()}, step, mine_left)
