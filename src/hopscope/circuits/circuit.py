"""A circuit of one model, kept as `circuit.json`, a JSON object with these fields:

schema       version of this record, 1
kind         "hopscope circuit"
model        hash of the model; `seed` and `number` say which model of its run it is
problem      the problem, every field
hops         D
layers, heads  the model's number of layers, and of heads in each
found        whether there is a circuit in the natural reading; without one `paths` is empty, the certificate says why
certified    in which senses all parts of the certificate are there and passed: `natural`, `strict`
bar          the loss that the circuit may have at most
losses       those of the model as it is (`full`), of the circuit with its patterns imposed (`imposed`) and with the
             model's own patterns in its rows (`natural`), everything else switched off, and of nothing (`nothing`); on
             fresh sequences
paths        layer and head from 1, query and key as roles, form, weight, ablation_mse and interval (the imposed
             circuit without this path), natural_mse (the natural one without it), feeds
program      every row that is not uniform, so that the circuit can be replayed
others       other small circuits the search ended in: their paths, loss, orders, overlap with this one
search       the search's settings, seed, minimality, evaluations and share of the room that it could use
certificate  parts by name, each with `passed`, its numbers and its seed; empty where none was made
strict       what the paper's own procedure finds (Appendix E); null where the model does not hold the bar
text         for a language model, what was asked and how well it answers (`Asked`); else null
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hopscope.checks import check_count, check_number, check_path, check_seed
from hopscope.circuits.checks.certificate import Certificate, Sense
from hopscope.circuits.circuit_parts import Asked, CircuitPath, Helper, OtherCircuit, SearchRecord, StrictReading
from hopscope.circuits.circuit_text import (
    certificate_as_text,
    others_as_text,
    paths_as_text,
    search_as_text,
    strict_as_text,
)
from hopscope.circuits.evaluate.ablations import CHOSEN, Interventions, from_json, to_json
from hopscope.circuits.strategy import Strategy, strategy
from hopscope.errors import UNTOUCHED, InputError
from hopscope.problem.paths import AttentionPath, HeadRow, NamedPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_number
from hopscope.records import RecordFormat, convert, plain
from hopscope.words import counted

FORM = RecordFormat(dict[str, Any], "hopscope circuit", "the record of a circuit (`hopscope circuit RUN` makes one)")
"""The form of circuit.json."""

_NAMED_PATH: Any = NamedPath

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
        bar: the mean squared error that the circuit may have at most; for language models, the Brier score.
        losses: those of the model as it is (`full`), of the circuit with its patterns imposed (`imposed`) and with the
            model's own in its rows (`natural`), everything else off, and of nothing (`nothing`); on fresh sequences.
        paths: the paths of the natural reading, by layer and head; empty where there is no circuit.
        program: what stands in every row that is not uniform in the imposed circuit.
        others: other circuits that the search ended in.
        search: the settings of the search and what it took.
        certificate: the certificate of the natural reading.
        helpers: rows in use that attend to no other role of their chain, or need not.
        strict: what the paper's own procedure finds (Appendix E); None where the model does not hold the bar.
        text: for a language model, what was asked and how well it answers; else None.

    Raises:
        InputError: a path or a row of the program is in a layer or head that the model lacks, a path's row is not in
            the program, or not in that form or with that key, or a certificate is in the wrong sense for its place.
    """

    model: str
    seed: int
    number: int
    problem: RetrievalProblem
    layers: int
    heads: int
    bar: float
    losses: dict[str, float]
    paths: tuple[CircuitPath, ...]
    program: Interventions
    others: tuple[OtherCircuit, ...]
    search: SearchRecord
    certificate: Certificate
    helpers: tuple[Helper, ...] = ()
    strict: StrictReading | None = None
    text: Asked | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed, "seed")
        check_count("number", self.number, least=0)
        check_number("bar", self.bar, 0.0)
        strict = [AttentionPath.named(*one.where, self.roles) for one in (self.strict.paths if self.strict else ())]
        for path in (*(one.path for one in self.paths), *strict, *(path for one in self.others for path in one.paths)):
            self._check_in_model(path, path.describe(self.roles))
        for row in (*self.program, *self.rows):
            self._check_in_model(row, f"a row of the circuit, of {self.roles[row.query]},")
        for one in self.paths:
            name, form = one.path.describe(self.roles), self.program.get(one.path.row)
            if form is None or one.form != form.kind.value:
                raise InputError(f"{name} is {one.form}, but {form.kind.value if form else 'missing'} in the program")
            if form.kind in CHOSEN and one.path.key not in form.keys:
                keys = ", ".join(self.roles[key] for key in form.keys)
                raise InputError(f"{name} is a path, but in the program its row attends to {keys}")
        senses = self.certificate.sense, self.strict.certificate.sense if self.strict else "strict"
        if senses != ("natural", "strict"):
            raise InputError(f"certificates must be natural, and strict of the strict reading, got {', '.join(senses)}")
        needed = ("full", "imposed", "natural") if self.found else ("full",)
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
        """The paths and the certificates as tables, as `hopscope circuit` prints them."""
        lines = [self.headline, ""]
        if self.found:
            lines += [*paths_as_text(self.paths, self.roles), ""]
        lines += [*certificate_as_text(self.certificate, self.bar), *search_as_text(self.search)]
        lines += others_as_text(self.others)
        if self.strict:
            lines += ["", *strict_as_text(self.strict, self.bar)]
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """In a line: whether it is certified, of which model, how many paths, and their loss."""
        model = self.text.name if self.text else f"model {self.model} (seed {self.seed})"
        what = f"{model}, {self.problem.named}, {self.layers} layers x {self.heads}"
        if not self.found:
            return f"no circuit: {what}, loss {self.losses['full']:.3f}"
        paths, heads = counted(len(self.paths), "path"), counted(len(self.used_heads), "head")
        return (
            f"{self.verdict} circuit: {what}; {paths} in {heads}, {self.strategy}; "
            f"loss {self.losses['imposed']:.3f} alone, {self.losses['full']:.3f} in the model"
        )

    @property
    def found(self) -> bool:
        """Whether there is a circuit in the natural reading."""
        return bool(self.paths)

    @property
    def certified(self) -> tuple[Sense, ...]:
        """In which senses every part of the certificate passed: `natural`, and `strict` for the strict circuit."""
        holds: dict[Sense, bool] = {
            "natural": self.found and self.certificate.passed,
            "strict": self.strict is not None and self.strict.certificate.passed,
        }
        return tuple(sense for sense in holds if holds[sense])

    @property
    def given_up(self) -> bool:
        """Whether the search was given up; then nobody knows whether there is a circuit."""
        return self.certificate.number("sufficiency", "rows_left") is not None

    @property
    def delivers(self) -> bool:
        """Whether, in theory, its paths carry what is asked for to where it is read."""
        return "deliverability" in self.certificate.parts and self.certificate.parts["deliverability"].passed

    @property
    def verdict(self) -> str:
        """In words: whether it is certified, and in which senses."""
        return f"certified ({', '.join(self.certified)})" if self.certified else "not certified"

    @property
    def strategy(self) -> Strategy:
        """How an answer comes about by its paths: pair by pair, by doubling, or by the query alone."""
        return strategy(self.problem, [one.path for one in self.paths])

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
        """Rows in use: those with a path, and helpers."""
        helpers = (HeadRow(one.layer - 1, one.head - 1, role_number(one.query, self.roles)) for one in self.helpers)
        return tuple(sorted({*(one.path.row for one in self.paths), *helpers}))

    @property
    def ends(self) -> tuple[tuple[NamedPath, ...], ...]:
        """The paths that each order of the search ended in, by name as in records; this circuit's come first."""
        here = max(1, len(self.search.orders_ending_here))
        found = [(tuple(one.path for one in self.paths), here)]
        found += [(other.paths, len(other.orders)) for other in self.others]
        return tuple(tuple(path.names(self.roles) for path in paths) for paths, times in found for _ in range(times))

    @property
    def used_heads(self) -> tuple[tuple[int, int], ...]:
        """The heads with a path or a helper row: layer and head, from 1."""
        helpers = {(row.layer, row.head) for row in self.helpers}
        return tuple(sorted({(one.path.layer + 1, one.path.head + 1) for one in self.paths} | helpers))

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
        fields: dict[str, Any] = plain(replace(self, program={}, paths=(), others=()))
        fields["paths"] = [
            _named(plain(one), "path", self.roles)
            | {"feeds": [_named(plain(f), "reader", self.roles) for f in one.feeds]}
            for one in self.paths
        ]
        fields["others"] = [
            plain(one) | {"paths": [_named({"path": path}, "path", self.roles) for path in one.paths]}
            for one in self.others
        ]
        fields["program"] = to_json(self.program, self.problem)
        fields["certificate"] = self.certificate.to_json()
        if self.strict:
            fields["strict"]["certificate"] = self.strict.certificate.to_json()
        return {"hops": self.hops, "found": self.found, "certified": list(self.certified), **fields}


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
    layer, head, query, key = convert(where, _NAMED_PATH, what)
    return {name: AttentionPath.named(layer, head, query, key, roles), **given}


