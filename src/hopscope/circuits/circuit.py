"""A circuit of one model, stored as `circuit.json`: the fields of `Circuit`, `hops`, `found` and `certified`.

On disk, layers and heads count from 1 and roles are named; every row of `interventions` that is not uniform is there,
so that the circuit can be replayed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.checks import check_count, check_number, check_path, check_seed
from hopscope.circuits.checks.card import Card, Check, CheckName, Curve, Strategy, all_passed
from hopscope.circuits.checks.delivery import strategy
from hopscope.circuits.circuit_parts import (
    WIDTH,
    Asked,
    CircuitPath,
    Helper,
    ImposedCircuit,
    OtherCircuit,
    SearchRecord,
    card_lines,
    check_lines,
    imposed_lines,
    path_lines,
    search_lines,
)
from hopscope.circuits.evaluate.ablations import CHOSEN, AblationKind, Interventions, from_json, to_json
from hopscope.errors import UNTOUCHED, InputError
from hopscope.problem.paths import AttentionPath, HeadRow, NamedPath, PathGroup
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_number
from hopscope.records import RecordFormat, convert, plain
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORM = RecordFormat(dict[str, Any], "hopscope circuit", "the record of a circuit (`hopscope circuit RUN` makes one)")
"""The form of circuit.json."""

_NAMES = ("layer", "head", "query", "key")
"""The fields that a path is on disk: layer and head from 1, roles by name."""


@dataclass(frozen=True)
class Circuit:
    """What was found in one model; `save` writes it as `circuit.json`, `load` reads it.

    >>> run[0].find_circuit().found  # a model of a few steps has no circuit
    False

    Attributes:
        model: hash of the model.
        seed: the seed that the model was trained from.
        number: the model's number within its run, from 0.
        problem: the problem that the model answers.
        layers: how many layers the model has.
        heads: how many heads each layer has.
        max_loss: the mean squared error that the circuit may have at most; for language models, the Brier score.
        losses: those of the model as it is (`full`), of the circuit with its patterns imposed (`imposed`) and with the
            model's own in its rows (`own`), everything else ablated, and of nothing (`nothing`); on fresh sequences.
        paths: its paths, by layer and head; empty where there is no circuit.
        interventions: the ablation of every row that is not uniform in the circuit with its patterns imposed.
        others: other circuits that the search ended in.
        search: the settings of the search and what it took.
        checks: the six checks by name, with the model's own patterns; empty where they were not measured.
        card: the numbers of the circuit; None where they were not measured.
        groups: its redundant paths.
        helpers: active rows that attend to no other role of their chain, or need not.
        imposed: what the paper's own procedure finds (Appendix E); None where the model is not below the threshold.
        text: for a language model, what was asked and how well it answers; else None.

    Raises:
        InputError: a path or a row is in a layer or head that the model lacks, or a path's row is not in the
            interventions, or not with that ablation or key.
    """

    model: str
    seed: int
    number: int
    problem: RetrievalProblem
    layers: int
    heads: int
    max_loss: float
    losses: dict[str, float]
    paths: tuple[CircuitPath, ...]
    interventions: Interventions
    others: tuple[OtherCircuit, ...]
    search: SearchRecord
    checks: Mapping[CheckName, Check] = field(default_factory=dict)
    card: Card | None = None
    groups: tuple[PathGroup, ...] = ()
    helpers: tuple[Helper, ...] = ()
    imposed: ImposedCircuit | None = None
    text: Asked | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed, "seed")
        check_count("number", self.number, least=0)
        check_number("max_loss", self.max_loss, 0.0)
        imposed = [
            AttentionPath.named(*path.where, self.roles) for path in (self.imposed.paths if self.imposed else ())
        ]
        own = [path.path for path in self.paths]
        for path in (*own, *imposed, *(path for other in self.others for path in other.paths)):
            self._check_in_model(path, path.describe(self.roles))
        for row in (*self.interventions, *self.rows):
            self._check_in_model(row, f"a row of the circuit, of {self.roles[row.query]},")
        for known in self.paths:
            name, ablation = known.path.describe(self.roles), self.interventions.get(known.path.row)
            if ablation is None or known.ablation != ablation.kind.value:
                there = ablation.kind.value if ablation else "missing"
                raise InputError(f"{name} is {known.ablation}, but {there} in the interventions")
            if ablation.kind in CHOSEN and known.path.key not in ablation.keys:
                keys = ", ".join(self.roles[key] for key in ablation.keys)
                raise InputError(f"{name} is a path, but its row attends to {keys} in the interventions")
        if unknown := [path for group in self.groups for path in group.paths if path not in own]:
            raise InputError(f"{unknown[0].describe(self.roles)} is in a group, but no path of the circuit")
        needed = ("full", "imposed", "own") if self.found else ("full",)
        if lacking := [name for name in needed if name not in self.losses]:
            raise InputError(f"losses lack {', '.join(lacking)}")

    def _check_in_model(self, where: AttentionPath | HeadRow, name: str) -> None:
        for what, value, most in (("layer", where.layer, self.layers), ("head", where.head, self.heads)):
            if not 0 <= value < most:
                raise InputError(f"{name} has {what} {value + 1}, but the model has {most}")

    def __repr__(self) -> str:
        """One line, for notebooks; `print` shows all of it."""
        return f"<{self.headline}>"

    def __str__(self) -> str:
        """The card and the checks in one screen, as `hopscope circuit` prints them."""
        lines = [*textwrap.wrap(self.headline, WIDTH), *search_lines(self.search)]
        if self.card:
            lines += ["", *card_lines(self.card)]
        lines += ["", *(line for check in self.checks.values() for line in check_lines(check))]
        lines += ["not re-evaluated: neither checks nor card were measured"] * (self.found and not self.checks)
        if self.paths:
            lines += ["", *path_lines(self.paths, self.roles)]
        for other in self.others:
            paths = counted(len(other.paths), "path")
            lines.append(f"also found: {paths}, loss {other.mse:.3f}, {other.overlap:.0%} shared with this one")
        return "\n".join([*lines, *(["", *imposed_lines(self.imposed)] if self.imposed else [])])

    @property
    def headline(self) -> str:
        """In a line: whether it is certified, of which model, how many paths, and their loss."""
        model = self.text.name if self.text else f"model {self.model} (seed {self.seed})"
        of = f"{model}, {self.problem.named}, {self.layers} layers x {self.heads}"
        if not self.found:
            return f"no circuit: {of}, loss {self.losses['full']:.3f}"
        paths, heads = counted(len(self.paths), "path"), counted(len(self.used_heads), "head")
        return (
            f"{self.verdict} circuit: {of}; {paths} in {heads}, {self.strategy}; "
            f"loss {self.losses['own']:.3f} alone, {self.losses['full']:.3f} in the model"
        )

    @property
    def found(self) -> bool:
        """Whether there is a circuit."""
        return bool(self.paths)

    @property
    def certified(self) -> bool:
        """Whether it passed all six checks, with the model's own patterns."""
        return self.found and all_passed(self.checks)

    @property
    def failed(self) -> tuple[CheckName, ...]:
        """The checks that it did not pass."""
        return tuple(name for name, check in self.checks.items() if check.outcome in ("failed", "not testable"))

    @property
    def given_up(self) -> bool:
        """Whether the search was given up; then nobody knows whether there is a circuit."""
        return "sufficiency" in self.checks and "rows_left" in self.checks["sufficiency"].numbers

    @property
    def delivers(self) -> bool:
        """Whether, in theory, its paths carry what is asked for to where it is read."""
        return "delivery" in self.checks and self.checks["delivery"].passed

    @property
    def verdict(self) -> str:
        """In words: whether it is certified."""
        return "certified" if self.certified else "uncertified" if self.checks else "unchecked"

    @property
    def parts(self) -> tuple[str, ...]:
        """Its paths, and the rows that are at something else than uniform, as `model.check` takes them.

        A path is `L2.H1 x0? -> >x1`, a row `L1.H1 >x2=mean`; redundant paths have ` or ` between them. What a row is at
        is measured in the model, so that the same parts, checked with the same seed, get the same card.
        """
        grouped = {path for group in self.groups for path in group.paths}
        written = [" or ".join(self._written(path.row, path.key) for path in group.paths) for group in self.groups]
        for row, ablation in sorted(self.interventions.items()):
            keys = [key for key in ablation.keys if AttentionPath(*row, key) not in grouped]
            if ablation.kind in CHOSEN:
                written += [self._written(row, key) for key in keys]
            else:
                name = "unmodified" if ablation.kind is AblationKind.KEEP else ablation.kind.value
                written.append(f"{self._written(row)}={name}")
        return tuple(written)

    def _written(self, row: HeadRow, key: int | None = None) -> str:
        place = f"L{row.layer + 1}.H{row.head + 1} {self.roles[row.query]}"
        return place if key is None else f"{place} -> {self.roles[key]}"

    def faithfulness_curve(self) -> Curve:
        """Faithfulness over circuit size, from no row to the whole model, with its CPR and CMD (MIB).

        Raises:
            InputError: there is no circuit, or its card was not measured.
        """
        if self.card is None:
            raise InputError("the card of this circuit was not measured; check it in its model: model.check(circuit)")
        return self.card.curve

    def plot(self) -> Figure:
        """The circuit as a figure, in the manner of the paper's Figure 5."""
        drawing = import_module("hopscope.plot.circuit")  # a room above this one, loaded where somebody draws
        figure: Figure = drawing.figure_5(self)
        return figure

    @property
    def strategy(self) -> Strategy:
        """How an answer comes about by its paths."""
        return strategy(self.problem, [path.path for path in self.paths])

    @property
    def hops(self) -> int:
        """How many hops the problem has, D."""
        return self.problem.hops

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles that its paths may have, by number."""
        return self.problem.all_roles

    @property
    def rows(self) -> tuple[HeadRow, ...]:
        """Active rows: those with a path, and helpers."""
        helpers = (
            HeadRow(helper.layer - 1, helper.head - 1, role_number(helper.query, self.roles)) for helper in self.helpers
        )
        return tuple(sorted({*(path.path.row for path in self.paths), *helpers}))

    @property
    def ends(self) -> tuple[tuple[NamedPath, ...], ...]:
        """The paths that each order of the search ended in, by name as in records; this circuit's come first."""
        here = max(1, len(self.search.orders_ending_here))
        found = [(tuple(path.path for path in self.paths), here)]
        found += [(other.paths, len(other.orders)) for other in self.others]
        return tuple(tuple(path.names(self.roles) for path in paths) for paths, times in found for _ in range(times))

    @property
    def used_heads(self) -> tuple[tuple[int, int], ...]:
        """Layer and head, from 1, of the heads with an active row."""
        return tuple(sorted({(row.layer + 1, row.head + 1) for row in self.rows}))

    def to_json(self) -> dict[str, Any]:
        """The record as plain values."""
        return {**FORM.named, **self._fields()}

    def save(self, path: Path | str, run: str = "", *, overwrite: bool = False) -> None:
        """Write the record, atomically, marked with the run that it belongs to.

        Args:
            path: path of the file; a record of a circuit there is replaced.
            run: content hash of the run; empty if the model is from none.
            overwrite: replace whatever is there.

        Raises:
            InputError: there is something other than a record of a circuit, or the circuit of another run.
        """
        path = check_path("the record of a circuit", path)
        if not overwrite:
            FORM.check_replaces(path, run)
        FORM.write(path, self._fields(), run, overwrite=overwrite)

    @classmethod
    def load(cls, path: Path | str, run: str | None = None) -> Circuit:
        """Read a record; if the content hash of a run is given, it must be that run's.

        Raises:
            InputError: the file is missing, damaged, of another run, or no record of a circuit; the message says which.
        """
        path = check_path("the record of a circuit", path)
        fields = FORM.read(path, run)
        try:
            return _circuit(fields)
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}; {UNTOUCHED}") from None

    def _fields(self) -> dict[str, Any]:
        """The fields as on disk: paths by layer and head from 1, and by names of roles."""
        fields: dict[str, Any] = plain(replace(self, interventions={}, paths=(), others=(), groups=()))
        fields["paths"] = [
            _named(plain(path), "path", self.roles)
            | {"feeds": [_named(plain(f), "reader", self.roles) for f in path.feeds]}
            for path in self.paths
        ]
        fields["others"] = [
            plain(other) | {"paths": [_named({"path": path}, "path", self.roles) for path in other.paths]}
            for other in self.others
        ]
        fields["groups"] = [
            {"paths": [_named({"path": path}, "path", self.roles) for path in group.paths], "needs": group.needs}
            for group in self.groups
        ]
        fields["interventions"] = to_json(self.interventions, self.problem)
        fields["search"]["removed"] = [row.describe(self.roles) for row in self.search.removed]
        return {"hops": self.hops, "found": self.found, "certified": self.certified, **fields}


