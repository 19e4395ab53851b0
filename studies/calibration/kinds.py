"""The kinds of circuits that are planted, and what is said of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from hopscope.circuits.checks import Sense
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.paths import HeadRow

Kind = Literal[
    "true", "at rest", "aside", "wrong key", "missing", "superfluous", "second key", "twin", "other model",
    "deliverable", "deaf tool", "idle key", "backup key", "by turns", "loud background", "loud helper", "spare look",
    "sink", "not imposed",
]  # fmt: skip
"""The kinds of planted circuits. `true` is the circuit itself. `at rest` is true too: the circuit of the model with one
more head, which rests, as a part of the background; and so is `aside`: with a resting head that must not look
elsewhere, and also looks somewhere for no use, as a helper to which all chains are alike. The others are false: a row's
key replaced; a row left out; one or two rows added that attend to something; a second key given to a row, with a tenth
of its weight; a row's work credited to another head that attends alike; the circuit of another model of the same shape;
random paths that deliver by theory, of rows that attend there; the circuit itself, judged with tools that ignore what
is done to one layer; a head that rests and also looks somewhere, for no use, and its row with all that it looks at; the
circuit itself, in the model with a backup for one of its keys in the same row; in the model in which a row looks at its
key for a quarter to three quarters of the questions, and elsewhere for the rest; with a loud head at its mean, which
brings a part of what one of its paths should; with a loud head as it is, whose mean does not; with a resting head that
stands in for a row where that does not look at its key, as a helper to which all chains are alike; with a head that
rests at a key of its own chain, where it reads nothing, or the same in every chain, as a path; and the circuit with all
its rows left as the model has them, or at their mean."""

TRUE: tuple[Kind, ...] = ("true", "at rest", "aside")
"""The kinds that are planted to be certified."""

KINDS: Mapping[Sense, tuple[Kind, ...]] = {
    "natural": tuple(kind for kind in get_args(Kind) if kind != "not imposed"),
    "strict": tuple(
        kind
        for kind in get_args(Kind)
        if kind not in ("at rest", "aside", "idle key", "loud background", "loud helper", "spare look")
    ),
}
"""The kinds that are planted, by the sense of the certificate. A head that rests has no strict circuit, nor has a
loud one or a helper, since nothing in it may be at its mean or as it is; and `not imposed` is, in the natural sense,
the circuit itself."""

Label = Literal["true", "false", "equivalent", "undecided"]
"""The truth by measured effect. `equivalent`: planted as false, but it holds the bar by the margin, or its tools do all
that there is to do, so it is not false."""


class Planted(NamedTuple):
    """A planted circuit.

    Attributes:
        program: the form of every row.
        what: what was done, in words.
        row: the row that was changed, if it was a single one.
        evaluator: the tools to judge it with, where they are not the model's own.
        beside: the row that the one that was changed stands in for.
    """

    program: Interventions
    what: str
    row: HeadRow | None = None
    evaluator: Evaluator | None = None
    beside: HeadRow | None = None
