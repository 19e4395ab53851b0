"""A model on the bench: many programs tried on one batch of sequences.

Candidates stand along the batch axis, so that one forward pass serves them all with one copy of the weights. Layers
below the first one that a candidate changes are computed once, for the program it departs from. In the last block only
the positions that are read are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.apply import Drawer, LayerEdit, LayerEdits, by_layer, check
from hopscope.circuits.coordinates import coordinates
from hopscope.circuits.interventions import Edit, Program, Row
from hopscope.circuits.maps import RoleMaps, role_maps
from hopscope.errors import InputError
from hopscope.model.transformer import Block, Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.losses import squared_errors

_ROWS_AT_ONCE = 16_384
"""Positions that go through together: beyond it activations leave a CPU's caches."""

Stream = Float[Tensor, "one row d_model"]


class Bench:
    """One model and one batch.

    Args:
        transformer: with one model.
        problem: what it answers.
        batch: sequences; one leading axis.

    Raises:
        InputError: more than one model; take one with `single`.
    """

    def __init__(self, transformer: Transformer, problem: RetrievalProblem, batch: Batch) -> None:
        if transformer.models != 1:
            raise InputError(f"a bench holds one model, got {transformer.models}; take one with `single`")
        self.transformer, self.problem, self.batch = transformer, problem, batch
        self.shape = transformer.shape
        self.where = coordinates(batch, self.shape.causal)
        self.evaluations = 0
        self._drawer = Drawer(self.where)
        self._checked: dict[Row, Edit] = {}
        self._trunk: list[LayerEdits] = [{} for _ in range(self.shape.layers)]
        self._streams: list[Stream] = []

    @property
    def sequences(self) -> int:
        """Sequences of the batch."""
        return self.batch.inputs.shape[0]

    @torch.no_grad()
    def errors(self, programs: Sequence[Program]) -> Float[Tensor, "program sequence hop"]:
        """Squared errors under each program, by sequence and hop asked for."""
        for program in programs:
            self._check(program)
        edits = [by_layer(program, self.shape.layers) for program in programs]
        starts = [self._first_change(edit) for edit in edits]
        order = sorted(range(len(programs)), key=lambda number: starts[number])
        at_once = max(1, _ROWS_AT_ONCE // (self.sequences * self.problem.sequence_length))
        results: list[Tensor | None] = [None] * len(programs)
        for first in range(0, len(order), at_once):
            chosen = order[first : first + at_once]
            errors = self._forward([edits[number] for number in chosen], starts[chosen[0]])
            for number, error in zip(chosen, errors, strict=True):
                results[number] = error
        self.evaluations += len(programs)
        return torch.stack([result for result in results if result is not None])

    def mse(self, programs: Sequence[Program]) -> list[float]:
        """Mean squared error under each program."""
        if not programs:
            return []
        found: list[float] = self.errors(programs).double().mean(dim=(1, 2)).tolist()
        return found

    @torch.no_grad()
    def depart_from(self, program: Program) -> None:
        """Make `program` the one whose layers are computed once; candidates near it are then cheap."""
        edits = by_layer(program, self.shape.layers)
        same = self._shared(edits)
        self._trunk, self._streams = edits, self._streams[: same + 1]

    @torch.no_grad()
    def maps(self, program: Program | None = None) -> RoleMaps:
        """Role maps, of the model as it is or under a program."""
        edits = by_layer(program or {}, self.shape.layers)
        patterns: list[Tensor] = []
        x = self._embedded()
        for block, rows in zip(self._blocks(), edits, strict=True):
            x = self._block(block, x, LayerEdit([rows], self.shape.heads, self._drawer), 1, None, patterns)
        return role_maps(patterns, self.where)

    def _check(self, program: Program) -> None:
        """See that a program fits; what was seen before is not looked at again."""
        new = {row: edit for row, edit in program.items() if self._checked.get(row) is not edit}
        check(new, self.where, self.shape)
        self._checked |= new

    def _blocks(self) -> list[Block]:
        return [block for block in self.transformer.blocks if isinstance(block, Block)]

    def _embedded(self) -> Stream:
        embedded: Tensor = self.transformer.embed(self.batch.inputs.flatten(0, 1)[None])
        return embedded

    def _first_change(self, edits: list[LayerEdits]) -> int:
        """The first layer at which a candidate departs from the trunk; never beyond the last."""
        return min(self._shared(edits), self.shape.layers - 1)

    def _shared(self, edits: list[LayerEdits]) -> int:
        """How many first layers are as in the trunk."""
        for layer, (mine, trunk) in enumerate(zip(edits, self._trunk, strict=True)):
            if mine != trunk:
                return layer
        return self.shape.layers

    def _stream(self, layer: int) -> Stream:
        """What enters a layer under the trunk."""
        if not self._streams:
            self._streams.append(self._embedded())
        while len(self._streams) <= layer:
            number = len(self._streams) - 1
            edit = LayerEdit([self._trunk[number]], self.shape.heads, self._drawer)
            self._streams.append(self._block(self._blocks()[number], self._streams[-1], edit, 1, None))
        return self._streams[layer]

    def _forward(self, edits: list[list[LayerEdits]], start: int) -> Float[Tensor, "candidate sequence hop"]:
        """Errors of candidates that agree with the trunk before layer `start`."""
        candidates, reads = len(edits), self.shape.reads
        x = self._stream(start).repeat(1, candidates, 1)
        for layer in range(start, self.shape.layers):
            edit = LayerEdit([candidate[layer] for candidate in edits], self.shape.heads, self._drawer)
            last = layer == self.shape.layers - 1
            x = self._block(self._blocks()[layer], x, edit, candidates, reads if last else None)
        answers = self.transformer.answers(x)
        answers = answers.view(candidates, self.sequences, reads, self.shape.d_output)
        return squared_errors(answers, self.batch.targets, self.problem.symbol_dim)

    def _block(
        self,
        block: Block,
        x: Stream,
        edit: LayerEdit,
        candidates: int,
        reads: int | None,
        patterns: list[Tensor] | None = None,
    ) -> Float[Tensor, "one out_row d_model"]:
        """One block under an edit; patterns are appended to `patterns`, if given."""

        def change(pattern: Tensor) -> Tensor:
            pattern = edit(pattern.view(candidates, -1, *pattern.shape[2:])).reshape(pattern.shape)
            if patterns is not None:
                patterns.append(pattern)
            return pattern

        watched = edit.active or patterns is not None
        out: Tensor = block(x, candidates * self.sequences, reads, change if watched else None)
        return out


def single(transformer: Transformer, model: int) -> Transformer:
    """Model `model` of an ensemble, alone, with its weights shared.

    Raises:
        InputError: there is no such model.
    """
    if not 0 <= model < transformer.models:
        raise InputError(f"model must be from 0 to {transformer.models - 1}, got {model}")
    alone = Transformer(transformer.shape, 1)
    alone.load_state_dict({name: tensor[model : model + 1] for name, tensor in transformer.state_dict().items()})
    return alone.requires_grad_(False)
