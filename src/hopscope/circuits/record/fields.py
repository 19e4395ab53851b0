"""The record of a circuit: `circuit.json`, which outlives the program.

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
from typing import Any

from hopscope.circuits.certificate.part import Certificate, Sense
from hopscope.circuits.record.naming import named, numbered
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import RecordForm, convert, plain

FORM = RecordForm(dict[str, Any], "hopscope circuit", "the record of a circuit (`hopscope circuit RUN` makes one)")
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
