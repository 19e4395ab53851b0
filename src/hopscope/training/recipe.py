"""A recipe: everything that decides what a run learns, besides the problem and the seeds; a setup: all three."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from hopscope.checks import check_choice, check_count, check_flag, check_items, check_number, check_seed, make_plain
from hopscope.errors import InputError
from hopscope.model.architecture import AS_TORCH, Architecture, HeldHead, InitialWeights, check_held
from hopscope.problem.retrieval import RetrievalProblem

ScheduleName = Literal["constant", "cosine", "warmup-stable-decay", "decay-when-learned"]
CheckpointPrecision = Literal["fp32", "bf16"]


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
        examples: size of the training set, passed through in a new order each time; `None` for endless fresh data.
        learning_rate: peak learning rate.
        schedule: how the learning rate changes: `constant`; `cosine`, down to zero at the last step;
            `warmup-stable-decay`, constant, then linearly down to zero over the last `decay_fraction` of the steps;
            `decay-when-learned`, constant until the model has learned every hop that it is asked for (validation loss
            below `learned_below`), but no longer than under `warmup-stable-decay`, then linearly down to zero over as
            many updates, which ends the run.
        decay_fraction: share of `steps` over which these two lower the learning rate to zero.
        learned_below: validation loss below which `decay-when-learned` and pruning count a hop as learned; below that
            of a guess, 1 - 1/N.
        prune_every: steps between rounds of permanent head pruning, rounded up to the next row of metrics; pruning
            starts once the model has learned and pauses while a hop is forgotten; it ends when no head can go, at the
            latest when the learning rate starts to fall, which under `decay-when-learned` waits for it. `None` disables
            it. See `hopscope.training.pruning`.
        prune_cost: largest total rise of the loss allowed in one round of pruning.
        head_dropout: share of heads dropped at random in each update, independently for each model, until it has
            learned every hop (loss below 0.5 at a row of metrics, for four chains), so that what is learned does not
            depend on single heads. At the least depth more models learn with it (study `learning`).
        head_dropout_after: number of hops, whichever they are, that the model must have learned before head dropout
            starts. With 1 the plateau is as short as without head dropout.
        warmup: steps over which the learning rate rises linearly.
        optimiser: `adamw`, or `module:name` of a class of your own that updates some of the weights, see
            `hopscope.training.optimiser.Optimiser`; AdamW updates the rest.
        weight_decay: decoupled weight decay (Loshchilov 2017), on all weights.
        beta1: AdamW's decay rate of the first moment.
        beta2: AdamW's decay rate of the second moment.
        clip: largest gradient norm, for each model separately; `None` for no clipping.
        initial: how the weights are drawn before the first update.
        log_every: steps between rows of metrics; every one of the last `final_steps` steps also gets a row.
        final_steps: number of last steps over which the final validation loss is averaged (100 in the paper); under
            `decay-when-learned` steps before the learning rate starts to fall do not count.
        validation_size: sequences in the fresh validation batch behind each row of metrics.
        checkpoint_every: steps between checkpoints of the weights; `None` for a checkpoint at the end alone.
        checkpoint_precision: precision of all checkpoints but the last; `bf16` halves the disk space and shifts
            attention weights by less than about 0.01.
        hop_weights: factors on the training losses of the hops, one for each hop asked for; `None` for 1 each. Reported
            losses are without them.
        held: heads whose attention is held to a fixed pattern, in training and after; written `1.2=previous`.

    Raises:
        InputError: a value is out of range.
    """

    layers: int
    heads: int
    d_model: int
    steps: int
    batch_size: int
    head_dim: int | None = None
    mlp: bool = True
    examples: int | None = 2**18
    learning_rate: float = 1e-3
    schedule: ScheduleName = "constant"
    decay_fraction: float = 0.3
    learned_below: float = 0.5
    prune_every: int | None = None
    prune_cost: float = 0.3
    head_dropout: float = 0.0
    head_dropout_after: int = 0
    warmup: int = 0
    optimiser: str = "adamw"
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float | None = None
    initial: InitialWeights = AS_TORCH
    log_every: int = 8
    final_steps: int = 100
    validation_size: int = 128
    checkpoint_every: int | None = None
    checkpoint_precision: CheckpointPrecision = "fp32"
    hop_weights: tuple[float, ...] | None = None
    held: tuple[HeldHead, ...] = ()

    def __post_init__(self) -> None:
        make_plain(self)
        counts = ("layers", "heads", "d_model", "steps", "batch_size", "log_every", "final_steps", "validation_size")
        for name in (*counts, "head_dim", "checkpoint_every", "prune_every"):
            if name in counts or getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.examples is not None:
            check_count("examples", self.examples, most=2**30)
        for name in ("warmup", "head_dropout_after"):
            check_count(name, getattr(self, name), least=0)
        for name in ("learning_rate", "weight_decay", "clip", "learned_below", "prune_cost"):
            if name != "clip" or self.clip is not None:
                check_number(name, getattr(self, name), 0.0)
        for name in ("beta1", "beta2", "decay_fraction", "head_dropout"):
            check_number(name, getattr(self, name), 0.0, 1.0)
        check_choice("schedule", self.schedule, get_args(ScheduleName))
        check_choice("checkpoint_precision", self.checkpoint_precision, get_args(CheckpointPrecision))
        check_flag("mlp", self.mlp)
        module, _, name = str(self.optimiser).partition(":")
        if self.optimiser != "adamw" and not (name.isidentifier() and all(map(str.isidentifier, module.split(".")))):
            raise InputError(f"optimiser must be adamw or a class as module:name, got {self.optimiser!r}")
        if not isinstance(self.initial, InitialWeights):
            raise InputError(f"initial must be InitialWeights, as InitialWeights(qk_gain=4.0), got {self.initial!r}")
        for name, of in (("hop_weights", "numbers, one a hop"), ("held", "held heads")):
            if getattr(self, name) is not None:  # with lists, the record on disk would not equal this recipe
                object.__setattr__(self, name, check_items(name, getattr(self, name), of))
        for weight in self.hop_weights or ():
            check_number("a weight of a hop", weight, 0.0)
        check_held(self.held, self.layers, self.heads)
        self._take_whole_numbers()

    def _take_whole_numbers(self) -> None:
        """Turn whole numbers into floats where the record on disk has floats: 1 and 1.0 are hashed differently."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("float", "float | None") and isinstance(value, int):
                object.__setattr__(self, field.name, float(value))
        if self.hop_weights is not None:
            object.__setattr__(self, "hop_weights", tuple(map(float, self.hop_weights)))

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
            held=self.held,
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
        waits = recipe.schedule == "decay-when-learned" or recipe.prune_every is not None
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
