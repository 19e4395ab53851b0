"""A transformer as a program: named slots of the residual stream, and heads that match slots and copy slots.

This is the source language of the hand-built transformers. A slot is a range of dimensions of the residual stream that
holds one piece of information; it is written once, so nothing is ever overwritten. A head scores a pair of positions by
adding up terms, each comparing a slot of the one with a slot of the other, and copies slots of the position attended to
into empty slots of the position that attends. `assemble` sets the weights of the project's own transformer accordingly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Attention, Block, Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role


@dataclass(frozen=True)
class Term:
    """One part of a head's score: (query slot @ query_map) · (key slot @ key_map).

    The query slot is that of the position that attends, or `None` for the constant 1.
    """

    query: str | None
    key: str
    query_map: Float[Tensor, "d_query rank"]
    key_map: Float[Tensor, "d_key rank"]


@dataclass(frozen=True)
class Head:
    """One head.

    Attributes:
        terms: the terms that are added up to a score.
        copies: pairs of a slot of the position attended to, and the slot that it is copied into.
        attends: for a role, the role of the same chain that it attends to by design; of others it does not matter.
    """

    terms: tuple[Term, ...]
    copies: tuple[tuple[str, str], ...]
    attends: Mapping[int, int]


@dataclass(frozen=True)
class LayerProgram:
    """A whole transformer, which solves a problem.

    Attributes:
        slots: width of every slot, in their order in the residual stream.
        symbol, code: the slots that hold a position's symbol and its code from the start.
        layers: the heads of every layer.
        answers: the slots read out at the queries, one per hop asked for.
    """

    problem: RetrievalProblem
    slots: Mapping[str, int]
    symbol: str
    code: str
    layers: tuple[tuple[Head, ...], ...]
    answers: tuple[str, ...]


def circuit(program: LayerProgram) -> tuple[AttentionPath, ...]:
    """The attention paths that the answer depends on, found backwards from the slots that are read out.

    A path is part of it if it fills a slot that is read out, or that on the way is copied or compared in a score.
    """
    needed = {query_role(program.problem.hops): set(program.answers)}
    paths: list[AttentionPath] = []
    for layer in reversed(range(len(program.layers))):
        earlier = {role: set(slots) for role, slots in needed.items()}
        for number, head in enumerate(program.layers[layer]):
            for role, slots in needed.items():
                used = [(source, filled) for source, filled in head.copies if filled in slots]
                if not used or role not in head.attends:
                    continue
                key = head.attends[role]
                paths.append(AttentionPath(layer, number, role, key))
                earlier[role] -= {filled for _, filled in used}
                earlier[role] |= {term.query for term in head.terms if term.query is not None}
                earlier.setdefault(key, set()).update(term.key for term in head.terms)
                earlier[key] |= {source for source, _ in used}
        needed = earlier
    return tuple(sorted(paths))


@torch.no_grad()
def assemble(program: LayerProgram, spare_heads: int = 0) -> Transformer:
    """The transformer of a program, without MLPs or LayerNorm; spare heads attend uniformly and write nothing."""
    problem, ends = program.problem, accumulate(program.slots.values())
    at = {name: slice(end - program.slots[name], end) for name, end in zip(program.slots, ends, strict=True)}
    shape = Architecture(
        d_input=problem.input_dim,
        d_output=problem.target_dim,
        reads=problem.chains,
        layers=len(program.layers),
        heads=max(len(heads) for heads in program.layers) + spare_heads,
        d_model=sum(program.slots.values()),
        head_dim=max(_width(program, head) for heads in program.layers for head in heads),
        mlp=False,
        causal=problem.causal,
        layer_norm=False,
    )
    transformer = Transformer(shape)
    embed, read = transformer.embed.weight[0], transformer.read.weight[0]
    embed[: problem.symbol_dim, at[program.symbol]] = torch.eye(problem.symbol_dim)
    embed[problem.symbol_dim :, at[program.code]] = torch.eye(problem.code_dim)
    for hop, slot in enumerate(program.answers):
        read[at[slot], hop * problem.symbol_dim : (hop + 1) * problem.symbol_dim] = torch.eye(problem.symbol_dim)
    for block, heads in zip(transformer.blocks, program.layers, strict=True):
        assert isinstance(block, Block)
        for number, head in enumerate(heads):
            _write_head(block.attention, number * shape.d_head, head, at)
    return transformer


def _write_head(attention: Attention, start: int, head: Head, at: dict[str, slice]) -> None:
    """Fill the columns of one head (the rows, in the output weights), which begin at `start`."""
    # The model divides scores by sqrt(d_head); a program's scores must come out as they are.
    undo = attention.d_head**0.5
    column = start
    for term in head.terms:
        end = column + term.key_map.shape[1]
        if term.query is None:
            attention.query.bias[0, 0, column:end] = undo * term.query_map[0]
        else:
            attention.query.weight[0, at[term.query], column:end] = undo * term.query_map
        attention.key.weight[0, at[term.key], column:end] = term.key_map
        column = end
    column = start
    for source, filled in head.copies:
        width = at[source].stop - at[source].start
        attention.value.weight[0, at[source], column : column + width] = torch.eye(width)
        attention.out.weight[0, column : column + width, at[filled]] = torch.eye(width)
        column += width


def _width(program: LayerProgram, head: Head) -> int:
    """The width that a head needs: numbers that it compares or that it copies, whichever is more."""
    compared = sum(term.key_map.shape[1] for term in head.terms)
    return max(compared, sum(program.slots[source] for source, _ in head.copies))
