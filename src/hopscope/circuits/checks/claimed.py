"""What a circuit claims of a model's rows: which are active, for which keys, and what is left of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import torch

from hopscope.circuits.checks.certificate import CertificateConfig, Sense
from hopscope.circuits.checks.sampling import Sampling
from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    CHOSEN,
    IDENTITY,
    KEEP,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    knock_out,
    moved,
    one_hot,
)
from hopscope.circuits.evaluate.chains import seen_elsewhere
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Hypotheses
from hopscope.model.hooks import Hooks, Pattern
from hopscope.problem.paths import AttentionPath, HeadRow


class _Without(Hooks):
    """An edit by which one head looks nowhere."""

    def __init__(self, layer: int, head: int) -> None:
        self._at = layer, head

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern with that head's weights at zero."""
        if layer != self._at[0]:
            return pattern
        pattern = pattern.clone()
        pattern[:, :, self._at[1]] = 0
        return pattern


@torch.no_grad()
def silent_heads(evaluator: Evaluator) -> frozenset[tuple[int, int]]:
    """Layer and head, from 0, of the heads without which the stream after their own layer is the same to the bit.

    They are told by what they write and not by the answers: without a head that has a backup no answer changes either.

        >>> from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
        >>> from hopscope.theory.witness import build_witness
        >>> from hopscope.training.data import held_out
        >>> made = build_witness(hops=1, spare_heads=1)  # the spare heads' weights are zero
        >>> sorted(silent_heads(VectorEvaluator(made.transformer, made.problem, held_out(made.problem, 4))))
        [(0, 1), (1, 1)]
    """
    model, silent = evaluator.transformer, set()
    stream = model.embed(evaluator.batch.inputs[None])
    for layer in range(model.shape.layers):
        after = model.run(stream, start=layer, stop=layer + 1, hooks=Hooks())
        for head in range(model.shape.heads):
            without = model.run(stream, start=layer, stop=layer + 1, hooks=_Without(layer, head))
            if torch.equal(without, after):
                silent.add((layer, head))
        stream = after
    return frozenset(silent)


_OFTEN = 0.5
"""The share of a row's queries that must see a key in other chains, for it to be asked whether those do as well."""


