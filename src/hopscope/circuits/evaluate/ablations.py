"""What can be put in the place of a row of attention.

A row is one (layer, head, query role): what the positions of that role attend to, in one head. An ablation says what
multiplies the values there instead; interventions say it for any number of rows, and leave the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any

from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import Problem
from hopscope.problem.roles import role_number
from hopscope.records import convert, plain


class AblationKind(Enum):
    """What is put in the place of a row."""

    KEEP = "keep"
    """The model's own pattern, to the bit."""

    UNIFORM = "uniform"
    """The same weight on every position that may be attended to. The paper's way to switch a head off."""

    IDENTITY = "identity"
    """All weight on the position itself. The paper's other way to switch a head off."""

    ZERO = "zero"
    """No weight at all: the row writes nothing but the values' and output's biases (zero ablation)."""

    ONE_HOT = "one_hot"
    """All weight on one role of the same chain. The paper's way to state what a head does."""

    MIXTURE = "mixture"
    """Fixed weights on a few roles of the same chain."""

    MEAN = "mean"
    """The average pattern of this row, as weights by relation: what the head does on average, whatever the content.
    Weights on keys that may not be attended to are dropped and the rest scaled to sum to 1."""

    POSITIONAL = "positional"
    """The row's own pattern averaged over the sequences of the batch, position by position: what the head does by
    position alone, whatever the content and the shuffle. Heads that attend to neighbours are like this."""

    KNOCK_OUT = "knock_out"
    """The model's own pattern without some roles of the same chain, scaled to sum to 1 again. Where nothing is left,
    the positions that remain share the weight; where none remain, the row attends to its own position."""

    ALIKE = "alike"
    """The model's own pattern with as much on every role of the own chain as of another one, on average over those that
    are visible (none, if none are), scaled to sum to 1 again: the row is chain-agnostic. Named roles of the own chain
    stay, and the rest then keeps the weight that it had."""

    MOVED = "moved"
    """The model's own pattern with the weight on some roles of the same chain moved to these roles of the other chains,
    evenly; where none of these is visible, it stays: the row attends there as before, but not in its own chain."""

    RESAMPLE = "resample"
    """The pattern this row has on the next sequence of the batch, position by position: a real pattern of this head,
    but one that does not depend on this sequence's shuffle."""


CHOSEN = (AblationKind.ONE_HOT, AblationKind.MIXTURE)
"""Kinds that name the keys a row attends to; all others are whole patterns."""

_TAKES: Mapping[AblationKind, tuple[str, Callable[[int, int], bool]]] = {
    AblationKind.ONE_HOT: ("one key", lambda keys, weights: keys == 1 and not weights),
    AblationKind.MIXTURE: ("keys, each with a weight", lambda keys, weights: 0 < keys == weights),
    AblationKind.MEAN: ("a weight for each relation", lambda keys, weights: weights > 0 and not keys),
    AblationKind.KNOCK_OUT: ("at least one key", lambda keys, weights: keys > 0 and not weights),
    AblationKind.MOVED: ("at least one key", lambda keys, weights: keys > 0 and not weights),
    AblationKind.ALIKE: ("any number of keys", lambda keys, weights: not weights),
}
"""The keys and weights that kinds take, in words and as a check of their numbers; all others take none."""

_NUMBERS = {kind: number for number, kind in enumerate(AblationKind)}


@dataclass(frozen=True)
class Ablation:
    """What replaces a row, with the keys and weights it needs.

    Args:
        kind: the kind of ablation.
        keys: role numbers, for `ONE_HOT` (one), `MIXTURE` (weighted), `KNOCK_OUT` (those removed), `MOVED` and
            `ALIKE` (those that stay).
        weights: for `MIXTURE`, one for each key; for `MEAN`, one for each relation (see `coordinates`).

    Raises:
        InputError: the keys or weights do not suit the kind.
    """

    kind: AblationKind
    keys: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        kind, keys, weights = self.kind, len(self.keys), len(self.weights)
        takes, fit = _TAKES.get(kind, ("nothing", lambda keys, weights: keys == weights == 0))
        if not fit(keys, weights):
            raise InputError(f"{kind.value} takes {takes}, got {keys} keys and {weights} weights")
        if len(set(self.keys)) < keys:
            raise InputError(f"the keys of {kind.value} must be different roles, got {self.keys}")
        if not all(0 <= weight < inf for weight in self.weights) or (weights and sum(self.weights) <= 0):
            raise InputError(f"the weights of {kind.value} must be at least 0 and not all 0, got {self.weights}")
        # Computed once: a search hashes ablations millions of times. Equal in every process, so that they may be sent.
        object.__setattr__(self, "_hash", hash((_NUMBERS[kind], self.keys, self.weights)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]


UNIFORM = Ablation(AblationKind.UNIFORM)
IDENTITY = Ablation(AblationKind.IDENTITY)
ZERO = Ablation(AblationKind.ZERO)
KEEP = Ablation(AblationKind.KEEP)
RESAMPLE = Ablation(AblationKind.RESAMPLE)
POSITIONAL = Ablation(AblationKind.POSITIONAL)
ALIKE = Ablation(AblationKind.ALIKE)


def one_hot(key: int) -> Ablation:
    """All weight on role `key` of the same chain."""
    return Ablation(AblationKind.ONE_HOT, (key,))


def knock_out(*keys: int) -> Ablation:
    """The row's own pattern without these roles of the same chain."""
    return Ablation(AblationKind.KNOCK_OUT, keys)


def moved(*keys: int) -> Ablation:
    """The row's own pattern, attending to these roles in other chains instead of its own."""
    return Ablation(AblationKind.MOVED, keys)


def own_pattern(ablation: Ablation) -> Ablation:
    """What is left of an active row's ablation where active rows make their own patterns: `keep`, or `alike`."""
    return ablation if ablation == ALIKE else KEEP


Interventions = dict[HeadRow, Ablation]
"""What is put in the place of each row named; rows not named are unmodified. Rows are in the order in which they were
last `changed`: those that a search switched off, in the order in which it did so."""


def changed(interventions: Interventions, changes: Mapping[HeadRow, Ablation]) -> Interventions:
    """Interventions with changes made to some rows, which then come last."""
    return {row: ablation for row, ablation in interventions.items() if row not in changes} | dict(changes)


@dataclass(frozen=True)
class _AblatedRow:
    """A row of interventions on disk: layer and head from 1, roles by name."""

    layer: int
    head: int
    query: str
    form: AblationKind
    keys: tuple[str, ...]
    weights: tuple[float, ...]


def to_json(interventions: Interventions, problem: Problem) -> list[dict[str, Any]]:
    """The rows of interventions in order, with layer and head from 1 and roles by name."""
    names = problem.all_roles
    rows = []
    for (layer, head, query), ablation in interventions.items():
        keys = tuple(names[key] for key in ablation.keys)
        rows.append(_AblatedRow(layer + 1, head + 1, names[query], ablation.kind, keys, ablation.weights))
    return [*map(plain, rows)]


def from_json(rows: Any, problem: Problem) -> Interventions:
    """The interventions that `to_json` wrote."""
    interventions: Interventions = {}
    for row in convert(rows, list[_AblatedRow], "interventions"):
        query, *keys = (role_number(role, problem.all_roles) for role in (row.query, *row.keys))
        where = HeadRow(row.layer - 1, row.head - 1, query)
        if where in interventions:
            raise InputError(f"layer {row.layer} head {row.head} {row.query} is in the interventions twice")
        interventions[where] = Ablation(row.form, tuple(keys), row.weights)
    return interventions
