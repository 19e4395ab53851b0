"""The schedule of a run: learning rates, and the steps of metrics, pruning, head dropout and checkpoints.

Every model follows its own schedule, as if it were trained alone. A run ends when its last model's schedule ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from hopscope.training.metrics import LEARNED, Array, Metrics, below
from hopscope.training.recipe import Recipe


@dataclass(frozen=True)
class Milestones:
    """The steps at which a model reached its milestones; None if not reached yet, or if its schedule needs none.

    Attributes:
        learned_at: step at which the model had learned every target hop, by the recipe's `learned_below`.
        pruning_finished_at: step at which no further head could be removed.
        dropout_from: step at which the model had learned `head_dropout_after` hops, so that head dropout starts.
        dropout_until: step at which the model had learned every hop, so that head dropout ends.
    """

    learned_at: int | None = None
    pruning_finished_at: int | None = None
    dropout_from: int | None = None
    dropout_until: int | None = None


@dataclass(frozen=True)
class Schedule:
    """The learning rates, rows of metrics and checkpoints of a recipe, given the milestones of each model.

        >>> recipe = hs.Recipe(2, 1, 64, steps=1000, batch_size=32, schedule="decay-when-learned")
        >>> [Schedule(recipe, (Milestones(at),)).end for at in (None, 200, 900)]
        [1000, 500, 1000]
        >>> schedule = Schedule(recipe, (Milestones(200), Milestones(400)))
        >>> schedule.end, schedule.learning_rates(350), schedule.learning_rates(600)
        (700, (0.0005, 0.001), (0.0, 0.0003333333333333333))

    A hop counts as learned for head dropout if its loss is below `learned`, see `metrics.learned_below`.
    """

    recipe: Recipe
    models: tuple[Milestones, ...] = (Milestones(),)
    learned: float = LEARNED

    @classmethod
    def of(cls, recipe: Recipe, metrics: Metrics) -> Schedule:
        """Return the schedule of a run, as far as its metrics determine it."""
        schedule = cls(recipe, (Milestones(),) * len(metrics.seeds), metrics.learned)
        if not schedule.waits:
            return schedule
        heads_before = np.full(len(metrics.seeds), recipe.layers * recipe.heads)
        for step, losses, heads in zip(metrics.steps.tolist(), metrics.partial_losses, metrics.heads, strict=True):
            schedule = schedule.after(step, losses)
            schedule = schedule.after_pruning(step, losses, heads != heads_before)
            heads_before = heads
        return schedule

    def after(self, step: int, losses: Float[Array, "model hop"]) -> Schedule:
        """Return the schedule, given the validation losses after `step` updates.

        A row counts for a model only if the model would also have this row if it were trained alone.
        """
        if not self.waits or not self._logs(Milestones(), step):
            return self

        def reached(before: Milestones, losses: Float[Array, " hop"]) -> Milestones:
            def first(known: int | None, threshold: float, hops: int | None = None) -> int | None:
                return step if known is None and below(losses, threshold, hops=hops) else known

            return replace(
                before,
                learned_at=first(before.learned_at, self.recipe.learned_below),
                dropout_from=first(before.dropout_from, self.learned, self.recipe.head_dropout_after),
                dropout_until=first(before.dropout_until, self.learned),
            )

        return replace(self, models=tuple(map(reached, self.models, losses)))

    def after_pruning(self, step: int, losses: Float[Array, "model hop"], pruned: Sequence[bool]) -> Schedule:
        """Return the schedule, given which models lost a head in a pruning round after `step` updates."""
        models = [
            replace(model, pruning_finished_at=step) if due and not some else model
            for model, due, some in zip(self.models, self.prunes(step, losses), pruned, strict=True)
        ]
        return replace(self, models=tuple(models))

    def of_model(self, model: int) -> Schedule:
        """Return the schedule of one model, as if it were trained alone."""
        return replace(self, models=(self.models[model],))

    @property
    def waits(self) -> bool:
        """Whether the schedule depends on what the models have learned."""
        recipe = self.recipe
        return recipe.schedule == "decay-when-learned" or recipe.prune_every is not None or recipe.head_dropout > 0

    @property
    def end(self) -> int:
        """Total number of updates. A model whose own schedule ends earlier stays unchanged from then on."""
        return max(self._decay(model)[1] for model in self.models)

    def learning_rates(self, step: int) -> tuple[float, ...]:
        """Return each model's learning rate in the update from `step` to `step + 1`; 0 after the model's end."""
        return tuple(self._learning_rate(model, step) for model in self.models)

    def logs(self, step: int) -> bool:
        """Return whether metrics are logged after `step` updates. If any model needs a row, all models get one."""
        return any(self._logs(model, step) for model in self.models)

    def rows(self, step: int) -> set[int]:
        """Return the steps up to `step` that have a row. A model's last steps are known only once its decay starts."""
        return {
            at
            for model in self.models
            for at in range(1, step + 1)
            if self._logs(model if at > (self._ready_at(model) or 0) else Milestones(), at)
        }

    def prunes(self, step: int, losses: Float[Array, "model hop"]) -> list[bool]:
        """Return whether each model is due for pruning after `step` updates, given the validation losses."""
        return [self._prunes(model, step, hops) for model, hops in zip(self.models, losses, strict=True)]

    @property
    def drops_heads(self) -> list[bool]:
        """Whether each model has head dropout in the next update."""
        at_once = self.recipe.head_dropout_after == 0
        return [
            self.recipe.head_dropout > 0 and (at_once or model.dropout_from is not None) and model.dropout_until is None
            for model in self.models
        ]

    def checkpoints(self, step: int) -> bool:
        """Return whether a checkpoint is saved after `step` updates. The last step always has a checkpoint."""
        every = self.recipe.checkpoint_every
        return step == self.end or (every is not None and step % every == 0)

    def final_from(self, model: int) -> int:
        """Return the step after which a model's rows count for its final loss: `final_steps` before its end. Under
        `decay-when-learned`, rows before the decay do not count, since other models can have added rows."""
        start, end = self._decay(self.models[model])
        first = end - self.recipe.final_steps
        return first if self.recipe.schedule != "decay-when-learned" else max(first, min(start, end - 1))

    def _ready_at(self, model: Milestones) -> int | None:
        """Return the step at which a model is ready for its decay under `decay-when-learned`, or None."""
        if self.recipe.schedule != "decay-when-learned":
            return None
        return model.learned_at if self.recipe.prune_every is None else model.pruning_finished_at

    def _decay(self, model: Milestones) -> tuple[int, int]:
        """Return the steps at which the decay of the learning rate starts and ends, as far as they are known."""
        steps = math.ceil(self.recipe.decay_fraction * self.recipe.steps)
        latest, ready = self.recipe.steps - steps, self._ready_at(model)
        start = latest if ready is None else min(ready, latest)
        return start, start + steps

    def _learning_rate(self, model: Milestones, step: int) -> float:
        recipe, (_, end) = self.recipe, self._decay(model)
        if step >= end:
            return 0.0
        rate = recipe.learning_rate
        if recipe.warmup:
            rate *= min(1.0, (step + 1) / recipe.warmup)
        if recipe.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
        elif recipe.schedule != "constant" and recipe.decay_fraction:
            rate *= min(1.0, (end - step) / (recipe.decay_fraction * recipe.steps))
        return rate

    def _logs(self, model: Milestones, step: int) -> bool:
        end = self._decay(model)[1]
        return step % self.recipe.log_every == 0 or end - self.recipe.final_steps < step <= end

    def _prunes(self, model: Milestones, step: int, losses: Float[Array, " hop"]) -> bool:
        every, learned_at = self.recipe.prune_every, model.learned_at
        if every is None or learned_at is None or model.pruning_finished_at is not None:
            return False
        start, end = self._decay(model)
        until = end if self.recipe.schedule in ("constant", "cosine") else start
        due = (step - learned_at) % every < self.recipe.log_every and step % self.recipe.log_every == 0
        return due and learned_at <= step < until and bool(below(losses, self.recipe.learned_below))
