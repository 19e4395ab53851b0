"""The update of weights by their gradients: clipping, AdamW, optimisers of your own, an update as a CUDA graph.

An update of small models is a thousand kernels of a few microseconds each. Launched one by one from Python they take
ten times as long to launch as to run; recorded as a CUDA graph, all are launched by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol

import torch
from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.training.recipe import Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")
"""The moments kept for every weight."""

State = Mapping[Tensor, Mapping[str, Tensor]]
"""For every weight its moments, in its shape, and `step`, the number of updates it has had."""

_REHEARSALS = 3
"""Times that the work runs before it is recorded, so that what its first call compiles, loads or allocates is there."""


class Optimiser(Protocol):
    """An optimiser of your own, constructed with the transformer and the recipe; `Recipe.optimiser` names it."""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The weights that it updates; AdamW updates all others."""

    def step(self, rate: float, state: State) -> None:
        """Update these weights that have a gradient, in place, at this learning rate; it may use the moments."""


def own_optimiser(transformer: Transformer, recipe: Recipe) -> Optimiser | None:
    """The optimiser that the recipe names as `module:name`; None for AdamW alone.

    Raises:
        InputError: there is no such module or name.
    """
    if recipe.optimiser == "adamw":
        return None
    module, _, name = recipe.optimiser.partition(":")
    try:
        found: Optimiser = getattr(import_module(module), name)(transformer, recipe)
    except (ImportError, AttributeError) as error:
        raise InputError(f"optimiser {recipe.optimiser!r} cannot be loaded ({error})") from None
    return found


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


def adamw(weights: Sequence[Tensor], state: State, rate: float | Tensor, recipe: Recipe) -> None:
    """Update all weights that have a gradient, and their moments, in place (Loshchilov and Hutter 2019).

    It is the operation behind torch's class: constructing the class loads torch's compiler, which takes a second.

    Args:
        weights: the weights that AdamW updates.
        state: the state of these weights; it may hold others too. Weights that are always updated together may share
            one `step`.
        rate: the learning rate; a tensor where the update is recorded as a CUDA graph, which reads it when replayed.
        recipe: gives `beta1`, `beta2` and `weight_decay`.
    """
    moved = {weight: weight.grad for weight in weights if weight.grad is not None}
    if not moved:
        return
    kept = [state[weight] for weight in moved]
    updates = [one["step"] for one in kept]
    for one in {id(update): update for update in updates}.values():
        one.add_(1)
    first, second = ([one[moment] for one in kept] for moment in MOMENTS)
    torch._fused_adamw_(
        [*moved],
        [*moved.values()],
        first,
        second,
        [],
        updates,
        lr=rate,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        weight_decay=recipe.weight_decay,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )


def can_record(device: torch.device) -> bool:
    """Whether a device has CUDA graphs."""
    return device.type == "cuda"


class CudaGraph:
    """Work that can be replayed, each time on the current contents of its tensors.

    Args:
        work: reads and changes tensors that stay in place, and returns a tensor that it made.
        changed: the tensors that it changes; constructing the graph leaves them as they were.
        device: the GPU that holds all these tensors.
    """

    def __init__(self, work: Callable[[], Tensor], changed: Sequence[Tensor], device: torch.device) -> None:
        self._device = device
        before = [one.detach().clone() for one in changed]
        with torch.cuda.device(device):
            aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # recording needs a stream of its own, and so does its rehearsal
                for _ in range(_REHEARSALS):
                    work()
            torch.cuda.current_stream().wait_stream(aside)
            with torch.no_grad():
                for one, was in zip(changed, before, strict=True):
                    one.copy_(was)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._made = work()

    def __call__(self) -> Tensor:
        """Replay the work. The next call overwrites the tensor that this one returns."""
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._made
