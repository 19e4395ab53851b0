"""The page of a stored circuit, mainly for language models, with the recorded loss without each path.

The model is not in the page, so the page computes nothing and names the numbers that the record lacks.
"""

from __future__ import annotations

from pathlib import Path

from hopscope.circuits.circuit import Circuit
from hopscope.explorer.page import STYLES, Page, check_page, laid_out
from hopscope.explorer.tables import judged
from hopscope.plot.circuit import place_of
from hopscope.records import write_text
from hopscope.statistics import wilson

SCRIPTS = ("state", "dom", "redraw", "paper", "save", "stored")


def explore_circuit(record: Path, out: Path | None = None) -> tuple[Path, Page]:
    """Write the page of the circuit in a record; return the path of the page, and the page.

    By default the path is that of the record, with the ending .html. An `InputError` is raised if the record is missing
    or damaged, or if `out` is not the path of a page.
    """
    own = record.with_suffix(".html")
    check_page(out or own, own)
    page = page_of(Circuit.load(record))
    write_text(out or own, page.html)
    return out or own, page


def page_of(circuit: Circuit) -> Page:
    """Return the page of a circuit, with its record and its roles in the order of the prompt."""
    roles, proof = circuit.roles, circuit.search.proof
    last = len(roles if circuit.text else circuit.problem.roles) - 1
    used = {last, *(row.query for row in circuit.rows), *(path.path.key for path in circuit.paths)}
    scores, count = (circuit.text.scores, proof.sequences) if circuit.text and proof else ({}, 0)
    data = circuit.to_json() | {
        "headline": circuit.headline,
        "verdict": circuit.verdict,
        "roles": [roles[role] for role in sorted(used, key=lambda role: place_of(circuit.problem, role))],
        "asker": roles[last],
        "accuracy": {name: wilson(round(score.accuracy * count), count) for name, score in scores.items()},
    }
    del data["interventions"], data["search"]["removed"]
    name = circuit.text.name if circuit.text else f"model of seed {circuit.seed}"
    return laid_out(
        "stored.html", SCRIPTS, (*STYLES, "stored"), data, {},
        title=f"{name}: {circuit.problem.named}", circuit=circuit, tables=judged(circuit),
    )  # fmt: skip
