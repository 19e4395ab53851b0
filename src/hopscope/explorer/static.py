"""What the page shows without scripts: drawings, and the tables that go with every figure."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from hopscope.explorer.drawing import births, circuit_svg, losses_svg
from hopscope.explorer.gather import Exhibit


@dataclass(frozen=True)
class Drawing:
    """A static drawing with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Listing:
    """A table, closed until it is asked for."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Static:
    """What is shown of one model without scripts."""

    name: str
    missing: tuple[str, ...]
    figures: tuple[Drawing, ...]
    tables: tuple[Listing, ...]


def static(one: Exhibit) -> Static:
    """The drawings and tables of one model."""
    problem, figures, tables = one.run.problem, [], []
    if one.circuit is not None and one.circuit.found:
        born = ", numbered in the order of their birth" if one.emergence else ""
        caption = (
            f"The circuit: {len(one.circuit.paths)} paths{born}. An arrow leads from what is read to who reads it."
        )
        figures.append(Drawing(circuit_svg(one.circuit, one.emergence), caption))
        tables.append(_paths(one))
    if one.metrics is not None:
        drawn = losses_svg(
            one.metrics.every(one.run.recipe.log_every),
            one.number,
            problem.chains,
            problem.target_hops,
            one.steps,
        )
        figures.append(Drawing(drawn, "Validation loss by hop over training."))
        tables.append(_losses(one))
    if one.circuit is not None and one.circuit.certificate.parts:
        rows = tuple(
            ("passes" if part.passed else "FAILS", name.replace("_", " "), part.says)
            for name, part in one.circuit.certificate.parts.items()
        )
        tables.append(Listing("Table: the certificate of the natural reading", ("", "part", "what was found"), rows))
    return Static(one.name, one.missing, tuple(figures), tuple(tables))


def _paths(one: Exhibit) -> Listing:
    assert one.circuit is not None
    rows = []
    for place, number in enumerate(births(one.circuit, one.emergence), start=1):
        path, history = one.circuit.paths[number], one.emergence.paths[number] if one.emergence else None
        step = history.crossing.step if history else None
        layer, head, query, key = path.path.names(one.circuit.roles)
        born = "never" if history and step is None else "–" if step is None else f"{step:,.0f}"
        rise = f"{history.change[-1]:+.3f}" if history else "–"
        feeds = "; ".join(path.uses(one.circuit.roles))
        known = str(place), f"{layer}.{head}", f"{query} → {key}", f"{path.weight:.2f}", born, rise
        rows.append((*known, f"{path.ablation_mse:.3f}", feeds))
    header = ("birth", "head", "path", "attention", "born at step", "rise of loss, cut alone", "circuit without it")
    return Listing("Table: the paths of the circuit", (*header, "feeds"), tuple(rows))


def _losses(one: Exhibit) -> Listing:
    """A table of losses: at the checkpoints where the circuit was followed, else at some logged steps."""
    hops = one.run.problem.target_hops
    header = ("step", *(f"x{hop}" for hop in hops))
    if one.emergence is not None:
        measured = zip(one.emergence.steps, one.emergence.partial_losses, strict=True)
        rows = tuple((f"{step:,}", *(f"{loss:.3f}" for loss in losses)) for step, losses in measured)
        return Listing(f"Table: losses by hop at the checkpoints (n = {one.emergence.sequences})", header, rows)
    assert one.metrics is not None
    every = max(1, len(one.metrics) // 60)
    steps, losses = one.metrics.steps[::every].tolist(), one.metrics.partial_losses[::every, one.number].tolist()
    rows = tuple((f"{step:,}", *(f"{loss:.3f}" for loss in row)) for step, row in zip(steps, losses, strict=True))
    return Listing("Table: validation losses by hop", header, rows)
