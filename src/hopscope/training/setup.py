"""A setup: problem, recipe and seeds together, all that decides the result of a run."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_items, check_seed
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe


@dataclass(frozen=True)
class Setup:
    """What to train. `dataclasses.replace` varies it.

        >>> hs.paper.B.recipe == hs.paper.A.recipe, hs.paper.A.seeds, hs.paper.B.seeds
        (True, (0,), (1,))

    Attributes:
        name: name of its run folder, where several lie side by side.
        problem: what is trained on.
        recipe: how it is trained.
        seeds: one per model.

    Raises:
        InputError: there are no seeds, seeds repeat, or one is not a whole number from 0 to 2^63 - 1; `hop_weights` has
            not one weight per hop asked for, or only zeros; or `name`, `problem` or `recipe` is something else.
    """

    name: str
    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        for name, kind in (("problem", RetrievalProblem), ("recipe", Recipe)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        if not isinstance(self.name, str):
            raise InputError(f"name must be a text, the name of a run folder, got {self.name!r}")
        object.__setattr__(self, "seeds", check_items("seeds", self.seeds, "whole numbers, one a model"))
        for seed in self.seeds:
            check_seed(seed)
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds must be different and at least one, got {list(self.seeds)}")
        weights, hops = self.recipe.hop_weights, self.problem.target_dim // self.problem.symbol_dim
        if weights is not None and (len(weights) != hops or not any(weights)):
            raise InputError(
                f"hop_weights must have a weight for each of {hops} hops asked for, not all of them 0, got "
                f"{list(weights)}"
            )

    def check_waiting(self) -> None:
        """Check that a run which waits until it has learned does not take a guess among the chains for that.

        Raises:
            InputError: `learned_below` is no less than what a guess comes to, and something hangs on it.
        """
        recipe, chains = self.recipe, self.problem.chains
        waits = recipe.schedule == "when-learned" or recipe.prune_every is not None
        if waits and chains > 1 and recipe.learned_below >= 1 - 1 / chains:
            from hopscope.training.metrics import learned_below  # with numpy, which setups are made without

            raise InputError(
                f"learned_below must be less than a guess among {chains} chains comes to, {1 - 1 / chains:.3g}, got "
                f"{recipe.learned_below:g}; a hop counts as learned below {learned_below(chains):.3g}"
            )

    @property
    def work(self) -> int:
        """Updates times blocks, over all models: the cost of the run relative to others of its width."""
        return self.recipe.layers * self.recipe.steps * len(self.seeds)
