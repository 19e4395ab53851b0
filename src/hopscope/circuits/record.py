"""The record of a circuit: `circuit.json`, which outlives the program.

schema       of this record, 1
kind         "hopscope circuit"
model        hash of the model; `seed` and `number` say which of its run
problem      the problem, every field
hops         D
layers, heads  of the model
found        whether there is a circuit; without one `paths` is empty and the certificate says why
bar          the loss that the circuit may have at most
losses       of the model as it is (`full`), of the circuit with its patterns imposed (`imposed`) and with the
             model's own patterns in its rows (`natural`), everything else switched off; on fresh sequences
paths        layer and head from 1, query and key as roles, form, weight, ablation_mse and interval (the imposed
             circuit without this path), natural_mse (the natural one without it), feeds
program      every row that is not uniform, so that the circuit can be replayed
others       other small circuits the search ended in: their paths, loss, orders, overlap with this one
search       seed, sequences, orders, minimality, evaluations, pre-filter
certificate  parts by name, each with `passed`, its numbers and its seed
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hopscope.errors import InputError
from hopscope.files import read_json, write_json
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_number
from hopscope.records import convert

SCHEMA = 1
"""Of circuit.json; another is refused."""

KIND = "hopscope circuit"

INTO = ("query", "key", "value", "answer")
"""What a path can feed: the query, key or value of a later path, or the answer itself."""


@dataclass(frozen=True)
class Feed:
    """One use of what a path brings.

    Attributes:
        into: one of `INTO`.
        layer: of the later path, from 1; None for the answer.
        head: likewise.
        query: its query role.
        key: its key role.
        change: rise of the loss when this use alone is cut.
        attention: fall of the later path's mean attention when this use alone is cut; 0 where it reads the value.
    """

    into: str
    layer: int | None = None
    head: int | None = None
    query: str | None = None
    key: str | None = None
    change: float = 0.0
    attention: float = 0.0

    def describe(self) -> str:
        """`K of layer 5`, or `the answer`."""
        if self.into == "answer":
            return "the answer"
        return f"{self.into[0].upper()} of layer {self.layer} ({self.query} -> {self.key})"


@dataclass(frozen=True)
class CircuitPath:
    """An attention path of a circuit.

    Attributes:
        layer: from 1.
        head: from 1.
        query: role that attends.
        key: role attended to.
        form: `one_hot`, `mixture`, `mean`, `positional` or `keep`: what stands for the row in the imposed circuit.
        weight: the model's mean attention along this path.
        ablation_mse: loss of the imposed circuit without this path.
        interval: of `ablation_mse`, 95%.
        natural_mse: loss of the natural circuit without this path's row.
        natural_interval: of `natural_mse`, 95%.
        feeds: what it is good for, the strongest use first.
    """

    layer: int
    head: int
    query: str
    key: str
    form: str
    weight: float
    ablation_mse: float
    interval: tuple[float, float]
    natural_mse: float
    natural_interval: tuple[float, float]
    feeds: tuple[Feed, ...] = ()

    @property
    def where(self) -> tuple[int, int, str, str]:
        """Layer, head, query role and key role: what makes it this path."""
        return self.layer, self.head, self.query, self.key

    @property
    def uses(self) -> tuple[str, ...]:
        """What it feeds, in words, the strongest first; two heads that read it alike are one use."""
        return tuple(dict.fromkeys(feed.describe() for feed in self.feeds))

    def __str__(self) -> str:
        return f"layer {self.layer} head {self.head}: {self.query} -> {self.key}"


@dataclass(frozen=True)
class Circuit:
    """What was found in one model. Fields as in `circuit.json`, above.

    >>> run[0].circuit().found  # a model of a few steps has no circuit
    False
    """

    model: str
    seed: int
    number: int
    problem: RetrievalProblem
    layers: int
    heads: int
    bar: float
    losses: dict[str, Any]
    paths: tuple[CircuitPath, ...]
    program: tuple[dict[str, Any], ...]
    others: tuple[dict[str, Any], ...]
    search: dict[str, Any]
    certificate: dict[str, dict[str, Any]] = field(default_factory=dict)
    helpers: tuple[dict[str, Any], ...] = ()

    @property
    def found(self) -> bool:
        """Whether there is a circuit."""
        return bool(self.paths)

    @property
    def certified(self) -> bool:
        """Whether there is one and every part of its certificate passed."""
        return self.found and all(part["passed"] for part in self.certificate.values())

    @property
    def hops(self) -> int:
        """D."""
        return self.problem.hops

    @property
    def used_heads(self) -> tuple[tuple[int, int], ...]:
        """Heads with a path or a helper row: layer and head, from 1."""
        helpers = {(row["layer"], row["head"]) for row in self.helpers}
        return tuple(sorted({(path.layer, path.head) for path in self.paths} | helpers))

    def to_json(self) -> dict[str, Any]:
        """The record as plain values."""
        values = asdict(self)
        front = {"schema": SCHEMA, "kind": KIND, "model": self.model, "hops": self.hops, "found": self.found}
        return front | {"certified": self.certified} | values

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> Circuit:
        """Read a record.

        Raises:
            InputError: the file is missing, damaged, newer, or no record of a circuit; the sentence says which.
        """
        values = read_json(path, "the record of a circuit (`hopscope circuit RUN` makes one)")
        try:
            return cls.from_json(values)
        except InputError as error:
            raise InputError(f"{path}: {error}; it was left untouched") from None

    @classmethod
    def from_json(cls, values: Any) -> Circuit:
        """The circuit that a record describes.

        Raises:
            InputError: the first thing that is wrong.
        """
        if not isinstance(values, dict) or values.get("kind") != KIND:
            raise InputError("this is not the record of a hopscope circuit")
        if values.get("schema") != SCHEMA:
            raise InputError(
                f"the record has schema {values.get('schema')!r} and this hopscope reads {SCHEMA}; update hopscope, "
                "or find the circuit anew"
            )
        _need(values, [*(f.name for f in fields(cls)), "hops", "found"], "the record")
        problem = _problem(values["problem"])
        shape = {name: _number(values, name, int, 1) for name in ("layers", "heads")}
        paths = tuple(_path(n, path, problem, shape) for n, path in enumerate(_list(values, "paths"), start=1))
        circuit = cls(
            model=_text(values, "model"),
            seed=_number(values, "seed", int, 0),
            number=_number(values, "number", int, 0),
            problem=problem,
            **shape,
            bar=_number(values, "bar", float, 0),
            losses=_object(values, "losses"),
            paths=paths,
            program=tuple(_list(values, "program")),
            others=tuple(_list(values, "others")),
            search=_object(values, "search"),
            certificate=_object(values, "certificate"),
            helpers=tuple(_list(values, "helpers")),
        )
        for name, part in circuit.certificate.items():
            if not isinstance(part, dict) or not isinstance(part.get("passed"), bool):
                raise InputError(f"part {name!r} of the certificate lacks `passed`")
        if values["hops"] != problem.hops:
            raise InputError(f"hops is {values['hops']!r}, but the problem has {problem.hops}")
        if values["found"] != circuit.found:
            raise InputError(f"found is {values['found']!r}, but there are {len(paths)} paths")
        return circuit

    def with_certificate(self, certificate: dict[str, dict[str, Any]]) -> Circuit:
        """The same circuit with another certificate."""
        return replace(self, certificate=certificate)


def _path(number: int, values: Any, problem: RetrievalProblem, shape: dict[str, int]) -> CircuitPath:
    what = f"path {number}"
    if not isinstance(values, dict):
        raise InputError(f"{what} is not an object")
    _need(values, [f.name for f in fields(CircuitPath)], what)
    for name in ("layer", "head"):
        if not 1 <= _number(values, name, int, 1, what) <= shape[f"{name}s"]:
            raise InputError(f"{what} has {name} {values[name]}, but the model has {shape[f'{name}s']}")
    for name in ("query", "key"):
        role_number(_text(values, name, what), problem.hops)
    return CircuitPath(
        layer=values["layer"],
        head=values["head"],
        query=values["query"],
        key=values["key"],
        form=_text(values, "form", what),
        weight=_number(values, "weight", float, 0, what),
        ablation_mse=_number(values, "ablation_mse", float, 0, what),
        interval=_interval(values, "interval", what),
        natural_mse=_number(values, "natural_mse", float, 0, what),
        natural_interval=_interval(values, "natural_interval", what),
        feeds=tuple(_feed(feed, what) for feed in _list(values, "feeds", what)),
    )


def _feed(values: Any, what: str) -> Feed:
    if not isinstance(values, dict) or values.get("into") not in INTO:
        raise InputError(f"a feed of {what} must say into which of {', '.join(INTO)} it goes, got {values!r}")
    known = {f.name for f in fields(Feed)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InputError(f"a feed of {what} has an unknown field {unknown[0]!r}")
    return Feed(**values)


def _problem(values: Any) -> RetrievalProblem:
    if not isinstance(values, dict):
        raise InputError("problem is not an object")
    return convert(values, RetrievalProblem, "problem")


def _need(values: dict[str, Any], names: list[str], what: str) -> None:
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"{what} lacks {', '.join(missing)}")


def _number(
    values: dict[str, Any], name: str, kind: type[int] | type[float], least: int, what: str = "the record"
) -> Any:
    value = values[name]
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= least
    if not fits or (kind is int and not isinstance(value, int)):
        raise InputError(f"{name} of {what} must be a number of at least {least}, got {value!r}")
    return kind(value)


def _text(values: dict[str, Any], name: str, what: str = "the record") -> str:
    value = values[name]
    if not isinstance(value, str):
        raise InputError(f"{name} of {what} must be text, got {value!r}")
    return value


def _list(values: dict[str, Any], name: str, what: str = "the record") -> list[Any]:
    value = values[name]
    if not isinstance(value, list):
        raise InputError(f"{name} of {what} must be a list, got {value!r}")
    return value


def _object(values: dict[str, Any], name: str) -> dict[str, Any]:
    value = values[name]
    if not isinstance(value, dict):
        raise InputError(f"{name} of the record must be an object, got {value!r}")
    return value


def _interval(values: dict[str, Any], name: str, what: str) -> tuple[float, float]:
    value = values[name]
    numbers = isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(v, int | float) for v in value)
    if not numbers or value[0] > value[1]:
        raise InputError(f"{name} of {what} must be its lowest and highest number, got {value!r}")
    return float(value[0]), float(value[1])
