"""Why a path is there: what reads what it brings.

Each path of a circuit is cut at one use at a time (path patching, Goldowsky-Dill et al. 2023): the query, key or value
of one later path, or the answer. The cut stream is the one in which the path's row is uniform and every other head
still writes what it wrote; MLPs, where there are any, are part of the way. All else runs on from the uncut stream.
This happens in the natural circuit: its rows make their own patterns, so that a changed key shows as lost attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.apply import Drawer, LayerEdit, by_layer
from hopscope.circuits.bench import Bench
from hopscope.circuits.forms import Rows
from hopscope.circuits.interventions import UNIFORM, Row
from hopscope.model.transformer import Block, Pattern, last_positions
from hopscope.training.losses import squared_errors

Stream = Float[Tensor, "one row d_model"]


@dataclass(frozen=True)
class Use:
    """One use of a path, cut.

    Attributes:
        into: `query`, `key`, `value` or `answer`.
        reader: row and key of the later path; None for the answer.
        change: rise of the loss.
        attention: fall of the reader's mean attention.
    """

    into: str
    reader: tuple[Row, int] | None
    change: float
    attention: float


@dataclass(frozen=True)
class _Run:
    """A forward pass, layer by layer: what enters, what attention writes, with which pattern."""

    streams: list[Stream]
    written: list[Stream]
    patterns: list[Pattern]


class Patcher:
    """Cuts uses of paths in one program.

    Args:
        bench: the model and its sequences.
        natural: the program with the model's own patterns in the rows in use.
    """

    def __init__(self, bench: Bench, natural: Rows) -> None:
        self._bench, self._natural = bench, natural
        self._drawer = Drawer(bench.where)
        self._edits = [
            LayerEdit([rows], bench.shape.heads, self._drawer) for rows in by_layer(natural, bench.shape.layers)
        ]
        with torch.no_grad():
            self._run = self._forward()
            self.loss = self._loss(self._run.streams[-1])

    @torch.no_grad()
    def uses(self, paths: Sequence[tuple[Row, int]], row: Row) -> list[Use]:
        """What reads from the query position of `row`, among the answer and the later ones of `paths`."""
        cut = self._cut(row)
        found = []
        for reader, key in paths:
            if reader.layer > row.layer:
                if reader.query == row.query:
                    found.append(self._use("query", cut, reader, key))
                if key == row.query:
                    found += [self._use(into, cut, reader, key) for into in ("key", "value")]
        if row.query == self._bench.where.roles - 1:
            found.append(Use("answer", None, self._loss(cut[-1]) - self.loss, 0.0))
        return sorted(found, key=lambda use: -use.change)

    def _use(self, into: str, cut: list[Stream], reader: Row, key: int) -> Use:
        layer, block, clean = reader.layer, self._blocks()[reader.layer], self._run.streams[reader.layer]
        own = self._run.patterns[layer]
        if into == "value":
            before = self._write(block, clean, clean, self._lone(own, reader))
            after = self._write(block, cut[layer], clean, self._lone(own, reader))
            lost = 0.0
        else:
            query, keys = (cut[layer], clean) if into == "query" else (clean, cut[layer])
            changed = self._pattern(block, keys, query)
            before = self._write(block, clean, clean, self._lone(own, reader))
            after = self._write(block, clean, clean, self._lone(changed, reader))
            lost = self._attention(own, reader, key) - self._attention(changed, reader, key)
        x = self._after(block, clean, self._run.written[layer] + after - before)
        for later in range(layer + 1, self._bench.shape.layers):
            x = self._after(self._blocks()[later], x, self._written(later, x)[0])
        return Use(into, (reader, key), self._loss(x) - self.loss, lost)

    def _forward(self) -> _Run:
        x: Stream = self._bench.transformer.embed(self._bench.batch.inputs.flatten(0, 1)[None])
        streams, all_written, patterns = [x], [], []
        for layer, block in enumerate(self._blocks()):
            written, pattern = self._written(layer, x)
            x = self._after(block, x, written)
            streams.append(x)
            all_written.append(written)
            patterns.append(pattern)
        return _Run(streams, all_written, patterns)

    def _cut(self, row: Row) -> list[Stream]:
        """What enters every layer, and the answer, when this row is uniform and every other head writes what it did."""
        run = self._run
        uniform = LayerEdit([{row.head: ((row.query, UNIFORM),)}], self._bench.shape.heads, self._drawer)
        streams = list(run.streams[: row.layer + 1])
        x = streams[-1]
        for layer in range(row.layer, self._bench.shape.layers):
            block, written = self._blocks()[layer], run.written[layer]
            if layer == row.layer:
                written = self._write(block, x, x, lambda _: uniform(run.patterns[row.layer]))
            x = self._after(block, x, written)
            streams.append(x)
        return streams

    def _blocks(self) -> list[Block]:
        return [block for block in self._bench.transformer.blocks if isinstance(block, Block)]

    def _written(self, layer: int, x: Stream) -> tuple[Stream, Pattern]:
        """What a layer's attention writes under the program, and its pattern."""
        seen: list[Pattern] = []

        def edit(pattern: Pattern) -> Pattern:
            seen.append(self._edits[layer](pattern))
            return seen[0]

        written = self._write(self._blocks()[layer], x, x, edit)
        return written, seen[0]

    def _write(self, block: Block, x: Stream, x_query: Stream, edit: Callable[[Pattern], Pattern]) -> Stream:
        """What attention writes: keys and values from `x`, queries from `x_query`, the pattern through `edit`."""
        norm = block.attention_norm
        written: Stream = block.attention(norm.rows(x), norm.rows(x_query), norm, self._bench.sequences, edit)
        return written

    def _pattern(self, block: Block, x: Stream, x_query: Stream) -> Pattern:
        """The model's own pattern for these keys and queries."""
        seen: list[Pattern] = []

        def look(pattern: Pattern) -> Pattern:
            seen.append(pattern)
            return pattern

        self._write(block, x, x_query, look)
        return seen[0]

    def _lone(self, pattern: Pattern, row: Row) -> Callable[[Pattern], Pattern]:
        """Puts this pattern in this row and 0 everywhere else, so that what is written is this row's part."""
        alone = torch.zeros_like(pattern)
        here = (self._bench.where.role == row.query)[None, :, :, None]
        alone[:, :, row.head] = torch.where(here, pattern[:, :, row.head], 0.0)
        return lambda _: alone

    def _attention(self, pattern: Pattern, row: Row, key: int) -> float:
        """Mean attention of a row to a role of its own chain."""
        place = self._bench.where.place
        head = pattern[0, :, row.head]
        rows = head.gather(1, place[:, :, row.query, None].expand(-1, -1, head.shape[-1]))
        return float(rows.gather(2, place[:, :, key, None]).mean())

    def _after(self, block: Block, x: Stream, written: Stream) -> Stream:
        """What leaves a block whose attention writes `written`."""
        x = x + written
        return x if block.mlp is None else x + block.mlp(block.mlp_norm.rows(x), block.mlp_norm)

    def _loss(self, x: Stream) -> float:
        bench = self._bench
        read = last_positions(x, bench.sequences, bench.shape.reads)
        answers = bench.transformer.answers(read)
        answers = answers.view(bench.sequences, bench.shape.reads, bench.shape.d_output)
        return float(squared_errors(answers, bench.batch.targets, bench.problem.symbol_dim).double().mean())
