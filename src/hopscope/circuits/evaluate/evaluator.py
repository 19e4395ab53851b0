"""The evaluator: a model, a batch, and the loss under any number of candidate interventions.

Candidates are stacked along the batch axis, so that one pass with one copy of the weights serves all of them. The first
layers, as far as they equal those of the trunk (see `Evaluator.depart_from`), are computed once for all candidates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.circuits.evaluate.ablations import CHOSEN, Ablation, AblationKind, Interventions
from hopscope.circuits.evaluate.apply import MIXING, InterventionHooks, LayerAblations, PatternCache, by_layer
from hopscope.errors import InputError
from hopscope.model.hooks import HookedModel, Patched, Pattern, Stream
from hopscope.model.role_maps import RoleMaps, Sequences, coordinates, role_maps
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import Problem
from hopscope.theory.scene import Scene

T = TypeVar("T")

_ROWS_AT_ONCE = 16_384
"""The number of positions that go through the model together; more would not fit into the caches of a CPU."""

ACTIVATIONS = 1 << 28
"""The maximum number of bytes of activations; in a wide model, fewer positions go through together."""

STREAMS = 1 << 28
"""The maximum number of bytes of cached residual streams; in a deep model, only some layers' streams are cached."""

BYTES_A_POSITION = 4 * 24
"""Bytes of activations per position and unit of width that are in memory while an MLP of four times the width runs."""


class Elsewhere(NamedTuple):
    """A model run on sequences ("there") in which the rows of one pair of the original sequences ("here") have moved.

    `at` gives, for every position here, the position there with the same content. `block` marks the moved positions.
    """

    evaluator: Evaluator
    at: Int[Tensor, "batch pos"]
    block: Bool[Tensor, "batch pos"]


