"""A Hugging Face language model with hooks: it can start at any layer, and its patterns can be read or replaced.

No code of a model is copied. Attention goes through the library's `AttentionInterface`. There, our function computes
the pattern explicitly (with the model's grouped keys, masks, windows and soft caps) and passes it to the `Hooks`.
Torch's module hooks skip layers and insert streams. Opening a model checks that the hooks alone change nothing: passes
from the first layer and from the middle must give the answers of the model's own attention, and no position may attend
to a later position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.kernels import Precision, quicken
from hopscope.language.decoder_layers import (
    HOOKED_ATTENTION,
    attention_of,
    copy_head,
    decoder_layers,
    first_output,
    hook_attention,
    receiving,
    register_attention,
    set_precision,
    skipped,
)
from hopscope.language.limits import check_tokens, places, window
from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Hooks, Keys, PatchableModel, Patched, Pattern, Queried, Stream, reach_beside
from hopscope.training.execution import Execution

_SAME = 1e-3
"""The largest error that another order of summation may cause in logits, relative to the largest logit (at least 1)."""

_OTHER = "use a model of another family, such as Llama, Qwen, Gemma or GPT-2"


class HookedDecoder(PatchableModel):
    """A decoder-only language model with hooks.

    Args:
        model: a causal language model, as `AutoModelForCausalLM.from_pretrained` returns it, in single precision.
        checked: whether to check the model; a copy of a checked model needs no check.

    Raises:
        InputError: the model changes if its attention patterns are computed explicitly, or it is not causal.
    """

    models = 1

    def __init__(self, model: Any, *, checked: bool = True) -> None:
        self._model = model.eval().requires_grad_(False)
        self.hooks = Hooks()
        """The hooks of the pass that is running."""
        try:
            self._open(model, checked)
        except InputError:
            raise
        except Exception as error:  # a family that is built otherwise may raise anything
            raise InputError(
                f"the layers of {type(model).__name__} are not built like those of known decoders, so their attention "
                f"cannot be computed explicitly; {_OTHER}"
            ) from error

    def _open(self, model: Any, checked: bool) -> None:
        self._layers = decoder_layers(model)
        config = model.config.get_text_config()
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.shape = Architecture(
            d_input=config.vocab_size, d_output=config.vocab_size, reads=1, layers=len(self._layers), heads=heads,
            d_model=config.hidden_size, head_dim=width,
        )  # fmt: skip
        self._probe = torch.arange(12).remainder(config.vocab_size).expand(2, -1)
        own = self.plain_logits(self._probe) if checked else None
        quicken(model)
        register_attention()
        hooked = [hook_attention(attention_of(layer), self) for layer in self._layers]
        if not all(hooked):
            model.set_attn_implementation(HOOKED_ATTENTION)
            if config._attn_implementation != HOOKED_ATTENTION:
                raise InputError(f"{type(model).__name__} has an attention of its own kind, without hooks; {_OTHER}")
        if own is not None:
            self._check(own)

    def moved(self, device: str, precision: Precision) -> HookedDecoder:
        """Move the weights to a device and return this model; `bf16` converts all weights but those of the read-out.

        Raises:
            InputError: torch cannot compute on that device on this machine.
        """
        Execution(device=device).check()
        set_precision(self._model, precision)
        self._model.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self._model.device
        return device

    def check_length(self, tokens: int) -> None:
        """Check that the model can read texts of `tokens` tokens.

        Raises:
            InputError: the model has fewer positions, or some layers attend within a shorter window, so an ablation
                would let them attend where they cannot.
        """
        family, most = type(self._model).__name__, places(self._model)
        if most is not None and tokens > most:
            raise InputError(f"a question has {tokens} tokens, but {family} takes at most {most}; ask for fewer hops")
        seen = window(self._model)
        if seen is not None and tokens > seen:
            raise InputError(
                f"a question has {tokens} tokens, but layers of {family} attend to the last {seen} at most, and "
                "circuits need layers that see all of it; ask for fewer hops"
            )

    def check_tokens(self, tokenizer: Any, tokens: Int[Tensor, "*any"]) -> None:
        """Check that the model knows all `tokens`; otherwise an `InputError` is raised."""
        check_tokens(self._model, tokenizer, tokens.flatten().tolist())

    @property
    def size(self) -> int:
        """Bytes of the weights."""
        return sum(weight.numel() * weight.element_size() for weight in self._model.parameters())

    def embed(self, inputs: Int[Tensor, "1 batch pos"]) -> Stream:
        """The stream that enters the first layer."""
        return self._through(inputs[0].to(self.device), None, 0, 0, None)[None]

    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """See `HookedModel.run`. `reads` is ignored and all positions are computed, since a language model answers in
        the middle of padded sequences."""
        return self._through(_any_tokens(x[0]), x[0], layers.start, layers.stop, hooks)[None] if layers else x

    def pattern_of(self, layer: int, query: Stream, key: Stream) -> Pattern:
        """Return a layer's own pattern, with queries computed from the stream `query` and keys from `key`."""
        compared = _Compared()
        for x in (key, query):
            self.run(x, start=layer, stop=layer + 1, hooks=compared)
        return compared.patterns[layer]

    def attn_out_of(self, layer: int, pattern: Pattern, value: Stream) -> Stream:
        """Return what a layer's attention adds to the stream under a pattern, with values from the stream `value`."""
        imposed = Patched(patterns={layer: pattern})
        self.run(value, start=layer, stop=layer + 1, hooks=imposed)
        return imposed.written[layer]

    def answers(self, x: Stream) -> Float[Tensor, "model batch pos vocabulary"]:
        """Return the logits at every position: the stream after the last block, through the final norm and the head."""
        flat = x.flatten(0, 2)[:, None]
        with self._entering(flat, self.shape.layers):
            logits: Tensor = self._model(input_ids=_any_tokens(flat), use_cache=False).logits
        return logits.view(*x.shape[:3], -1)

    @torch.no_grad()
    def plain_logits(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos vocabulary"]:
        """Return the logits of the model with the library's own attention, without hooks."""
        with ExitStack() as stack:
            stack.callback(self._model.set_attn_implementation, self._model.config._attn_implementation)
            self._model.set_attn_implementation("eager")
            logits: Tensor = self._model(input_ids=inputs, use_cache=False).logits
        return logits

    @torch.no_grad()
    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> HookedDecoder:
        """Return a copy in which some heads, given as (layer, head) from 0, have initial weights.

        Queries and outputs of these heads get initial weights, as do keys and values that no other heads share. The
        copy shares all other layers with this model.

        Raises:
            InputError: the projections of this family are not known, or changing a head changes other heads.
        """
        touched = sorted({layer for layer, _ in heads})
        changed = {id(weight) for number in touched for weight in self._layers[number].parameters()}
        mixed = deepcopy(
            self._model,
            {id(parameter): parameter for parameter in self._model.parameters() if id(parameter) not in changed},
        )
        with torch.random.fork_rng(devices=[]), ExitStack() as stack:
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(self._model.dtype)
            torch.manual_seed(seed)
            fresh = type(self._model)(self._model.config).requires_grad_(False)
        for layer, head in heads:
            target, source = (attention_of(decoder_layers(model)[layer]) for model in (mixed, fresh))
            copy_head(target, source, head, self.shape)
        other = HookedDecoder(mixed, checked=False)
        for layer in touched:
            self._check_alone(other, layer, [head for at, head in heads if at == layer])
        return other

    def _check_alone(self, other: HookedDecoder, layer: int, heads: Sequence[int]) -> None:
        """Check that a layer of two models differs only in some heads: without them, both must give the same output.

        The check fails if the model normalises the queries of all heads together.
        """
        entering = self.run(self.embed(self._probe[None]), stop=layer)
        own, others = (
            model.run(entering, start=layer, stop=layer + 1, hooks=_Without(heads)) for model in (self, other)
        )
        if not torch.allclose(own, others, rtol=1e-4, atol=1e-5):
            raise InputError(
                f"no head can get initial weights: in {type(self._model).__name__} this would also change "
                "the other heads of the layer"
            )

    def _through(
        self, ids: Int[Tensor, "batch pos"], x: Stream | None, start: int, stop: int, hooks: Hooks | None
    ) -> Float[Tensor, "batch pos d_model"]:
        """Return the stream that enters layer `stop` when layer `start` gets `x`, or the embedding if `x` is None."""
        found: list[Tensor] = []

        def catch(hidden: Tensor) -> Tensor:
            found.append(hidden)
            raise _Caught

        self.hooks = hooks or Hooks()
        with ExitStack() as stack:
            stack.callback(setattr, self, "hooks", Hooks())
            for layer in range(start, stop):
                attention = attention_of(self._layers[layer])
                stack.enter_context(attention.register_forward_hook(partial(self._write, layer)))
            if x is not None:
                stack.enter_context(self._entering(x, start))
            if stop == len(self._layers):
                last = self._layers[-1]
                stack.enter_context(last.register_forward_hook(lambda *passed: catch(first_output(passed[-1]))))
            else:
                stack.enter_context(receiving(self._layers[stop], catch))
            with suppress(_Caught):
                self._model(input_ids=ids, use_cache=False)
        return found[0]

    @contextmanager
    def _entering(self, x: Float[Tensor, "batch pos d_model"], start: int) -> Iterator[None]:
        """A context in which layers before `start` do nothing and `x` enters layer `start`."""
        with ExitStack() as stack:
            for layer in self._layers[:start]:
                stack.enter_context(skipped(layer))
            entered = start if start < len(self._layers) else 0  # if no layer is left, `x` passes through skipped ones
            stack.enter_context(receiving(self._layers[entered], lambda hidden: x))
            yield

    def _write(self, layer: int, module: nn.Module, inputs: Any, out: Any) -> Any:
        """Return the output of a layer's attention, after the hooks have read or replaced what enters the stream."""
        written = self.hooks.attn_out(layer, first_output(out)[None])[0]
        return (written, *out[1:]) if isinstance(out, tuple) else written

    @torch.no_grad()
    def _check(self, own: Float[Tensor, "batch pos vocabulary"]) -> None:
        """Check that hooks alone change nothing, and that information moves only through causal patterns."""
        family, middle = type(self._model).__name__, len(self._layers) // 2
        entering = self.embed(self._probe[None])
        runs = [self.run(entering), self.run(self.run(entering, stop=middle), start=middle)]
        worst = max(float((self.answers(x)[0] - own).abs().max()) for x in runs)
        if not worst <= _SAME * max(1.0, float(own.abs().max())):
            raise InputError(
                f"the attention of {family} cannot be computed explicitly (its logits change by {worst:.2g})"
            )
        patterns = self.patterns(self._probe[None])
        if len(patterns) != len(self._layers):
            raise InputError(
                f"{family} has {len(self._layers)} layers but {len(patterns)} attention patterns: its other layers mix "
                f"positions in another way, as a state space does; {_OTHER}"
            )
        if any(bool(pattern.triu(1).any()) for pattern in patterns):
            raise InputError(f"{family} is no decoder: positions attend to later ones; {_OTHER}")
        if not (beside := reach_beside(self, self._probe, self._probe.flip(-1), self.answers)) <= _SAME:
            raise InputError(
                f"{family} moves information between positions outside its attention patterns (logits change by a "
                f"share of {beside:.2g} when all positions attend to themselves), which no circuit would show"
            )
        if not (more := self._beyond_a_sum(entering, patterns)) <= _SAME:
            raise InputError(
                f"the attention output of {family} is not the sum over its rows (it is off by a share of "
                f"{more:.2g}, as with a norm between heads and output), so no circuit could say what a row does"
            )

    def _beyond_a_sum(self, entering: Stream, patterns: Sequence[Pattern]) -> float:
        """Return the largest relative error of replacing an attention output by the sum over odd and even keys."""
        x, shares_off = entering, []
        for layer, pattern in enumerate(patterns):
            odd = torch.arange(pattern.shape[-1], device=pattern.device) % 2 == 1
            shares = [pattern.masked_fill(keys, 0.0) for keys in (odd, ~odd)]
            none, whole, *parts = (
                self.attn_out_of(layer, imposed, x) for imposed in (torch.zeros_like(pattern), pattern, *shares)
            )
            shares_off.append((sum(parts) - none - whole).abs().max() / whole.abs().max().clamp(min=1.0))
            x = self.run(x, start=layer, stop=layer + 1)
        return float(torch.stack(shares_off).max())


class _Compared(Patched):
    """In a layer that runs twice, compares the queries of the second run with the keys of the first run."""

    _first: Keys | None = None

    def keys(self, layer: int, keys: Keys) -> Keys:
        self._first = keys if self._first is None else self._first
        return self._first


class _Without(Hooks):
    """Hooks under which some heads of every layer attend to nothing."""

    def __init__(self, heads: Sequence[int]) -> None:
        self._heads = heads

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        return pattern.index_fill(2, torch.tensor(self._heads, device=pattern.device), 0.0)


class _Caught(Exception):
    """Raised to end a pass as soon as the wanted stream is computed."""


def _any_tokens(x: Float[Tensor, "batch pos d_model"]) -> Int[Tensor, "batch pos"]:
    """Return placeholder tokens, whose embeddings a stream will replace."""
    return torch.zeros(x.shape[:2], dtype=torch.int64, device=x.device)
