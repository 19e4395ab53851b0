"""Models whose circuits are known, and false circuits planted in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

import torch

from hopscope.circuits.certificate import Sense
from hopscope.circuits.certificate.rivals import random_deliverable
from hopscope.circuits.certificate.silent import silent_heads
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import KEEP, POSITIONAL, UNIFORM, Form, Intervention, knock_out, one_hot
from hopscope.circuits.hypotheses import Draft
from hopscope.circuits.on_vectors import VectorEvaluator
from hopscope.circuits.search.units import Units
from hopscope.studies.planted.backup import Backup, backup_of, may_have_backup, with_backup
from hopscope.studies.planted.hosts import MARGIN, Deaf, Host
from hopscope.studies.planted.loud import Loud, with_loud
from hopscope.studies.planted.resting import Rest, resting
from hopscope.studies.planted.turns import Turns, by_turns
from hopscope.theory.path import AttentionPath, Row

Kind = Literal[
    "true", "at rest", "wrong key", "missing", "superfluous", "second key", "twin", "other model", "deliverable",
    "deaf tool", "idle key", "backup key", "by turns", "loud background", "not imposed",
]  # fmt: skip
"""The kinds of planted circuits. `true` is the circuit itself. `at rest` is true too: the circuit of the model with one
more head, which rests, as a part of the background. The others are false: a row's key replaced; a row left out; one or
two rows added that attend to something; a second key given to a row, with a tenth of its weight; a row's work credited
to another head that attends alike; the circuit of another model of the same shape; random paths that deliver by theory,
of rows that attend there; the circuit itself, judged with tools that ignore what is done to one layer; a head that
rests and also looks somewhere, for no use, and its row with all that it looks at; the circuit itself, in the model with
a backup for one of its keys in the same row; in the model in which a row looks at its key for a quarter to three
quarters of the questions, and elsewhere for the rest; with a loud head at its mean, which brings a part of what one of
its paths should; and the circuit with all its rows left as the model has them, or at their mean."""

TRUE: tuple[Kind, ...] = ("true", "at rest")
"""The kinds that are planted to be certified."""

KINDS: Mapping[Sense, tuple[Kind, ...]] = {
    "natural": tuple(kind for kind in get_args(Kind) if kind != "not imposed"),
    "strict": tuple(kind for kind in get_args(Kind) if kind not in ("at rest", "idle key", "loud background")),
}
"""The kinds that are planted, by the sense of the certificate. A head that rests has no strict circuit, nor has
a loud one, since nothing in it may be at its mean; and `not imposed` is, in the natural sense, the circuit itself."""

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
    """

    program: Draft
    what: str
    row: Row | None = None
    evaluator: Evaluator | None = None


