"""The circuit of one model, and its file `circuit.json`: the fields of `Circuit`, plus `hops`, `found` and `certified`.

The file counts layers and heads from 1 and gives roles by name. It lists every row of `interventions` that is not
uniform, so that the circuit can be replayed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.checks import check_path
from hopscope.circuits.checks.card import (
    Card,
    CertificateConfig,
    Check,
    CheckName,
    Curve,
    Patterns,
    all_passed,
    failing,
)
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
    imposed_words,
    path_lines,
)
from hopscope.circuits.evaluate.ablations import CHOSEN, UNIFORM, Interventions, from_json, to_json
from hopscope.errors import UNTOUCHED, InputError
from hopscope.problem.paths import AttentionPath, HeadRow, NamedPath, PathGroup
from hopscope.problem.prompts import PromptRoles
from hopscope.problem.retrieval import Problem, RetrievalProblem
from hopscope.problem.roles import role_number
from hopscope.records import RecordFormat, convert, plain
from hopscope.theory.path_flow import Strategy, strategy
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORM = RecordFormat(dict[str, Any], "hopscope circuit", "the record of a circuit (`hopscope circuit RUN` makes one)")
"""The record format of circuit.json."""

_NAMES = ("layer", "head", "query", "key")
"""The fields that identify a path in the file: layer and head from 1, and roles by name."""


@dataclass(frozen=True)
class Circuit:
    """The circuit of one model, with its checks and numbers; `save` writes it to a file and `load` reads it.

    >>> run[0].find_circuit().found  # a model of a few steps has no circuit
    False

    Attributes:
        model: hash of the model.
        seed: the seed that the model was trained with.
        number: the model's number within its run, from 0.
        problem: the problem that the model answers.
        layers: the number of layers of the model.
        heads: the number of heads per layer.
        max_loss: the largest loss that the circuit may have: mean squared error or, for language models, Brier score.
        losses: mean losses on fresh sequences of the unmodified model (`full`), of the circuit alone with its patterns
            imposed (`imposed`) and with the model's own patterns (`own`), and with all rows switched off (`nothing`).
        search: the settings of the search and how it ended.
        paths: the attention paths, sorted by layer and head; empty if there is no circuit.
        interventions: the ablation of every row that is not uniform when the circuit's patterns are imposed.
        others: other circuits that some search orders ended in.
        checks: the results of the six checks by name, with the model's own patterns; empty if not measured.
        card: the card of the circuit; None if it was not measured.
        groups: the groups of redundant paths.
        helpers: active rows without a path: they attend to no other role of their own chain, or to all chains alike.
        imposed: the circuit that the paper's own procedure (Appendix E) finds; None if the procedure was not run, or
            if the model's loss is not below the threshold.
        text: for a language model, the questions asked and how well it answered them; otherwise None.
    """

    model: str
    seed: int
    number: int
    problem: Problem
    layers: int
    heads: int
    max_loss: float
    losses: dict[str, float]
    search: SearchRecord
    paths: tuple[CircuitPath, ...] = ()
    interventions: Interventions = field(default_factory=dict)
    others: tuple[OtherCircuit, ...] = ()
    checks: Mapping[CheckName, Check] = field(default_factory=dict)
    card: Card | None = None
    groups: tuple[PathGroup, ...] = ()
    helpers: tuple[Helper, ...] = ()
    imposed: ImposedCircuit | None = None
    text: Asked | None = None

    def __repr__(self) -> str:
        """Return one line for notebooks; `print` shows the whole circuit."""
        return f"<{self.headline}>"

    def __str__(self) -> str:
        """Return the card, the checks and the paths as the text that `hopscope circuit` prints."""
        lines, proof = textwrap.wrap(self.headline, WIDTH), self.search.proof
        if proof and proof.sequences < CertificateConfig().sequences:
            lines.append(f"measured on at most {proof.sequences} sequences, or {proof.deciding} if in doubt")
        lines += ["given, not searched for"] * (self.search.effort is None)
        lines += ["", *card_lines(self.card)] if self.card else []
        lines += ["", *(line for check in self.checks.values() for line in check_lines(check))]
        lines += ["neither checks nor card were measured"] * (self.found and not self.checks)
        lines += ["", *path_lines(self.paths, self.roles)] if self.paths else []
        lines += [f"also found: {counted(len(other.paths), 'path')}, loss {other.mse:.3f}" for other in self.others]
        lines += ["", *textwrap.wrap(imposed_words(self.imposed), WIDTH)] if self.imposed else []
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """One line with the verdict, the model, the number of paths and the loss."""
        model = self.text.name if self.text else f"model {self.model} (seed {self.seed})"
        of = f"{model}, {self.problem.named}, {self.layers} layers x {self.heads}"
        if not self.found:
            return f"no circuit: {of}, loss {self.losses['full']:.3f}"
        paths, heads = counted(len(self.paths), "path"), counted(len(self.used_heads), "head")
        paths += f" and {counted(len(self.helpers), 'helper row')}" if self.helpers else ""
        how = "" if self.strategy == "not asked" else f", {self.strategy}"
        return (
            f"{self.verdict} circuit: {of}; {paths} in {heads}{how}; "
            f"loss {self.losses['own']:.3f} alone, {self.losses['full']:.3f} in the model"
        )

    @property
    def found(self) -> bool:
        """Whether there is a circuit."""
        return bool(self.paths)

    @property
    def certified(self) -> bool:
        """Whether the circuit passed all six checks with the model's own patterns."""
        return self.found and all_passed(self.checks)

    @property
    def failed(self) -> tuple[CheckName, ...]:
        """The names of the checks that count against the circuit."""
        return failing(self.checks)

    @property
    def given_up(self) -> bool:
        """Whether the search was given up, so that it is not known whether the model has a circuit."""
        return "sufficiency" in self.checks and "rows_left" in self.checks["sufficiency"].numbers

    @property
    def verdict(self) -> str:
        """One word: `certified`, `uncertified` or `unchecked`."""
        return "certified" if self.certified else "uncertified" if self.checks else "unchecked"

    @property
    def parts(self) -> tuple[str, ...]:
        """The circuit as texts that `model.check` accepts: its paths, and its other rows that are not uniform.

        A path is written as `L2.H1 x0? -> >x1` and a row as `L1.H1 >x2=mean`. Redundant paths are joined by `or`, with
        `2 of` before them if two of them are needed. The weights of a mean pattern are measured in the model, so the
        same parts, checked with the same seed, give the same card.
        """

        def written(row: HeadRow, key: int) -> str:
            return f"{row.describe(self.roles)} -> {self.roles[key]}"

        grouped = {path for group in self.groups for path in group.paths}
        parts = [
            (f"{group.needs} of " if group.needs > 1 else "")
            + " or ".join(written(path.row, path.key) for path in group.paths)
            for group in self.groups
        ]
        for row, ablation in sorted(self.interventions.items()):
            if ablation.kind in CHOSEN:
                parts += [written(row, key) for key in ablation.keys if AttentionPath(*row, key) not in grouped]
            else:
                parts.append(f"{row.describe(self.roles)}={ablation.kind.value}")
        return tuple(parts)

    def named_paths(self, patterns: Patterns = "own") -> list[NamedPath]:
        """Return the paths as tuples of layer and head (from 1), query role and key role (by name).

        With `patterns="imposed"`, return the paths that the Appendix E procedure found; the list may be empty.
        """
        if patterns == "imposed":
            return [path.where for path in (self.imposed.paths if self.imposed else ())]
        return [path.path.names(self.roles) for path in self.paths]

    def faithfulness_curve(self) -> Curve:
        """Return the faithfulness over circuit size, from no row to the whole model, with its CPR and CMD (MIB).

        Raises:
            InputError: there is no circuit, or its card was not measured.
        """
        return self.measured_card.curve

    @property
    def measured_card(self) -> Card:
        """The card of the circuit; raises an `InputError` if it was not measured."""
        if self.card is None:
            raise InputError("the card of this circuit was not measured; check it in its model: model.check(circuit)")
        return self.card

    def plot(self) -> Figure:
        """Return a figure of the circuit in the style of the paper's Figure 5."""
        drawing = import_module("hopscope.plot.circuit")  # imports this package, so it is loaded late
        figure: Figure = drawing.figure_5(self)
        return figure

    def plot_card(self, patterns: Patterns = "own") -> Figure:
        """Return a figure of the card; with `patterns="imposed"`, the card of the Appendix E circuit."""
        figure: Figure = import_module("hopscope.plot.card").card(self, patterns)
        return figure

    @property
    def strategy(self) -> Strategy:
        """How the paths together produce the answer, for example `serial`; `not asked` without a theory."""
        return strategy(self.problem, [path.path for path in self.paths])

    @property
    def hops(self) -> int:
        """The number of hops of the problem, D."""
        return self.problem.hops

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of the roles that paths can have, by role number."""
        return self.problem.all_roles

    @property
    def rows(self) -> tuple[HeadRow, ...]:
        """The active rows: rows with a path, and helper rows."""
        helpers = (
            HeadRow(helper.layer - 1, helper.head - 1, role_number(helper.query, self.roles)) for helper in self.helpers
        )
        return tuple(sorted({*(path.path.row for path in self.paths), *helpers}))

    @property
    def used_heads(self) -> tuple[tuple[int, int], ...]:
        """The heads with an active row, as (layer, head) from 1."""
        return tuple(sorted({(row.layer + 1, row.head + 1) for row in self.rows}))

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values: layers and heads from 1, and roles by name."""
        record = _on_disk(replace(self, interventions={}), self.roles)
        record["interventions"] = to_json(self.interventions, self.problem)
        return {**FORM.named, "hops": self.hops, "found": self.found, "certified": self.certified, **record}

    def save(self, path: Path | str, run: str = "", *, overwrite: bool = False) -> None:
        """Write the circuit to a file, atomically, together with the content hash of its run.

        Args:
            path: path of the file; an existing record of a circuit is replaced.
            run: content hash of the run; empty if the model does not belong to a run.
            overwrite: replace any existing file.

        Raises:
            InputError: the existing file is not the record of a circuit, or belongs to another run.
        """
        path = check_path("the record of a circuit", path)
        if not overwrite:
            FORM.check_replaces(path, run)
        FORM.write(path, self.to_json(), run, overwrite=overwrite)

    @classmethod
    def load(cls, path: Path | str, run: str | None = None) -> Circuit:
        """Load a circuit from a file; if the content hash of a run is given, the file must belong to that run.

        Raises:
            InputError: the file is missing, damaged, from another run, or not the record of a circuit.
        """
        path = check_path("the record of a circuit", path)
        record = FORM.read(path, run)
        try:
            return _circuit(record)
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}; {UNTOUCHED}") from None


