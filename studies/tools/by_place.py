"""Do models tell rows apart by where they stand?

By theory a position finds a row by something that both hold, and the place of a row says nothing about which chain it
belongs to (Lemma 1). A transformer has another way: it reads a block place by place, with a head for each place, and
once it knows the place it chooses among what it has read. That can save a layer where there are no more rows than
heads.

Which of the two a model does is tested on pairs of sequences. They hold the same chains and differ in one block, where
each chain's row stands at the next chain's place. One layer's attention is taken from the second sequence into the
first, at all positions but those of the block, in three ways: its pattern, each weight moved to where its role stands;
what it writes; and its choice among what does not move. A model that looks rows up by what they hold loses nothing by
the third and nothing by one of the others. Each of those has a harmless cause of loss: if the pattern is taken, a head
that rests at some place, whatever stands there, rests at another; if what the layer writes is taken, a head that
fetches the address of a row, for a later head to look there, fetches the address from before. A model that chooses by
place loses by the third or by both others. A model that chooses within the block itself is not detected. (Interchange
interventions, Geiger et al. 2021; the test is also part of the certificate.)
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

MADE = 0.3
"""A look-up counts as made below this loss. Between two rows that cannot be told apart, the mean costs one half."""

RISES = 0.05
"""A look-up goes by place if its loss rises by more than this, the loss threshold, as in a certificate."""

_LITTLE = 1e-6
"""Weight on a block up to which it says nothing about how it is spread over the block."""


@dataclass(frozen=True)
class RowsMoved:
    """What a model answers when one layer's attention is taken from a sequence in which the rows of one fact stand
    elsewhere.

    Attributes:
        fact: the fact whose rows are moved, in the order of look-up from 1.
        layer: the layer whose attention is taken, from 1.
        by_pattern: mean squared error of each look-up with the layer's pattern taken from there.
        by_writing: the same with what the layer writes taken from there.
        by_choice: the same with only its pattern on what does not move taken from there.
        beside: for the fact's own look-up, the lowest of the three errors if the value counted as right is that of the
            chain whose row stands at its place in the other sequence.
    """

    fact: int
    layer: int
    by_pattern: tuple[float, ...]
    by_writing: tuple[float, ...]
    by_choice: tuple[float, ...]
    beside: float

    def loss(self, look_up: int) -> float:
        """The loss of a look-up, from 1: by choice, or the lower of the other two if that is higher, since each of
        those has harmless causes of its own."""
        by_pattern, by_writing, by_choice = (
            one[look_up - 1] for one in (self.by_pattern, self.by_writing, self.by_choice)
        )
        return max(min(by_pattern, by_writing), by_choice)


@dataclass(frozen=True)
class ByPlace:
    """By what one model tells rows apart.

    Attributes:
        model: the name of its run.
        losses: loss of each look-up of the unchanged model; None where it diverged, and so makes no look-up.
        moved: one entry for each fact whose rows were moved and each layer; empty for a model that diverged.
    """

    model: str
    losses: tuple[float | None, ...]
    moved: tuple[RowsMoved, ...]

    def loss(self, look_up: int) -> float:
        """The loss of a look-up, from 1; infinite where the model diverged."""
        loss = self.losses[look_up - 1]
        return math.inf if loss is None else loss

    def makes(self, look_up: int) -> bool:
        """Whether the model makes a look-up, numbered from 1."""
        return self.loss(look_up) < MADE

    def goes_by_place(self, look_up: int) -> bool:
        """Whether the model makes the look-up, from 1, and loses it when some layer's attention is taken from where
        rows stand elsewhere."""
        return self.makes(look_up) and self.rise(look_up) > RISES

    def rise(self, look_up: int) -> float:
        """The highest rise of the look-up's loss over everything that is moved, in any layer."""
        return max((one.loss(look_up) - self.loss(look_up) for one in self.moved), default=0.0)

    def told(self, look_up: int) -> tuple[str, RowsMoved | None]:
        """The look-up's loss in words, and the moved rows that cost it most; None where no row was moved."""
        loss = self.loss(look_up)
        worst = max(self.moved, key=lambda moved: moved.loss(look_up), default=None)
        return "diverged" if math.isinf(loss) else f"{loss:.3f}", worst


def places_of(
    runs: Mapping[str, hs.Run],
    folder: Path,
    work: Work,
    facts: Callable[[hs.RetrievalProblem], Sequence[int]],
    sequences: int = 512,
) -> tuple[ByPlace, ...]:
    """By what each model tells rows apart, measured or read from `places/` in the study's folder.

    A model that diverged is not tested: it makes no look-up.

    Args:
        runs: finished runs of one model each, by name.
        folder: the folder of the study.
        work: how the work is done.
        facts: for a problem, the facts whose rows are moved, from 1.
        sequences: the number of pairs of sequences.
    """
    kept = {name: folder / "places" / f"{name.replace('/', '-')}.json" for name in runs}
    left = [name for name, path in kept.items() if not path.exists()]
    jobs = [(runs[name].path, name, tuple(facts(runs[name].problem)), sequences, kept[name]) for name in left]
    work.each("models tested by place", _test, jobs)
    return tuple(records.read(path, ByPlace) for path in kept.values() if path.exists())


def _test(path: Path, name: str, facts: Sequence[int], sequences: int, kept: Path) -> None:
    run = hs.Run(path)
    if diverged(run):
        records.write(kept, ByPlace(name, (None,) * len(run.problem.target_hops), ()))
    else:
        records.write(kept, ask_by_place(name, run[0].transformer, run.problem, facts, sequences))


