"""The plan of a model: at which steps it has which learning rate, rows of metrics and checkpoints, and where it ends.

A run goes on until its last model is at its end; see `hopscope.training.plans`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from hopscope.training.metrics import LEARNED, Array, Metrics, below, first_step
from hopscope.training.recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """What a recipe asks for at each step, given the steps at which a model had learned.

        >>> recipe = hs.Recipe(2, 1, 64, steps=1000, batch_size=32, schedule="when-learned")
        >>> Plan(recipe).end, Plan(recipe, learned_at=200).end, Plan(recipe, learned_at=900).end
        (1000, 500, 1000)

    Args:
        recipe: the recipe of the run.
        learned_at: the first logged step at which the model had learned every hop that it is asked for, by the recipe's
            `learned_below`; `None` before, and where nothing depends on it.
        lean_at: the first pruning step at which no further head could be removed; `None` before, and where the recipe
            does not prune.
        some_learned_at: the first logged step at which it had learned (loss below `learned`) as many hops as
            `head_dropout_after` asks for; `None` before, and where nothing depends on it.
        all_learned_at: the same for all hops.
        learned: the loss below which a hop counts as learned, see `hopscope.training.metrics.learned_below`.
    """

    recipe: Recipe
    learned_at: int | None = None
    lean_at: int | None = None
    some_learned_at: int | None = None
    all_learned_at: int | None = None
    learned: float = LEARNED

    @classmethod
    def of(cls, recipe: Recipe, metrics: Metrics, model: int = 0) -> Plan:
        """The plan of one model of a run, as far as the run's metrics decide it.

        Only rows that the model would have had alone count: in an ensemble there may be more, for other models' sake.
        """
        before = cls(recipe)
        if not before.waits:
            return before
        own = np.array([before.logs(step) for step in metrics.steps.tolist()], dtype=bool)
        steps, losses = metrics.steps[own], metrics.partial_losses[own, model]
        plan = cls(
            recipe,
            first_step(steps, below(losses, recipe.learned_below)),
            some_learned_at=first_step(steps, below(losses, metrics.learned, hops=recipe.head_dropout_after)),
            all_learned_at=first_step(steps, below(losses, metrics.learned)),
            learned=metrics.learned,
        )
        kept = metrics.none_gone(recipe.layers * recipe.heads)[own, model]
        rows = zip(steps[kept].tolist(), losses[kept], strict=True)
        return replace(plan, lean_at=next((step for step, seen in rows if plan.prunes(step, seen)), None))

    def after(self, step: int, losses: Float[Array, " hop"]) -> Plan:
        """The plan once the validation losses after `step` updates are known."""
        if not self.waits or not Plan(self.recipe).logs(step):
            return self

        def first(known: int | None, threshold: float, hops: int | None = None) -> int | None:
            return step if known is None and below(losses, threshold, hops=hops) else known

        return replace(
            self,
            learned_at=first(self.learned_at, self.recipe.learned_below),
            some_learned_at=first(self.some_learned_at, self.learned, self.recipe.head_dropout_after),
            all_learned_at=first(self.all_learned_at, self.learned),
        )

    @property
    def waits(self) -> bool:
        """Whether anything depends on what the model has learned."""
        recipe = self.recipe
        return recipe.schedule == "when-learned" or recipe.prune_every is not None or recipe.head_dropout > 0

    @property
    def falls_from(self) -> int:
        """The step from which `trapezoid` and `when-learned` lower the learning rate, as far as it is known."""
        latest = self.recipe.steps - self._fall
        ready = self._ready_at
        return latest if self.recipe.schedule != "when-learned" or ready is None else min(ready, latest)

    @property
    def end(self) -> int:
        """Updates in all: `steps`, or fewer where `when-learned` ends a run early. Known once the rate falls."""
        return self.falls_from + self._fall

    @property
    def final_from(self) -> int:
        """The step after which rows count for the final loss: `final_steps` before the end.

        Under `when-learned` it is not before the fall: a row at every step before that is there only for other models.
        """
        first = self.end - self.recipe.final_steps
        return first if self.recipe.schedule != "when-learned" else max(first, min(self.falls_from, self.end - 1))

    @property
    def _ready_at(self) -> int | None:
        """The step at which `when-learned` decides that the rate falls; None before."""
        return self.learned_at if self.recipe.prune_every is None else self.lean_at

    @property
    def _fall(self) -> int:
        return math.ceil(self.recipe.fall * self.recipe.steps)

    def learning_rate(self, step: int) -> float:
        """The learning rate of the update that takes `step` to `step + 1`; 0 from the end on."""
        recipe = self.recipe
        if step >= self.end:
            return 0.0
        rate = recipe.learning_rate
        if recipe.warmup:
            rate *= min(1.0, (step + 1) / recipe.warmup)
        if recipe.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
        elif recipe.schedule in ("trapezoid", "when-learned") and recipe.fall:
            rate *= min(1.0, (self.end - step) / (recipe.fall * recipe.steps))
        return rate

    def logs(self, step: int) -> bool:
        """Whether metrics get a row after `step` updates."""
        return step % self.recipe.log_every == 0 or self.end - self.recipe.final_steps < step <= self.end

    def rows(self, step: int) -> list[int]:
        """The steps up to `step` that have a row of metrics."""
        decided = (self._ready_at or 0) if self.recipe.schedule == "when-learned" else 0
        before = Plan(self.recipe)
        return [one for one in range(1, step + 1) if (before if one <= decided else self).logs(one)]

    def prunes(self, step: int, losses: Float[Array, " hop"]) -> bool:
        """Whether heads are to be pruned after `step` updates, with these validation losses."""
        every = self.recipe.prune_every
        if every is None or self.learned_at is None or self.lean_at is not None:
            return False
        if not below(losses, self.recipe.learned_below):
            return False
        until = self.end if self.recipe.schedule in ("constant", "cosine") else self.falls_from
        due = (step - self.learned_at) % every < self.recipe.log_every and step % self.recipe.log_every == 0
        return due and self.learned_at <= step < until

    @property
    def leaves_out_heads(self) -> bool:
        """Whether the next update has head dropout."""
        begun = self.recipe.head_dropout_after == 0 or self.some_learned_at is not None
        return self.recipe.head_dropout > 0 and begun and self.all_learned_at is None

    def checkpoints(self, step: int) -> bool:
        """Whether the weights after `step` updates are kept whatever the loss; those at the end always are."""
        return step == self.end or self.keeps(step)

    def keeps(self, step: int) -> bool:
        """Whether the weights after `step` updates are kept even if it is not the end; those at 0 are, if any are."""
        recipe = self.recipe
        if recipe.checkpoint_every is not None and step % recipe.checkpoint_every == 0:
            return True
        if recipe.checkpoints_per_doubling is None:
            return False
        return step == 0 or _rung(step, recipe.checkpoints_per_doubling) > _rung(
            step - 1, recipe.checkpoints_per_doubling
        )

    def checkpoints_in_jump(self, step: int) -> bool:
        """Whether the weights after `step` updates are kept if a hop is being learned there."""
        every = self.recipe.checkpoint_jump_every
        return every is not None and step % every == 0 and self.logs(step)


def _rung(step: int, per_doubling: int) -> int:
    """How many rungs of a ladder with `per_doubling` rungs per doubling, the first at 1, are at or below `step`."""
    return 0 if step < 1 else 1 + math.floor(per_doubling * math.log2(step) + 1e-9)
