"""The layers of somebody's decoder, and hooks that skip them or change what enters them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from hopscope.errors import InputError


def decoder_layers(model: Any) -> Any:
    """The decoder's layers."""
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count and all(map(_has_attention, module)):
            return module
    raise InputError(f"{type(model).__name__} has no layers of attention that are known; circuits need a decoder")


def _has_attention(layer: nn.Module) -> bool:
    return any(hasattr(child, "layer_idx") for child in layer.children())


def attention_of(layer: nn.Module) -> Any:
    """The attention of a layer."""
    return next(child for child in layer.children() if hasattr(child, "layer_idx"))


def first_output(out: Any) -> Tensor:
    """What a module gives out, of several things the first."""
    found: Tensor = out[0] if isinstance(out, tuple) else out
    return found


@contextmanager
def removed(handle: Any) -> Iterator[None]:
    """A context at whose end a hook is removed."""
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def receiving(layer: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """A context in which a layer's input goes through a function first."""

    def hook(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if given:
            return (change(given[0]), *given[1:]), named
        return given, {**named, "hidden_states": change(named["hidden_states"])}

    with removed(layer.register_forward_pre_hook(hook, with_kwargs=True)):
        yield


@contextmanager
def skipped(layer: Any) -> Iterator[None]:
    """A context in which a layer returns its input unchanged."""
    layer.forward = lambda hidden_states, *given, **named: hidden_states
    try:
        yield
    finally:
        del layer.forward