@torch.no_grad()
def ask_by_place(
    model: str,
    transformer: hs.Transformer,
    problem: hs.RetrievalProblem,
    facts: Sequence[int],
    sequences: int,
    seed: int = 0,
) -> ByPlace:
    """Test by what one model tells rows apart.

    Args:
        model: the name of the model.
        transformer: a transformer with one model.
        problem: a problem that asks for every look-up.
        facts: the facts whose rows are moved, one after the other, from 1.
        sequences: the number of pairs of sequences.
        seed: the seed they are drawn from.
    """
    batch = hs.sample(problem, sequences, torch.Generator().manual_seed(seed))

    def losses(stream: Float[Tensor, "1 batch pos d_model"], targets: Tensor = batch.targets) -> tuple[float, ...]:
        wrong = (transformer.answers(stream)[0, :, -problem.chains :] - targets).square()
        by_look_up = wrong.reshape(*wrong.shape[:2], -1, problem.symbol_dim).mean(dim=(0, 1, 3))
        return tuple(round(float(one), 4) for one in by_look_up)

    moved = []
    for fact in facts:
        beside = _of_the_one_before(batch, problem)
        for layer, streams in enumerate(_with_rows_moved(transformer, problem, batch, fact)):
            by_pattern, by_writing, by_choice = map(losses, streams)
            at_its_place = min(losses(stream, beside)[fact - 1] for stream in streams)
            moved.append(RowsMoved(fact, layer + 1, by_pattern, by_writing, by_choice, at_its_place))
    return ByPlace(model, losses(transformer.run(transformer.embed(batch.inputs[None]))), tuple(moved))


class _Taken(hs.Hooks):
    """Records one layer's pattern and output or, given those of another pass, puts them in their place."""

    def __init__(self, at: Bool[Tensor, "batch pos"] | None = None, **given: Tensor) -> None:
        self._at, self._given = at, given
        self.seen: dict[str, Tensor] = {}

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """The given pattern at the given queries, or the layer's own."""
        self.seen["pattern"] = pattern
        if self._at is None or "pattern" not in self._given:
            return pattern
        return torch.where(self._at[None, :, None, :, None], self._given["pattern"], pattern)

    def attn_out(self, layer: int, written: Tensor) -> Tensor:
        """The given output at the given positions, or the layer's own."""
        self.seen["written"] = written
        if self._at is None or "written" not in self._given:
            return written
        return torch.where(self._at[None, :, :, None], self._given["written"], written)


def _with_rows_moved(
    transformer: hs.Transformer, problem: hs.RetrievalProblem, batch: hs.Batch, fact: int
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each layer, the streams after the last one with its pattern, its output, and its choice among what does not
    move, taken from sequences in which each chain's row of a fact stands at the next chain's place."""
    there, at, block = _elsewhere(problem, batch, fact)
    x, y = (transformer.embed(inputs[None]) for inputs in (batch.inputs, there))
    found, elsewhere = [], ~block
    for layer in range(transformer.shape.layers):
        theirs, own = _Taken(), _Taken()
        y_after = transformer.run(y, start=layer, stop=layer + 1, hooks=theirs)
        x_after = transformer.run(x, start=layer, stop=layer + 1, hooks=own)
        queries = at[None, :, None, :, None].expand_as(theirs.seen["pattern"])
        keys = at[None, :, None, None, :].expand_as(theirs.seen["pattern"])
        pattern = theirs.seen["pattern"].gather(-2, queries).gather(-1, keys)
        choice = _spread_alike(pattern, own.seen["pattern"], block)
        given = {"pattern": pattern}, {"written": theirs.seen["written"]}, {"pattern": choice}
        streams = []
        for one in given:
            changed = transformer.run(x, start=layer, stop=layer + 1, hooks=_Taken(elsewhere, **one))
            streams.append(transformer.run(changed, start=layer + 1))
        found.append((streams[0], streams[1], streams[2]))
        x, y = x_after, y_after
    return found


def _elsewhere(
    problem: hs.RetrievalProblem, batch: hs.Batch, fact: int
) -> tuple[Float[Tensor, "batch pos d_input"], Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
    """Inputs in which each chain's row of a fact stands at the next chain's place; for every position of the original,
    the position there that holds the same thing; and whether a position belongs to the rows that move."""
    of_fact = torch.tensor([problem.fact_of(role) == fact for role in range(len(problem.roles))])
    rows = batch.place[:, : problem.chains, of_fact]
    at = torch.arange(batch.inputs.shape[1]).repeat(len(rows), 1)
    at.scatter_(1, rows.flatten(1), rows.roll(-1, dims=1).flatten(1))
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    stood = at.argsort(dim=-1)[..., None].expand_as(symbols)
    return torch.cat((symbols.gather(1, stood), codes), dim=-1), at, of_fact[batch.role]


def _spread_alike(brought: Tensor, own: Tensor, block: Bool[Tensor, "batch pos"]) -> Tensor:
    """The brought pattern, its weight on the block spread over it as in the own pattern, if that has any there."""
    inside = block[None, :, None, None, :]
    theirs, mine = (torch.where(inside, one, 0.0) for one in (brought, own))
    total, known = theirs.sum(dim=-1, keepdim=True), mine.sum(dim=-1, keepdim=True)
    within = torch.where(known > _LITTLE, mine * (total / known.clamp(min=_LITTLE)), theirs)
    return torch.where(inside, within, brought)


def _of_the_one_before(batch: hs.Batch, problem: hs.RetrievalProblem) -> Float[Tensor, "batch query d_target"]:
    """For each query, the target of the query of the chain before."""
    chain = batch.chain[:, -problem.chains :]
    query = chain.argsort(dim=-1).gather(-1, (chain - 1) % problem.chains)
    return batch.targets.gather(1, query[..., None].expand_as(batch.targets))
