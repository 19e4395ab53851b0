"""Circuits planted in models whose circuits are known: true ones, and false ones of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from hopscope.circuits.checks.outside import random_deliverable
from hopscope.circuits.evaluate.ablations import ALIKE, KEEP, POSITIONAL, UNIFORM, Ablation, AblationKind, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.problem.paths import AttentionPath
from studies.calibration.backup import Backup, backup_of, may_have_backup, with_backup
from studies.calibration.hosts import Deaf, Host
from studies.calibration.kinds import Kind, Planted
from studies.calibration.loud import Loud, with_loud
from studies.calibration.resting import Rest, resting
from studies.calibration.sink import LOUD, Sink, with_sink
from studies.calibration.turns import Turns, by_turns

HINTS, HELPS = (0.03, 0.09), (0.015, 0.03)
"""Between what the weight of a loud head's look lies, at its mean and as a helper: no less than nothing may be left on
the key where it looks away."""

ASIDE = {"bears": 0.5, "loud": 80.0}
"""The weight that a row which looks aside may have where it does not rest before it writes anything, and how loudly it
writes then. So it is surely needed, and surely not for that look."""


def plant(kind: Kind, host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Plant a circuit of a kind; None where there is nothing to do it to."""
    return _PLANTS[kind](host, others, generator)


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
    both = Ablation(AblationKind.MIXTURE, (path.key, key), (0.9, 0.1))
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


def _aside(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    chains = host.evaluator.problem.chains
    return _resting(host, generator, (0.12, 0.3), (ALIKE,), places=chains, **ASIDE)


def _spare(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Let a resting head stand in for a row that ties a pair, and say that all chains are alike to it."""
    problem = host.evaluator.problem
    ties = [
        path
        for path in _single(host)
        if problem.graph == "chain" and 0 < problem.fact_of(path.query) == problem.fact_of(path.key) < problem.hops
    ]
    path = _one(ties, generator)
    if path is None:
        return None
    at = {"layer": path.layer, "pair": problem.fact_of(path.query), "spare": path.head}
    made = _resting(host, generator, (0.12, 0.3), (ALIKE,), places=problem.chains, **ASIDE, **at)
    return made and made._replace(what=f"{made.what}, in place of {_said(host, path)}", beside=path.row)


def _resting(
    host: Host, generator: torch.Generator, weights: tuple[float, float], forms: Sequence[Ablation], **rests: Any
) -> Planted | None:
    """Plant one more head, in any layer but the last, whose row has one of some forms; None for a single hop.

    Args:
        host: the model, and its circuit.
        generator: draws everything that is not given.
        weights: between what the weight of the resting row's look lies.
        forms: the forms that the row may have.
        rests: more of how it rests, see `Rest`.
    """
    problem, layers = host.evaluator.problem, host.evaluator.shape.layers
    if problem.graph != "chain" or problem.hops < 2 or layers < 2:
        return None
    layer, pair, seed = (
        int(torch.randint(start, stop, (), generator=generator))
        for start, stop in ((0, layers - 1), (1, problem.hops), (0, 2**31))
    )
    drawn = {"layer": layer, "pair": pair, "weight": _between(*weights, generator), "seed": seed}
    rest, form = Rest(**(drawn | rests)), _one(forms, generator)
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


def _background(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    return _loud(host, generator, helper=False)


def _helper(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    return _loud(host, generator, helper=True)


def _loud(host: Host, generator: torch.Generator, *, helper: bool) -> Planted | None:
    """Let a loud head do a part of a path of the circuit, which has it as it is or at its mean."""
    path, problem = _one(_single(host), generator), host.evaluator.problem
    if path is None or problem.graph != "chain" or not problem.causal:
        return None
    share, weight = _between(0.3, 0.5, generator), _between(*(HELPS if helper else HINTS), generator)
    loud = Loud(path, share, weight, int(torch.randint(2**31, (), generator=generator)) if helper else None)
    evaluator, row = with_loud(host.evaluator, loud), loud.row(host.evaluator.shape.heads)
    form = KEEP if helper else Units.of(evaluator).hypotheses.mean(row)
    program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, row: form}
    said = f"{_said(host, path)}, {share:.0%} of it by a look of {weight:.2f}, {form.kind.value}"
    return Planted(program, said, row, evaluator)


def _sink(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    """Plant one more head, in any layer but the last, that rests at a key of its own chain: half of them bring nothing
    from there, half the same whatever the chain."""
    problem, layers = host.evaluator.problem, host.evaluator.shape.layers
    if problem.graph != "chain":
        return None
    layer, pair, seed, brings = (
        int(torch.randint(start, stop, (), generator=generator))
        for start, stop in ((0, layers - 1), (1, problem.hops + 1), (0, 2**31), (0, 2))
    )
    rest = Sink(layer, pair, seed, 2 * LOUD * brings)
    evaluator, path = with_sink(host.evaluator, rest), rest.path(problem, host.evaluator.shape.heads)
    program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, path.row: one_hot(path.key)}
    said = f"and {_said(host, path)}, where it reads {'the same in every chain' if brings else 'nothing'}"
    return Planted(program, said, path.row, evaluator)


def _not_imposed(host: Host, others: Sequence[Host], generator: torch.Generator) -> Planted | None:
    rows, at_mean = host.units.on(host.circuit), bool(torch.randint(2, (), generator=generator))
    forms = {row: host.units.hypotheses.mean(row) if at_mean else KEEP for row in rows}
    return Planted({**host.circuit, **forms}, f"every row {'at its mean' if at_mean else 'as it is'}")


_T = TypeVar("_T")

_PLANTS: Mapping[Kind, Callable[[Host, Sequence[Host], torch.Generator], Planted | None]] = {
    "true": _true,
    "at rest": _at_rest,
    "aside": _aside,
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
    "loud background": _background,
    "loud helper": _helper,
    "spare look": _spare,
    "sink": _sink,
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
