"""The plans of a run: every model follows its own, as if it were alone, until the last one is at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float

from hopscope.training.metrics import Array, Metrics
from hopscope.training.plan import Plan
from hopscope.training.recipe import Recipe


@dataclass(frozen=True)
class Plans:
    """What a run does at each step, given the plans of its models.

        >>> recipe = hs.Recipe(2, 1, 64, steps=1000, batch_size=32, schedule="when-learned")
        >>> plans = Plans((Plan(recipe, learned_at=200), Plan(recipe, learned_at=400)))
        >>> plans.end, plans.learning_rates(350), plans.learning_rates(600)
        (700, (0.0005, 0.001), (0.0, 0.0003333333333333333))

    Attributes:
        models: the plan of each model.
    """

    models: tuple[Plan, ...]

    @classmethod
    def of(cls, recipe: Recipe, metrics: Metrics) -> Plans:
        """The plans of a run, as far as its metrics decide them."""
        return cls(tuple(Plan.of(recipe, metrics, model) for model in range(len(metrics.seeds))))

    def after(self, step: int, losses: Float[Array, "model hop"]) -> Plans:
        """The plans once the validation losses after `step` updates are known."""
        return Plans(tuple(plan.after(step, seen) for plan, seen in zip(self.models, losses, strict=True)))

    def lean(self, step: int, models: Sequence[bool]) -> Plans:
        """The plans once it is known in which models no further head could be removed after `step` updates."""
        pairs = zip(self.models, models, strict=True)
        return Plans(tuple(replace(plan, lean_at=step) if lean else plan for plan, lean in pairs))

    @property
    def end(self) -> int:
        """Updates in all. A model that reaches its end earlier stays as it is from then on."""
        return max(plan.end for plan in self.models)

    def learning_rates(self, step: int) -> tuple[float, ...]:
        """The learning rate of every model in the update that takes `step` to `step + 1`."""
        return tuple(plan.learning_rate(step) for plan in self.models)

    def logs(self, step: int) -> bool:
        """Whether metrics get a row of every model after `step` updates: they do if any plan asks for it."""
        return any(plan.logs(step) for plan in self.models)

    def rows(self, step: int) -> list[int]:
        """The steps up to `step` that have a row of metrics."""
        return sorted({row for plan in self.models for row in plan.rows(step)})

    def prunes(self, step: int, losses: Float[Array, "model hop"]) -> list[bool]:
        """Whether heads of each model are to be pruned after `step` updates, with these validation losses."""
        return [plan.prunes(step, seen) for plan, seen in zip(self.models, losses, strict=True)]

    @property
    def leave_out_heads(self) -> list[bool]:
        """Whether the next update has head dropout, for each model."""
        return [plan.leaves_out_heads for plan in self.models]

    def checkpoints(self, step: int) -> bool:
        """Whether the weights of all models after `step` updates are kept whatever the loss."""
        return step == self.end or self.models[0].keeps(step)

    def checkpoints_in_jump(self, step: int) -> bool:
        """Whether the weights of all models after `step` updates are kept if a hop is being learned there."""
        return any(plan.checkpoints_in_jump(step) for plan in self.models)
