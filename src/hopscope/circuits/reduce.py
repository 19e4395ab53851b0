"""One way down from a model to a small circuit: heads, then rows, until nothing more can go; then the forms.

Which rows are in use is decided with the model's own patterns in them and uniform ones everywhere else. A path whose
only service is that a later head finds its key is then needed, as it should be; under imposed patterns it would look
idle (the exception the paper reports in Appendix E). Only when the rows stand is each put into its simplest form.

Changes cost little alone and much together, so the room between the model's own loss and the bar is handed out in
shares. What costs least goes first; another order (`jitter`) comes down elsewhere where a model does a step twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import KEEP, POSITIONAL, UNIFORM, Form
from hopscope.circuits.hypotheses import Hypotheses, Rows, form_of
from hopscope.theory.path import Row

_HEADS, _ROWS, _LAST = 0.3, 0.6, 0.95
"""Shares of the room that whole heads may use, then single rows, then the last ones; forms may use all of it."""

_SIZES = (1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 128, 192, 256)
"""How many changes are tried together."""

_AT_ONCE = 4
"""How many such sizes are tried before it is seen whether to go on."""


class Reducer:
    """The way down for one evaluator.

    Args:
        evaluator: the model and the batch that decides.
        forms: hypotheses about its rows.
        bar: the loss that no accepted program exceeds.
        doubt: standard errors added to every mean squared error, so that what passes here passes on fresh data too.
        rough: a evaluator of fewer sequences. It says in which order changes are tried, and which are hopeless; whether
            one is made is never left to it.
    """

    def __init__(
        self, evaluator: Evaluator, hypotheses: Hypotheses, bar: float, rough: Evaluator, doubt: float = 2.0
    ) -> None:
        self.evaluator, self.hypotheses, self.bar, self._rough, self._doubt = evaluator, hypotheses, bar, rough, doubt
        self._full = self.scores([{}])[0]

    def scores(self, programs: Sequence[Rows]) -> list[float]:
        """Mean squared error under each program, and `doubt` standard errors on top."""
        if not programs:
            return []
        errors = self.evaluator.errors(programs).double().mean(dim=2)
        spread = errors.std(dim=1) / errors.shape[1] ** 0.5
        found: list[float] = (errors.mean(dim=1) + self._doubt * spread).tolist()
        return found

    def passes(self, program: Rows) -> bool:
        """Whether a program holds the bar."""
        return self.scores([program])[0] <= self.bar

    def live_rows(self) -> list[Row]:
        """Rows that can reach an answer: in the last layer, the queries' alone."""
        shape, roles = self.evaluator.shape, self.evaluator.where.roles
        return [row for row in every_row(self.evaluator) if row.layer < shape.layers - 1 or row.query == roles - 1]

    def start(self) -> Rows:
        """The model as it is, without the rows that reach no answer."""
        live = set(self.live_rows())
        return {row: UNIFORM for row in every_row(self.evaluator) if row not in live}

    def fewer(self, jitter: torch.Generator | None, heads_in_order: Sequence[int] = ()) -> list[Rows]:
        """Heads and rows that are easily done without switched off: after the heads, some rows, all rows that can go.

        Args:
            jitter: perturbs the order in which things go; `None` for the least costly first.
            heads_in_order: numbers (layer x heads + head) of heads in the order to switch off, from the gradient
                pre-filter; empty for the order of their exact scores.
        """
        program, rows, heads = self.start(), self.live_rows(), self.evaluator.shape.heads
        units: dict[int, Rows] = {}
        for row in rows:
            units.setdefault(row.layer * heads + row.head, {})[row] = UNIFORM
        if heads_in_order:
            program = self._in_order(program, [units[number] for number in heads_in_order], self._limit(_HEADS))
        else:
            program = self._eliminate(program, list(units.values()), self._limit(_HEADS), jitter)
        some = self.trimmed(program, jitter, _ROWS)
        return [program, some, self.trimmed(some, jitter)]

    def trimmed(self, program: Rows, jitter: torch.Generator | None, share: float = _LAST) -> Rows:
        """Rows switched off, several at a time: by `uniform`, or by their average where they know nothing of chains."""
        singles: list[Rows] = [{row: UNIFORM} for row, _ in self.on(program)]
        program = self._eliminate(program, singles, self._limit(share), jitter)
        for off in (self.hypotheses.mean, lambda row: POSITIONAL):
            background = [{row: off(row)} for row, _ in self.on(program) if self.hypotheses.chainless(row)]
            program = self._eliminate(program, background, self._limit(share), jitter)
        return program

    def minimal(self, program: Rows, jitter: torch.Generator | None) -> Rows:
        """No row in use can be switched off within the room."""
        limit = self._limit(_LAST)
        while True:
            moves = self._hopeful(
                program, [(row, off) for row, _ in self.on(program) for off in self.hypotheses.offs(row)]
            )
            self.evaluator.depart_from(program)
            scores = self.scores([{**program, row: off} for row, off in moves])
            fitting = [number for number, score in enumerate(scores) if score <= limit]
            if not fitting:
                return program
            noise = _noise(len(moves), jitter)
            best = min(fitting, key=lambda n: (moves[n][1] != UNIFORM, scores[n] * noise[n], n))
            program = {**program, moves[best][0]: moves[best][1]}

    def grown(self, pool: Rows, generator: torch.Generator) -> Rows:
        """A small program grown from nothing: rows of `pool` are put back in random order until the bar holds.

        The row that tips the balance is needed with those before it; it stays, and growth starts over with it. Where
        growth never gets there the pool itself comes back.
        """
        rows = [row for row, _ in self.on(pool)]
        shuffled = [rows[number] for number in torch.randperm(len(rows), generator=generator).tolist()]
        kept: list[Row] = []
        limit = self._limit(_LAST)
        while True:
            rest = [row for row in shuffled if row not in kept]
            steps = [self.only(pool, kept + rest[:count]) for count in range(len(rest) + 1)]
            scores = self.scores(steps)
            reached = next((count for count, score in enumerate(scores) if score <= limit), None)
            if reached is None:
                return pool
            if reached == 0:
                return steps[0]
            kept.append(rest[reached - 1])
            shuffled = [*kept, *rest[: reached - 1]]

    def formed(self, program: Rows) -> Rows:
        """Each row in use in the simplest form that is nearly as good as its best.

        From the first layer to the last, so that the rows above still make their own patterns out of what the form
        lets through. Rows for which no form holds the bar keep their own pattern; when all have been seen, these are
        tried once more.
        """
        for _ in range(2):
            for row, edit in self.on(program):
                if edit == KEEP:
                    program = {**program, row: self._form(program, row)}
        return program

    def only(self, pool: Rows, rows: Sequence[Row]) -> Rows:
        """`pool` with all but `rows` switched off."""
        keep = set(rows)
        return {**pool, **{row: UNIFORM for row, _ in self.on(pool) if row not in keep}}

    def on(self, program: Rows) -> list[tuple[Row, Form]]:
        """Rows in use, with what they do."""
        rows = [(row, form_of(program, row)) for row in self.live_rows()]
        return [(row, edit) for row, edit in rows if not self.hypotheses.is_off(row, edit)]

    def natural(self, program: Rows) -> Rows:
        """The same rows in use, each with the model's own pattern."""
        return {row: edit if self.hypotheses.is_off(row, edit) else KEEP for row, edit in program.items()}

    def _limit(self, share: float) -> float:
        return self._full + share * (self.bar - self._full)

    def _form(self, program: Rows, row: Row) -> Form:
        self.evaluator.depart_from(program)
        # Hypotheses that amount to switching the row off are left out: it is in use because it could not be.
        forms = [form for form in self.hypotheses.of(row) if not self.hypotheses.is_off(row, form)]
        scores = self.scores([{**program, row: form} for form in forms])
        current = scores[-1]  # the last form is the row's own pattern
        good = min(self.bar, max(min(scores), current) + 0.25 * max(self.bar - current, 0.0))
        return next((form for form, score in zip(forms, scores, strict=True) if score <= good), KEEP)

    def _hopeful(self, program: Rows, moves: list[tuple[Row, Form]]) -> list[tuple[Row, Form]]:
        """The changes that may hold the bar: not five standard errors above it on the rough evaluator."""
        if not moves:
            return []
        self._rough.depart_from(program)
        errors = self._rough.errors([{**program, row: edit} for row, edit in moves]).double().mean(dim=2)
        least = errors.mean(dim=1) - 5 * errors.std(dim=1) / errors.shape[1] ** 0.5
        return [move for move, low in zip(moves, least.tolist(), strict=True) if low <= self.bar]

    def _eliminate(self, program: Rows, moves: list[Rows], limit: float, jitter: torch.Generator | None) -> Rows:
        """As many of the moves as the limit allows, the least costly first, several at a time."""
        while moves:
            self._rough.depart_from(program)
            now, *scores = self._rough.mse([program, *({**program, **move} for move in moves)])
            room = limit - self.scores([program])[0]
            # Costs are rough: what looks a little too dear may still fit.
            fitting = [number for number, score in enumerate(scores) if score - now <= 1.5 * room]
            least, noise = min(scores), _noise(len(moves), jitter)
            costs = [(score - least) * factor for score, factor in zip(scores, noise, strict=True)]
            moves = [moves[number] for number in sorted(fitting, key=lambda n: (costs[n], n))]
            self.evaluator.depart_from(program)
            program, taken = self._longest_prefix(program, moves, limit)
            if not taken:
                break
            moves = moves[taken:]
        return program

    def _in_order(self, program: Rows, moves: list[Rows], limit: float) -> Rows:
        """The moves in the given order; where one does not fit, it is left out and the next ones tried."""
        while moves:
            program, taken = self._longest_prefix(program, moves, limit)
            moves = moves[max(taken, 1) :]
        return program

    def _longest_prefix(self, program: Rows, moves: list[Rows], limit: float) -> tuple[Rows, int]:
        """The longest of some first parts of `moves` that the limit allows, and its length.

        Parts are tried a few at a time, shorter ones first, until none of a few holds.
        """
        sizes = [size for size in _SIZES if size < len(moves)] + ([len(moves)] if moves else [])
        best, taken = program, 0
        for first in range(0, len(sizes), _AT_ONCE):
            some = sizes[first : first + _AT_ONCE]
            programs: list[Rows] = []
            for size in some:
                together = dict(program)
                for move in moves[:size]:
                    together |= move
                programs.append(together)
            for size, together, score in zip(some, programs, self.scores(programs), strict=True):
                if score <= limit:
                    best, taken = together, size
            if taken < some[0]:
                break
        return best, taken


def every_row(evaluator: Evaluator) -> list[Row]:
    """All rows of a model, first layer first."""
    shape, roles = evaluator.shape, evaluator.where.roles
    return [
        Row(layer, head, query)
        for layer in range(shape.layers)
        for head in range(shape.heads)
        for query in range(roles)
    ]


def _noise(count: int, generator: torch.Generator | None) -> list[float]:
    """Factors on costs: 1, or log-normal where a generator perturbs the order."""
    if generator is None:
        return [1.0] * count
    factors: list[float] = torch.randn(count, generator=generator).mul(2.0).exp().tolist()
    return factors
