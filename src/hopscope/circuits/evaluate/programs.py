"""Programs as plain JSON: the form of every row that is not `uniform`."""

from __future__ import annotations

from typing import Any

from hopscope.checks import check_count
from hopscope.circuits.evaluate.form import UNIFORM, Form, Intervention
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_number
from hopscope.theory.path import Row


def to_json(program: Draft, problem: RetrievalProblem) -> list[dict[str, Any]]:
    """A program's rows, with layer and head from 1 and roles by name; rows at `uniform` are left out."""
    names = problem.all_roles
    return [
        {
            "layer": row.layer + 1,
            "head": row.head + 1,
            "query": names[row.query],
            "form": form.kind.value,
            "keys": [names[key] for key in form.keys],
            "weights": list(form.weights),
        }
        for row, form in sorted(program.items(), key=lambda item: item[0])
        if form != UNIFORM
    ]


def from_json(rows: Any, problem: RetrievalProblem) -> Draft:
    """The program that `to_json` wrote.

    Raises:
        InputError: a field is missing or not what it should be, or a row is there twice.
    """
    program: Draft = {}
    try:
        for row in rows:
            kinds = {kind.value: kind for kind in Intervention}
            if row["form"] not in kinds:
                raise InputError(f"{row['form']!r} is no form of a row; the forms are {', '.join(kinds)}")
            form = Form(
                kinds[row["form"]],
                tuple(role_number(key, problem.all_roles) for key in row["keys"]),
                tuple(float(weight) for weight in row["weights"]),
            )
            for name in ("layer", "head"):
                check_count(f"{name} of a row of a program", row[name])
            where = Row(row["layer"] - 1, row["head"] - 1, role_number(row["query"], problem.all_roles))
            if where in program:
                raise InputError(f"layer {row['layer']} head {row['head']} {row['query']} is in the program twice")
            program[where] = form
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a row of a program needs layer, head, query, form, keys and weights ({error})") from None
    return program
