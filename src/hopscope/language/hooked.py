"""A Hugging Face language model with the hooks of our own transformer: entered at any layer, read, patterns replaced.

None of a model's code is copied. Its attention goes through the library's `AttentionInterface`, where our function
computes the pattern explicitly (with the model's grouped keys, masks, windows and soft caps) and passes it to the
`Hooks`. Torch's module hooks skip layers and insert streams. Opening a model checks that all this changes nothing: its
answers must be those of its own attention, from the first layer and from the middle, and no position may attend to a
later one.
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
    sharp_logits,
    skipped,
)
from hopscope.language.limits import check_tokens, places, window
from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Hooks, Keys, PatchableModel, Patched, Pattern, Queried, Stream, reach_beside
from hopscope.training.execution import Execution

_SAME = 1e-3
"""Largest difference of a logit, as a share of the largest logit, or of 1, that another order of summation may make."""

_OTHER = "take a model of another family, such as Llama, Qwen, Gemma or GPT-2"


class HookedDecoder(PatchableModel):
    """One decoder-only language model.

    Args:
        model: a causal language model, as `AutoModelForCausalLM.from_pretrained` returns it, in single precision.
        checked: whether it is checked; a copy of one that was need not be.

    Raises:
        InputError: its attention patterns cannot be computed explicitly without changing it, or it is not causal.
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
                f"layers of {type(model).__name__} are not built as those of known decoders, so that their attention "
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
        """This model with its weights on another device, in `bf16` all but those of the read-out.

        Raises:
            InputError: torch cannot compute on that device here.
        """
        Execution(device=device).check()
        if precision == "bf16":
            sharp_logits(self._model)
            read_out = [*self._model.get_output_embeddings().parameters()]
            for weight in self._model.parameters():  # buffers, as of rotary codes, stay precise
                if all(weight is not kept for kept in read_out):
                    weight.data = weight.data.bfloat16()
        self._model.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self._model.device
        return device

    def check_length(self, tokens: int) -> None:
        """Check that texts of so many tokens can be read.

        Raises:
            InputError: the model has fewer positions, or some layers attend in a window that is shorter: an ablation
                would let them attend where they cannot.
        """
        family, most = type(self._model).__name__, places(self._model)
        if most is not None and tokens > most:
            raise InputError(f"a question has {tokens} tokens and {family} positions for {most}; ask for fewer hops")
        seen = window(self._model)
        if seen is not None and tokens > seen:
            raise InputError(
                f"a question has {tokens} tokens and layers of {family} attend to the last {seen} at most, where "
                "circuits need layers that see it whole; ask for fewer hops"
            )

    def check_tokens(self, tokenizer: Any, tokens: Int[Tensor, "*any"]) -> None:
        """Check that the model knows some tokens; an `InputError` if not."""
        check_tokens(self._model, tokenizer, tokens.flatten().tolist())

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        return sum(weight.numel() * weight.element_size() for weight in self._model.parameters())

    def embed(self, inputs: Int[Tensor, "1 batch pos"]) -> Stream:
        """The stream that enters the first layer."""
        return self._through(inputs[0].to(self.device), None, 0, 0, None)[None]

    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """See `HookedModel.run`. All positions are computed: a language model is read in the middle of padded
        sequences, whatever `reads` says."""
        return self._through(_any_tokens(x[0]), x[0], layers.start, layers.stop, hooks)[None] if layers else x

    def pattern_of(self, layer: int, query: Stream, key: Stream) -> Pattern:
        """A layer's own pattern with its queries computed from one stream and its keys from another."""
        compared = _Compared()
        for x in (key, query):
            self.run(x, start=layer, stop=layer + 1, hooks=compared)
        return compared.patterns[layer]

    def attn_out_of(self, layer: int, pattern: Pattern, value: Stream) -> Stream:
        """What a layer's attention adds to the stream under a pattern, with its values computed from a stream."""
        imposed = Patched(patterns={layer: pattern})
        self.run(value, start=layer, stop=layer + 1, hooks=imposed)
        return imposed.written[layer]

    def answers(self, x: Stream) -> Float[Tensor, "model batch pos vocabulary"]:
        """The logits read out of the stream after the last block, position by position, through final norm and head."""
        flat = x.flatten(0, 2)[:, None]
        with self._entering(flat, self.shape.layers):
            logits: Tensor = self._model(input_ids=_any_tokens(flat), use_cache=False).logits
        return logits.view(*x.shape[:3], -1)

    @torch.no_grad()
    def plain_logits(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos vocabulary"]:
        """The model's logits by the library's own attention, without hooks."""
        before = self._model.config._attn_implementation
        self._model.set_attn_implementation("eager")
        try:
            logits: Tensor = self._model(input_ids=inputs, use_cache=False).logits
        finally:
            self._model.set_attn_implementation(before)
        return logits

    @torch.no_grad()
    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> HookedDecoder:
        """A copy in which some heads, (layer, head) from 0, have initial weights: queries and output, and keys and
        values where these are not shared with other heads. All other layers share their weights with this model.

        Raises:
            InputError: the projections of this family are not known, or other heads change with one.
        """
        touched = sorted({layer for layer, _ in heads})
        changed = {id(weight) for number in touched for weight in self._layers[number].parameters()}
        mixed = deepcopy(
            self._model,
            {id(parameter): parameter for parameter in self._model.parameters() if id(parameter) not in changed},
        )
        with torch.random.fork_rng(devices=[]), _default_dtype(self._model.dtype):
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
        """Check that two models differ in some heads of a layer alone: without these, both do the same there.

        They differ in more where a norm goes over the queries of all heads together.
        """
        entering = self.run(self.embed(self._probe[None]), stop=layer)
        own, others = (
            model.run(entering, start=layer, stop=layer + 1, hooks=_Without(heads)) for model in (self, other)
        )
        if not torch.allclose(own, others, rtol=1e-4, atol=1e-5):
            raise InputError(
                f"no head can get initial weights: in {type(self._model).__name__} the other heads of its "
                "layer change with it"
            )

    def _through(
        self, ids: Int[Tensor, "batch pos"], x: Stream | None, start: int, stop: int, hooks: Hooks | None
    ) -> Float[Tensor, "batch pos d_model"]:
        """The stream that enters layer `stop` when `x` enters layer `start`; with `x` None, the embedding enters."""
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
            entered = start if start < len(self._layers) else 0  # if none is left, `x` passes through the skipped ones
            stack.enter_context(receiving(self._layers[entered], lambda hidden: x))
            yield

    def _write(self, layer: int, module: nn.Module, inputs: Any, out: Any) -> Any:
        """What the attention of a layer gives out, with what it adds to the stream as the hooks leave it."""
        written = self.hooks.attn_out(layer, first_output(out)[None])[0]
        return (written, *out[1:]) if isinstance(out, tuple) else written

    @torch.no_grad()
    def _check(self, own: Float[Tensor, "batch pos vocabulary"]) -> None:
        """Check that hooks change nothing by themselves, and that nothing passes beside causal patterns."""
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
                f"{family} has {len(self._layers)} layers and {len(patterns)} attention patterns: others mix positions "
                f"in another way, as a state space does; {_OTHER}"
            )
        if any(bool(pattern.triu(1).any()) for pattern in patterns):
            raise InputError(f"{family} is no decoder: positions attend to later ones; {_OTHER}")
        if not (beside := reach_beside(self, self._probe, self._probe.flip(-1), self.answers)) <= _SAME:
            raise InputError(
                f"{family} carries something from other positions beside its attention patterns (logits change by a "
                f"share of {beside:.2g} where all attend to themselves), which no circuit would show"
            )
        if not (more := self._beyond_a_sum(entering, patterns)) <= _SAME:
            raise InputError(
                f"what attention of {family} writes is not the sum over its rows (it is off by a share of "
                f"{more:.2g}, as with a norm between heads and output), so no circuit could say what a row does"
            )

    def _beyond_a_sum(self, entering: Stream, patterns: Sequence[Pattern]) -> float:
        """How much what is written under patterns differs from the sum of what it is under parts of them, at most."""
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
    """In a layer that is run twice, compares the queries of the second time with the keys of the first."""

    _first: Keys | None = None

    def keys(self, layer: int, keys: Keys) -> Keys:
        self._first = keys if self._first is None else self._first
        return self._first


class _Without(Hooks):
    """Some heads of every layer attend to nothing."""

    def __init__(self, heads: Sequence[int]) -> None:
        self._heads = heads

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        return pattern.index_fill(2, torch.tensor(self._heads, device=pattern.device), 0.0)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A context in which new weights are of a dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class _Caught(Exception):
    """Raised once the wanted stream is computed, so that the rest is not."""


def _any_tokens(x: Float[Tensor, "batch pos d_model"]) -> Int[Tensor, "batch pos"]:
    """Placeholder tokens, which a stream will replace."""
    return torch.zeros(x.shape[:2], dtype=torch.int64, device=x.device)