def _named(fields: dict[str, Any], name: str, roles: Sequence[str]) -> dict[str, Any]:
    """Plain fields with layer, head, query and key in place of the field `name`, which is a path or None."""
    path = fields.pop(name)
    return dict(zip(_NAMES, AttentionPath(*path).names(roles) if path else (None,) * 4, strict=True)) | fields


def _numbered(fields: Any, name: str, roles: Sequence[str], what: str) -> dict[str, Any]:
    """The inverse of `_named`."""
    given = dict(convert(fields, dict[str, Any], what))
    where = [given.pop(part, None) for part in _NAMES]
    if all(part is None for part in where):
        return {name: None, **given}
    named: Any = NamedPath
    layer, head, query, key = convert(where, named, what)
    return {name: AttentionPath.named(layer, head, query, key, roles), **given}


def _circuit(fields: dict[str, Any]) -> Circuit:
    """The circuit that a record describes."""
    given = dict(fields)
    stated = {name: given.pop(name, None) for name in ("hops", "found", "certified")}
    problem = convert(given.get("problem"), RetrievalProblem, "problem")
    roles, lists = problem.all_roles, list[dict[str, Any]]
    paths = [
        _numbered(path, "path", roles, f"path {number}")
        | {"feeds": [_numbered(feed, "reader", roles, f"a feed of path {number}") for feed in path.get("feeds", ())]}
        for number, path in enumerate(convert(given.get("paths"), lists, "paths"), start=1)
    ]
    with_paths = {
        name: [
            entry | {"paths": [_numbered(path, "path", roles, f"a path of {name}")["path"] for path in entry["paths"]]}
            for entry in convert(given.get(name), lists, name)
        ]
        for name in ("others", "groups")
    }
    types: dict[str, Any] = {"others": tuple[OtherCircuit, ...], "groups": tuple[PathGroup, ...]}
    path_type: Any = tuple[CircuitPath, ...]
    empty: dict[str, Any] = {"interventions": {}, "paths": [], "others": [], "groups": []}
    search = dict(convert(given.get("search"), dict[str, Any], "search"))
    removed = convert(search.get("removed", []), list[str], "search.removed")
    given["search"] = search | {"removed": [HeadRow.parse(row, roles) for row in removed]}
    circuit = replace(
        convert(given | empty, Circuit, "the record"),
        interventions=from_json(given.get("interventions"), problem),
        paths=convert(paths, path_type, "paths"),
        **{name: convert(entries, types[name], name) for name, entries in with_paths.items()},
    )
    for name, value in (("hops", circuit.hops), ("found", circuit.found), ("certified", circuit.certified)):
        if stated[name] != value:
            raise InputError(f"{name} is {stated[name]!r}, but {value} by the rest of the record")
    return circuit
