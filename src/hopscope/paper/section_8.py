"""Section 8 and Appendix E: the circuits of trained transformers, found and compared; Figure 5."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath
from hopscope.circuits.search.config import Effort
from hopscope.paper.claims import Finding, in_folder
from hopscope.paper.models import ModelStudy, Studied, do_for_every_model, read_models, shape_in_words
from hopscope.paper.report import PageFigure, Section, Table
from hopscope.paper.section_8_claims import judge_circuits, judge_training
from hopscope.plot.circuit import figure_5
from hopscope.plot.style import save
from hopscope.training.execution import FASTEST, Execution
from hopscope.training.side_by_side import SILENT, ProgressDisplay

_NUMBERS = "Numbers: loss of the circuit without the path, with the model's own patterns."


@dataclass(frozen=True)
class CircuitResult:
    """Those models of the study that are there."""

    study: ModelStudy
    models: tuple[Studied, ...]


def run(
    study: ModelStudy, folder: Path, execution: Execution = FASTEST, display: ProgressDisplay = SILENT
) -> CircuitResult:
    """Train what is not trained yet, find and certify the circuit of every model, and read what was found."""
    do_for_every_model("circuits", find, study, folder, execution, display)
    return read(study, folder)


def find(path: Path, number: int, effort: Effort) -> None:
    """Find the circuit of one model of the run in `path`, unless it diverged; that of the same search is kept."""
    from hopscope.circuits.store import CircuitStore
    from hopscope.training.run import RunFolder

    run = RunFolder(path)
    if not run.result.models[number].diverged:
        CircuitStore(run).find(number, effort=effort)


def read(study: ModelStudy, folder: Path) -> CircuitResult:
    """Read what is in `folder`: finished runs, and records of circuits.

    Raises:
        InputError: a run or a record is damaged.
    """
    return CircuitResult(study, read_models(study.setups, folder / study.at))


def judge(result: CircuitResult) -> list[Finding]:
    """Findings on C6 to C11."""
    if not result.models:
        return [Finding(f"C{number}", "not run") for number in range(6, 12)]
    scale = f"{result.study.scale}: {shape_in_words(result.models)}"
    found = [judge_training(result.models, scale), *judge_circuits(result.models, scale)]
    return in_folder(result.study.at, found)


def section(result: CircuitResult, figures: Path) -> Section | None:
    """The section with a drawing of every circuit and a table of its paths; None where no circuit was searched for."""
    found = [(model.name, model.circuit) for model in result.models if model.circuit]
    if not found:
        return None
    drawn = []
    rows: list[list[object]] = []
    for name, circuit in found:
        alone = len(result.study.setups) == 1
        stem = figures / f"circuit-{circuit.number if alone else name}"
        save(figure_5(circuit), stem)
        drawn.append(PageFigure(stem, f"Circuit of seed {circuit.seed} (as Figure 5): {_state(circuit)}. {_NUMBERS}"))
        rows += [_row(circuit, path) for path in circuit.paths]
    certified = sum(bool(circuit.certified) for _, circuit in found)
    heads = ", ".join(str(len(circuit.used_heads)) for _, circuit in found)
    layers, of = found[0][1].layers, found[0][1].layers * found[0][1].heads
    return Section(
        "Circuits (Section 8, Appendix E)",
        paragraphs=[
            f"The circuits of the {layers}-layer models, {certified} of {len(found)} certified on sequences that the "
            f"search never saw. Heads in use: {heads} of {of}. "
            f"`hopscope circuit RUN --show` prints them with every part of their certificates; "
            "`docs/circuits.md` says what the parts mean.",
        ],
        figures=drawn,
        tables=[
            Table(
                ["seed", "layer", "head", "path", "attention", "loss without it, imposed", "own patterns", "feeds"],
                rows,
                "Paths: mean attention in the model; loss of the circuit without the path, with its patterns imposed "
                "and with the model's own; and what uses it.",
            )
        ]
        if rows
        else [],
    )


def _state(circuit: Circuit) -> str:
    return circuit.verdict if circuit.found else "none found"


def _row(circuit: Circuit, one: CircuitPath) -> list[object]:
    layer, head, query, key = one.path.names(circuit.roles)
    uses = ", ".join(one.uses(circuit.roles)) or "–"
    losses = [f"{one.ablation_mse:.3f}", f"{one.natural_mse:.3f}"]
    return [circuit.seed, layer, head, f"{query} to {key}", f"{one.weight:.3f}", *losses, uses]
