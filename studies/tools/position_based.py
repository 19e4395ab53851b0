"""Is a retrieval step position-based or content-based?

In theory, a position attends to another position by a symbol that both hold, and the position of a pair says nothing
about which chain the pair belongs to (Lemma 1). A transformer has another way. It can read a block position by
position, with one head for each position, and choose among the results once it knows the right position. That can save
a layer if a block has no more rows than the layer has heads.

We measure which of the two a model does on pairs of sequences (interchange interventions, Geiger et al. 2021). The two
sequences hold the same chains and differ in one block: in the second sequence, each chain's row is at the next chain's
position. One layer's attention in the first sequence is replaced by its attention in the second sequence, at all
positions outside the block, in three ways:

- by pattern: the pattern is replaced, with each weight moved to where its role is in the first sequence;
- by output: the output is replaced;
- by choice: the pattern is replaced as above, but its weight on the block stays spread as in the first sequence.

A content-based step loses nothing by choice, and nothing by pattern or nothing by output. Each of these last two has a
harmless cause of loss. By pattern, a head that rests at a fixed position, whatever is there, rests at another position.
By output, a head that fetches the address of a row for a later head fetches the row's address in the second sequence. A
position-based step loses by choice, or by both pattern and output. A model that chooses within the block itself is not
detected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

import hopscope as hs
from studies.tools import records
from studies.tools.circuits import diverged
from studies.tools.work import Work

LEARNED = 0.3
"""A model answers a hop if its loss is below this value. Choosing one of two rows at random has a loss of 0.5."""

RISES = 0.05
"""A step is position-based if its loss rises by more than this value, which is the loss threshold of circuits."""

_LITTLE = 1e-6
"""A pattern with at most this weight on a block does not tell how its weight is spread over the block."""


@dataclass(frozen=True)
class RowsMoved:
    """The losses of a model when one layer's attention is taken from a sequence in which the rows of one fact have
    moved.

    Attributes:
        fact: the fact whose rows are moved, in the order of retrieval from 1.
        layer: the layer whose attention is taken, from 1.
        by_pattern: mean squared error of each hop with the layer's pattern taken from that sequence.
        by_output: the same with the layer's output taken from that sequence.
        by_choice: the same with the pattern taken from that sequence only on positions that do not move.
        as_next_chain: the lowest of the three errors of the fact's own hop, if the right answer is taken to be that of
            the chain whose row is at this chain's position in the other sequence.
    """

    fact: int
    layer: int
    by_pattern: tuple[float, ...]
    by_output: tuple[float, ...]
    by_choice: tuple[float, ...]
    as_next_chain: float

    def loss(self, hop: int) -> float:
        """Return the loss of a hop (from 1): the lower of the losses by pattern and by output, since each can have a
        harmless cause, or the loss by choice if that is higher."""
        by_pattern, by_output, by_choice = (
            losses[hop - 1] for losses in (self.by_pattern, self.by_output, self.by_choice)
        )
        return max(min(by_pattern, by_output), by_choice)


@dataclass(frozen=True)
class PositionTest:
    """The position test of one model.

    Attributes:
        model: the name of the model's run.
        losses: the loss of the unchanged model on each hop; None if the model diverged.
        moved: one entry for each fact whose rows were moved and each layer; empty for a model that diverged.
    """

    model: str
    losses: tuple[float | None, ...]
    moved: tuple[RowsMoved, ...]

    def loss(self, hop: int) -> float:
        """Return the loss of the unchanged model on a hop (from 1); infinite if the model diverged."""
        loss = self.losses[hop - 1]
        return math.inf if loss is None else loss

    def learned(self, hop: int) -> bool:
        """Whether the model answers a hop (from 1)."""
        return self.loss(hop) < LEARNED

    def is_position_based(self, hop: int) -> bool:
        """Whether the model answers the hop (from 1), and its loss rises by more than `RISES` when some layer's
        attention is taken from a sequence with moved rows."""
        return self.learned(hop) and self.rise(hop) > RISES

    def rise(self, hop: int) -> float:
        """Return the highest rise of the hop's loss over all moved rows and layers."""
        return max((moved.loss(hop) - self.loss(hop) for moved in self.moved), default=0.0)

    def worst(self, hop: int) -> RowsMoved | None:
        """Return the entry of `moved` with the highest loss of the hop, or None if no row was moved."""
        return max(self.moved, key=lambda moved: moved.loss(hop), default=None)

    def loss_in_words(self, hop: int) -> str:
        """Return the loss of the hop to three decimals, or `diverged`."""
        return "diverged" if math.isinf(self.loss(hop)) else f"{self.loss(hop):.3f}"


