"""A transformer as a program: named slots of the residual stream, and heads that match slots and copy slots.

This is the source language of the hand-built transformers. A slot is a range of dimensions of the residual stream that
holds one piece of information; each slot is written only once. A head scores a pair of positions by adding up terms,
each of which compares a slot of one position with a slot of the other. The head then copies slots of the position
attended to into empty slots of the position that attends. `assemble` sets the weights of a `Transformer` accordingly.

Terms find the same symbol, the same code, the previous token, or earlier positions. Their strengths are scores: with
`strength` 800, a slot and its equal add 800 to the score, and any two slots add 800 times their cosine. Symbols must
have the same length, or an equal symbol would not always score highest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Attention, Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role


@dataclass(frozen=True)
class Term:
    """One part of a head's score: (query slot @ query_map) · (key slot @ key_map).

    The query slot belongs to the position that attends; `None` stands for the constant 1.
    """

    query: str | None
    key: str
    query_map: Float[Tensor, "d_query rank"]
    key_map: Float[Tensor, "d_key rank"]


@dataclass(frozen=True)
class Head:
    """One head.

    Attributes:
        terms: the terms whose sum is the score.
        copies: pairs of slots; the first slot, of the position attended to, is copied into the second slot.
        attends: for each role that matters, the role of the same chain that it attends to by design.
    """

    terms: tuple[Term, ...]
    copies: tuple[tuple[str, str], ...]
    attends: Mapping[int, int]


@dataclass(frozen=True)
class LayerProgram:
    """A whole transformer that solves a problem.

    Attributes:
        slots: width of every slot, in the order of the slots in the residual stream.
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
    """Return the attention paths that the answer depends on, traced back from the slots that are read out.

    A path is included if it fills a slot that is read out, or a slot that an included path copies or compares.
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
    """Build the transformer of a program, without MLPs or LayerNorm; spare heads attend uniformly and write zeros."""
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
        for number, head in enumerate(heads):
            _write_head(block.attention, number * shape.d_head, head, at)
    return transformer


def _write_head(attention: Attention, start: int, head: Head, at: dict[str, slice]) -> None:
    """Fill the columns of one head, from `start` on; in the output weights, these are rows."""
    # The model divides scores by `divisor`; this factor keeps the program's scores unchanged.
    undo = attention.divisor
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
    """Return the width that a head needs: the number of values that it compares or copies, whichever is larger."""
    compared = sum(term.key_map.shape[1] for term in head.terms)
    return max(compared, sum(program.slots[source] for source, _ in head.copies))


def same_symbol(problem: RetrievalProblem, query: str, key: str, strength: float) -> Term:
    """Return a term for equal symbols in the two slots; a negative strength makes the head avoid equal symbols."""
    half, sign = math.sqrt(abs(strength) / problem.symbol_dim), math.copysign(1.0, strength)
    eye = torch.eye(problem.symbol_dim)
    return Term(query, key, sign * half * eye, half * eye)


def same_code(problem: RetrievalProblem, query: str, key: str, strength: float, steps_back: int = 0) -> Term:
    """Return a term for a code in the key slot that is `steps_back` steps before the code in the query slot."""
    # The squares of each cosine and sine add up to 1, so a code's squared length is half its width.
    half, sign = math.sqrt(2 * abs(strength) / problem.code_dim), math.copysign(1.0, strength)
    return Term(query, key, sign * half * _turn(problem, -steps_back), half * torch.eye(problem.code_dim))


def earlier(problem: RetrievalProblem, key: str, per_token: float) -> Term:
    """Return a term whose score falls by about `per_token` from each token to the next, so that earlier keys win.

    It uses the slowest sine of the code, which is almost a straight line if the sequence is not longer than `base`.
    """
    slowest = float(_frequencies(problem)[-1])
    middle = slowest * (problem.sequence_length - 1) / 2
    key_map = torch.zeros(problem.code_dim, 1)
    # -sin(angle - middle) / slowest, from the last cosine and sine.
    key_map[-2:, 0] = torch.tensor([math.sin(middle), -math.cos(middle)]) * per_token / slowest
    return Term(None, key, torch.ones(1, 1), key_map)


def not_the_first(problem: RetrievalProblem, code: str, before: str, strength: float) -> tuple[Term, Term]:
    """Return terms that avoid the first position of the sequence: exactly -`strength` there and 0 elsewhere.

    Slot `before` holds the code one step back, except that the first position holds its own code there.
    """
    back = _turn(problem, -1)
    at_first = torch.zeros(problem.code_dim)
    at_first[::2] = 1.0
    difference = (at_first @ back - at_first)[:, None]
    scale = -strength / float(difference.square().sum())
    one = torch.ones(1, 1)
    return Term(None, code, one, scale * back @ difference), Term(None, before, one, -scale * difference)


def _frequencies(problem: RetrievalProblem) -> Float[Tensor, " frequency"]:
    """Return the rotary frequencies of the problem's codes, fastest first."""
    rank = torch.arange(problem.code_dim // 2, dtype=torch.float64)
    return float(problem.base) ** (-2.0 * rank / problem.code_dim)


def _turn(problem: RetrievalProblem, steps: int) -> Float[Tensor, "d_code d_code"]:
    """Return the matrix that turns a code (a row vector) into the code `steps` positions later."""
    angles = _frequencies(problem) * steps
    turns = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles.tolist()]
    turned: Tensor = torch.block_diag(*turns)  # type: ignore[no-untyped-call]
    return turned
