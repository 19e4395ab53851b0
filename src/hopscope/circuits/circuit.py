"""A circuit of one model, kept as `circuit.json`: the fields of `Circuit`, `hops`, `found` and `certified`.

On disk, layers and heads count from 1 and roles are named; every row of `program` that is not uniform is there, so that
the circuit can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from hopscope.checks import check_count, check_number, check_path, check_seed
from hopscope.circuits.checks.certificate import Certificate, CertificateConfig, Sense
from hopscope.circuits.circuit_parts import Asked, CircuitPath, Fill, Helper, OtherCircuit, SearchRecord, StrictReading
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
        for path in (
            *(path.path for path in self.paths),
            *strict,
            *(path for other in self.others for path in other.paths),
        ):
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
            rows = [
                [
                    *_where(path.path.names(self.roles)),
                    *(f"{path.weight:.2f}", f"{path.ablation_mse:.3f}", f"{path.natural_mse:.3f}"),
                    "; ".join(path.uses(self.roles)) or "-",
                ]
                for path in self.paths
            ]
            header = ["layer", "head", "path", "weight", "loss without", "own patterns", "feeds"]
            lines += [*_table(header, rows), ""]
        lines += [*_certificate_as_text(self.certificate, self.bar), *_search_as_text(self.search)]
        if self.others:
            lines += ["", "Other circuits the search ended in:"]
        for other in self.others:
            paths, shared = counted(len(other.paths), "path"), f"{other.overlap:.0%} shared with this one"
            lines.append(f"  {paths}, loss {other.mse:.3f}, {shared}")
        if self.strict:
            lines += ["", *_strict_as_text(self.strict, self.bar)]
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
        """Rows in use: those with a path, and helpers."""
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
        """The heads with a path or a helper row: layer and head, from 1."""
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
        fields: dict[str, Any] = plain(replace(self, program={}, paths=(), others=()))
        fields["paths"] = [
            _named(plain(path), "path", self.roles)
            | {"feeds": [_named(plain(f), "reader", self.roles) for f in path.feeds]}
            for path in self.paths
        ]
        fields["others"] = [
            plain(other) | {"paths": [_named({"path": path}, "path", self.roles) for path in other.paths]}
            for other in self.others
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
    named: Any = NamedPath
    layer, head, query, key = convert(where, named, what)
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


def _certificate_as_text(certificate: Certificate, bar: float) -> list[str]:
    """A line for each part of a certificate, then at which bars it would hold, if it is one."""
    parts = certificate.parts.items()
    lines = [f"{'pass' if part.passed else 'FAIL'}  {name:<15} {part.says}" for name, part in parts]
    least, most = certificate.number("sufficiency", "least_bar"), certificate.number("necessity", "most_bar")
    if least is None or most is None:
        return lines
    where = f"any bar from {least:.3f} to {most:.3f}"
    if least >= most:
        where = f"no bar: {least:.3f} is too low for the one, {most:.3f} too high for the other"
    return [*lines, f"sufficiency and necessity would hold at {where}; the bar is {bar:g}"]


def _search_as_text(search: SearchRecord) -> list[str]:
    """On how little a certificate rests, and whether there was a search."""
    asked, usual = asdict(search.proof or CertificateConfig()), asdict(CertificateConfig())
    less = [f"{name} {asked[name]} ({number})" for name, number in usual.items() if asked[name] < number]
    given = "given, not searched for: which other circuits the model holds was not asked"
    return [f"on less than the usual proof: {', '.join(less)}"] * bool(less) + [given] * search.given


def _strict_as_text(strict: StrictReading, bar: float) -> list[str]:
    """What the paper's own procedure found, with its certificate."""
    paths, heads = counted(len(strict.paths), "path"), counted(len(strict.heads), "head")
    losses = ", ".join(f"{strict.loss(fill).mse:.3f} ({fill})" for fill in get_args(Fill))
    lines = [f"Strict reading (Appendix E): {paths} in {heads}, loss {losses} with other rows so filled"]
    if strict.paths:
        rows = [[*_where(path.where), f"{path.without.mse:.3f}"] for path in strict.paths]
        lines += _table(["layer", "head", "path", "loss without"], rows)
        lines.append(f"with layer {strict.first_layer} uniform as a whole: {strict.first_layer_uniform.mse:.3f}")
    if strict.natural:
        lines.append(f"with the model's own patterns in its paths' rows: {strict.natural.mse:.3f}")
    fewest = ", ".join(f"{layer}.{head}" for layer, head in strict.fewest_heads)
    lines.append(f"fewest whole heads found: {fewest}, loss {strict.fewest_heads_loss.mse:.3f}")
    return [*lines, "", *_certificate_as_text(strict.certificate, bar)]


def _where(path: NamedPath) -> list[str]:
    layer, head, query, key = path
    return [str(layer), str(head), f"{query} -> {key}"]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A table in lines: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    to_the_left = (header.index("path"), 6)
    return [
        "  ".join(
            cell.ljust(width) if column in to_the_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