def _circuit(fields: dict[str, Any]) -> Circuit:
    """The circuit that a record describes."""
    given = dict(fields)
    said = {name: given.pop(name, None) for name in ("hops", "found", "certified")}
    problem = convert(given.get("problem"), RetrievalProblem, "problem")
    roles, lists = problem.all_roles, list[dict[str, Any]]
    given["paths"] = [
        _numbered(path, "path", roles, f"path {number}")
        | {"feeds": [_numbered(feed, "reader", roles, f"a feed of path {number}") for feed in path.get("feeds", ())]}
        for number, path in enumerate(convert(given.get("paths"), lists, "paths"), start=1)
    ]
    given["others"] = [
        other | {"paths": [_numbered(path, "path", roles, "a path of another")["path"] for path in other["paths"]]}
        for other in convert(given.get("others"), lists, "others")
    ]
    program = from_json(given.get("program"), problem)
    given["certificate"] = Certificate.from_json("natural", given.get("certificate"))
    if isinstance(given.get("strict"), dict):
        strict = dict(given["strict"])
        given["strict"] = strict | {"certificate": Certificate.from_json("strict", strict.get("certificate"))}
    paths: Any = tuple[CircuitPath, ...]
    others: Any = tuple[OtherCircuit, ...]
    circuit = replace(
        convert(given | {"program": {}, "paths": [], "others": []}, Circuit, "the record"),
        program=program,
        paths=convert(given["paths"], paths, "paths"),
        others=convert(given["others"], others, "others"),
    )
    for name, value in (("hops", circuit.hops), ("found", circuit.found)):
        if said[name] != value:
            raise InputError(f"{name} is {said[name]!r}, but {value} by the rest of the record")
    return circuit