def position_tests(
    runs: Mapping[str, hs.Run],
    folder: Path,
    work: Work,
    facts: Callable[[hs.RetrievalProblem], Sequence[int]],
    sequences: int = 512,
) -> tuple[PositionTest, ...]:
    """Return the position test of each model, either measured or read from `places/` in the study's folder.

    Args:
        runs: finished runs of one model each, by name.
        folder: the folder of the study.
        work: the settings for parallel work.
        facts: returns the facts of a problem whose rows are moved, from 1.
        sequences: the number of pairs of sequences.
    """
    paths = {name: folder / "places" / f"{name.replace('/', '-')}.json" for name in runs}
    missing = [name for name, path in paths.items() if not path.exists()]
    jobs = [(runs[name].path, name, tuple(facts(runs[name].problem)), sequences, paths[name]) for name in missing]
    work.each("position tests", _measure_run, jobs)
    return tuple(records.read(path, PositionTest) for path in paths.values() if path.exists())


def _measure_run(path: Path, name: str, facts: Sequence[int], sequences: int, record: Path) -> None:
    run = hs.Run(path)
    if diverged(run):
        records.write(record, PositionTest(name, (None,) * len(run.problem.target_hops), ()))
    else:
        records.write(record, measure_position_test(name, run[0].transformer, run.problem, facts, sequences))


@torch.no_grad()
def measure_position_test(
    model: str, transformer: hs.Transformer, problem: hs.RetrievalProblem, facts: Sequence[int], sequences: int
) -> PositionTest:
    """Measure the position test of one model.

    Args:
        model: the name of the model.
        transformer: a transformer with one model.
        problem: a problem that asks for every hop.
        facts: the facts whose rows are moved, one after the other, from 1.
        sequences: the number of pairs of sequences.
    """
    batch = hs.sample(problem, sequences, torch.Generator().manual_seed(0))

    def losses(stream: Float[Tensor, "1 batch pos d_model"], targets: Tensor = batch.targets) -> tuple[float, ...]:
        wrong = (transformer.answers(stream)[0, :, -problem.chains :] - targets).square()
        by_hop = wrong.reshape(*wrong.shape[:2], -1, problem.symbol_dim).mean(dim=(0, 1, 3))
        return tuple(round(float(loss), 4) for loss in by_hop)

    moved, of_chain_before = [], _targets_of_chain_before(batch, problem)
    for fact in facts:
        for layer, streams in enumerate(_with_rows_moved(transformer, problem, batch, fact)):
            by_pattern, by_output, by_choice = map(losses, streams)
            as_next_chain = min(losses(stream, of_chain_before)[fact - 1] for stream in streams)
            moved.append(RowsMoved(fact, layer + 1, by_pattern, by_output, by_choice, as_next_chain))
    return PositionTest(model, losses(transformer.run(transformer.embed(batch.inputs[None]))), tuple(moved))


