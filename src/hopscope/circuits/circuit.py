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
search       the search's settings, seed, minimality, evaluations and share of the room that it could use; `bars`, where
             it was done at several: for each, the number of paths, the circuit's loss, the least loss without a row
certificate  parts by name, each with `passed`, its numbers and its seed; empty where none was made
strict       what the paper's own procedure finds (Appendix E); null where the model does not hold the bar
text         for a language model, what was asked and how well it answers (`circuits.record.asked`); else null
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.checks import check_count, check_number, check_path, check_seed
from hopscope.circuits.checks.certificate import Certificate, Sense
from hopscope.circuits.circuit_parts import Asked, CircuitPath, Helper, OtherCircuit, StrictReading
from hopscope.circuits.circuit_text import (
    certificate_as_text,
    others_as_text,
    paths_as_text,
    search_as_text,
    strict_as_text,
)
from hopscope.circuits.evaluate.ablations import CHOSEN, Interventions, from_json
from hopscope.circuits.strategy import Strategy, strategy
from hopscope.errors import UNTOUCHED, InputError
from hopscope.problem.paths import AttentionPath, HeadRow, NamedPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_number
from hopscope.records import RecordFormat, convert, plain
from hopscope.words import counted

_NAMES = ("layer", "head", "query", "key")


@dataclass(frozen=True)
class _Names:
    """A path as records have it; all fields are None where there is no path."""

    layer: int | None = None
    head: int | None = None
    query: str | None = None
    key: str | None = None

    def path(self, roles: Sequence[str]) -> AttentionPath | None:
        """The path that these names give; None where there is none."""
        if self.layer is None or self.head is None or self.query is None or self.key is None:
            if self != _Names():
                raise InputError(f"a path needs layer, head, query and key, got {plain(self)}")
            return None
        return AttentionPath.named(self.layer, self.head, self.query, self.key, roles)


def named(fields: dict[str, Any], name: str, roles: Sequence[str]) -> dict[str, Any]:
    """The fields of an object, with layer, head, query and key in place of its field `name`, which is a path."""
    path = fields[name]
    names = AttentionPath(*path).names(roles) if path else (None,) * 4
    rest = {other: value for other, value in fields.items() if other != name}
    return dict(zip(_NAMES, names, strict=True)) | rest


def numbered(fields: Any, name: str, roles: Sequence[str], what: str) -> dict[str, Any]:
    """The inverse of `named`."""
    given = convert(fields, dict[str, Any], what)
    names = convert({key: value for key, value in given.items() if key in _NAMES}, _Names, what)
    return {name: names.path(roles)} | {key: value for key, value in given.items() if key not in _NAMES}


FORM = RecordFormat(dict[str, Any], "hopscope circuit", "the record of a circuit (`hopscope circuit RUN` makes one)")
"""The form of circuit.json, whose fields are those of `Circuit` with other names of paths; see `Circuit.load`."""


def with_names(fields: dict[str, Any], roles: Sequence[str]) -> dict[str, Any]:
    """The plain fields of a circuit as on disk: paths by layer and head from 1, and by names of roles."""
    paths = [path | {"feeds": [named(feed, "reader", roles) for feed in path["feeds"]]} for path in fields["paths"]]
    others = [
        other | {"paths": [named({"path": path}, "path", roles) for path in other["paths"]]}
        for other in fields["others"]
    ]
    return fields | {"paths": [named(path, "path", roles) for path in paths], "others": others}


def with_numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """The plain fields of a circuit from those on disk: the inverse of `with_names`, and its certificates whole.

    Args:
        fields: the fields on disk.

    Raises:
        InputError: a field is not as it must be; the message names the first.
    """
    given = dict(fields)
    roles = convert(given.get("problem"), RetrievalProblem, "problem").all_roles
    for name in ("paths", "others"):
        given[name] = convert(given.get(name), list[dict[str, Any]], name)
    for number, path in enumerate(given["paths"], start=1):
        feeds = convert(path.get("feeds"), list[dict[str, Any]], f"feeds of path {number}")
        path["feeds"] = [numbered(feed, "reader", roles, f"a feed of path {number}") for feed in feeds]
    given["paths"] = [numbered(path, "path", roles, f"path {n}") for n, path in enumerate(given["paths"], start=1)]
    for other in given["others"]:
        paths = convert(other.get("paths"), list[dict[str, Any]], "paths of another circuit")
        other["paths"] = [numbered(path, "path", roles, "a path of another circuit")["path"] for path in paths]
    given["certificate"] = _certificate("natural", given.get("certificate", {}))
    if isinstance(given.get("strict"), dict):
        given["strict"]["certificate"] = _certificate("strict", given["strict"].get("certificate", {}))
    return given


