"""What a certificate is judged on: a circuit, and how the model does on fresh sequences with it and without parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.certificate.losses import Levels, Lost
from hopscope.circuits.certificate.part import Sense
from hopscope.circuits.certificate.proof import Proof
from hopscope.circuits.certificate.sampling import SURE, Sampling, by_sequence
from hopscope.circuits.certificate.silent import silent_heads
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import ALIKE, CHOSEN, IDENTITY, KEEP, UNIFORM, ZERO, Form, Intervention, knock_out, one_hot
from hopscope.circuits.hypotheses import Draft, Hypotheses
from hopscope.theory.path import AttentionPath, Row

_Whole = Literal["full", "imposed", "natural", "nothing"]
"""The model, the circuit with its forms imposed and with its own patterns, and nothing: what others are compared to."""

_WHOLES: tuple[_Whole, ...] = get_args(_Whole)

COUNTS = 0.2
"""How much the loss must rise without a row or path, as a share of the bar, for it to count as doing something."""


class Evidence(Sampling):
    """A circuit on fresh sequences.

    Args:
        evaluator: the model, on any batch; its transformer and problem are used.
        hypotheses: the search's hypotheses about the model's rows.
        program: the circuit with its forms imposed, every row named.
        bar: the loss a circuit may have at most.
        seed: the seed of the fresh sequences and random draws; no search sees them.
        proof: how many sequences and random draws there are.
        sense: the reading that is certified.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        hypotheses: Hypotheses,
        program: Draft,
        bar: float,
        seed: int,
        proof: Proof,
        sense: Sense = "natural",
    ) -> None:
        super().__init__(evaluator, bar, seed, proof)
        self.problem, self.sense, self.hypotheses, self.program = evaluator.problem, sense, hypotheses, program
        self.natural = hypotheses.natural(program)
        self.nothing: Draft = dict.fromkeys(evaluator.rows, UNIFORM)
        self.base = self.natural if sense == "natural" else program
        self._known: dict[tuple[Evaluator, _Whole], Float[Tensor, "sequence hop"]] = {}
        self._changed: dict[tuple[Evaluator, Row, Form], Float[Tensor, " sequence"]] = {}

    @cached_property
    def paths(self) -> list[AttentionPath]:
        """Every path, first layer first."""
        return [
            AttentionPath(*row, key)
            for row, form in sorted(self.program.items())
            for key, _ in self.hypotheses.keys(row, form)
        ]

    @cached_property
    def partial(self) -> list[AttentionPath]:
        """The paths that are only a part of what their row does, so that a path may be idle though its row is not.

        They are those of rows with several paths, and of rows whose form is a whole pattern: the weight that it puts on
        other keys, such as a place to rest at, may be all that the row is for.
        """
        return [path for path in self.paths if self._keys[path.row] > 1 or self.program[path.row].kind not in CHOSEN]

    @cached_property
    def unnamed(self) -> list[AttentionPath]:
        """Where the rows that are said to look at chosen keys attend to other roles of their chain too."""
        chosen = [row for row in self.rows if self.program[row].kind in CHOSEN]
        looks = (AttentionPath(*row, key) for row in chosen for key in sorted(self.hypotheses.heavy(row)))
        return [look for look in looks if look not in self.paths]

    @cached_property
    def _keys(self) -> Counter[Row]:
        """How many paths every row has."""
        return Counter(path.row for path in self.paths)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows in use: those with a path, and helpers."""
        return self.hypotheses.in_use(self.program, self.evaluator.live_rows)

    @cached_property
    def helpers(self) -> list[Row]:
        """The rows in use that attend to no other role of their own chain, or to all chains alike."""
        with_path = {path.row for path in self.paths}
        return [row for row in self.rows if row not in with_path]

    @cached_property
    def background(self) -> list[Row]:
        """The rows that are off by being at their mean or positional mean, not uniform, zero or at themselves."""
        return [row for row in self.outside if self.program[row] not in (UNIFORM, ZERO, IDENTITY)]

    @cached_property
    def blinded(self) -> Draft:
        """The circuit as it is judged, its background unable to tell a chain from others by the mean of a row."""
        means = [row for row in self.background if self.program[row].kind is Intervention.MEAN]
        return {**self.base, **{row: self.hypotheses.blind(row) for row in means}}

    @cached_property
    def as_they_are(self) -> Mapping[Row, tuple[int, ...]]:
        """The rows in use whose own pattern is all that the circuit says of them, and the keys that it names."""
        rows = (row for row in self.rows if self.program[row] == KEEP)
        return {row: tuple(path.key for path in self.paths if path.row == row) for row in rows}

    @cached_property
    def outside(self) -> list[Row]:
        """The rows that could reach an answer and are not in use."""
        used = set(self.rows)
        return [row for row in self.evaluator.live_rows if row not in used]

    @cached_property
    def telling(self) -> list[Row]:
        """The rows that could reach an answer, of heads that write something.

        A head that was pruned in training still attends somewhere; a random circuit of such heads would be no rival.
        """
        silent = silent_heads(self.rough)
        return [row for row in self.evaluator.live_rows if (row.layer, row.head) not in silent]

    @cached_property
    def free(self) -> list[Row]:
        """The rows that the circuit says nothing about: uniform or zero in it."""
        return [row for row in self.outside if self.program[row] in (UNIFORM, ZERO)]

    @cached_property
    def uniform(self) -> list[Row]:
        """The rows that are off by looking everywhere alike, their own chain included."""
        return [row for row in self.outside if self.program[row] == UNIFORM]

    @cached_property
    def idle(self) -> Draft:
        """The rows that carry nothing according to the circuit, with what takes away from each what it could carry.

        Rows at themselves stay so. Of the others (`free`), a row that never tells its own chain from others looks at
        all chains alike: where it rests is none of what the circuit is about, and it has never looked everywhere. A row
        that does tell them is uniform.
        """
        at_themselves = [row for row in self.outside if self.program[row] == IDENTITY]
        taken = {row: ALIKE if self.hypotheses.chainless(row) else UNIFORM for row in self.free}
        return taken | dict.fromkeys(at_themselves, IDENTITY)

    @cached_property
    def exempt(self) -> frozenset[Row]:
        """The rows that imposed patterns make idle, so that only the natural reading can show what they are for.

        In the strict sense these are those of the first layer in use (the paper's exception, Appendix E), else none.
        """
        first = min((row.layer for row in self.rows), default=0)
        return frozenset(row for row in self.rows if self.sense == "strict" and row.layer == first)

    def around(self, row: Row | None) -> Draft:
        """The program in which a row is judged; without a row, the one in which the circuit is judged."""
        return self.natural if row in self.exempt else self.base

    def without(self, path: AttentionPath) -> Draft:
        """The imposed circuit without one path: its row uniform or, if that looks elsewhere too, without this key."""
        return {**self.program, path.row: self._removed(self.program[path.row], path)}

    def without_key(self, path: AttentionPath) -> Form:
        """The form of a path's row, in the program that it is judged in, without the key."""
        form = self.around(path.row)[path.row]
        return knock_out(path.key) if form == KEEP else self._removed(form, path)

    def unclaimed(self, path: AttentionPath) -> Form:
        """The form of a path's row in which nothing is left of what the circuit says of the key.

        A row with one key is off. Knocked out of its own pattern the key could leave another that the circuit does not
        name, from which the row reads the same.
        """
        form = self.program[path.row]
        return self._removed(form, path) if self._keys[path.row] > 1 else self.off[path.row]

    def _removed(self, form: Form, path: AttentionPath) -> Form:
        """The form of a path's row without the path's key: uniform if the row looks nowhere else."""
        if form.kind is Intervention.MIXTURE:
            rest = {key: weight for key, weight in zip(form.keys, form.weights, strict=True) if key != path.key}
            if len(rest) > 1 and sum(rest.values()) > 0:
                return Form(Intervention.MIXTURE, tuple(rest), tuple(rest.values()))
            left = next(iter(rest), path.query)
            return IDENTITY if left == path.query else one_hot(left)
        return knock_out(path.key) if path in self.partial else UNIFORM

    @cached_property
    def off(self) -> dict[Row, Form]:
        """How each row in use is switched off: in the way that costs least, of those a search may choose from."""
        ways = [(row, off) for row in self.rows for off in self._ways_off(row)]
        least: dict[Row, tuple[float, Form]] = {}
        losses = self.settled([{**self.around(row), row: off} for row, off in ways], self.bar, self.base)
        for (row, off), loss in zip(ways, losses, strict=True):
            if row not in least or loss < least[row][0]:
                least[row] = loss, off
        return {row: off for row, (_, off) in least.items()}

    def _ways_off(self, row: Row) -> list[Form]:
        """Ways to switch off a row in use.

        In the strict sense, it is filled like the other rows of its head; if it is the head's only row in use, so that
        the head is then idle, it may also be uniform or at itself.
        """
        if self.sense == "natural":
            return self.hypotheses.offs(row)
        head = {one: form for one, form in self.program.items() if one[:2] == row[:2]}
        used = [one for one, form in head.items() if not self.hypotheses.is_off(one, form)]
        fills = [form for one, form in head.items() if one not in used]
        idle = [UNIFORM, IDENTITY] if used == [row] or not fills else []
        return list(dict.fromkeys([*fills, *idle]))

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
        full, nothing, own = (float(one.mean()) for one in self._errors(self.few, "full", "nothing", self._judged_as()))
        return Levels(full, nothing, own)

    @cached_property
    def lost(self) -> dict[Row, Lost]:
        """The losses without each row in use: on `few` sequences if these leave no doubt, on `more` if others do."""
        return dict(zip(self.rows, self._without([(row, self.off[row]) for row in self.rows], ()), strict=True))

    @cached_property
    def lost_keys(self) -> dict[AttentionPath, Lost]:
        """The losses without each key of a row that looks elsewhere too, as `lost` has them for rows."""
        gone = [(path.row, self.without_key(path)) for path in self.partial]
        return dict(zip(self.partial, self._without(gone, self.lost.values()), strict=True))

    def _without(self, changes: Sequence[tuple[Row, Form]], known: Iterable[Lost]) -> list[Lost]:
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

    def _lost(self, row: Row, form: Form, evaluator: Evaluator) -> Lost:
        """The losses with a row in another form; on `few` sequences if they lie far above the bar there."""
        (few,) = self.changed(self.few, [(row, form)])
        if float(few.mean()) - SURE * float(few.std()) / self.few.sequences**0.5 > 2 * self.bar:
            return Lost(few, self.own(self.few, row), self.due(row))
        (without,) = self.changed(evaluator, [(row, form)])
        return Lost(without, self.own(evaluator, row), self.due(row))

    def changed(self, evaluator: Evaluator, changes: Sequence[tuple[Row, Form]]) -> Float[Tensor, "change sequence"]:
        """The circuit's losses with one row in another form, `around` which it is judged; each is measured once."""
        new = [(row, form) for row, form in changes if (evaluator, row, form) not in self._changed]
        measured = by_sequence(evaluator, [{**self.around(row), row: form} for row, form in new])
        self._changed |= {(evaluator, *change): losses for change, losses in zip(new, measured, strict=True)}
        found = [self._changed[evaluator, row, form] for row, form in changes]
        return torch.stack(found) if found else measured

    def kept(self, row: Row, loss: float) -> float:
        """How far a loss goes from that of nothing to the model's or, for `exempt` rows, the natural circuit's."""
        if row not in self.exempt:
            return self.levels.faithfulness(loss)
        natural, nothing = (float(one.mean()) for one in self._errors(self.few, "natural", "nothing"))
        return (nothing - loss) / (nothing - natural) if natural < nothing else 0.0

    def due(self, row: Row) -> float:
        """How much the loss must rise without a row."""
        return (1.0 if row in self.exempt else COUNTS) * self.bar

    def full(self, evaluator: Evaluator) -> Float[Tensor, " sequence"]:
        """The model's losses by sequence; measured once."""
        return self._errors(evaluator, "full")[0].mean(dim=1)

    def own(self, evaluator: Evaluator, row: Row | None) -> Float[Tensor, " sequence"]:
        """The losses by sequence of the program `around` a row; measured once."""
        return self._errors(evaluator, self._judged_as(row))[0].mean(dim=1)

    def _judged_as(self, row: Row | None = None) -> _Whole:
        """As what the circuit is judged, or a row in it."""
        return "natural" if self.sense == "natural" or row in self.exempt else "imposed"

    def _errors(self, evaluator: Evaluator, *wanted: _Whole) -> list[Float[Tensor, "sequence hop"]]:
        """The errors of the model, the circuit or nothing; each is measured once."""
        whole: dict[_Whole, Draft] = dict(zip(_WHOLES, [{}, self.program, self.natural, self.nothing], strict=True))
        new = [name for name in wanted if (evaluator, name) not in self._known]
        if new:
            errors = evaluator.errors([whole[name] for name in new]).double()
            self._known |= {(evaluator, name): one for name, one in zip(new, errors, strict=True)}
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
    def rises(self) -> dict[Row, float]:
        """How much the circuit's loss rises without each row in use."""
        return {row: float(lost.rise.mean()) for row, lost in self.lost.items()}

    @cached_property
    def rises_in_model(self) -> dict[Row, float]:
        """How much the model's own loss rises without each row in use."""
        full, counts = self.levels.full, COUNTS * self.bar
        losses = self.settled([{row: self.off[row]} for row in self.rows], full + counts, {})
        return {row: loss - full for row, loss in zip(self.rows, losses, strict=True)}

    def name(self, row: Row) -> str:
        """A row's name for people."""
        return f"layer {row.layer + 1} head {row.head + 1} {self.evaluator.names[row.query]}"
