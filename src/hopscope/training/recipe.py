"""A recipe: everything that decides what a run learns, besides the problem and the seeds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from hopscope.checks import check_count, check_items, check_number, make_plain
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture, InitialWeights, Scheme
from hopscope.model.fixed_attention import HeldHead, check_held
from hopscope.problem.retrieval import RetrievalProblem

Schedule = Literal["constant", "cosine", "trapezoid", "when-learned"]
Optimiser = Literal["adamw", "muon"]
CheckpointPrecision = Literal["fp32", "bf16"]

_CHOICES = (("schedule", Schedule), ("optimiser", Optimiser), ("checkpoint_precision", CheckpointPrecision))


@dataclass(frozen=True)
class Recipe:
    """How a transformer is shaped and trained (Sections 7.1, 8.1, 9.1). `dataclasses.replace` varies it.

        >>> hs.Recipe(layers=2, heads=1, d_model=64, steps=100, batch_size=32).learning_rate
        0.001

    Args:
        layers: number of blocks.
        heads: attention heads per layer.
        d_model: width of the residual stream.
        steps: number of updates; under `when-learned` an upper limit.
        batch_size: sequences per update, for each model.
        head_dim: width of a head; `None` for d_model / heads.
        mlp: whether blocks have an MLP.
        examples: size of the training set, passed through in a new order each time; `None` for endless fresh data.
        learning_rate: peak learning rate.
        schedule: how the learning rate changes: `constant`; `cosine`, down to zero at the last step; `trapezoid`,
            constant, then linearly down to zero over the last `fall` of the steps; `when-learned`, constant until the
            model has learned every hop that it is asked for (validation loss below `learned_below`), but no longer than
            under `trapezoid`, then linearly down to zero over as many updates, which ends the run.
        fall: share of `steps` over which `trapezoid` and `when-learned` lower the learning rate to zero.
        learned_below: validation loss below which `when-learned` and pruning count a hop as learned; below that of a
            guess, 1 - 1/N.
        prune_every: steps between rounds of permanent head pruning, rounded up to the next row of metrics; pruning
            starts once the model has learned and pauses while a hop is forgotten; it ends when no head can go, at the
            latest when the learning rate starts to fall, which under `when-learned` waits for it. `None` disables it.
            See `hopscope.training.pruning`.
        prune_cost: largest total rise of the loss allowed in one round of pruning.
        head_dropout: share of heads dropped at random in each update, independently for each model, until it has
            learned every hop (loss below 0.5 at a row of metrics, for four chains), so that what is learned does not
            depend on single heads. At the least depth more models learn with it (`python -m studies learning`).
        head_dropout_after: number of hops, whichever they are, that the model must have learned before head dropout
            starts. With 1 the plateau is as short as without head dropout; with as many as are asked for, or more, it
            never starts.
        warmup: steps over which the learning rate rises linearly.
        optimiser: optimiser of the weights: `adamw`, or `muon` for the matrices of blocks, head by head, with AdamW for
            the rest; see `hopscope.training.muon`.
        weight_decay: decoupled weight decay (Loshchilov 2017), on all weights.
        beta1: AdamW's decay rate of the first moment.
        beta2: AdamW's decay rate of the second moment.
        clip: largest gradient norm, for each model separately; `None` for no clipping.
        init: initialisation of the weights, `torch` or `gpt2`; see `hopscope.model.initial_weights`.
        qk_gain: factor on the initial query and key weights. Above 1, heads attend selectively from the start, and the
            plateau is shorter.
        embedding_gain: factor on the initial weights that take the input to the residual stream.
        output_gain: factor on the initial weights by which every block writes to the residual stream.
        log_every: steps between rows of metrics; every one of the last `final_steps` steps also gets a row.
        final_steps: number of last steps over which the final validation loss is averaged (100 in the paper); under
            `when-learned` steps before the learning rate starts to fall do not count.
        validation_size: sequences in the fresh validation batch behind each row of metrics.
        checkpoint_every: steps between checkpoints of the weights; `None` for a checkpoint at the end alone.
        steps_per_epoch: updates per epoch, the paper's unit for transformer D (6,400 steps are 800 epochs).
        checkpoints_per_doubling: number of further checkpoints from every step n to 2n, evenly spaced in the logarithm
            of the step.
        checkpoint_jump_every: steps between further checkpoints while a hop is being learned, that is, at rows of
            metrics where its validation loss is on its way from the plateau down to 0.1.
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
    schedule: Schedule = "constant"
    fall: float = 0.3
    learned_below: float = 0.5
    prune_every: int | None = None
    prune_cost: float = 0.3
    head_dropout: float = 0.0
    head_dropout_after: int = 0
    warmup: int = 0
    optimiser: Optimiser = "adamw"
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float | None = None
    init: Scheme = "torch"
    qk_gain: float = 1.0
    embedding_gain: float = 1.0
    output_gain: float = 1.0
    log_every: int = 8
    final_steps: int = 100
    validation_size: int = 128
    checkpoint_every: int | None = None
    steps_per_epoch: int = 8
    checkpoints_per_doubling: int | None = None
    checkpoint_jump_every: int | None = None
    checkpoint_precision: CheckpointPrecision = "fp32"
    hop_weights: tuple[float, ...] | None = None
    held: tuple[HeldHead, ...] = ()

    def __post_init__(self) -> None:
        make_plain(self)
        counts = ("layers", "heads", "d_model", "steps", "batch_size", "log_every", "final_steps", "validation_size")
        for name in (*counts, "steps_per_epoch"):
            check_count(name, getattr(self, name))
        optional = ("head_dim", "checkpoint_every", "checkpoints_per_doubling", "checkpoint_jump_every", "prune_every")
        for name in optional:
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.examples is not None:
            check_count("examples", self.examples, most=2**30)
        for name in ("warmup", "head_dropout_after"):
            check_count(name, getattr(self, name), least=0)
        for name in ("learning_rate", "weight_decay", "clip", "learned_below", "prune_cost"):
            if name != "clip" or self.clip is not None:
                check_number(name, getattr(self, name), 0.0)
        for name in ("beta1", "beta2", "fall", "head_dropout"):
            check_number(name, getattr(self, name), 0.0, 1.0)
        for name in ("hop_weights", "held"):  # with lists, the record on disk would not equal this recipe
            if getattr(self, name) is not None:
                of = "numbers, one a hop" if name == "hop_weights" else "held heads"
                object.__setattr__(self, name, check_items(name, getattr(self, name), of))
        for weight in self.hop_weights or ():
            check_number("a weight of a hop", weight, 0.0)
        _ = self.initial  # which checks its values
        self._take_whole_numbers()
        for name, kind in _CHOICES:
            choices = get_args(kind)
            if getattr(self, name) not in choices:
                raise InputError(f"{name} must be {' or '.join(choices)}, got {getattr(self, name)!r}")
        if not isinstance(self.mlp, bool):
            raise InputError(f"mlp must be true or false, got {self.mlp!r}")
        check_held(self.held, self.layers, self.heads)

    def _take_whole_numbers(self) -> None:
        """Turn whole numbers into floats where the record on disk has floats: 1 and 1.0 are hashed differently."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("float", "float | None") and isinstance(value, int):
                object.__setattr__(self, field.name, float(value))
        if self.hop_weights is not None:
            object.__setattr__(self, "hop_weights", tuple(map(float, self.hop_weights)))

    @property
    def initial(self) -> InitialWeights:
        """How weights are drawn before the first update."""
        return InitialWeights(self.init, self.qk_gain, self.embedding_gain, self.output_gain)

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