class _Taken(hs.Hooks):
    """Hooks that record a layer's pattern and output, or replace them at some positions.

    Args:
        at: the positions at which the pattern or output is replaced; None to replace nothing.
        pattern: the replacement of the pattern, or None.
        output: the replacement of the output, or None.
    """

    def __init__(
        self,
        at: Bool[Tensor, "batch pos"] | None = None,
        *,
        pattern: Tensor | None = None,
        output: Tensor | None = None,
    ) -> None:
        self._at, self._pattern, self._output = at, pattern, output
        self.own: dict[str, Tensor] = {}

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """Return the replacement pattern at the queries `at`, and the layer's own pattern at all other queries."""
        self.own["pattern"] = pattern
        if self._at is None or self._pattern is None:
            return pattern
        return torch.where(self._at[None, :, None, :, None], self._pattern, pattern)

    def attn_out(self, layer: int, attn_out: Tensor) -> Tensor:
        """Return the replacement output at the positions `at`, and the layer's own output at all other positions."""
        self.own["output"] = attn_out
        if self._at is None or self._output is None:
            return attn_out
        return torch.where(self._at[None, :, :, None], self._output, attn_out)


def _with_rows_moved(
    transformer: hs.Transformer, problem: hs.RetrievalProblem, batch: hs.Batch, fact: int
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return, for each layer, the final residual streams with the layer's attention replaced by pattern, by output and
    by choice, from sequences in which each chain's row of a fact is at the next chain's position."""
    inputs, at, block = _rows_rotated(problem, batch, fact)
    x, y = (transformer.embed(original[None]) for original in (batch.inputs, inputs))
    found = []
    for layer in range(transformer.shape.layers):
        moved, own = _Taken(), _Taken()
        y_after = transformer.run(y, start=layer, stop=layer + 1, hooks=moved)
        x_after = transformer.run(x, start=layer, stop=layer + 1, hooks=own)
        queries, keys = at[None, :, None, :, None], at[None, :, None, None, :]
        pattern = moved.own["pattern"].take_along_dim(queries, -2).take_along_dim(keys, -1)
        choice = _spread_as(own.own["pattern"], pattern, block)
        streams = []
        for taken in (
            _Taken(~block, pattern=pattern),
            _Taken(~block, output=moved.own["output"]),
            _Taken(~block, pattern=choice),
        ):
            changed = transformer.run(x, start=layer, stop=layer + 1, hooks=taken)
            streams.append(transformer.run(changed, start=layer + 1))
        found.append((streams[0], streams[1], streams[2]))
        x, y = x_after, y_after
    return found


def _rows_rotated(
    problem: hs.RetrievalProblem, batch: hs.Batch, fact: int
) -> tuple[Float[Tensor, "batch pos d_input"], Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
    """Return inputs in which each chain's row of a fact is at the next chain's position, the position in these inputs
    of what each original position holds, and whether each original position belongs to a row that moves."""
    of_fact = torch.tensor([problem.fact_of(role) == fact for role in range(len(problem.roles))])
    rows = batch.place[:, :, of_fact]
    at = torch.arange(batch.inputs.shape[1]).repeat(len(rows), 1)
    at.scatter_(1, rows.flatten(1), rows.roll(-1, dims=1).flatten(1))
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    before = at.argsort(dim=-1)[..., None]
    return torch.cat((symbols.take_along_dim(before, 1), codes), dim=-1), at, of_fact[batch.role]


def _spread_as(own: Tensor, taken: Tensor, block: Bool[Tensor, "batch pos"]) -> Tensor:
    """Return `taken`, with its weight on the block spread as in `own` if `own` has weight on the block."""
    inside = block[None, :, None, None, :]
    taken_inside, own_inside = (torch.where(inside, pattern, 0.0) for pattern in (taken, own))
    total, known = taken_inside.sum(dim=-1, keepdim=True), own_inside.sum(dim=-1, keepdim=True)
    within = torch.where(known > _LITTLE, own_inside * (total / known.clamp(min=_LITTLE)), taken_inside)
    return torch.where(inside, within, taken)


def _targets_of_chain_before(batch: hs.Batch, problem: hs.RetrievalProblem) -> Float[Tensor, "batch query d_target"]:
    """Return, for each query, the target of the query of the previous chain."""
    chain = batch.chain[:, -problem.chains :]
    query = chain.argsort(dim=-1).take_along_dim((chain - 1) % problem.chains, -1)
    return batch.targets.take_along_dim(query[..., None], 1)
