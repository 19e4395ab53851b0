"""Any torch module as a hooked model: its parts run one by one, and its attention patterns are read or replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.checks import check_type
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.model.hooks import AtItself, HookedModel, Hooks, Pattern, Queried, Stream, reach_beside
from hopscope.records import content_hash

_SAME = 1e-4
"""Largest allowed difference between a module's answers and those of its parts, relative to the largest answer (at
least 1)."""


@dataclass(frozen=True)
class Parts:
    """The parts of a torch module in which circuits are found: embedding, blocks, read-out and attention patterns.

        >>> from torch import nn
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scores, self.pattern = nn.Linear(4, 4), nn.Identity()  # patterns pass through the latter
        ...     def forward(self, x):
        ...         scores = self.scores(x) @ x.mT
        ...         hidden = torch.ones_like(scores).triu(1).bool()
        ...         pattern = self.pattern(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)[:, None])
        ...         return x + pattern[:, 0] @ x
        >>> problem = hs.RetrievalProblem(hops=1)
        >>> embed, block, read = nn.Linear(problem.input_dim, 4), Block(), nn.Linear(4, problem.target_dim)
        >>> whole = nn.Sequential(embed, block, read)
        >>> model = hs.Model.from_torch(whole, problem, lambda it: hs.Parts(it[0], [it[1]], it[2], [it[1].pattern]))
        >>> model.ablate({"L1.H1": "uniform"}).change != 0
        True

    Attributes:
        embed: a function that maps inputs [sequence, position, d_input] to the stream [sequence, position, d_model]
            that enters the first block.
        blocks: functions that map the stream to the stream, each with one attention.
        read: a function that maps the stream after the last block to the answers [sequence, position, d_output].
        patterns: one module per block, through which the block's attention pattern [sequence, head, query, key] passes
            before it weights the values, e.g. an added `nn.Identity` or a `HookPoint`.
    """

    embed: Callable[[Tensor], Tensor]
    blocks: Sequence[Callable[[Tensor], Tensor]]
    read: Callable[[Tensor], Tensor]
    patterns: Sequence[nn.Module]

    def __post_init__(self) -> None:
        for name in ("blocks", "patterns"):
            if not isinstance(getattr(self, name), Iterable):
                raise InputError(f"{name} must be a list, with one for each block, got {getattr(self, name)!r}")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, part in (("embed", self.embed), ("read", self.read), *_numbered("block", self.blocks)):
            if not callable(part):
                raise InputError(f"{name} must be a function of a tensor, got {part!r}")
        for name, part in _numbered("pattern", self.patterns):
            if not isinstance(part, nn.Module):
                raise InputError(f"{name} must be a module that patterns pass through, got {part!r}")


def _numbered(name: str, parts: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(f"{name} {number}", part) for number, part in enumerate(parts, start=1)]


@dataclass(frozen=True)
class TorchModule(HookedModel):
    """A torch module as a hooked model, with a function that returns its parts.

    Attributes:
        module: the module, which maps inputs [sequence, position, d_input] to answers at all or at the last positions.
        parts: a function that returns the parts of the module or of a copy of it.
        untrain: a function of a copy, a layer and a head (from 0) that gives this head initial weights in place; None
            if the user passes none.
        shape: the module's architecture, as found by running the module.
    """

    module: nn.Module
    parts: Callable[[Any], Parts]
    untrain: Callable[[Any, int, int], None] | None
    shape: Architecture
    models: int = field(default=1, init=False)

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        module: nn.Module,
        parts: Callable[[Any], Parts],
        untrain: Callable[[Any, int, int], None] | None,
        inputs: Float[Tensor, "sequence pos d_input"] | Int[Tensor, "sequence pos"],
        d_output: int | None,
        reads: int,
        causal: bool,
    ) -> Self:
        """Divide a module into parts, and check the parts on `inputs`, vectors or tokens; weights are not changed.

        Answers of width `d_output` (None for any width) are read at the last `reads` positions.

        Raises:
            InputError: `module` is not a module that maps `inputs` to such answers, the parts do not give the module's
                answers, a pattern does not pass through its module, blocks have different numbers of heads, a position
                attends to a later position although `causal` is true, or positions affect each other outside patterns.
        """
        check_type("module", module, nn.Module, "a torch.nn.Module")
        if not callable(parts) or not callable(untrain or parts):
            raise InputError(f"parts and untrain are functions of the module, got {parts!r} and {untrain!r}")
        own = _answers_of(module, inputs, d_output)[:, -reads:]
        found = parts(module)
        if not isinstance(found, Parts):
            raise InputError(f"parts must give an hs.Parts, got {found!r}")
        if len(found.patterns) != len(found.blocks) or not found.blocks:
            raise InputError(
                f"there must be a pattern for each block, got {len(found.patterns)} for {len(found.blocks)} blocks"
            )
        with in_evaluation(module):
            stream = _stream(found.embed(inputs), "embed")
        d_output = own.shape[-1]
        d_input = inputs.shape[-1] if inputs.is_floating_point() else d_output
        shape = Architecture(
            d_input, 1, reads, len(found.blocks), 1, stream.shape[-1], head_dim=1, mlp=False, causal=causal
        )
        some = cls(module, parts, untrain, shape)
        patterns = some.patterns(inputs[None])
        _check_patterns(patterns, causal)
        answers = some.answers(some.run(stream[None], reads=reads))[0]
        if own.shape != answers.shape or not _close(answers, own):
            raise InputError(
                "the parts, run one after the other, do not give the module's answers (shapes at the last positions "
                f"{tuple(answers.shape)} and {tuple(own.shape)}); check that embed, blocks and read leave nothing out"
            )
        if untrain is not None:
            mixed = some.with_untrained([(0, 0)], seed=0)
            if torch.equal(mixed.run(stream[None], stop=1), some.run(stream[None], stop=1)):
                raise InputError(
                    "untrain for head 1 of a copy does not change what the first block does; check that parts returns "
                    "the parts of the module that it is given, and that untrain changes a head in place"
                )
        again = some.run(stream[None], hooks=AtItself(), reads=reads)
        if _close(some.answers(again)[0], own):
            raise InputError("replacing the patterns changes no answer; give the modules through which patterns pass")
        made = replace(some, shape=replace(shape, heads=patterns[0].shape[2], d_output=d_output))
        for read in (lambda stream: stream, lambda stream: made.answers(stream[:, :, -reads:])):
            if not (share := reach_beside(made, inputs, inputs.flip(0), read)) <= _SAME:
                raise InputError(
                    "positions affect each other outside the patterns, which no circuit shows (a position that attends "
                    f"to itself alone still changes by a share of {share:.2g}); give the patterns of all attention"
                )
        return made

    def embed(self, inputs: Float[Tensor, "model batch pos d_input"] | Int[Tensor, "model batch pos"]) -> Stream:
        """Return the stream that enters the first block."""
        with in_evaluation(self.module):
            return self.parts(self.module).embed(inputs[0])[None]

    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """See `HookedModel.run`. After the last block, only the last `reads` positions are kept."""
        parts, stream = self.parts(self.module), x[0]
        with in_evaluation(self.module):
            for layer in layers:
                with _shown(parts.patterns[layer], layer, hooks or Hooks()) as passed:
                    stream = _stream(parts.blocks[layer](stream), f"block {layer + 1}")
                if len(passed) != 1:
                    how = "did not pass" if not passed else f"passed {len(passed)} times"
                    raise InputError(
                        f"the pattern of block {layer + 1} {how} through the module given for it; a block must have "
                        "one attention, with a pattern module of its own"
                    )
        return stream[None, :, -(reads or stream.shape[1]) :] if layers.stop == self.shape.layers else stream[None]

    def answers(self, x: Stream) -> Float[Tensor, "model batch pos d_output"]:
        """Return the answers read out from the stream after the last block."""
        with in_evaluation(self.module):
            return self.parts(self.module).read(x[0])[None]

    @torch.no_grad()
    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> Self:
        """Return a copy in which `heads`, as (layer, head) from 0, have initial weights.

        Raises:
            InputError: `untrain` is None.
        """
        if self.untrain is None:
            raise InputError("heads of this module cannot get initial weights without a function; pass untrain=")
        mixed = deepcopy(self.module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for layer, head in heads:
                self.untrain(mixed, layer, head)
        return replace(self, module=mixed)


class TokenModule(TorchModule):
    """A module that maps tokens [sequence, position] to the logits of the next token at every position."""

    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """See `HookedModel.run`. All positions are kept, since prompts are padded on the right."""
        return super().run_layers(x, layers, hooks, None)

    @property
    def size(self) -> int:
        """Size of the weights in bytes."""
        return sum(weight.numel() * weight.element_size() for weight in self.module.parameters())

    def check_length(self, tokens: int) -> None:
        """Check that the module can read prompts of `tokens` tokens. Raises an `InputError` if not."""
        _answers_of(self.module, torch.zeros(1, tokens, dtype=torch.long), None)

    def check_tokens(self, tokenizer: Any, tokens: Int[Tensor, "*any"]) -> None:
        """Check that all tokens are in the module's vocabulary. Raises an `InputError` if not."""
        if int(tokens.max()) >= self.shape.d_output:
            raise InputError(
                f"the tokenizer gives token {int(tokens.max())}, but the module has only {self.shape.d_output} logits"
            )