def _on_disk(value: Any, roles: Sequence[str]) -> Any:
    """Convert to plain values: a path becomes its layer, head, query and key, and a row becomes text."""
    if isinstance(value, AttentionPath):
        return dict(zip(_NAMES, value.names(roles), strict=True))
    if isinstance(value, HeadRow):
        return value.describe(roles)
    if isinstance(value, tuple):
        return [_on_disk(item, roles) for item in value]
    if isinstance(value, Mapping):
        return {name: _on_disk(item, roles) for name, item in value.items()}
    if not is_dataclass(value):
        return plain(value)
    parts = {part.name: _on_disk(getattr(value, part.name), roles) for part in fields(value)}
    for name in ("path", "reader"):  # these four fields are stored beside the other ones
        if name in parts:
            parts = (parts.pop(name) or dict.fromkeys(_NAMES)) | parts
    return parts


def _with_paths(value: Any, roles: Sequence[str]) -> Any:
    """Invert `_on_disk` for values in which a field `layer` always belongs to a path."""
    if isinstance(value, list):
        return [_with_paths(item, roles) for item in value]
    if not isinstance(value, dict):
        return value
    rest = {name: _with_paths(item, roles) for name, item in value.items() if name not in _NAMES}
    if not set(_NAMES) <= set(value):
        return rest
    named: Any = NamedPath
    path, where = None, [value[name] for name in _NAMES]
    if where != [None] * 4:
        layer, head, query, key = convert(where, named, "a path")
        path = AttentionPath.named(layer, head, query, key, roles)
    return rest | {"reader" if "into" in rest else "path": path} if rest else path


