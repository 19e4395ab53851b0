"""Recipes, which describe how models are shaped and trained, and setups: a problem, a recipe and seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from hopscope.checks import Count, NonNegative, Range, Share, Whole, check_fields, check_items, check_seed, check_type
from hopscope.errors import InputError
from hopscope.model.architecture import AS_TORCH, Architecture, InitialWeights, ScoreScale
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash


@dataclass(frozen=True)
class Recipe:
    """The shape of a transformer and how it is trained (Sections 7.1, 8.1, 9.1). Vary it with `dataclasses.replace`.

        >>> hs.Recipe(layers=2, heads=1, d_model=64, steps=100, batch_size=32).learning_rate
        0.001

    Args:
        layers: number of blocks.
        heads: attention heads per layer.
        d_model: width of the residual stream.
        steps: number of updates; with `decay-when-learned`, the largest number of updates.
        batch_size: number of sequences per update for each model.
        head_dim: width of a head; `None` for d_model / heads.
        mlp: whether blocks have an MLP.
        score_scale: the width by whose square root attention scores are divided: `head_dim` or `d_model`.
        examples: number of sequences in the training set, which every pass visits in a new order; `None` for endless
            fresh sequences.
        learning_rate: peak learning rate.
        schedule: how the learning rate changes. `constant` keeps it constant. `cosine` lowers it to zero at the last
            step. `warmup-stable-decay` keeps it constant, then lowers it linearly to zero over the last
            `decay_fraction` of the steps. `decay-when-learned` does the same, but if the model learns every target hop
            earlier, the decay starts then and the run ends earlier.
        decay_fraction: share of `steps` over which the last two schedules lower the learning rate to zero.
        learned_below: validation loss below which `decay-when-learned` and pruning count a hop as learned. It must be
            less than 1 - 1/N, the loss of guessing among N > 1 chains.
        prune_every: number of steps between rounds of permanent head pruning; `None` for no pruning. The first round
            takes place when the model has learned every target hop. A round waits while any hop is forgotten. Pruning
            ends when no more heads can be removed or the decay of the learning rate starts; `decay-when-learned` waits
            for the end of pruning. See `hopscope.training.pruning`.
        head_dropout: share of heads that are dropped at random in each update, until the model has learned every hop
            (loss below 0.5 for four chains). At the minimum depth, more models learn with it (study `learning`).
        head_dropout_after: number of hops that the model must have learned before head dropout starts. With 1, the
            plateau is as short as without head dropout.
        warmup: number of steps over which the learning rate rises linearly at the start.
        weight_decay: decoupled weight decay (Loshchilov 2017).
        decay_all: whether all weights decay; if not, biases and the gains of LayerNorms do not decay.
        beta1: AdamW's decay rate of the first moment.
        beta2: AdamW's decay rate of the second moment.
        clip: largest norm of each model's gradient, to which larger gradients are scaled; `None` for no clipping.
        hooks: a subclass of `hs.TrainingHooks`, as `module:name`, that changes the updates, e.g. the weights of the
            hops' losses or the optimiser. `None` for AdamW on the mean loss over the hops.
        initial: how the weights are drawn before the first update.
        log_every: number of steps between rows of metrics; each of the last `final_steps` steps also gets a row.
        final_steps: number of last steps over which the final validation loss is averaged (100 in the paper). With
            `decay-when-learned`, steps before the decay do not count.
        validation_size: number of fresh sequences on which the validation losses of a row of metrics are computed.
        checkpoint_every: number of steps between checkpoints of the weights; `None` for one checkpoint at the end.
        checkpoint_precision: precision of all checkpoints except the last; `bf16` shifts attention by less than 0.01.

    Raises:
        InputError: a value is out of range.
    """

    layers: Count
    heads: Count
    d_model: Count
    steps: Count
    batch_size: Count
    head_dim: Count | None = None
    mlp: bool = True
    score_scale: ScoreScale = "head_dim"
    examples: Annotated[int, Range(1, 2**30 + 1)] | None = 2**18
    learning_rate: NonNegative = 1e-3
    schedule: Literal["constant", "cosine", "warmup-stable-decay", "decay-when-learned"] = "constant"
    decay_fraction: Share = 0.3
    learned_below: NonNegative = 0.5
    prune_every: Count | None = None
    head_dropout: Share = 0.0
    head_dropout_after: Whole = 0
    warmup: Whole = 0
    weight_decay: NonNegative = 0.1
    decay_all: bool = True
    beta1: Share = 0.9
    beta2: Share = 0.999
    clip: NonNegative | None = None
    hooks: str | None = None
    initial: InitialWeights = AS_TORCH
    log_every: Count = 8
    final_steps: Count = 100
    validation_size: Count = 128
    checkpoint_every: Count | None = None
    checkpoint_precision: Literal["fp32", "bf16"] = "fp32"

    def __post_init__(self) -> None:
        check_fields(self)
        module, _, name = str(self.hooks).partition(":")
        if self.hooks is not None and not (name.isidentifier() and all(map(str.isidentifier, module.split(".")))):
            raise InputError(f"hooks must name a class as module:name, got {self.hooks!r}")
        check_type("initial", self.initial, InitialWeights, "InitialWeights, as InitialWeights(qk_gain=4.0)")

    def architecture(self, problem: RetrievalProblem) -> Architecture:
        """Return the architecture of the transformer that this recipe trains on `problem`."""
        return Architecture(
            d_input=problem.input_dim,
            d_output=problem.target_dim,
            reads=problem.chains,
            layers=self.layers,
            heads=self.heads,
            d_model=self.d_model,
            head_dim=self.head_dim,
            mlp=self.mlp,
            causal=problem.causal,
            score_scale=self.score_scale,
        )


@dataclass(frozen=True)
class Setup:
    """What to train: a problem, a recipe and seeds. Vary it with `dataclasses.replace`.

        >>> hs.paper.B.recipe == hs.paper.A.recipe, hs.paper.A.seeds, hs.paper.B.seeds
        (True, (0,), (1,))

    Attributes:
        name: name of the run folder when several setups are trained into one folder.
        problem: the problem that the models are trained on.
        recipe: how the models are shaped and trained.
        seeds: one seed per model.

    Raises:
        InputError: there are no seeds, seeds repeat, a seed is not a whole number from 0 to 2^63 - 1, another field
            has the wrong type, or the recipe's `learned_below` is not below the loss of guessing.
    """

    name: str
    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        for field, kind in (("name", str), ("problem", RetrievalProblem), ("recipe", Recipe)):
            check_type(field, getattr(self, field), kind, f"a {kind.__name__}")
        if self.name.startswith("/") or ".." in self.name.split("/"):
            raise InputError(f"name must be that of a folder below another, as depth/4-layers, got {self.name!r}")
        object.__setattr__(self, "seeds", check_items("seeds", self.seeds, "whole numbers, one a model"))
        for seed in self.seeds:
            check_seed(seed)
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds must be one or more different whole numbers, got {list(self.seeds)}")
        chains, below = self.problem.chains, self.recipe.learned_below
        waits = self.recipe.schedule == "decay-when-learned" or self.recipe.prune_every is not None
        if waits and chains > 1 and below >= (guess := 1 - 1 / chains):
            raise InputError(f"learned_below must be less than {guess:.3g}, the loss of a guess, got {below:g}")

    @property
    def content_hash(self) -> str:
        """A hash of problem, recipe and seeds that identifies what is trained, whether or not the run exists."""
        content = {"problem": asdict(self.problem), "recipe": asdict(self.recipe), "seeds": list(self.seeds)}
        return content_hash(content)

    @property
    def settings(self) -> dict[str, object]:
        """All fields of the problem and the recipe, and the seeds, by name."""
        return {**asdict(self.problem), **asdict(self.recipe), "seeds": list(self.seeds)}

    @property
    def work(self) -> int:
        """Number of updates times blocks times models, which compares the cost of runs of the same width."""
        return self.recipe.layers * self.recipe.steps * len(self.seeds)
