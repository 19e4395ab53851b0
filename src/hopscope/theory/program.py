"""A transformer as a program: named slots of the residual stream, and heads that match slots and copy slots.

The source language of the hand-built transformers. A slot is a stretch of the residual stream that holds one piece of
information; it is written once, so nothing is ever overwritten. A head scores a pair of positions by adding up terms,
each comparing something the one holds with something the other holds, and copies slots of the position attended to
into empty slots of the position that attends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role
from hopscope.theory.path import AttentionPath


@dataclass(frozen=True)
class Term:
    """One part of a head's score: (query slot @ query_map) · (key slot @ key_map).

    Attributes:
        query: slot of the position that attends; `None` for the constant 1.
        key: slot of the position attended to.
        query_map: applied to the query slot; one row for the constant.
        key_map: applied to the key slot.
    """

    query: str | None
    key: str
    query_map: Float[Tensor, "d_query rank"]
    key_map: Float[Tensor, "d_key rank"]


@dataclass(frozen=True)
class Head:
    """One head.

    Attributes:
        terms: what is added up to a score.
        copies: slots of the position attended to, and the slots they are copied into.
        attends: for a role, the role of the same chain that it attends to by design. A role left out attends to
            somewhere of no consequence.
    """

    terms: tuple[Term, ...]
    copies: tuple[tuple[str, str], ...]
    attends: Mapping[int, int]


@dataclass(frozen=True)
class LayerProgram:
    """A whole transformer.

    Attributes:
        problem: what it solves.
        slots: width of every slot, in their order in the residual stream.
        symbol: the slot that holds a position's symbol from the start.
        code: the slot that holds its position code from the start.
        layers: the heads of every layer.
        answers: the slots read at the queries, one a hop.
    """

    problem: RetrievalProblem
    slots: Mapping[str, int]
    symbol: str
    code: str
    layers: tuple[tuple[Head, ...], ...]
    answers: tuple[str, ...]


def circuit(program: LayerProgram) -> tuple[AttentionPath, ...]:
    """The attention paths the answer depends on, found backwards from the slots that are read.

    A path is in it if it fills a slot that is read, copied onwards, or compared in a score, somewhere on the way.
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
