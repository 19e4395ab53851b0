"""The schedule of a run: at which steps each model has which learning rate, rows of metrics and checkpoints.

Every model follows its own schedule, as if it were alone; a run goes on until its last model is at its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from hopscope.training.metrics import LEARNED, Array, Metrics, below, first_step
from hopscope.training.recipe import Recipe


@dataclass(frozen=True)
class Milestones:
    """The steps at which a model reached what its schedule waits for; None before, and where nothing depends on it.

    Attributes:
        learned_at: the first logged step at which the model had learned every hop asked for, by the recipe's
            `learned_below`.
        pruning_finished_at: the first pruning step at which no further head could be removed.
        dropout_from: the first logged step at which it had learned as many hops as `head_dropout_after` asks for.
        dropout_until: the same for all hops.
    """

    learned_at: int | None = None
    pruning_finished_at: int | None = None
    dropout_from: int | None = None
    dropout_until: int | None = None


@dataclass(frozen=True)
class Schedule:
    """What a recipe asks for at each step, given what each model has reached.

        >>> recipe = hs.Recipe(2, 1, 64, steps=1000, batch_size=32, schedule="decay-when-learned")
        >>> [Schedule(recipe, (Milestones(at),)).end for at in (None, 200, 900)]
        [1000, 500, 1000]
        >>> schedule = Schedule(recipe, (Milestones(200), Milestones(400)))
        >>> schedule.end, schedule.learning_rates(350), schedule.learning_rates(600)
        (700, (0.0005, 0.001), (0.0, 0.0003333333333333333))

    Args:
        recipe: the recipe of the run.
        models: what each model has reached.
        learned: the loss below which a hop counts as learned for head dropout, see `metrics.learned_below`.
    """

    recipe: Recipe
    models: tuple[Milestones, ...] = (Milestones(),)
    learned: float = LEARNED

    @classmethod
    def of(cls, recipe: Recipe, metrics: Metrics) -> Schedule:
        """The schedule of a run, as far as its metrics decide it.

        Of each model only those rows count that it would have had alone.
        """
        start = cls(recipe, (Milestones(),) * len(metrics.seeds), metrics.learned)
        if not start.waits:
            return start
        own = np.array([start._logs(Milestones(), step) for step in metrics.steps.tolist()], dtype=bool)
        steps, unpruned = metrics.steps[own], metrics.none_gone(recipe.layers * recipe.heads)[own]
        reached = []
        for model in range(len(metrics.seeds)):
            losses = metrics.partial_losses[own, model]
            known = Milestones(
                first_step(steps, below(losses, recipe.learned_below)),
                dropout_from=first_step(steps, below(losses, metrics.learned, hops=recipe.head_dropout_after)),
                dropout_until=first_step(steps, below(losses, metrics.learned)),
            )
            rows = zip(steps[unpruned[:, model]].tolist(), losses[unpruned[:, model]], strict=True)
            finished = next((step for step, seen in rows if start._prunes(known, step, seen)), None)
            reached.append(replace(known, pruning_finished_at=finished))
        return replace(start, models=tuple(reached))

    def after(self, step: int, losses: Float[Array, "model hop"]) -> Schedule:
        """The schedule once the validation losses after `step` updates are known."""
        if not self.waits or not self._logs(Milestones(), step):
            return self

        def reached(before: Milestones, seen: Float[Array, " hop"]) -> Milestones:
            def first(known: int | None, threshold: float, hops: int | None = None) -> int | None:
                return step if known is None and below(seen, threshold, hops=hops) else known

            return replace(
                before,
                learned_at=first(before.learned_at, self.recipe.learned_below),
                dropout_from=first(before.dropout_from, self.learned, self.recipe.head_dropout_after),
                dropout_until=first(before.dropout_until, self.learned),
            )

        return replace(self, models=tuple(map(reached, self.models, losses)))

    def pruning_finished(self, step: int, models: Sequence[bool]) -> Schedule:
        """The schedule once it is known in which models no further head could be removed after `step` updates."""
        pairs = zip(self.models, models, strict=True)
        return replace(
            self, models=tuple(replace(one, pruning_finished_at=step) if done else one for one, done in pairs)
        )

    def of_model(self, model: int) -> Schedule:
        """The schedule of one model, as if it were alone."""
        return replace(self, models=(self.models[model],))

    @property
    def waits(self) -> bool:
        """Whether anything depends on what the models have learned."""
        recipe = self.recipe
        return recipe.schedule == "decay-when-learned" or recipe.prune_every is not None or recipe.head_dropout > 0

    @property
    def end(self) -> int:
        """Updates in all. A model that reaches its end earlier stays as it is from then on."""
        return max(map(self._end, self.models))

    @property
    def decay_start(self) -> int:
        """The step from which the learning rate of the last model falls, as far as it is known."""
        return max(map(self._decay_start, self.models))

    def learning_rates(self, step: int) -> tuple[float, ...]:
        """The learning rate of every model in the update that takes `step` to `step + 1`; 0 from its end on."""
        return tuple(self._learning_rate(model, step) for model in self.models)

    def logs(self, step: int) -> bool:
        """Whether metrics get a row of every model after `step` updates: they do if any model asks for it."""
        return any(self._logs(model, step) for model in self.models)

    def rows(self, step: int) -> list[int]:
        """The steps up to `step` that have a row of metrics."""
        found: set[int] = set()
        for model in self.models:
            ready = self._ready_at(model) if self.recipe.schedule == "decay-when-learned" else None
            known = [Milestones() if at <= (ready or 0) else model for at in range(1, step + 1)]
            found |= {at for at, then in enumerate(known, start=1) if self._logs(then, at)}
        return sorted(found)

    def prunes(self, step: int, losses: Float[Array, "model hop"]) -> list[bool]:
        """Whether heads of each model are to be pruned after `step` updates, with these validation losses."""
        return [self._prunes(model, step, seen) for model, seen in zip(self.models, losses, strict=True)]

    @property
    def drops_heads(self) -> list[bool]:
        """Whether the next update has head dropout, for each model."""
        recipe = self.recipe
        return [
            recipe.head_dropout > 0
            and (recipe.head_dropout_after == 0 or model.dropout_from is not None)
            and model.dropout_until is None
            for model in self.models
        ]

    def checkpoints(self, step: int) -> bool:
        """Whether the weights of all models after `step` updates are kept; those at the end always are."""
        every = self.recipe.checkpoint_every
        return step == self.end or (every is not None and step % every == 0)

    def final_from(self, model: int) -> int:
        """The step after which rows of a model count for its final loss: `final_steps` before its end.

        Under `decay-when-learned` it is not before the decay: a row at every step before is there for other models.
        """
        end = self._end(self.models[model])
        first = end - self.recipe.final_steps
        if self.recipe.schedule != "decay-when-learned":
            return first
        return max(first, min(self._decay_start(self.models[model]), end - 1))

    @property
    def _decay_steps(self) -> int:
        return math.ceil(self.recipe.decay_fraction * self.recipe.steps)

    def _ready_at(self, one: Milestones) -> int | None:
        """The step at which `decay-when-learned` decides that the rate falls; None before."""
        return one.learned_at if self.recipe.prune_every is None else one.pruning_finished_at

    def _decay_start(self, one: Milestones) -> int:
        latest = self.recipe.steps - self._decay_steps
        ready = self._ready_at(one)
        return latest if self.recipe.schedule != "decay-when-learned" or ready is None else min(ready, latest)

    def _end(self, one: Milestones) -> int:
        return self._decay_start(one) + self._decay_steps

    def _learning_rate(self, one: Milestones, step: int) -> float:
        recipe, end = self.recipe, self._end(one)
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

    def _logs(self, one: Milestones, step: int) -> bool:
        end = self._end(one)
        return step % self.recipe.log_every == 0 or end - self.recipe.final_steps < step <= end

    def _prunes(self, one: Milestones, step: int, losses: Float[Array, " hop"]) -> bool:
        every = self.recipe.prune_every
        if every is None or one.learned_at is None or one.pruning_finished_at is not None:
            return False
        if not below(losses, self.recipe.learned_below):
            return False
        until = self._end(one) if self.recipe.schedule in ("constant", "cosine") else self._decay_start(one)
        due = (step - one.learned_at) % every < self.recipe.log_every and step % self.recipe.log_every == 0
        return due and one.learned_at <= step < until
