"""A circuit of your own, or one that was stored, checked: nothing is searched for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hopscope.checks import check_seed
from hopscope.circuits.checks import CertificateConfig, Evidence
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, Ablation, AblationKind, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Hypotheses, Units
from hopscope.circuits.find import Origin, checked_circuit
from hopscope.circuits.resume import Search
from hopscope.circuits.search.config import SearchConfig
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import role_number

Location = str | AttentionPath | HeadRow
"""`L3.H1` (a head), `L3.H1 x0?` (the row of a query role), `L3.H1 x0? -> >x2` or `layer 3 head 1: x0? -> >x2` (a path),
layers and heads counted from 1; or the typed value."""

CustomCircuit = Circuit | Iterable[Location]
"""A circuit: a record, or its paths. A head or a row instead of a path is active with all that it attends to."""

_WRITTEN = re.compile(r"L([1-9]\d{0,3})\.H([1-9]\d{0,3})(?: +(\S+))?")


def rows_at(
    location: Location, roles: Sequence[str], shape: Architecture
) -> tuple[list[HeadRow], AttentionPath | None]:
    """The rows at a location, and the path if the location is one."""
    path = None
    if isinstance(location, AttentionPath) or (isinstance(location, str) and "->" in location):
        path = location if isinstance(location, AttentionPath) else AttentionPath.parse(location, roles)
        layer, head, queries = path.layer, path.head, [path.query]
        for name, at in (("query", path.query), ("key", path.key)):
            if not 0 <= at < len(roles):
                raise InputError(f"the {name} of a path must be a role from 0 to {len(roles) - 1}, got {at}")
    elif isinstance(location, HeadRow):
        return [location], None
    else:
        found = _WRITTEN.fullmatch(location.strip()) if isinstance(location, str) else None
        if found is None:
            rule = "a place is written like L3.H1, 'L3.H1 x0?' or 'L3.H1 x0? -> >x2'"
            raise InputError(f"{rule}, or is an AttentionPath or a HeadRow, got {location!r}")
        layer, head, role = int(found[1]) - 1, int(found[2]) - 1, found[3]
        queries = [*range(len(roles))] if role is None else [role_number(role, roles)]
    for name, number, count in (("layer", layer, shape.layers), ("head", head, shape.heads)):
        if not 0 <= number < count:
            raise InputError(f"{name} must be from 1 to {count}, got {number + 1}")
    return [HeadRow(layer, head, query) for query in queries], path


def check_custom_circuit(
    evaluator: Evaluator,
    circuit: CustomCircuit,
    max_loss: float | None,
    seed: int,
    origin: Origin,
    proof: CertificateConfig,
) -> Search[Circuit]:
    """Check a circuit of your own; returns its record, with checks and card. Nothing is searched for."""
    check_seed(seed)
    if max_loss is None and isinstance(circuit, Circuit):
        max_loss = circuit.max_loss
    max_loss = SearchConfig.of(max_loss=max_loss).max_loss
    evaluator.require_finite()
    hypotheses = Units.of(evaluator).hypotheses
    if isinstance(circuit, Circuit):
        program = _of_record(circuit, evaluator, hypotheses)
    else:
        program = _of_paths(circuit, evaluator, hypotheses)
    evidence = Evidence(evaluator, hypotheses, program, max_loss, seed, proof)
    return (yield from checked_circuit(evidence, origin, SearchRecord(seed=seed, proof=proof)))


def _of_record(circuit: Circuit, evaluator: Evaluator, hypotheses: Hypotheses) -> Interventions:
    """The program of a record, every row named.

    A row at its mean is at the mean that it has in this model: other weights could tell one chain from another.
    """
    if not circuit.found:
        raise InputError("the record says that there is no circuit, so there is none to certify; give its paths")
    theirs, ours = (circuit.layers, circuit.heads), (evaluator.shape.layers, evaluator.shape.heads)
    if theirs != ours or circuit.roles != evaluator.problem.all_roles:
        raise InputError(
            f"the circuit is of a model of {theirs[0]} layers x {theirs[1]} heads on {circuit.problem.named}, this one "
            f"has {ours[0]} x {ours[1]} and answers {evaluator.problem.named}; give its paths one by one"
        )
    program = dict.fromkeys(evaluator.rows, UNIFORM) | {**circuit.interventions}
    means = [row for row, form in program.items() if form.kind is AblationKind.MEAN]
    return program | {row: hypotheses.mean(row) for row in means}


def _of_paths(places: Iterable[Location], evaluator: Evaluator, hypotheses: Hypotheses) -> Interventions:
    """The program of paths, heads and rows, every row named."""
    if isinstance(places, str) or not isinstance(places, Iterable):
        raise InputError(f"a circuit is a record or a list of its paths, as ['L2.H1 x0? -> >x1'], got {places!r}")
    can_matter = {*evaluator.live_rows}
    keys: dict[HeadRow, list[int]] = {}
    whole: set[HeadRow] = set()
    for place in places:
        rows, path = rows_at(place, evaluator.names, evaluator.shape)
        live = [row for row in rows if row in can_matter]
        if not live:
            raise InputError(f"nothing that {place} brings can reach an answer, so it is in no circuit; leave it out")
        if path is None:
            whole.update(live)
            continue
        if path.key in keys.setdefault(path.row, []):
            raise InputError(f"{place} is given twice; a path is in a circuit or not")
        if path.key == path.query:
            raise InputError(f"{place} looks at itself, and a path goes from one role to another; leave it out")
        if not evaluator.where.visible[path.query, path.key]:
            raise InputError(f"{place} cannot be: the mask hides the key, which stands behind the query")
        keys[path.row].append(path.key)
    if twice := [row for row in whole if row in keys]:
        layer, head, query = twice[0]
        raise InputError(
            f"L{layer + 1}.H{head + 1} {evaluator.names[query]} is given as a row and by its paths; give one of these"
        )
    if not keys and not whole:
        raise InputError("a circuit has a path at least, and none is given; pass paths, as 'L2.H1 x0? -> >x1'")
    looks: Interventions = {}
    for row, many in keys.items():  # a row that looks at several keys looks at each as much as the model does
        shares = tuple(hypotheses.weights(row)[key] + 1e-6 for key in many)
        looks[row] = Ablation(AblationKind.MIXTURE, tuple(many), shares) if len(many) > 1 else one_hot(many[0])
    return dict.fromkeys(evaluator.rows, UNIFORM) | looks | dict.fromkeys(whole, KEEP)
