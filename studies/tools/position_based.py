"""Is a retrieval step position-based or content-based?

By theory a position attends to another by a symbol that both hold, and the position of a pair says nothing about which
chain it belongs to (Lemma 1). A transformer has another way: it reads a block position by position, with one head for
each, and once it knows the right position it chooses among what it has read. That can save a layer where a block has no
more rows than there are heads.

Which of the two a model does is measured on pairs of sequences (interchange interventions, Geiger et al. 2021). They
hold the same chains and differ in one block, where each chain's row is at the next chain's position. One layer's
attention is taken from the second sequence into the first, at all positions but those of the block, in three ways:

- its pattern, each weight moved to where its role is in the first sequence;
- its output;
- its choice among what does not move.

A content-based step loses nothing by the third and nothing by one of the others. Each of those two has a harmless cause
of loss. With the pattern, a head that rests at some position, whatever is there, rests at another. With the output, a
head that fetches the address of a row, for a later head to attend there, fetches the address from before. A
position-based step loses by the third or by both others. A model that chooses within the block itself is not detected.
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
"""A model makes a retrieval step if its loss is below this; choosing between two rows at random costs one half."""

RISES = 0.05
"""A step is position-based if its loss rises by more than this, the loss threshold of circuits."""

_LITTLE = 1e-6
"""Weight on a block up to which it says nothing about how it is spread over the block."""


@dataclass(frozen=True)
class RowsMoved:
    """The losses of a model when one layer's attention is taken from a sequence in which the rows of one fact have
    moved.

    Attributes:
        fact: the fact whose rows are moved, in the order of retrieval from 1.
        layer: the layer whose attention is taken, from 1.
        by_pattern: mean squared error of each hop with the layer's pattern taken from there.
        by_output: the same with the layer's output taken from there.
        by_choice: the same with only its pattern on what does not move taken from there.
        as_next_chain: for the fact's own hop, the lowest of the three errors if the value counted as right is that of
            the chain whose row is at its position in the other sequence.
    """

    fact: int
    layer: int
    by_pattern: tuple[float, ...]
    by_output: tuple[float, ...]
    by_choice: tuple[float, ...]
    as_next_chain: float

    def loss(self, hop: int) -> float:
        """The loss of a hop, from 1: the lower of those by pattern and by output, since each has a harmless cause; or
        that by choice if it is higher."""
        by_pattern, by_output, by_choice = (
            losses[hop - 1] for losses in (self.by_pattern, self.by_output, self.by_choice)
        )
        return max(min(by_pattern, by_output), by_choice)


@dataclass(frozen=True)
class PositionTest:
    """What was measured of one model.

    Attributes:
        model: the name of its run.
        losses: the loss of each hop of the unchanged model; None where it diverged, and so answers no hop.
        moved: one entry for each fact whose rows were moved and each layer; empty for a model that diverged.
    """

    model: str
    losses: tuple[float | None, ...]
    moved: tuple[RowsMoved, ...]

    def loss(self, hop: int) -> float:
        """The loss of a hop, from 1; infinite where the model diverged."""
        loss = self.losses[hop - 1]
        return math.inf if loss is None else loss

    def learned(self, hop: int) -> bool:
        """Whether the model answers a hop, from 1."""
        return self.loss(hop) < LEARNED

    def is_position_based(self, hop: int) -> bool:
        """Whether the model answers the hop, from 1, and no longer does when some layer's attention is taken from where
        rows have moved."""
        return self.learned(hop) and self.rise(hop) > RISES

    def rise(self, hop: int) -> float:
        """The highest rise of the hop's loss over everything that is moved, in any layer."""
        return max((moved.loss(hop) - self.loss(hop) for moved in self.moved), default=0.0)

    def worst(self, hop: int) -> RowsMoved | None:
        """The moved rows that cost the hop most; None where no row was moved."""
        return max(self.moved, key=lambda moved: moved.loss(hop), default=None)

    def loss_in_words(self, hop: int) -> str:
        """The loss of the hop to three decimals; `diverged` where there is none."""
        return "diverged" if math.isinf(self.loss(hop)) else f"{self.loss(hop):.3f}"


def position_tests(
    runs: Mapping[str, hs.Run],
    folder: Path,
    work: Work,
    facts: Callable[[hs.RetrievalProblem], Sequence[int]],
    sequences: int = 512,
) -> tuple[PositionTest, ...]:
    """The test of each model, measured or read from `places/` in the study's folder.

    Args:
        runs: finished runs of one model each, by name.
        folder: the folder of the study.
        work: how the work is done.
        facts: for a problem, the facts whose rows are moved, from 1.
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
    model: str,
    transformer: hs.Transformer,
    problem: hs.RetrievalProblem,
    facts: Sequence[int],
    sequences: int,
) -> PositionTest:
    """Test one model.

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
    """Records one layer's pattern and output; or replaces them by those of another pass, at some positions.

    Args:
        at: the positions where they are replaced; None for none.
        pattern: the pattern to put there.
        output: the output to put there.
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
        """The given pattern at the given queries, or the layer's own."""
        self.own["pattern"] = pattern
        if self._at is None or self._pattern is None:
            return pattern
        return torch.where(self._at[None, :, None, :, None], self._pattern, pattern)

    def attn_out(self, layer: int, attn_out: Tensor) -> Tensor:
        """The given output at the given positions, or the layer's own."""
        self.own["output"] = attn_out
        if self._at is None or self._output is None:
            return attn_out
        return torch.where(self._at[None, :, :, None], self._output, attn_out)


def _with_rows_moved(
    transformer: hs.Transformer, problem: hs.RetrievalProblem, batch: hs.Batch, fact: int
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each layer, the streams after the last one with its pattern, its output, and its choice among what does not
    move, taken from sequences in which each chain's row of a fact is at the next chain's position."""
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
    """Inputs in which each chain's row of a fact is at the next chain's position; for every position of the original,
    the position there that holds the same thing; and whether a position belongs to the rows that move."""
    of_fact = torch.tensor([problem.fact_of(role) == fact for role in range(len(problem.roles))])
    rows = batch.place[:, :, of_fact]
    at = torch.arange(batch.inputs.shape[1]).repeat(len(rows), 1)
    at.scatter_(1, rows.flatten(1), rows.roll(-1, dims=1).flatten(1))
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    before = at.argsort(dim=-1)[..., None]
    return torch.cat((symbols.take_along_dim(before, 1), codes), dim=-1), at, of_fact[batch.role]


def _spread_as(own: Tensor, taken: Tensor, block: Bool[Tensor, "batch pos"]) -> Tensor:
    """The taken pattern, its weight on the block spread over it as in the own pattern, if that has any there."""
    inside = block[None, :, None, None, :]
    taken_inside, own_inside = (torch.where(inside, pattern, 0.0) for pattern in (taken, own))
    total, known = taken_inside.sum(dim=-1, keepdim=True), own_inside.sum(dim=-1, keepdim=True)
    within = torch.where(known > _LITTLE, own_inside * (total / known.clamp(min=_LITTLE)), taken_inside)
    return torch.where(inside, within, taken)


def _targets_of_chain_before(batch: hs.Batch, problem: hs.RetrievalProblem) -> Float[Tensor, "batch query d_target"]:
    """For each query, the target of the query of the chain before."""
    chain = batch.chain[:, -problem.chains :]
    query = chain.argsort(dim=-1).take_along_dim((chain - 1) % problem.chains, -1)
    return batch.targets.take_along_dim(query[..., None], 1)
