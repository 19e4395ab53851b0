"""Updates of the weights: gradient clipping, AdamW, hooks that change updates, and updates as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.problem.vectors import Batch
from hopscope.training.recipe import Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")
"""torch's names of the two moments that AdamW keeps for every weight."""

_REHEARSALS = 3
"""Number of runs before work is recorded, so that everything the first run compiles, loads or allocates exists."""


class TrainingHooks:
    """Base class for changes to the updates of an ensemble. `Recipe.hooks` names a subclass that overrides methods.

        >>> class LastHopAlone(hs.TrainingHooks):
        ...     def weigh(self, losses):
        ...         return losses[:, -1:]
        >>> hs.Recipe(2, 1, 8, steps=4, batch_size=2, hooks="my_module:LastHopAlone").hooks
        'my_module:LastHopAlone'

    Args:
        transformer: the models that are trained.
        recipe: how the models are trained.
    """

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        self.transformer, self.recipe = transformer, recipe

    def change(self, batch: Batch) -> Batch:
        """Return the batch [model, batch, ...] to train on instead. Validation and held-out data are not changed."""
        return batch

    def weigh(self, losses: Float[Tensor, "model hop"]) -> Float[Tensor, "model hop"]:
        """Return the losses whose mean over hops is minimised. The metrics still report the given `losses`."""
        return losses

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The weights that `step` updates. AdamW updates all other weights."""
        return []

    def step(self, rate: float, state: Mapping[Tensor, Mapping[str, Tensor]]) -> None:
        """Update the weights in `parameters` in place if they have a gradient.

        Args:
            rate: the learning rate.
            state: for every weight, two tensors of the weight's shape, `exp_avg` and `exp_avg_sq`. They are zero at
                first and kept between updates.
        """


def training_hooks(recipe: Recipe) -> type[TrainingHooks] | None:
    """Load the class of training hooks that the recipe names. Returns None if the recipe names none."""
    if recipe.hooks is None:
        return None
    module, _, name = recipe.hooks.partition(":")
    try:
        hooks = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"hooks {recipe.hooks!r} cannot be loaded ({error})") from None
    if not (isinstance(hooks, type) and issubclass(hooks, TrainingHooks)):
        raise InputError(f"hooks {recipe.hooks!r} must name a subclass of hs.TrainingHooks")
    return hooks


def clip_gradients(parameters: Sequence[Tensor], largest: float, models: int) -> None:
    """Scale each model's gradient to a norm of at most `largest`, so that models do not affect one another."""
    if models == 1:
        torch.nn.utils.clip_grad_norm_(parameters, largest)
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.stack([gradient.square().flatten(1).sum(1) for gradient in gradients])
    scale = (largest / (squares.sum(0).sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def adamw(
    weights: Sequence[Tensor],
    state: Mapping[Tensor, Mapping[str, Tensor]],
    updates: Tensor,
    rate: float | Tensor,
    recipe: Recipe,
    spared: Collection[Tensor] = (),
) -> None:
    """Update all weights that have a gradient, and their moments, in place (Loshchilov and Hutter 2019).

    Calls the operation behind `torch.optim.AdamW`, since that class loads torch's compiler, which takes a second.
    `updates`, the number of updates so far, is increased by one. Weights in `spared` do not decay.
    """
    gradients = {weight: weight.grad for weight in weights if weight.grad is not None}
    if not gradients:
        return
    updates.add_(1)
    decaying, others = ([weight for weight in gradients if (weight in spared) is kept] for kept in (False, True))
    for decay, group in ((recipe.weight_decay, decaying), (0.0, others)):
        if not group:
            continue
        first, second = ([state[weight][moment] for weight in group] for moment in MOMENTS)
        torch._fused_adamw_(
            group,
            [gradients[weight] for weight in group],
            first,
            second,
            [],
            [updates] * len(group),
            lr=rate,
            beta1=recipe.beta1,
            beta2=recipe.beta2,
            weight_decay=decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def can_record(device: torch.device) -> bool:
    """Return whether a device supports CUDA graphs."""
    return device.type == "cuda"


class CudaGraph:
    """Work recorded as a CUDA graph, to be replayed on the current contents of the same tensors. Recording runs the
    work, then restores the tensors in `changed`.

    An update of small models consists of a thousand kernels. Launching them one by one takes ten times as long as
    running them.
    """

    def __init__(self, work: Callable[[], Tensor], changed: Sequence[Tensor], device: torch.device) -> None:
        self._device = device
        before = [tensor.detach().clone() for tensor in changed]
        with torch.cuda.device(device):
            stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # recording and the runs before it need a separate stream
                for _ in range(_REHEARSALS):
                    work()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.no_grad():
                for tensor, original in zip(changed, before, strict=True):
                    tensor.copy_(original)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._made = work()

    def __call__(self) -> Tensor:
        """Replay the work. The next call overwrites the tensor that this one returns."""
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._made
