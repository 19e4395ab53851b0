"""The layers of a Hugging Face decoder, and hooks that skip them or change what enters them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.kernels import Precision
from hopscope.model.architecture import Architecture


def decoder_layers(model: Any) -> Any:
    """Return the layers of a decoder."""
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count and all(map(attention_of, module)):
            return module
    raise InputError(
        f"{type(model).__name__} has no attention layers of a known kind; circuits need a decoder, such as Llama"
    )


def attention_of(layer: nn.Module) -> Any:
    """Return the attention module of a layer, one level deeper in GPT-Neo; None if no known module is found."""
    found = (part for child in layer.children() for part in (child, getattr(child, "attention", None)))
    return next((part for part in found if hasattr(part, "layer_idx") or hasattr(part, "_attn")), None)


def first_output(out: Any) -> Tensor:
    """Return the output of a module, or the first output if there are several."""
    found: Tensor = out[0] if isinstance(out, tuple) else out
    return found


@contextmanager
def receiving(layer: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """A context in which the function `change` is applied to the input of a layer."""

    def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if inputs:
            return (change(inputs[0]), *inputs[1:]), named
        return inputs, {**named, "hidden_states": change(named["hidden_states"])}

    with layer.register_forward_pre_hook(hook, with_kwargs=True):
        yield


@contextmanager
def skipped(layer: Any) -> Iterator[None]:
    """A context in which a layer returns its input unchanged."""
    several = hasattr(attention_of(layer), "layer_id")  # a layer of GPT-Neo gives a tuple
    layer.forward = lambda hidden_states, *others, **named: (hidden_states,) if several else hidden_states
    try:
        yield
    finally:
        del layer.forward


HOOKED_ATTENTION = "hopscope"
"""The name under which `attend` is registered with the library."""


def attend(
    module: Any,
    query: Float[Tensor, "batch head pos d_head"],
    key: Float[Tensor, "batch group pos d_head"],
    value: Float[Tensor, "batch group pos d_value"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "batch pos head d_value"], Float[Tensor, "batch head pos pos"]]:
    """Return softmax(q k) v and the pattern, computed explicitly; the model's hooks can change keys and pattern."""
    hooks, shared = module.hopscope_model.hooks, query.shape[1] // key.shape[1]
    key = hooks.keys(module.layer_idx, key)
    key, value = (heads.repeat_interleave(shared, dim=1) for heads in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if attention_mask is not None:
        scores = scores + attention_mask[..., : key.shape[-2]]
    if (sinks := others.get("s_aux")) is not None:  # GPT-OSS: a logit for attending to no position
        scores = torch.cat((scores, sinks.to(scores.dtype).view(-1, 1, 1).expand(*scores.shape[:-1], 1)), dim=-1)
    given = scores.softmax(dim=-1, dtype=torch.float32)[..., : key.shape[-2]]
    pattern = hooks.pattern(module.layer_idx, given[None])[0]
    return (pattern.to(value.dtype) @ value).transpose(1, 2).contiguous(), pattern


def hook_attention(attention: Any, model: Any) -> bool:
    """Let the attention of a layer use a model's hooks; return whether this works without `AttentionInterface`."""
    attention.hopscope_model = model
    if hasattr(attention, "layer_id") and not hasattr(attention, "layer_idx"):  # GPT-Neo, which does not use it
        attention.layer_idx = attention.layer_id
        attention.__class__ = type("Hooked", (type(attention),), {"_attn": _attend_gpt_neo})
    return hasattr(attention, "layer_id")


def _attend_gpt_neo(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return GPT-Neo's attention, which is not scaled and, in local layers, stays within a window."""
    hidden = ~module.bias[..., : query.shape[-2], : key.shape[-2]]
    mask = torch.zeros(hidden.shape, device=query.device).masked_fill(hidden, torch.finfo(query.dtype).min)
    out, pattern = attend(module, query, key, value, mask if attention_mask is None else mask + attention_mask, 1.0)
    return out.transpose(1, 2), pattern


def register_attention() -> None:
    """Register `attend` with the library."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(HOOKED_ATTENTION, attend)
    AttentionMaskInterface.register(HOOKED_ATTENTION, eager_mask)


def set_precision(model: Any, precision: Precision) -> None:
    """Convert a model's weights to a precision.

    In `fp32`, buffers such as rotary frequencies are converted too. In `bf16`, buffers stay as they are, and logits are
    computed in single precision, since bf16 would round large logits to eighths.
    """
    if precision == "fp32":
        model.float()
        return
    head, kept = model.get_output_embeddings(), set[int]()
    if isinstance(head, nn.Linear):
        for name, weight in list(head.named_parameters()):
            setattr(head, name, nn.Parameter(weight.detach().float().clone(), requires_grad=False))
        head.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
        kept = {id(weight) for weight in head.parameters()}
    for weight in model.parameters():
        if id(weight) not in kept:
            weight.data = weight.data.bfloat16()


class _Blocks(NamedTuple):
    """Where the heads are in a projection: their axis, the size of this axis, and the starts of the blocks of heads.

    Every block holds all heads. In a block, a head takes `wide` head widths: 3 if query, key and value are adjacent.
    """

    axis: int
    size: int
    starts: Sequence[int]
    wide: int = 1


def copy_head(target: Any, source: Any, head: int, shape: Architecture) -> None:
    """Copy the weights of a head from `source` to the attention `target`, except weights shared with other heads; an
    `InputError` is raised if the projections of this family are not known."""
    groups, parts, known = getattr(target, "num_key_value_groups", 1), dict(source.named_parameters()), 0
    for name, weight in target.named_parameters():
        outputs_first = isinstance(source.get_submodule(name.rpartition(".")[0]), nn.Linear)
        blocks = _blocks(name.split(".")[0], weight, outputs_first, shape, groups)
        if blocks is None:
            continue
        if weight.shape[blocks.axis] != blocks.size:
            raise InputError(
                f"no head can get initial weights: {name} of {type(target).__name__} has size "
                f"{weight.shape[blocks.axis]} along its heads, but {shape.heads} heads of width "
                f"{shape.d_head} should have {blocks.size}"
            )
        for start in blocks.starts:
            width = blocks.wide * shape.d_head
            columns = blocks.axis, start + head * width, width
            weight.narrow(*columns).copy_(parts[name].narrow(*columns))
        known += 1
    if known < 2:
        raise InputError(f"no head can get initial weights: the projections of {type(target).__name__} are not known")


def _blocks(kind: str, weight: Tensor, outputs_first: bool, shape: Architecture, groups: int) -> _Blocks | None:
    """Return where heads are in a projection of this kind; None if the kind is unknown or heads share its weights."""
    inner, whole = shape.heads * shape.d_head, weight.dim() == 2  # or a bias
    if kind == "c_attn" and not outputs_first:  # GPT-2: queries, keys and values side by side
        return _Blocks(-1, 3 * inner, (0, inner, 2 * inner))
    if kind == "query_key_value" or (kind == "c_attn" and groups == 1):  # GPT-NeoX, GPT-BigCode: head by head
        return _Blocks(0, 3 * inner, (0,), wide=3)
    if kind in ("qkv_proj", "c_attn"):  # as in GPT-2, outputs first
        return _Blocks(0, inner + 2 * inner // groups, (0, inner, 2 * inner) if groups == 1 else (0,))
    if kind == "q_proj" or (kind in ("k_proj", "v_proj") and groups == 1):
        return _Blocks(0, inner, (0,))
    if kind == "c_proj" and whole and not outputs_first:
        return _Blocks(0, inner, (0,))
    if kind in ("o_proj", "dense", "out_proj", "c_proj") and whole:
        return _Blocks(1, inner, (0,))
    return None
