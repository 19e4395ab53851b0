"""A recipe: everything that decides what a run learns, besides the problem and the seeds; a setup: all three."""

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
    """How a transformer is shaped and trained (Sections 7.1, 8.1, 9.1). `dataclasses.replace` varies it.

        >>> hs.Recipe(layers=2, heads=1, d_model=64, steps=100, batch_size=32).learning_rate
        0.001

    Args:
        layers: number of blocks.
        heads: attention heads per layer.
        d_model: width of the residual stream.
        steps: number of updates; under `decay-when-learned` an upper limit.
        batch_size: sequences per update, for each model.
        head_dim: width of a head; `None` for d_model / heads.
        mlp: whether blocks have an MLP.
        score_scale: what attention scores are divided by the root of: `head_dim`, or `d_model`.
        examples: size of the training set, passed through in a new order each time; `None` for endless fresh data.
        learning_rate: peak learning rate.
        schedule: how the learning rate changes: `constant`; `cosine`, down to zero at the last step;
            `warmup-stable-decay`, constant, then linearly down to zero over the last `decay_fraction` of the steps;
            `decay-when-learned`, the same from the row at which the model has learned every target hop, if earlier,
            which ends the run earlier.
        decay_fraction: share of `steps` over which these two lower the learning rate to zero.
        learned_below: validation loss below which `decay-when-learned` and pruning count a hop as learned; below that
            of a guess, 1 - 1/N.
        prune_every: steps between rounds of permanent head pruning, from when the model has learned, at rows of metrics
            with no hop forgotten, until no head can go or the learning rate falls, which under `decay-when-learned`
            waits for it; `None` for no pruning. See `hopscope.training.pruning`.
        head_dropout: share of heads dropped at random in each update of a model, until it has learned every hop (loss
            below 0.5 for four chains); at the least depth more models learn with it (study `learning`).
        head_dropout_after: number of hops that the model must have learned before head dropout starts; with 1 the
            plateau is as short as without.
        warmup: steps over which the learning rate rises linearly.
        weight_decay: decoupled weight decay (Loshchilov 2017).
        decay_all: whether all weights decay; else the gains of norms and all biases do not.
        beta1: AdamW's decay rate of the first moment.
        beta2: AdamW's decay rate of the second moment.
        clip: largest gradient norm, for each model separately; `None` for no clipping.
        hooks: changes to the update, as `module:name` of a subclass of `hs.TrainingHooks`: other weights of the hops'
            losses, an optimiser of your own. `None` for AdamW on the mean over the hops.
        initial: how the weights are drawn before the first update.
        log_every: steps between rows of metrics; every one of the last `final_steps` steps also gets a row.
        final_steps: number of last steps over which the final validation loss is averaged (100 in the paper), those
            before `decay-when-learned` starts to lower the rate left out.
        validation_size: sequences in the fresh validation batch behind each row of metrics.
        checkpoint_every: steps between checkpoints of the weights; `None` for a checkpoint at the end alone.
        checkpoint_precision: precision of all checkpoints but the last; `bf16` shifts attention by less than 0.01.

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
        """The transformer this recipe trains on `problem`."""
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
    """What to train. `dataclasses.replace` varies it.

        >>> hs.paper.B.recipe == hs.paper.A.recipe, hs.paper.A.seeds, hs.paper.B.seeds
        (True, (0,), (1,))

    Attributes:
        name: name of its run folder, where several lie side by side.
        problem: what is trained on.
        recipe: how it is trained.
        seeds: one per model.

    Raises:
        InputError: there are no seeds, seeds repeat, one is not a whole number from 0 to 2^63 - 1, another field is of
            another type, or the recipe waits for a loss that a guess among the chains has.
    """

    name: str
    problem: RetrievalProblem
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        for field, kind in (("name", str), ("problem", RetrievalProblem), ("recipe", Recipe)):
            check_type(field, getattr(self, field), kind, f"a {kind.__name__}")
        object.__setattr__(self, "seeds", check_items("seeds", self.seeds, "whole numbers, one a model"))
        for seed in self.seeds:
            check_seed(seed)
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds must be different and at least one, got {list(self.seeds)}")
        chains, below = self.problem.chains, self.recipe.learned_below
        waits = self.recipe.schedule == "decay-when-learned" or self.recipe.prune_every is not None
        if waits and chains > 1 and below >= (guess := 1 - 1 / chains):
            raise InputError(f"learned_below must be less than {guess:.3g}, the loss of a guess, got {below:g}")

    @property
    def content_hash(self) -> str:
        """A hash of problem, recipe and seeds, which names what is trained, whether the run exists or not."""
        content = {"problem": asdict(self.problem), "recipe": asdict(self.recipe), "seeds": list(self.seeds)}
        return content_hash(content)

    @property
    def settings(self) -> dict[str, object]:
        """Every field of problem and recipe, and the seeds, by name."""
        return {**asdict(self.problem), **asdict(self.recipe), "seeds": list(self.seeds)}

    @property
    def work(self) -> int:
        """Updates times blocks, over all models: the cost of the run relative to others of its width."""
        return self.recipe.layers * self.recipe.steps * len(self.seeds)