def _certificate(sense: Sense, parts: Any) -> dict[str, Any]:
    """The fields of a certificate, from its parts in a record."""
    by_name = convert(parts, dict[str, dict[str, Any]], "certificate")
    told: dict[str, Any] = plain(Certificate.from_json(sense, by_name))
    return told


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
        program: every row that is not uniform in the imposed circuit, as plain values (`programs.from_json`).
        others: other circuits that the search ended in.
        search: the settings of the search and what it took, as plain values.
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
    program: tuple[dict[str, Any], ...]
    others: tuple[OtherCircuit, ...]
    search: dict[str, Any]
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
            self._check_there(path, path.describe(self.roles))
        program = from_json(self.program, self.problem)
        for row in program:
            self._check_there(row, f"a row of the program, of {self.roles[row.query]},")
        for one in self.paths:
            self._check_in(program, one)
        senses = self.certificate.sense, self.strict.certificate.sense if self.strict else "strict"
        if senses != ("natural", "strict"):
            raise InputError(f"certificates must be natural, and strict of the strict reading, got {', '.join(senses)}")
        needed = ("full", "imposed", "natural") if self.found else ("full",)
        if lacking := [name for name in needed if name not in self.losses]:
            raise InputError(f"losses lack {', '.join(lacking)}")
        for helper in self.helpers:
            role_number(helper.query, self.roles)
            for name, value, most in (("layer", helper.layer, self.layers), ("head", helper.head, self.heads)):
                check_count(f"{name} of a helper row", value, most=most)
        convert(self.search.get("bars", []), list[dict[str, Any]], "bars of the search")

    def _check_in(self, program: Interventions, one: CircuitPath) -> None:
        """Check that a program has the row of a path, in its form, looking at its key.

        Raises:
            InputError: it has not.
        """
        name = one.path.describe(self.roles)
        if one.path.row not in program:
            raise InputError(f"{name} is a path whose row the program does not have")
        form = program[one.path.row]
        if one.form != form.kind.value:
            raise InputError(f"{name} has the form {one.form}, but {form.kind.value} in the program")
        if form.kind in CHOSEN and one.path.key not in form.keys:
            looks = ", ".join(self.roles[key] for key in form.keys)
            raise InputError(f"{name} is a path, but in the program its row looks at {looks}")

    def _check_there(self, where: AttentionPath | HeadRow, name: str) -> None:
        """Check that the model has a layer and a head.

        Raises:
            InputError: the model lacks one of them.
        """
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
        lines += [*certificate_as_text(self.certificate, self.bar), *search_as_text(self.search, self.bar)]
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
        here = max(1, len(self.search.get("orders_ending_here", ())))
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
            path: where to write it; a record of a circuit there is replaced.
            run: content hash of the run; empty if the model is from none.
            overwrite: replace whatever is there.

        Raises:
            InputError: there is something other than a record of a circuit, or the circuit of another run.
        """
        path = check_path("the record of a circuit", path)
        if not overwrite:
            FORM.check_replaces(path, run)
        FORM.write(path, self._fields(), run)

    @classmethod
    def load(cls, path: Path | str, run: str | None = None) -> Circuit:
        """Read a record; if the content hash of a run is given, it must be that run's.

        Raises:
            InputError: the file is missing, damaged, newer, of another run, or no record of a circuit; the message
                says which.
        """
        path = check_path("the record of a circuit", path)
        fields = FORM.read(path, run)
        try:
            return _circuit(fields)
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}; {UNTOUCHED}") from None

    def _fields(self) -> dict[str, Any]:
        """The fields as on disk."""
        fields = plain(self) | {"certificate": self.certificate.to_json()}
        if self.strict:
            fields["strict"]["certificate"] = self.strict.certificate.to_json()
        told = {"found": self.found, "certified": list(self.certified)}
        return {"hops": self.hops, **told, **with_names(fields, self.roles)}


def _circuit(fields: dict[str, Any]) -> Circuit:
    """The circuit that a record describes.

    Raises:
        InputError: something in the record is wrong; the message names the first thing.
    """
    told: dict[str, Any] = {name: fields[name] for name in ("hops", "found") if name in fields}
    given = {name: value for name, value in fields.items() if name not in (*told, "certified")}
    circuit = convert(with_numbers(given), Circuit, "the record")
    for name, value in (("hops", circuit.hops), ("found", circuit.found)):
        if told.get(name) != value:
            raise InputError(f"{name} is {told.get(name)!r}, but {value} by the rest of the record")
    return circuit
