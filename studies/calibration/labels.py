"""The truth about planted circuits, by measure: what each does to the loss, on sequences that no certificate sees."""

from __future__ import annotations

from hopscope.circuits.checks.claimed import silent_heads
from hopscope.circuits.evaluate.ablations import IDENTITY, KEEP, UNIFORM, knock_out
from hopscope.circuits.evaluate.hypotheses import Units
from studies.calibration.backup import backup_of
from studies.calibration.hosts import MARGIN, Deaf, Host
from studies.calibration.kinds import TRUE, Kind, Label, Planted

_OFF = (UNIFORM, IDENTITY)
"""The ways to switch off a row that looks at a key."""


def label(kind: Kind, host: Host, planted: Planted) -> Label:
    """The truth about a planted circuit, by its effect on many sequences."""
    low, high = host.bar / MARGIN, host.bar * MARGIN
    if kind == "deaf tool":
        return _label_of_deaf(host, planted)
    if kind == "true":
        return "true" if host.clear else "undecided"
    if kind in ("at rest", "idle key"):
        return _label_of_rest(kind, host, planted)
    if kind in ("aside", "spare look"):
        return _label_of_helper(kind, host, planted)
    if kind in ("backup key", "by turns"):
        return _label_of_backup(kind, host, planted)
    if kind in ("loud background", "loud helper"):
        return _label_of_loud(kind, host, planted)
    if kind == "sink":
        return _label_of_sink(host, planted)
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


def _label_of_sink(host: Host, planted: Planted) -> Label:
    """The label of a circuit with a head that rests at a key of its own chain: `false` if the circuit does without the
    head in the known model and holds the bar with it, but not once the head looks elsewhere; by the margin."""
    low, high, evaluator = host.bar / MARGIN, host.bar * MARGIN, planted.evaluator
    assert evaluator is not None
    assert planted.row is not None
    natural = Units.of(evaluator).natural(planted.program)
    breaks = evaluator.mse([{**natural, planted.row: off} for off in _OFF])
    holds = [*host.losses(host.circuit), *evaluator.mse([natural, planted.program])]
    return "false" if max(holds) <= low and min(breaks) >= high else "undecided"


def _label_of_helper(kind: Kind, host: Host, planted: Planted) -> Label:
    """The label of a circuit with a helper to which all chains are alike, by the margin.

    `true`: a clear circuit that holds the bar, also with all that the helper looks at, and breaks once that is off.
    `false`: one that breaks without the path beside the helper, which the model does without.
    """
    low, high, evaluator = host.bar / MARGIN, host.bar * MARGIN, planted.evaluator
    assert evaluator is not None
    assert planted.row is not None
    units = Units.of(evaluator)
    if not host.clear or not units.hypotheses.heavy(planted.row):
        return "undecided"
    natural, keep = units.natural(planted.program), {planted.row: KEEP}
    holds, breaks = [natural, planted.program, natural | keep], [natural | {planted.row: off} for off in _OFF]
    if kind == "spare look":
        assert planted.beside is not None
        (key,) = planted.program[planted.beside].keys
        holds, breaks = [*holds, {planted.beside: knock_out(key)}], [*breaks, natural | {planted.beside: UNIFORM}]
    losses = evaluator.mse([*holds, *breaks])
    told = max(losses[: len(holds)]) <= low and min(losses[len(holds) :]) >= high
    return ("true" if kind in TRUE else "false") if told else "undecided"


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


def _label_of_loud(kind: Kind, host: Host, planted: Planted) -> Label:
    """The label of the circuit with a loud head: `false` if that counts as no path and the circuit holds the bar, and
    breaks once the head is at a mean that is on its own chain as on any other; by the margin. A helper breaks it also
    at the mean that it has."""
    low, high, evaluator = host.bar / MARGIN, host.bar * MARGIN, planted.evaluator
    assert evaluator is not None
    assert planted.row is not None
    hypotheses = (units := Units.of(evaluator)).hypotheses
    natural = units.natural(planted.program)
    without = [hypotheses.blind(planted.row), *([hypotheses.mean(planted.row)] if kind == "loud helper" else [])]
    losses = evaluator.mse([natural, planted.program, *({**natural, planted.row: form} for form in without)])
    hidden = hypotheses.chainless(planted.row)
    return "false" if hidden and max(losses[:2]) <= low and min(losses[2:]) >= high else "undecided"
