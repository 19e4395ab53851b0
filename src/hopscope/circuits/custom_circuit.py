"""A circuit of your own: read paths, rows and heads from text and turn them into interventions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import UNIFORM, Ablation, AblationKind, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.problem.paths import HEAD_WRITTEN, AttentionPath, HeadRow, PathGroup

Location = str | AttentionPath | HeadRow
"""A head (`L3.H1`), the row of a query role (`L3.H1 x0?`) or a path (`L3.H1 x0? -> >x2`, or in long form
`layer 3 head 1: x0? -> >x2`), with layers and heads counted from 1. Rows and paths may also be given as objects."""

Part = Location | PathGroup
"""A path, row or head of a circuit, or a group of redundant paths. A group is a `PathGroup`, or text with ` or `
between its paths and `2 of ` before them if two paths are needed. A row or head may name its ablation, as in
`L3.H1 x0?=mean`; otherwise it is active and keeps the model's own pattern."""

CustomCircuit = Circuit | Iterable[Part]
"""A `Circuit`, or the parts of a circuit. All rows that are not named are uniform."""

ROW_ABLATIONS = ("keep", "alike", "mean", "positional", "identity", "zero")
"""The names of the ablations that a row of a circuit can have; the mean pattern is measured in the model."""

_SEVERAL = re.compile(r"(?:([1-9]\d{0,3}) of )?(.* or .*)")
_NAMED = re.compile(r"(.*\S)=(\w+)")
_HEAD = re.compile(HEAD_WRITTEN)


def rows_at(
    location: Location, roles: Sequence[str], shape: Architecture
) -> tuple[list[HeadRow], AttentionPath | None]:
    """Return the rows at a location, and the path if the location is a path (otherwise None)."""
    path, text = None, location.strip() if isinstance(location, str) else ""
    if isinstance(location, HeadRow):
        rows = [location]
    elif isinstance(location, AttentionPath) or "->" in text:
        path = location if isinstance(location, AttentionPath) else AttentionPath.parse(text, roles)
        rows = [path.row]
    elif head := _HEAD.fullmatch(text):
        rows = [HeadRow(int(head[1]) - 1, int(head[2]) - 1, query) for query in range(len(roles))]
    elif text:
        rows = [HeadRow.parse(text, roles)]
    else:
        raise InputError(f"a location must be text like 'L3.H1 x0?', an AttentionPath or a HeadRow, got {location!r}")
    for name, number, count in (("layer", rows[0].layer, shape.layers), ("head", rows[0].head, shape.heads)):
        if not 0 <= number < count:
            raise InputError(f"{name} must be from 1 to {count}, got {number + 1}")
    for role in (*rows[0][2:], *(path or ())[3:]):
        if not 0 <= role < len(roles):
            raise InputError(f"a role must be from 0 to {len(roles) - 1}, got {location}")
    return rows, path


def of_parts(parts: Iterable[Part], evaluator: Evaluator, units: Units) -> tuple[Interventions, tuple[PathGroup, ...]]:
    """Return the interventions that the parts describe, for every row of the model, and the groups of paths."""
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InputError(f"a circuit must be a Circuit or a list of parts, e.g. ['L2.H1 x0? -> >x1'], got {parts!r}")
    keys: dict[HeadRow, list[int]] = {}
    whole: Interventions = {}
    groups, grouped = list[PathGroup](), set[AttentionPath]()
    for part in parts:
        needs, members = _members(part)
        paths: list[AttentionPath] = []
        for found in (_one_part(member, evaluator, units) for member in members):
            if isinstance(found, AttentionPath):
                if len(members) == 1 or found not in grouped:  # a path can be in several groups
                    keys.setdefault(found.row, []).append(found.key)
                paths.append(found)
            else:
                whole |= found
        if len(members) > 1:
            if len({path.row for path in paths}) < len(members):
                raise InputError(f"a group joins paths of several rows ('L2.H1 a -> b or L3.H1 a -> b'), got {part!r}")
            groups.append(PathGroup(tuple(paths), needs))
            grouped |= {*paths}
    if not keys and not whole:
        raise InputError("a circuit needs at least one path, e.g. 'L2.H1 x0? -> >x1', but none is given")
    alone = {row for row, several in keys.items() if not {AttentionPath(*row, key) for key in several} <= grouped}
    if twice := [row for row in keys if row in whole.keys() & alone or len({*keys[row]}) < len(keys[row])]:
        raise InputError(f"{twice[0].describe(evaluator.names)} is given twice; give it once, as a row or as a path")
    attending = {row: _attending(row, several, units) for row, several in keys.items() if row not in whole}
    return dict.fromkeys(evaluator.rows, UNIFORM) | whole | attending, tuple(groups)


def _members(part: Part) -> tuple[int, Sequence[Location]]:
    """Return how many members of a part are needed, and the members: the paths of a group, or just the part itself."""
    if isinstance(part, PathGroup):
        return part.needs, part.paths
    several = _SEVERAL.fullmatch(part) if isinstance(part, str) else None
    return (int(several[1] or 1), several[2].split(" or ")) if several else (1, [part])


def _one_part(part: Location, evaluator: Evaluator, units: Units) -> AttentionPath | Interventions:
    """Return the path that a part describes or, for a row or head, the ablations of its rows."""
    named = _NAMED.fullmatch(part) if isinstance(part, str) else None  # a role may end with an equals sign too
    location, name = named.groups() if named else (part, "")
    rows, path = rows_at(location, evaluator.names, evaluator.shape)
    live = [row for row in evaluator.live_rows if row in rows]
    if not live:
        raise InputError(f"the output of {part} cannot reach an answer, so it cannot be in a circuit; leave it out")
    if path is None:
        if name and name not in ROW_ABLATIONS:
            raise InputError(f"a row's ablation must be one of {', '.join(ROW_ABLATIONS)}, got {name!r} for {location}")
        return {row: units.mean(row) if name == "mean" else Ablation(AblationKind(name or "keep")) for row in live}
    if name or path.query == path.key or not evaluator.where.visible[path.query, path.key]:
        raise InputError(
            f"{part} is not a path: its query must be able to attend to its key, which is another role; only rows and "
            "heads take =NAME"
        )
    return path


def _attending(row: HeadRow, keys: Sequence[int], units: Units) -> Ablation:
    """Return the ablation of a row that attends to these keys, each as much as in the model, and to nothing else."""
    weights = units.weights(row)
    falling = tuple(sorted(keys, key=lambda key: -weights[key]))
    if len(falling) > 1:
        return Ablation(AblationKind.MIXTURE, falling, tuple(weights[key] or 1e-6 for key in falling))
    return one_hot(*falling)