def plant(kind: Kind, host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Plant a circuit of a kind; None where there is nothing to do it to."""
    return _PLANTS[kind](host, others, generator)


def label(kind: Kind, host: Host, planted: Planted) -> Label:
    """The truth about a planted circuit, by its effect on many sequences."""
    low, high = host.bar / MARGIN, host.bar * MARGIN
    if kind == "deaf tool":
        return _label_of_deaf(host, planted)
    if kind == "true":
        return "true" if host.clear else "undecided"
    if kind in ("at rest", "idle key"):
        return _label_of_rest(kind, host, planted)
    if kind in ("backup key", "by turns"):
        return _label_of_backup(kind, host, planted)
    if kind == "loud background":
        return _label_of_loud(host, planted)
    if kind in ("superfluous", "second key", "not imposed"):
        return "false" if max(host.losses(host.circuit)) <= low else "undecided"
    natural, imposed = host.losses(planted.program)
    if kind == "wrong key" and planted.row is not None:
        alone = {**host.units.natural(host.circuit), planted.row: planted.program[planted.row]}
        (natural,) = host.evaluator.mse([alone])
    worst = max(natural, imposed)
    return "false" if worst >= high else "equivalent" if worst <= low else "undecided"


def _label_of_deaf(host: Host, planted: Planted) -> Label:
    """The label of the circuit with a deaf layer: where no head of that layer writes anything, tools that do nothing
    there still do all that there is to do, so it is `equivalent`."""
    assert planted.evaluator is not None
    deaf = planted.evaluator.transformer
    assert isinstance(deaf, Deaf)
    silent = silent_heads(host.evaluator.part(8))
    return "equivalent" if all((deaf.deaf, head) in silent for head in range(deaf.shape.heads)) else "false"


def _label_of_rest(kind: Kind, host: Host, planted: Planted) -> Label:
    """The label of a circuit with a head at rest. `true`: a clear circuit that holds the bar with the head at rest.
    `false`: one that holds it too, and does without what the head sees.

    Both by the margin; and what the head writes where it does not rest must break the circuit.
    """
    low, high, evaluator = host.bar / MARGIN, host.bar * MARGIN, planted.evaluator
    assert evaluator is not None
    assert planted.row is not None
    truth: Label = "true" if kind in TRUE else "false"
    units = Units.of(evaluator)
    keys, natural = units.hypotheses.heavy(planted.row), units.natural(planted.program)
    if len(keys) != (truth == "false") or (truth == "true" and not host.clear):
        return "undecided"
    without = [{**natural, planted.row: knock_out(key)} for key in keys]
    *holds, breaks = evaluator.mse([natural, planted.program, *without, {**natural, planted.row: UNIFORM}])
    return truth if max(holds) <= low and breaks >= high else "undecided"


def _label_of_backup(kind: Kind, host: Host, planted: Planted) -> Label:
    """The label of the circuit whose row has another place for its key: `false` if it holds the bar, but not without
    both places, by the margin; of a backup, if it holds it also without the key alone."""
    low, high, row = host.bar / MARGIN, host.bar * MARGIN, planted.row
    assert planted.evaluator is not None
    assert row is not None
    (key,), natural = planted.program[row].keys, host.units.natural(planted.program)
    spared = [(key,)] if kind == "backup key" else []
    without = [{**natural, row: knock_out(*keys)} for keys in (*spared, (key, backup_of(key)))]
    *holds, breaks = planted.evaluator.mse([natural, planted.program, *without])
    return "false" if max(holds) <= low and breaks >= high else "undecided"


def _label_of_loud(host: Host, planted: Planted) -> Label:
    """The label of the circuit with a loud head at its mean: `false` if that counts as no path, the circuit holds the
    bar, and it breaks once that mean is on its own chain as on any other; by the margin."""
    low, high, evaluator = host.bar / MARGIN, host.bar * MARGIN, planted.evaluator
    assert evaluator is not None
    assert planted.row is not None
    units = Units.of(evaluator)
    natural, blind = units.natural(planted.program), units.hypotheses.blind(planted.row)
    *holds, breaks = evaluator.mse([natural, planted.program, {**natural, planted.row: blind}])
    hidden = units.hypotheses.chainless(planted.row)
    return "false" if hidden and max(holds) <= low and breaks >= high else "undecided"


def _true(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    return Planted(host.circuit, "the circuit itself")


def _wrong(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    hypotheses, evaluator = host.units.hypotheses, host.evaluator
    visible = evaluator.where.visible
    choices = [
        AttentionPath(*row, key)
        for row in host.units.on(host.circuit)
        for key in range(evaluator.where.roles)
        if key != row.query and bool(visible[row.query, key])
        if key not in dict(hypotheses.keys(row, host.circuit[row]))
    ]
    path = _one(choices, generator)
    return path and Planted({**host.circuit, path.row: one_hot(path.key)}, f"{_said(host, path)} instead", path.row)


def _missing(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    row = _one(host.units.on(host.circuit), generator)
    if row is None:
        return None
    name = f"layer {row.layer + 1} head {row.head + 1} {host.evaluator.problem.roles[row.query]}"
    return Planted({**host.circuit, row: UNIFORM}, f"without {name}", row)


def _superfluous(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    used = set(host.units.on(host.circuit))
    outside = [path for path in host.heavy if path.row not in used]
    if not outside:
        return None
    order = torch.randperm(len(outside), generator=generator).tolist()
    count = 1 + int(torch.randint(2, (), generator=generator))
    added = [outside[number] for number in order[:count]]
    program = {**host.circuit, **{path.row: one_hot(path.key) for path in added}}
    return Planted(program, "and " + "; ".join(_said(host, path) for path in added))


def _second(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    visible = host.evaluator.where.visible
    choices = [
        (path, key)
        for path in _single(host)
        for key in range(host.evaluator.where.roles)
        if key not in (path.query, path.key) and bool(visible[path.query, key])
    ]
    choice = _one(choices, generator)
    if choice is None:
        return None
    path, key = choice
    both = Form(Intervention.MIXTURE, (path.key, key), (0.9, 0.1))
    said = f"{_said(host, path)} and {host.evaluator.names[key]}"
    return Planted({**host.circuit, path.row: both}, said, path.row)


def _twin(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    used = set(host.units.on(host.circuit))
    pairs = [
        (path, twin)
        for path in host.units.paths(host.circuit)
        for twin in host.heavy
        if twin.row not in used and (twin.query, twin.key) == (path.query, path.key)
    ]
    pair = _one(pairs, generator)
    if pair is None:
        return None
    path, twin = pair
    program = {**host.circuit, path.row: UNIFORM, twin.row: one_hot(twin.key)}
    return Planted(program, f"{_said(host, twin)} for {_said(host, path)}", twin.row)


def _other(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    alike = [other for other in others if other.name != host.name and set(other.circuit) == set(host.circuit)]
    other = _one(alike, generator)
    return None if other is None else Planted(dict(other.circuit), f"the circuit of {other.name}")


def _deliverable(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    size = len(host.units.on(host.circuit))
    paths = random_deliverable(host.evaluator.scene, host.heavy, size, generator)
    if not paths:
        return None
    nothing = dict.fromkeys(host.circuit, UNIFORM)
    program = nothing | {path.row: one_hot(path.key) for path in paths}
    return Planted(program, "; ".join(_said(host, path) for path in paths))


def _deaf(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    layer = int(torch.randint(host.evaluator.shape.layers, (), generator=generator))
    deaf, batch = Deaf.copy(host.evaluator.transformer, layer), host.evaluator.batch[:64]
    evaluator = VectorEvaluator(deaf, host.evaluator.problem, batch, host.evaluator.initial)
    return Planted(host.circuit, f"layer {layer + 1} is deaf", evaluator=evaluator)


def _at_rest(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    return _resting(host, generator, (0.02, 0.08), (POSITIONAL,))


def _idle(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    return _resting(host, generator, (0.12, 0.35), (POSITIONAL, KEEP))


def _resting(
    host: Host, generator: torch.Generator, weights: tuple[float, float], forms: Sequence[Form]
) -> Planted | None:
    """Plant one more head, in any layer but the last, whose row has one of some forms; None for a single hop."""
    problem, layers = host.evaluator.problem, host.evaluator.shape.layers
    if problem.graph != "chain" or problem.hops < 2 or layers < 2:
        return None
    layer, pair, seed = (
        int(torch.randint(start, stop, (), generator=generator))
        for start, stop in ((0, layers - 1), (1, problem.hops), (0, 2**31))
    )
    rest = Rest(layer, pair, _between(*weights, generator), seed)
    form = _one(forms, generator)
    assert form is not None
    evaluator, path = resting(host.evaluator, rest), rest.path(problem, host.evaluator.shape.heads)
    program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, path.row: form}
    said = f"and {_said(host, path)} with {rest.weight:.2f}, at rest, {form.kind.value}"
    return Planted(program, said, path.row, evaluator)


def _backup(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Give a key of the circuit a backup in its row, with between a fifth and four fifths of the weight."""
    path = _one([path for path in _single(host) if may_have_backup(host.evaluator.problem, path)], generator)
    if path is None:
        return None
    backup = Backup(path, _between(0.2, 0.8, generator))
    said = f"{_said(host, path)} with {backup.share:.2f}, or else {host.evaluator.names[backup.key]}"
    return Planted(host.circuit, said, path.row, with_backup(host.evaluator, backup))


def _turns(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Let a row of the circuit look at its key for some questions, and elsewhere for the rest."""
    problem = host.evaluator.problem
    path = _one([path for path in _single(host) if may_have_backup(problem, path)], generator)
    if path is None or not problem.causal:
        return None
    seed = int(torch.randint(2**31, (), generator=generator))
    turns = Turns(path, _between(0.25, 0.75, generator), seed)
    said = f"{_said(host, path)} for {turns.share:.0%}, else {host.evaluator.names[backup_of(path.key)]}"
    return Planted(host.circuit, said, path.row, by_turns(host.evaluator, turns))


def _loud(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Let a loud head do a part of a path of the circuit, which has it at its mean."""
    path = _one(_single(host), generator)
    if path is None or host.evaluator.problem.graph != "chain":
        return None
    loud = Loud(path, _between(0.3, 0.5, generator), _between(0.03, 0.09, generator))
    evaluator = with_loud(host.evaluator, loud)
    row = loud.row(host.evaluator.shape.heads)
    program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, row: Units.of(evaluator).hypotheses.mean(row)}
    said = f"{_said(host, path)}, {loud.share:.0%} of it by a look of {loud.weight:.2f}"
    return Planted(program, said, row, evaluator)


def _not_imposed(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    rows, at_mean = host.units.on(host.circuit), bool(torch.randint(2, (), generator=generator))
    forms = {row: host.units.hypotheses.mean(row) if at_mean else KEEP for row in rows}
    return Planted({**host.circuit, **forms}, f"every row {'at its mean' if at_mean else 'as it is'}")


_T = TypeVar("_T")

_PLANTS: Mapping[Kind, Callable[[Host, Sequence[Host], torch.Generator], Planted | None]] = {
    "true": _true,
    "at rest": _at_rest,
    "wrong key": _wrong,
    "missing": _missing,
    "superfluous": _superfluous,
    "second key": _second,
    "twin": _twin,
    "other model": _other,
    "deliverable": _deliverable,
    "deaf tool": _deaf,
    "idle key": _idle,
    "backup key": _backup,
    "by turns": _turns,
    "loud background": _loud,
    "not imposed": _not_imposed,
}


def _one(choices: Sequence[_T], generator: torch.Generator) -> _T | None:
    """One of the choices at random, or None if there are none."""
    return choices[int(torch.randint(len(choices), (), generator=generator))] if choices else None


def _single(host: Host) -> list[AttentionPath]:
    """The paths of rows that look at one key alone."""
    return [path for path in host.units.paths(host.circuit) if host.circuit[path.row] == one_hot(path.key)]


def _between(low: float, high: float, generator: torch.Generator) -> float:
    """A number between two others, at random."""
    return low + (high - low) * float(torch.rand((), generator=generator))


def _said(host: Host, path: AttentionPath) -> str:
    return path.describe(host.evaluator.names)