class Evaluator(ABC):
    """One model and one batch, vectors or text.

    Attributes:
        transformer: a single model (see `single`).
        problem: the problem that the model answers.
        batch: the sequences, with one leading axis.
        names: names of the roles, by number.
        off_is_alike: whether `uniform` rows get their own patterns made chain-agnostic, as in pretrained models.
        where: the role and chain of every position of the batch.
    """

    names: tuple[str, ...]
    off_is_alike = False

    def __init__(self, transformer: HookedModel, problem: Problem, batch: Sequences) -> None:
        if transformer.models != 1:
            raise InputError(f"an evaluator holds one model, got {transformer.models}; take one with `single`")
        self.transformer, self.problem, self.batch = transformer, problem, batch
        self.shape = transformer.shape
        self.where = coordinates(batch, self.shape.causal)
        self._parts: dict[int, Evaluator] = {}
        self._computed: dict[str, Any] = {}
        self._whole: Evaluator | None = None
        self.cache = PatternCache(self.where)
        self._checked: dict[HeadRow, Ablation] = {}
        self._trunk: list[LayerAblations] = [{} for _ in range(self.shape.layers)]
        self._streams: dict[int, Stream] = {}

    @property
    @abstractmethod
    def scene(self) -> Scene | None:
        """The information that every role of a chain starts with, by role number; None if the task has no chains."""

    @abstractmethod
    def on(self, batch: Any) -> Evaluator:
        """Return the same model on another batch."""

    @abstractmethod
    def fresh(self, sequences: int, seed: int, purpose: str) -> Evaluator:
        """Return the same model on new sequences that depend only on `seed` and `purpose`."""

    def elsewhere(self, pair: int) -> Elsewhere | None:
        """Return the model on the same sequences with the rows of a pair (from 1) moved elsewhere; None in text."""
        return None

    def applied(self, interventions: Interventions) -> Interventions:
        """Return interventions in the form in which they are applied to this model."""
        return interventions

    def off(self, pattern: Pattern) -> Pattern:
        """Return a layer's pattern with all rows switched off; queries are the last positions."""
        allowed = self.where.allowed.float()
        return (allowed / allowed.sum(dim=-1, keepdim=True))[-pattern.shape[-2] :].expand(pattern.shape)

    @abstractmethod
    def squared_errors(self, x: Stream) -> Float[Tensor, "model_sequence hop"]:
        """Return the squared errors of the answers that are read out of the stream after the last block."""

    @abstractmethod
    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> Evaluator:
        """Return the same batch under a model in which `heads`, as (layer, head) from 0, have initial weights."""

    @property
    def skipped(self) -> frozenset[tuple[int, int]]:
        """The heads, as (layer, head), that write nothing and are not computed; ablating them changes nothing."""
        return frozenset()

    @property
    def sequences(self) -> int:
        """The number of sequences in the batch."""
        return self.batch.inputs.shape[0]

    @cached_property
    def rows(self) -> tuple[HeadRow, ...]:
        """All rows of the model, from the first layer to the last."""
        counts = (range(count) for count in (self.shape.layers, self.shape.heads, self.where.roles))
        return tuple(HeadRow(*numbers) for numbers in product(*counts))

    @cached_property
    def live_rows(self) -> tuple[HeadRow, ...]:
        """The rows of roles in the batch that can reach an answer: in the last layer, only rows of the last role."""
        last, query = self.shape.layers - 1, self.where.roles - 1
        there = set(self.where.role.flatten().tolist())
        return tuple(row for row in self.rows if (row.layer < last or row.query == query) and row.query in there)

    @cached_property
    def own(self) -> Float[Tensor, " sequence"]:
        """The losses of the unmodified model by sequence; for a part of a batch, those of the whole batch are used."""
        if self._whole is not None:
            return self._whole.own[: self.sequences]
        return self.errors([{}])[0].double().mean(dim=1)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which is called only once per name, so that several cards can share it."""
        if name not in self._computed:
            self._computed[name] = compute()
        found: T = self._computed[name]
        return found

    def require_finite(self) -> None:
        """Raise an `InputError` if the model's answers are not finite."""
        if not bool(self.own.isfinite().all()):
            raise InputError("the model's answers are not finite, e.g. because training diverged; it has no circuit")

    def part(self, sequences: int) -> Evaluator:
        """Return the same model on the first sequences of the batch; the result is cached."""
        if sequences >= self.sequences:
            return self
        if sequences not in self._parts:
            self._parts[sequences] = self.on(self.batch[:sequences])
            self._parts[sequences]._whole = self
        return self._parts[sequences]

    @torch.no_grad()
    def errors(self, candidates: Sequence[Interventions]) -> Float[Tensor, "candidate sequence hop"]:
        """Return the squared errors under each candidate, by sequence and hop."""
        shares = self.shares_for(candidates)
        if shares != (self,):
            return torch.cat([share.errors(candidates) for share in shares], dim=1)
        for interventions in candidates:
            self._check(interventions)
        skipped = self.skipped
        ablations = [by_layer(self.applied(given), self.shape.layers, skipped) for given in candidates]
        starts = [min(self._shared(split), self.shape.layers - 1) for split in ablations]
        order = sorted(range(len(candidates)), key=lambda number: starts[number])
        at_once = max(1, self._positions_at_once // self.where.role.numel())
        results: dict[int, Tensor] = {}
        for first in range(0, len(order), at_once):
            chosen = order[first : first + at_once]
            x = self._last_stream([ablations[number] for number in chosen], [starts[number] for number in chosen])
            errors = self.squared_errors(x).view(len(chosen), self.sequences, -1)
            results |= dict(zip(chosen, errors, strict=True))
        return torch.stack([results[number] for number in range(len(candidates))]).cpu()

    def _last_stream(self, candidates: Sequence[list[LayerAblations]], starts: Sequence[int]) -> Stream:
        """Return the stream after the last block under candidates, each of which joins the batch at its first layer."""
        joins = [start // self._stride * self._stride for start in starts]  # rising
        layers, x = sorted({*joins}), self._stream(joins[0])[:, :0]
        for layer, stop in zip(layers, [*layers[1:], self.shape.layers], strict=True):
            joining = self._stream(layer).repeat(1, joins.count(layer), 1, 1)
            x = torch.cat([x, joining], dim=1) if x.shape[1] else joining
            hooks = InterventionHooks(candidates[: x.shape[1] // self.sequences], self.cache)
            x = self.transformer.run(x, start=layer, stop=stop, hooks=hooks, reads=self.shape.reads)
        return x

    @property
    def _positions_at_once(self) -> int:
        return min(_ROWS_AT_ONCE, ACTIVATIONS // (BYTES_A_POSITION * self.shape.d_model))

    @cached_property
    def _shares(self) -> tuple[Evaluator, ...]:
        """The parts of a batch that is too large to go through the model at once; empty for a smaller batch."""
        at_once = max(1, self._positions_at_once // self.where.role.shape[1])
        starts = range(0, self.sequences, at_once)
        return tuple(self.on(self.batch[start : start + at_once]) for start in starts) if len(starts) > 1 else ()

    def shares_for(self, candidates: Sequence[Interventions]) -> tuple[Evaluator, ...]:
        """Return the same model on parts of the batch, in order, on which candidates are evaluated one after the other.

        Each part goes through the model at once. If a candidate mixes sequences, the only part is the whole batch.
        """
        if not self._shares or any(
            ablation.kind in MIXING for interventions in candidates for ablation in interventions.values()
        ):
            return (self,)
        return self._shares

    def mse(self, candidates: Sequence[Interventions]) -> list[float]:
        """Return the mean squared error under each candidate."""
        if not candidates:
            return []
        found: list[float] = self.errors(candidates).double().mean(dim=(1, 2)).tolist()
        return found

    def depart_from(self, interventions: Interventions) -> None:
        """Make these interventions the trunk: its layers are computed once, and similar candidates are then cheap."""
        ablations = by_layer(self.applied(interventions), self.shape.layers, self.skipped)
        same = self._shared(ablations)
        self._trunk = ablations
        self._streams = {layer: x for layer, x in self._streams.items() if layer <= same}
        for share in self._shares:
            share.depart_from(interventions)

    @torch.no_grad()
    def role_maps(self) -> RoleMaps:
        """Return the role maps of the unmodified model."""
        return role_maps(self._patterns(), self.where)

    def _patterns(self) -> Iterator[Pattern]:
        """Yield the patterns layer by layer, since all patterns at once would fill the memory."""
        streams = [self.transformer.embed(share.batch.inputs[None]) for share in self.shares_for([])]
        for layer in range(self.shape.layers):
            recorders = [Patched() for _ in streams]
            for number, recorder in enumerate(recorders):
                streams[number] = self.transformer.run(streams[number], start=layer, stop=layer + 1, hooks=recorder)
            yield torch.cat([recorder.patterns[layer] for recorder in recorders], dim=1)

    def edit(self, interventions: Interventions) -> InterventionHooks:
        """Return interventions as hooks for the transformer's forward pass on this batch."""
        self._check(interventions)
        return InterventionHooks([by_layer(self.applied(interventions), self.shape.layers)], self.cache)

    def _check(self, interventions: Interventions) -> None:
        """Check that interventions fit the model and the batch; ablations already checked are not checked again."""
        roles, visible = self.where.roles, self.where.visible
        new = {row: ablation for row, ablation in interventions.items() if self._checked.get(row) is not ablation}
        for row, ablation in new.items():
            counts = self.shape.layers, self.shape.heads, roles
            for name, value, count in zip(("layer", "head", "query role"), row, counts, strict=True):
                if not 0 <= value < count:
                    raise InputError(f"{name} must be from 0 to {count - 1}, got {value}")
            if any(not 0 <= key < roles for key in ablation.keys):
                raise InputError(f"{ablation.kind.value} needs roles from 0 to {roles - 1}, got {ablation.keys}")
            if ablation.kind is AblationKind.MEAN and len(ablation.weights) != 2 * roles:
                raise InputError(f"mean needs {2 * roles} weights, one per relation, got {len(ablation.weights)}")
            if ablation.kind in (*CHOSEN, AblationKind.KNOCK_OUT) and not visible[row.query, list(ablation.keys)].all():
                raise InputError(f"role {row.query} may not attend to all roles of {ablation.keys}: the mask hides it")
        self._checked |= new

    def _shared(self, ablations: list[LayerAblations]) -> int:
        """Return how many of the first layers have the same ablations as the trunk."""
        pairs = enumerate(zip(ablations, self._trunk, strict=True))
        return next((layer for layer, (own, trunk) in pairs if own != trunk), self.shape.layers)

    def _stream(self, layer: int) -> Stream:
        """Return the residual stream that enters a layer under the trunk; the stream is cached."""
        if not self._streams:
            self._streams[0] = self.transformer.embed(self.batch.inputs[None])
        edit = InterventionHooks([self._trunk], self.cache)
        while (last := max(self._streams)) < layer:
            stop = last + self._stride
            self._streams[stop] = self.transformer.run(self._streams[last], start=last, stop=stop, hooks=edit)
        return self._streams[layer]

    @cached_property
    def _stride(self) -> int:
        """The number of layers from one cached stream of the trunk to the next."""
        needed = 4 * self.where.role.numel() * self.shape.d_model * self.shape.layers
        return -(-needed // STREAMS)