def _circuit(record: dict[str, Any]) -> Circuit:
    """Return the circuit that a record describes; raise an `InputError` if its parts contradict each other."""
    stated = {name: record.get(name) for name in ("hops", "found", "certified")}
    given = {name: value for name, value in record.items() if name not in stated}
    own = isinstance(given.get("problem"), dict) and "names" in given["problem"]
    problem: Problem = convert(given.get("problem"), PromptRoles if own else RetrievalProblem, "problem")
    roles, search = problem.all_roles, dict(convert(given.get("search"), dict[str, Any], "search"))
    removed = convert(search.get("removed", []), list[str], "search.removed")
    search["removed"] = [HeadRow.parse(row, roles) for row in removed]
    paths = {name: _with_paths(given.get(name), roles) for name in ("paths", "others", "groups")}
    circuit = convert(
        given | paths | {"problem": problem, "search": search, "interventions": {}}, Circuit, "the record"
    )
    circuit = replace(circuit, interventions=from_json(given.get("interventions"), problem))
    for name, value in stated.items():
        if value != getattr(circuit, name):
            raise InputError(f"{name} is {value!r}, but {getattr(circuit, name)} according to the rest of the record")
    for row in (*circuit.interventions, *circuit.rows):
        if not (0 <= row.layer < circuit.layers and 0 <= row.head < circuit.heads):
            raise InputError(f"{row.describe(roles)} is not in a model of {circuit.layers} layers x {circuit.heads}")
    for path in circuit.paths:
        ablation = circuit.interventions.get(path.path.row, UNIFORM)
        if ablation.kind.value != path.ablation or (ablation.keys and path.path.key not in ablation.keys):
            raise InputError(f"{path.path.describe(roles)} is {path.ablation}, but not in the interventions")
    return circuit
