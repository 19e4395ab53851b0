"""What a certificate is judged on: how the model does on fresh sequences with a circuit, and without parts of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Literal, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.claimed import Claimed
from hopscope.circuits.checks.sampling import SURE, Levels, Lost, by_sequence
from hopscope.circuits.evaluate.ablations import Ablation, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.paths import AttentionPath, HeadRow

_Whole = Literal["full", "imposed", "natural", "nothing"]
"""The model, the circuit with its forms imposed and with its own patterns, and nothing: what others are compared to."""

_WHOLES: tuple[_Whole, ...] = get_args(_Whole)

_What = TypeVar("_What")

COUNTS = 0.2
"""How much the loss must rise without a row or path, as a share of the bar, for it to count as doing something."""


class Evidence(Claimed):
    """A circuit on fresh sequences: its losses, each of which is measured once."""

    @cached_property
    def _known(self) -> dict[tuple[Evaluator, _Whole], Float[Tensor, "sequence hop"]]:
        return {}  # the losses of wholes that were measured so far

    @cached_property
    def _changed(self) -> dict[tuple[Evaluator, HeadRow, Ablation], Float[Tensor, " sequence"]]:
        return {}  # the losses with one row in another form that were measured so far

    @cached_property
    def keyless(self) -> dict[AttentionPath, Ablation]:
        """The form of each path's row, in the program that it is judged in, without the key: in the cheapest way."""
        ways = [(path, form) for path in self.paths for form in self._ways_without(path)]
        return self._cheapest([(path, path.row, form) for path, form in ways])

    def unclaimed(self, path: AttentionPath) -> Ablation:
        """The form of a path's row in which nothing is left of what the circuit says of the key.

        A row with one key is off. Knocked out of its own pattern the key could leave another that the circuit does not
        name, from which the row reads the same.
        """
        form = self.program[path.row]
        return self._removed(form, path) if self._keys[path.row] > 1 else self.off[path.row]

    @cached_property
    def off(self) -> dict[HeadRow, Ablation]:
        """How each row in use is switched off: in the way that costs least, of those a search may choose from."""
        return self._cheapest([(row, row, off) for row in self.rows for off in self._ways_off(row)])

    def _cheapest(self, ways: Sequence[tuple[_What, HeadRow, Ablation]]) -> dict[_What, Ablation]:
        """Of the forms that a row may be put into for the sake of each thing, the one that costs least."""
        least: dict[_What, tuple[float, Ablation]] = {}
        losses = self.settled([{**self.around(row), row: form} for _, row, form in ways], self.bar, self.base)
        for (what, _, form), loss in zip(ways, losses, strict=True):
            if what not in least or loss < least[what][0]:
                least[what] = loss, form
        return {what: form for what, (_, form) in least.items()}

    @cached_property
    def alone(self) -> Float[Tensor, "program sequence hop"]:
        """The errors of the model, of the imposed and the natural circuit, and of nothing."""
        last = 3 if self.sense == "natural" else 2
        return self.until_clear(
            lambda evaluator: torch.stack(self._errors(evaluator, *_WHOLES)),
            lambda errors: self.in_doubt(list(errors[1:last].mean(dim=2))),
            few=False,
        )

    @cached_property
    def levels(self) -> Levels:
        """The losses on `few` sequences of the model, of nothing, and of the circuit as it is judged."""
        full, nothing, own = (
            float(error.mean()) for error in self._errors(self.few, "full", "nothing", self._judged_as())
        )
        return Levels(full, nothing, own)

    @cached_property
    def lost(self) -> dict[HeadRow, Lost]:
        """The losses without each row in use: on `few` sequences if these leave no doubt, on `more` if others do."""
        return dict(zip(self.rows, self._without([(row, self.off[row]) for row in self.rows], ()), strict=True))

    @cached_property
    def lost_keys(self) -> dict[AttentionPath, Lost]:
        """The losses without each path's key, as `lost` has them for rows."""
        gone = [(path.row, form) for path, form in self.keyless.items()]
        return dict(zip(self.keyless, self._without(gone, self.lost.values()), strict=True))

    def _without(self, changes: Sequence[tuple[HeadRow, Ablation]], known: Iterable[Lost]) -> list[Lost]:
        """The losses with one row put into another form, for each of the changes alone.

        Where one of these, or of the known ones, shows for sure that something is not needed, doubts about others are
        left: nothing can make up for it.
        """
        for evaluator in (self.few, self.evaluator):
            evaluator.depart_from(self.base)
        self.changed(self.few, changes)  # all in one pass; each is asked for again below
        refuted = any(map(self.spare, known))
        return self.all_until_clear(
            [partial(self._lost, row, form) for row, form in changes],
            self.open,
            lambda lost: refuted or self.spare(lost),
            few=False,
        )

    def _lost(self, row: HeadRow, form: Ablation, evaluator: Evaluator) -> Lost:
        """The losses with a row in another form; on `few` sequences if they lie far above the bar there."""
        (few,) = self.changed(self.few, [(row, form)])
        if float(few.mean()) - SURE * float(few.std()) / self.few.sequences**0.5 > 2 * self.bar:
            return Lost(few, self.own(self.few, row), self.due(row))
        (without,) = self.changed(evaluator, [(row, form)])
        return Lost(without, self.own(evaluator, row), self.due(row))

    def changed(
        self, evaluator: Evaluator, changes: Sequence[tuple[HeadRow, Ablation]]
    ) -> Float[Tensor, "change sequence"]:
        """The circuit's losses with one row in another form, `around` which it is judged; each is measured once."""
        new = [(row, form) for row, form in changes if (evaluator, row, form) not in self._changed]
        measured = by_sequence(evaluator, [{**self.around(row), row: form} for row, form in new])
        self._changed |= {(evaluator, *change): losses for change, losses in zip(new, measured, strict=True)}
        found = [self._changed[evaluator, row, form] for row, form in changes]
        return torch.stack(found) if found else measured

    def kept(self, row: HeadRow, loss: float) -> float:
        """How far a loss goes from that of nothing to the model's or, for `exempt` rows, the natural circuit's."""
        if row not in self.exempt:
            return self.levels.faithfulness(loss)
        natural, nothing = (float(error.mean()) for error in self._errors(self.few, "natural", "nothing"))
        return (nothing - loss) / (nothing - natural) if natural < nothing else 0.0

    def due(self, row: HeadRow) -> float:
        """How much the loss must rise without a row."""
        return (1.0 if row in self.exempt else COUNTS) * self.bar

    def full(self, evaluator: Evaluator) -> Float[Tensor, " sequence"]:
        """The model's losses by sequence; measured once."""
        return self._errors(evaluator, "full")[0].mean(dim=1)

    def own(self, evaluator: Evaluator, row: HeadRow | None) -> Float[Tensor, " sequence"]:
        """The losses by sequence of the program `around` a row; measured once."""
        return self._errors(evaluator, self._judged_as(row))[0].mean(dim=1)

    def _judged_as(self, row: HeadRow | None = None) -> _Whole:
        """As what the circuit is judged, or a row in it."""
        return "natural" if self.sense == "natural" or row in self.exempt else "imposed"

    def _errors(self, evaluator: Evaluator, *wanted: _Whole) -> list[Float[Tensor, "sequence hop"]]:
        """The errors of the model, the circuit or nothing; each is measured once."""
        whole: dict[_Whole, Interventions] = dict(
            zip(_WHOLES, [{}, self.program, self.natural, self.nothing], strict=True)
        )
        new = [name for name in wanted if (evaluator, name) not in self._known]
        if new:
            errors = evaluator.errors([whole[name] for name in new]).double()
            self._known |= {(evaluator, name): error for name, error in zip(new, errors, strict=True)}
        return [self._known[evaluator, name] for name in wanted]

    def open(self, lost: Lost) -> bool:
        """Whether it is in doubt that the loss without a row lies above the bar, or that it rises by what is due."""
        if self.spare(lost):
            return False
        return self.in_doubt([lost.without]) or self.in_doubt([lost.rise], lost.due)

    def spare(self, lost: Lost) -> bool:
        """Whether a row is surely not needed: the interval of the loss without it, or of its rise, ends below."""
        without, rise = self.measured([lost.without, lost.rise])
        return without.interval[1] < self.bar or rise.interval[1] < lost.due

    @cached_property
    def rises(self) -> dict[HeadRow, float]:
        """How much the circuit's loss rises without each row in use."""
        return {row: float(lost.rise.mean()) for row, lost in self.lost.items()}

    @cached_property
    def rises_in_model(self) -> dict[HeadRow, float]:
        """How much the model's own loss rises without each row in use."""
        full, counts = self.levels.full, COUNTS * self.bar
        losses = self.settled([{row: self.off[row]} for row in self.rows], full + counts, {})
        return {row: loss - full for row, loss in zip(self.rows, losses, strict=True)}

    def name(self, row: HeadRow) -> str:
        """A row's name for people."""
        return f"layer {row.layer + 1} head {row.head + 1} {self.evaluator.names[row.query]}"