class Claimed(Sampling):
    """A circuit, and the model that it is said to be of.

    Args, beside those of `Sampling`:
        hypotheses: the search's hypotheses about the model's rows.
        program: the circuit with its forms imposed, every row named.
        sense: the reading that is certified.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        hypotheses: Hypotheses,
        program: Interventions,
        bar: float,
        seed: int,
        proof: CertificateConfig,
        sense: Sense = "natural",
    ) -> None:
        super().__init__(evaluator, bar, seed, proof)
        self.problem, self.sense, self.hypotheses, self.program = evaluator.problem, sense, hypotheses, program
        self.natural = hypotheses.natural(program)
        self.nothing: Interventions = dict.fromkeys(evaluator.rows, UNIFORM)
        self.base = self.natural if sense == "natural" else program

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
    def _keys(self) -> Counter[HeadRow]:
        return Counter(path.row for path in self.paths)

    @cached_property
    def rows(self) -> list[HeadRow]:
        """The rows in use: those with a path, and helpers."""
        return self.hypotheses.in_use(self.program, self.evaluator.live_rows)

    @cached_property
    def helpers(self) -> list[HeadRow]:
        """The rows in use that attend to no other role of their own chain, or to all chains alike."""
        return [row for row in self.rows if row not in self._keys]

    @cached_property
    def background(self) -> list[HeadRow]:
        """The rows that are off by being at their mean or positional mean, not uniform, zero or at themselves."""
        return [row for row in self.outside if self.program[row] not in (UNIFORM, ZERO, IDENTITY)]

    @cached_property
    def blinded(self) -> Interventions:
        """The circuit as it is judged, its background unable to tell a chain from others by the mean of a row."""
        means = [row for row in self.background if self.program[row].kind is AblationKind.MEAN]
        return {**self.base, **{row: self.hypotheses.blind(row) for row in means}}

    @cached_property
    def as_they_are(self) -> Mapping[HeadRow, tuple[int, ...]]:
        """The rows in use whose own pattern is all that the circuit says of them, and the keys that it names."""
        rows = (row for row in self.rows if self.program[row] == KEEP)
        return {row: tuple(path.key for path in self.paths if path.row == row) for row in rows}

    @cached_property
    def outside(self) -> list[HeadRow]:
        """The rows that could reach an answer and are not in use."""
        used = set(self.rows)
        return [row for row in self.evaluator.live_rows if row not in used]

    @cached_property
    def telling(self) -> list[HeadRow]:
        """The rows that could reach an answer, of heads that write something.

        A head that was pruned in training still attends somewhere; a random circuit of such heads would be no rival.
        """
        return [row for row in self.evaluator.live_rows if (row.layer, row.head) not in self._silent]

    @cached_property
    def _silent(self) -> frozenset[tuple[int, int]]:
        return silent_heads(self.rough)

    @cached_property
    def free(self) -> list[HeadRow]:
        """The rows that the circuit says nothing about: uniform or zero in it."""
        return [row for row in self.outside if self.program[row] in (UNIFORM, ZERO)]

    @cached_property
    def gathering(self) -> list[HeadRow]:
        """The rows that are off and still gather from other positions, of heads that write something: all but those at
        zero or at themselves."""
        off = [row for row in self.outside if self.program[row] not in (ZERO, IDENTITY)]
        return [row for row in off if (row.layer, row.head) not in self._silent]

    @cached_property
    def idle(self) -> Interventions:
        """The rows that carry nothing according to the circuit, with what takes away from each what it could carry.

        Rows at themselves stay so. Of the others (`free`), a row that never tells its own chain from others looks at
        all chains alike: where it rests is none of what the circuit is about, and it has never looked everywhere. A row
        that does tell them is uniform.
        """
        at_themselves = [row for row in self.outside if self.program[row] == IDENTITY]
        taken = {row: ALIKE if self.hypotheses.chainless(row) else UNIFORM for row in self.free}
        return taken | dict.fromkeys(at_themselves, IDENTITY)

    @cached_property
    def exempt(self) -> frozenset[HeadRow]:
        """The rows that imposed patterns make idle, so that only the natural reading can show what they are for.

        In the strict sense these are those of the first layer in use (the paper's exception, Appendix E), else none.
        """
        first = min((row.layer for row in self.rows), default=0)
        return frozenset(row for row in self.rows if self.sense == "strict" and row.layer == first)

    def around(self, row: HeadRow | None) -> Interventions:
        """The program in which a row is judged; without a row, the one in which the circuit is judged."""
        return self.natural if row in self.exempt else self.base

    def without(self, path: AttentionPath) -> Interventions:
        """The imposed circuit without one path: its row uniform or, if that looks elsewhere too, without this key."""
        return {**self.program, path.row: self._removed(self.program[path.row], path)}

    def _ways_without(self, path: AttentionPath) -> list[Ablation]:
        """Ways to take a path's key from its row: it lies in other chains, if half of the queries see it there (what
        text asks has no place in other chains); or it is gone, if the row looks elsewhere too."""
        there = seen_elsewhere(self.rough.where, path.query, path.key)
        elsewhere = [moved(path.key)] if there >= _OFTEN else []
        if path not in self.partial:
            return elsewhere
        form = self.around(path.row)[path.row]
        return [knock_out(path.key) if form == KEEP else self._removed(form, path), *elsewhere]

    def _removed(self, form: Ablation, path: AttentionPath) -> Ablation:
        """The form of a path's row without the path's key: uniform if the row looks nowhere else."""
        if form.kind is AblationKind.MIXTURE:
            rest = {key: weight for key, weight in zip(form.keys, form.weights, strict=True) if key != path.key}
            if len(rest) > 1 and sum(rest.values()) > 0:
                return Ablation(AblationKind.MIXTURE, tuple(rest), tuple(rest.values()))
            left = next(iter(rest), path.query)
            return IDENTITY if left == path.query else one_hot(left)
        return knock_out(path.key) if path in self.partial else UNIFORM

    def _ways_off(self, row: HeadRow) -> list[Ablation]:
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
