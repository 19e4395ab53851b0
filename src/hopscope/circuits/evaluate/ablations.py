"""Ablations: the patterns that can replace a row of attention.

A row is one (layer, head, query role): the attention pattern of all positions of that role in one head. An ablation is
the pattern that multiplies the values instead. Interventions are ablations of any number of rows; all other rows stay
unmodified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any

from hopscope.checks import check_items, check_type
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import Problem
from hopscope.problem.roles import role_number
from hopscope.records import convert, plain


class AblationKind(Enum):
    """The kind of pattern that replaces a row.

    >>> AblationKind("uniform").name
    'UNIFORM'
    """

    KEEP = "keep"
    """The model's own pattern, unchanged to the bit."""

    UNIFORM = "uniform"
    """The same weight on every position that may be attended to: the paper's way to switch off a head."""

    IDENTITY = "identity"
    """All weight on the position itself: the paper's other way to switch off a head."""

    ZERO = "zero"
    """No weight at all (zero ablation): the row writes only the biases of the values and of the output."""

    ONE_HOT = "one_hot"
    """All weight on one role of the same chain: the paper's way to state what a head does."""

    MIXTURE = "mixture"
    """Fixed weights on a few roles of the same chain."""

    MEAN = "mean"
    """The average pattern of this row, given as weights by relation, so that it does not depend on the content.
    Weights on keys that may not be attended to are dropped, and the rest is scaled to sum to 1."""

    POSITIONAL = "positional"
    """The row's own pattern averaged over the sequences of the batch, position by position. It depends on the position
    alone, not on the content or the shuffle, as in a head that attends to neighbours."""

    KNOCK_OUT = "knock_out"
    """The model's own pattern without some roles of the same chain, scaled to sum to 1 again. If no weight is left, the
    remaining positions share the weight; if no position remains, the row attends to its own position."""

    ALIKE = "alike"
    """The model's own pattern made chain-agnostic: each role of the own chain gets the average weight of the same role
    in the other visible chains (0 if none is visible), and the row is scaled to sum to 1 again. Named roles of the own
    chain keep their weight; all other keys together then keep the weight that they had."""

    MOVED = "moved"
    """The model's own pattern with the weight on some roles of the same chain moved evenly to these roles of the other
    chains, so that the row attends to the same roles elsewhere. The weight stays if no such role is visible."""

    RESAMPLE = "resample"
    """The pattern that this row has on the next sequence of the batch, position by position: a real pattern of this
    head that does not depend on the shuffle of this sequence."""


CHOSEN = (AblationKind.ONE_HOT, AblationKind.MIXTURE)
"""The kinds that name the keys that a row attends to; all other kinds are whole patterns."""

_TAKES: Mapping[AblationKind, tuple[str, Callable[[int, int], bool]]] = {
    AblationKind.ONE_HOT: ("one key", lambda keys, weights: keys == 1 and not weights),
    AblationKind.MIXTURE: ("keys, each with a weight", lambda keys, weights: 0 < keys == weights),
    AblationKind.MEAN: ("a weight for each relation", lambda keys, weights: weights > 0 and not keys),
    AblationKind.KNOCK_OUT: ("at least one key", lambda keys, weights: keys > 0 and not weights),
    AblationKind.MOVED: ("at least one key", lambda keys, weights: keys > 0 and not weights),
    AblationKind.ALIKE: ("any number of keys", lambda keys, weights: not weights),
}
"""For each kind, the keys and weights that it takes, in words, and a check of their counts; other kinds take none."""

_NUMBERS = {kind: number for number, kind in enumerate(AblationKind)}