def weights_hash(module: nn.Module) -> str:
    """Return a hash of a module's weights, which identifies the module in records of its circuits."""
    weights = {name: weight for name, weight in module.state_dict().items() if isinstance(weight, Tensor)}
    return content_hash({name: weight.tolist() for name, weight in weights.items()})


def _answers_of(module: nn.Module, inputs: Tensor, d_output: int | None) -> Tensor:
    """Return a module's answers to vectors or tokens, after checking that they are finite and of the right width."""
    vectors = f"[sequence, position, {inputs.shape[-1]}] of single precision"
    takes = vectors if inputs.is_floating_point() else "[sequence, position], which are whole numbers,"
    try:
        with in_evaluation(module):
            answers = module(inputs)
    except Exception as error:  # a user's module can raise any error
        raise InputError(
            f"the module must take inputs {takes} on the CPU, but it raises {type(error).__name__}: {error}"
        ) from error
    if not isinstance(answers, Tensor) or answers.dim() != 3 or d_output not in (None, answers.shape[-1]):
        shape = tuple(answers.shape) if isinstance(answers, Tensor) else type(answers).__name__
        width = "token" if d_output is None else d_output
        raise InputError(f"the module must answer with a tensor [sequence, position, {width}], got {shape}")
    if not bool(torch.isfinite(answers).all()):
        raise InputError("the module gives answers that are not finite; check that its weights are finite")
    return answers


