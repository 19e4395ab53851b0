"""The recipe of a text model: its size, the equations that it reads, and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

import hopscope as hs

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Hops = Annotated[int, Meta(ge=1, le=6)]  # the paper's format has 26 letters
Share = Annotated[float, Meta(ge=0, le=1)]
Nats = Annotated[float, Meta(ge=0)]
Cut = Literal["line", "word"]
TextPrecision = Literal["fp32", "bf16", "auto"]


@dataclass(frozen=True)
class TextModelRecipe:
    """A small Llama and its training. `varied` checks the values.

    Args:
        layers: the number of layers: one that attends to the symbol before, and about one for each hop.
        heads, d_model: the heads per layer, and the width of the residual stream, a multiple of `2 * heads`.
        least_hops, most_hops: the range of D in the training texts; each step has one D.
        steps, batch: the number of updates, and the number of texts in each update.
        rate, warmup: AdamW's learning rate, which rises over `warmup` steps and falls to zero over the last fifth.
        dense: the share of steps whose texts ask for every letter.
        fewer: the share of the `dense` steps that draw 1 to 4 chains instead of 4. With few chains, the model learns to
            copy the value of the right line before it learns to find that line.
        taught: the weight in the loss of the value of a line's letter, a target after each line; the answer to a
            question has weight 2. This target asks for what doubling carries to a line. With 0, only questions teach.
        cut: how a line is cut into tokens: `line` for its name and the rest, `word` for its name, equals sign, value
            and line break.
        prune_every: the steps between two prunings of heads, rounded up to the next row of the history; 0 for none.
            Heads are pruned only if the model has answered well since the row before, and before the rate falls.
        prune_cost: the nats by which the loss may rise at one pruning, for all heads that are pruned together.
        learned_above: the share of questions that the model must answer before heads are pruned.
        precision: the precision of products while training; weights stay in fp32. `bf16` takes two thirds of the time
            where the processor has a unit for it, and is many times slower elsewhere. `auto` chooses by the processor.
        checkpoint_every: steps between checkpoints of the model; 0 for none.
        seed: the seed of weights and texts.
        held_seed, held_count: the seed and the number of the benchmark questions that are left out of the training
            texts, whichever letter they ask for.
    """

    layers: Positive = 4
    heads: Positive = 8
    d_model: Positive = 128
    least_hops: Hops = 1
    most_hops: Hops = 2
    steps: Positive = 3_600
    batch: Positive = 32
    rate: Share = 1.5e-3
    warmup: Natural = 100
    dense: Share = 0.5
    fewer: Share = 0.75
    taught: Share = 1.0
    cut: Cut = "line"
    prune_every: Natural = 0
    prune_cost: Nats = 0.02
    learned_above: Share = 0.98
    precision: TextPrecision = "fp32"
    checkpoint_every: Natural = 0
    seed: Natural = 0
    held_seed: Natural = 0
    held_count: Positive = 500

    def __post_init__(self) -> None:
        if self.least_hops > self.most_hops:
            raise hs.InputError(f"least_hops must be at most most_hops, got {self.least_hops} and {self.most_hops}")
        if self.d_model % (2 * self.heads):
            raise hs.InputError(f"d_model must be a multiple of 2 x heads, got {self.d_model} and {self.heads} heads")

    @property
    def falls_from(self) -> int:
        """The step at which the learning rate begins to fall."""
        return self.steps - max(1, self.steps // 5)

    def prunes_at(self, before: int, step: int, answers: float | None) -> bool:
        """Return whether heads may be pruned at `step`, if the last row was at step `before` and `answers` is the share
        of questions answered since."""
        due = self.prune_every > 0 and step // self.prune_every > before // self.prune_every
        return due and step <= self.falls_from and answers is not None and answers >= self.learned_above

    def varied(self, changes: Mapping[str, Any]) -> TextModelRecipe:
        """Return this recipe with other values.

        Raises:
            InputError: a name is not a field of the recipe, or a value is out of range.
        """
        for name in changes:
            if name not in asdict(self):
                raise hs.InputError(f"a recipe has no field {name}; it has {', '.join(asdict(self))}")
        try:
            return msgspec.convert(asdict(self) | dict(changes), TextModelRecipe)
        except msgspec.ValidationError as error:
            rule, _, name = str(error).replace("`", "").partition(" - at $.")
            if not name:  # the rule concerns several fields
                raise hs.InputError(rule) from None
            words = {"cut": get_args(Cut), "precision": get_args(TextPrecision)}.get(name)
            must = f"one of {', '.join(words)}" if words else rule.removeprefix("Expected ").partition(", got")[0]
            must = must.replace("int", "a whole number").replace("float", "a number")
            raise hs.InputError(f"{name} must be {must}, got {changes[name]!r}") from None