@dataclass(frozen=True)
class Ablation:
    """The pattern that replaces a row, with the keys and weights that its kind needs.

        >>> without_x1 = hs.Ablation(hs.AblationKind.KNOCK_OUT, keys=(run[0].problem.roles.index(">x1"),))
        >>> run[0].ablate({"L1.H1 x0?": without_x1}).change > -0.5
        True

    Args:
        kind: the kind of ablation.
        keys: role numbers: of `ONE_HOT` and `MIXTURE`, those removed by `KNOCK_OUT` and `MOVED`, or kept by `ALIKE`.
        weights: for `MIXTURE`, one weight per key; for `MEAN`, one weight per relation (see `coordinates`).

    Raises:
        InputError: the keys or weights do not suit the kind.
    """

    kind: AblationKind
    keys: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_type("kind", self.kind, AblationKind, "an hs.AblationKind, as hs.AblationKind.ZERO")
        kind, keys = self.kind, len(check_items("keys", self.keys, "role numbers"))
        weights = len(check_items("weights", self.weights, "numbers"))
        takes, fit = _TAKES.get(kind, ("nothing", lambda keys, weights: keys == weights == 0))
        if not fit(keys, weights):
            raise InputError(f"{kind.value} takes {takes}, got {keys} keys and {weights} weights")
        if len(set(self.keys)) < keys:
            raise InputError(f"the keys of {kind.value} must be different roles, got {self.keys}")
        if not all(0 <= weight < inf for weight in self.weights) or (weights and sum(self.weights) <= 0):
            raise InputError(f"the weights of {kind.value} must be at least 0 and not all 0, got {self.weights}")
        # Computed once, since a search hashes ablations millions of times; equal in every process that receives them.
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
    """Return the ablation with all weight on role `key` of the same chain."""
    return Ablation(AblationKind.ONE_HOT, (key,))


def knock_out(*keys: int) -> Ablation:
    """Return the ablation that removes these roles of the same chain from the row's own pattern."""
    return Ablation(AblationKind.KNOCK_OUT, keys)


def moved(*keys: int) -> Ablation:
    """Return the ablation in which the row attends to these roles in other chains instead of its own chain."""
    return Ablation(AblationKind.MOVED, keys)


def own_pattern(ablation: Ablation) -> Ablation:
    """Return the ablation of an active row in a circuit with own patterns: `ALIKE` stays, any other becomes `KEEP`."""
    return ablation if ablation == ALIKE else KEEP


Interventions = dict[HeadRow, Ablation]
"""The ablation of each named row; all other rows are unmodified. Rows are in the order in which they were last
`changed`, so rows that a search switched off are in the order of their removal."""


def changed(interventions: Interventions, changes: Mapping[HeadRow, Ablation]) -> Interventions:
    """Return the interventions with the changes applied; the changed rows come last."""
    return {row: ablation for row, ablation in interventions.items() if row not in changes} | dict(changes)


@dataclass(frozen=True)
class _AblatedRow:
    """A row of interventions in a file: layer and head from 1, and roles by name."""

    layer: int
    head: int
    query: str
    form: AblationKind
    keys: tuple[str, ...]
    weights: tuple[float, ...]


def to_json(interventions: Interventions, problem: Problem) -> list[dict[str, Any]]:
    """Return the rows of interventions as plain values, in order, with layer and head from 1 and roles by name."""
    names = problem.all_roles
    rows = []
    for (layer, head, query), ablation in interventions.items():
        keys = tuple(names[key] for key in ablation.keys)
        rows.append(_AblatedRow(layer + 1, head + 1, names[query], ablation.kind, keys, ablation.weights))
    return [*map(plain, rows)]


def from_json(rows: Any, problem: Problem) -> Interventions:
    """Return the interventions that `to_json` wrote."""
    interventions: Interventions = {}
    for row in convert(rows, list[_AblatedRow], "interventions"):
        query, *keys = (role_number(role, problem.all_roles) for role in (row.query, *row.keys))
        where = HeadRow(row.layer - 1, row.head - 1, query)
        if where in interventions:
            raise InputError(f"layer {row.layer} head {row.head} {row.query} is in the interventions twice")
        interventions[where] = Ablation(row.form, tuple(keys), row.weights)
    return interventions