def _check_patterns(patterns: Sequence[Pattern], causal: bool) -> None:
    """Check that patterns are at least 0, have the same number of heads in every block, and are causal if required."""
    if not all(bool(((pattern >= 0) & pattern.isfinite()).all()) for pattern in patterns):
        raise InputError("patterns must be finite and at least 0; give the modules that they pass after the softmax")
    heads = {pattern.shape[2] for pattern in patterns}
    if len(heads) > 1:
        raise InputError(f"all blocks must have the same number of heads, got {sorted(heads)}")
    if causal and any(bool(pattern.triu(1).any()) for pattern in patterns):
        raise InputError(
            "positions attend to later positions, but the problem is causal; mask the attention or use causal=False"
        )


@contextmanager
def in_evaluation(module: nn.Module) -> Iterator[None]:
    """A context in which a module is in evaluation mode, so without dropout; its training mode is restored after."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def _shown(module: nn.Module, layer: int, hooks: Hooks) -> Iterator[list[int]]:
    """A context in which the pattern hook is applied to a module's output. Yields a list with an entry per call."""
    passed: list[int] = []

    def show(module: nn.Module, given: Any, out: Tensor) -> Tensor:
        passed.append(layer)
        if not isinstance(out, Tensor) or out.dim() != 4:
            raise InputError(
                f"the pattern of block {layer + 1} must be a tensor [sequence, head, query, key] where it passes, "
                f"got {_describe(out)}"
            )
        return hooks.pattern(layer, out[None])[0]

    with module.register_forward_hook(show):
        yield passed


def _stream(given: Any, part: str) -> Tensor:
    if not isinstance(given, Tensor) or given.dim() != 3:
        raise InputError(f"{part} must give the stream, a tensor [sequence, position, d_model], got {_describe(given)}")
    return given


def _describe(given: Any) -> str:
    return f"one of shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"a {type(given).__name__}"


def _close(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= _SAME * max(1.0, float(other.abs().max()))
