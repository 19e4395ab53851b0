"""What do different searches find in the same models?

Our search, ACDC's rule and a ranking by gradients are run under one signature on models whose circuit is known
(witnesses with decoys) and on trained ones. For each the study reports attention paths, the loss of the circuit alone
on sequences that no search saw (everything else uniform), evaluations, seconds, and whether the circuit is minimal: no
row in use can go within the bar on those sequences.

    python -m studies searches results/search --run RUN
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.circuits.search import orders
from hopscope.circuits.search.acdc import acdc
from hopscope.circuits.search.attribution import attribution
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.store import model_hash
from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import RecordFormat
from hopscope.theory.witness.built import disguised_witness
from hopscope.training.data import held_out
from hopscope.training.run import RunFolder
from hopscope.words import markdown_table
from studies.tools.circuits import diverged

_FRESH = 1024
"""Sequences on which the circuits that were found are measured."""

SEARCHES: dict[str, tuple[Callable[..., Interventions], SearchConfig]] = {
    "ours, quick": (orders.search, SearchConfig.of("quick")),
    "ours, thorough": (orders.search, SearchConfig.of("thorough")),
    "ACDC's rule": (acdc, SearchConfig.of("quick")),
    "gradient ranking": (attribution, SearchConfig.of("quick")),
}


_IN_FILES = str.maketrans({" ": "-", "/": "-", ",": "", "'": ""})
"""Replacements, in a file's name, for characters that may stand in a model's name."""


@dataclass(frozen=True)
class SearchFound:
    """What one search found in one model.

    Attributes:
        model: the model, in words.
        search: a name in `SEARCHES`.
        paths: attention paths of the circuit; a row that looks at several roles counts for each.
        rows: how many rows are in use.
        known_rows: rows of the known circuit; None where none is known.
        loss: the loss of the circuit alone, its rows with the model's own patterns.
        full: the loss of the whole model.
        evaluations: how many programs were tried.
        seconds: time on this machine, beside whatever else it did.
        minimal: whether the circuit holds the bar and no single row can be removed within it.
    """

    model: str
    search: str
    paths: int
    rows: int
    known_rows: int | None
    loss: float
    full: float
    evaluations: int
    seconds: float
    minimal: bool


_FORM = RecordFormat(SearchFound, "hopscope search comparison", "what a search found")


def compare(
    model: str, transformer: Transformer, problem: RetrievalProblem, known: int | None, folder: Path, of: str = ""
) -> list[SearchFound]:
    """Run every search on one model; records that are in the folder already are not made again.

    Args:
        model: the name of the model.
        transformer: a transformer with one model.
        problem: the problem that it answers.
        known: rows of its known circuit; None where none is known.
        folder: where records are kept.
        of: the hash of a trained model; empty for one built by hand.

    Raises:
        InputError: a record there is damaged, or belongs to another model.
    """
    found = []
    for name in SEARCHES:
        path = folder / f"{model}-{name}.json".translate(_IN_FILES)
        if not path.exists():
            _FORM.write(path, _one(model, name, transformer, problem, known), of)
        found.append(_FORM.read(path, of))
    return found


def table(found: Sequence[SearchFound]) -> str:
    """The comparison as a Markdown table."""
    rows = []
    for one in found:
        known = "" if one.known_rows is None else f" ({one.known_rows})"
        losses, minimal = (f"{one.loss:.4f}", f"{one.full:.4f}"), "yes" if one.minimal else "no"
        cells = one.model, one.search, f"{one.rows}{known}", one.paths, *losses, one.evaluations
        rows.append((*cells, f"{one.seconds:.1f}", minimal))
    measured = "rows (known)", "paths", "loss alone", "of the model", "evaluations", "seconds", "minimal"
    return markdown_table(("model", "search", *measured), rows)


def _one(model: str, name: str, transformer: Transformer, problem: RetrievalProblem, known: int | None) -> SearchFound:
    search, budget = SEARCHES[name]
    evaluator = VectorEvaluator(transformer, problem, held_out(problem, budget.confirming, 0, "search comparison"))
    units = Units.of(evaluator)
    before, began = evaluator.evaluations, time.monotonic()
    program = units.natural(search(evaluator, units, budget, torch.Generator().manual_seed(0)))
    seconds, evaluations = time.monotonic() - began, evaluator.evaluations - before
    fresh = VectorEvaluator(transformer, problem, held_out(problem, _FRESH, 1, "search comparison"))
    rows = units.on(program)
    fresh.depart_from(program)
    full, loss, *without = fresh.mse([{}, program, *({**program, row: UNIFORM} for row in rows)])
    return SearchFound(
        model=model,
        search=name,
        paths=len(units.paths(program)),
        rows=len(rows),
        known_rows=known,
        loss=loss,
        full=full,
        evaluations=evaluations,
        seconds=round(seconds, 1),
        minimal=loss <= budget.max_loss and all(left > budget.max_loss for left in without),
    )


def run(folder: Path, hops: Sequence[int], runs: Sequence[Path]) -> list[SearchFound]:
    """Compare on witnesses with decoys, one for each number of hops, then on the first model of every run.

    Raises:
        InputError: a run is missing or its model diverged, or a record there is damaged or belongs to another model.
    """
    torch.set_num_threads(1)
    found: list[SearchFound] = []
    for number in hops:
        witness = disguised_witness(number)
        known = len({path.row for path in witness.circuit})
        found += compare(f"witness of {number} hops", witness.transformer, witness.problem, known, folder)
    for path in runs:
        trained = RunFolder(path)
        if trained.finished and diverged(trained):
            raise InputError(f"the first model of {path} diverged, so there is nothing to search; leave it out")
        name = f"{trained.path.resolve().parent.name}/{trained.path.name}"
        model, of = single(trained.transformer(), 0), model_hash(trained, 0, max(trained.checkpoints))
        found += compare(name, model, trained.problem, None, folder, of)
    return found
