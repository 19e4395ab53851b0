"""What the page shows without scripts: circuit and losses as SVG in its colours, and a table for every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from hopscope.circuits.circuit import Circuit
from hopscope.emergence.history import Emergence
from hopscope.explorer.exhibit import Exhibit
from hopscope.problem.roles import query_role, symbol_of
from hopscope.training.metrics import Metrics

_WIDTH, _LEFT = 640, 78
_DASHES = ("", "6 3", "2 3", "9 3 2 3", "1 2", "12 4")


PagePart = dict[str, Any]
"""A part of the page as its template reads it: a figure (`svg`, `caption`), or a table (`title`, `header`, `rows`)."""


def static(shown: Exhibit) -> PagePart:
    """What is shown of one model: its `name`, what is `missing`, `figures` and `tables`."""
    circuit, figures, tables = shown.circuit, list[PagePart](), list[PagePart]()
    if circuit is not None and circuit.found:
        born = ", numbered in the order of their birth" if shown.emergence else ""
        caption = f"The circuit: {len(circuit.paths)} paths{born}. An arrow leads from what is read to who reads it."
        figures.append({"svg": circuit_svg(circuit, shown.emergence), "caption": caption})
        tables.append(_paths(circuit, shown.emergence))
    if shown.metrics is not None:
        regular = shown.metrics.every(shown.run.recipe.log_every)
        drawn = losses_svg(regular, shown.number, shown.run.problem.chains, shown.steps)
        figures.append({"svg": drawn, "caption": "Validation loss by hop over training."})
        tables.append(_losses(shown.metrics, shown.number))
    if circuit is not None and circuit.checks:
        checks = circuit.checks.values()
        rows = [(check.outcome, check.name.replace("_", " "), check.says) for check in checks]
        tables.append(_table("the checks of the circuit", ("", "check", "what was found"), rows))
    return {"name": shown.name, "missing": shown.missing, "figures": figures, "tables": tables}


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> PagePart:
    return {"title": f"Table: {title}", "header": header, "rows": rows}


def _paths(circuit: Circuit, emergence: Emergence | None) -> PagePart:
    rows = []
    for place, number in enumerate(births(circuit, emergence), start=1):
        path, history = circuit.paths[number], emergence.paths[number] if emergence else None
        step = history.crossing.step if history else None
        layer, head, query, key = path.path.names(circuit.roles)
        born = "never" if history and step is None else "–" if step is None else f"{step:,.0f}"
        rise = f"{history.change[-1]:+.3f}" if history else "–"
        known = str(place), f"{layer}.{head}", f"{query} → {key}", f"{path.weight:.2f}", born, rise
        rows.append((*known, f"{path.without_imposed.mean:.3f}", "; ".join(path.uses(circuit.roles))))
    header = ("birth", "head", "path", "attention", "born at step", "rise of loss, cut alone", "circuit without it")
    return _table("the paths of the circuit", (*header, "feeds"), rows)


def _losses(metrics: Metrics, model: int) -> PagePart:
    """A table of the losses by hop at some logged steps."""
    every = max(1, len(metrics) // 60)
    steps, losses = metrics.steps[::every].tolist(), metrics.partial_losses[::every, model].tolist()
    rows = [(f"{step:,}", *(f"{loss:.3f}" for loss in row)) for step, row in zip(steps, losses, strict=True)]
    return _table("validation losses by hop", ("step", *(f"x{hop}" for hop in metrics.hops)), rows)


def circuit_svg(circuit: Circuit, emergence: Emergence | None) -> Markup:
    """The circuit: layers up, roles across in the order of the sequence, arrows numbered by birth."""
    at = _columns(circuit)
    layers = sorted({path.path.layer for path in circuit.paths})
    row, top = 84, 30
    floor = top + row * len(layers)
    parts = [f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{top}" y2="{floor}" stroke="var(--line)"/>' for x in at.values()]
    parts += [_symbol(x, floor + 24, role, circuit.hops) for role, x in at.items()]
    for number, layer in enumerate(layers):
        y = floor - row * (number + 0.5)
        parts.append(f'<text x="0" y="{y:.0f}" font-size="12">layer {layer + 1}</text>')
    for place, number in enumerate(births(circuit, emergence), start=1):
        path, weight = circuit.paths[number].path, circuit.paths[number].weight
        level = layers.index(path.layer)
        start, end = floor - row * level, floor - row * (level + 1)
        alike = [other for other in circuit.paths[:number] if other.path._replace(head=path.head) == path]
        parts.append(_arrow(at[path.key], start, at[path.query], end, 13 * len(alike), weight, place))
    return _svg(floor + 44, f"Circuit of seed {circuit.seed}: {len(circuit.paths)} paths", parts)


def _arrow(a: float, start: float, b: float, end: float, bend: float, weight: float, place: int) -> str:
    weight = max(0.0, min(1.0, weight))
    x, y = (a + b) / 2 + bend * 1.7, (start + end) / 2 - bend * 0.25  # beside arrows that go the same way
    curve = f"M{a:.1f} {start - 5}C{a + bend:.1f} {start - 45} {b + bend:.1f} {end + 45} {b:.1f} {end + 10}"
    return (
        f'<g opacity="{0.2 + 0.8 * weight:.2f}"><path d="{curve}" fill="none" stroke="var(--ink)" '
        f'stroke-width="{0.9 + 2.6 * weight:.1f}"/><path d="M{b:.1f} {end + 3}l-5 9h10z" fill="var(--ink)"/></g>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="var(--raised)" stroke="var(--ink)"/>'
        f'<text x="{x:.1f}" y="{y + 3.6:.1f}" font-size="10" text-anchor="middle">{place}</text>'
    )


def births(circuit: Circuit, emergence: Emergence | None) -> list[int]:
    """Numbers of the paths, from 0, in the order of their births; those whose attention never crosses 0.5 last."""
    steps = [path.crossing.step for path in emergence.paths] if emergence else [None] * len(circuit.paths)
    late = [float("inf") if step is None else step for step in steps]
    return sorted(range(len(circuit.paths)), key=lambda n: (late[n], circuit.paths[n].path.layer, n))


def losses_svg(metrics: Metrics, number: int, chains: int, total: int) -> Markup:
    """Validation loss by hop over training, with chance and what counts as learned."""
    low, high, right, learned = 190, 14, 600, metrics.learned

    def x(step: float) -> float:
        return _LEFT + (right - _LEFT) * step / max(total, 1)

    def y(loss: float) -> float:
        return low - (low - high) * min(loss, 1.1) / 1.1

    parts = []
    chance = 1 - 1 / chains
    for level, words in ((0, "0"), (learned, f"{learned:.3g}"), (chance, f"chance {chance:.2f}"), (1, "1")):
        dash = ' stroke-dasharray="3 3"' if level not in (0, 1) else ""
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="var(--line)"{dash}/>'
        )
        parts.append(f'<text x="{_LEFT - 6}" y="{y(level) + 4:.1f}" font-size="11" text-anchor="end">{words}</text>')
    steps = metrics.steps.tolist()
    for place, hop in enumerate(metrics.hops):
        losses = metrics.partial_losses[:, number, place].tolist()
        points = [f"{x(step):.1f} {y(loss):.1f}" for step, loss in zip(steps, losses, strict=True) if loss == loss]
        dash = f' stroke-dasharray="{_DASHES[place % 6]}"' if place % 6 else ""
        if points:
            parts.append(f'<path d="M{"L".join(points)}" fill="none" stroke="var(--ink)" stroke-width="1.4"{dash}/>')
            fallen = next((x(step) for step, loss in zip(steps, losses, strict=True) if loss < learned), None)
            beside = (fallen + 10 + 3 * place, y(learned) - 6) if fallen is not None else None
            across, up = beside or (right + 16, y(1) + 16 * place)
            parts.append(_symbol(across, up, 2 * hop - 1, max(metrics.hops), size=12))
    for step in (0, total // 2, total):
        parts.append(f'<text x="{x(step):.0f}" y="{low + 18}" font-size="11" text-anchor="middle">{step:,}</text>')
    return _svg(low + 26, "Validation loss by hop over training steps", parts)


def _columns(circuit: Circuit) -> dict[int, float]:
    """Where each role stands: the pairs in the order of their blocks, then the query."""
    order = [2 * (pair - 1) + member for pair in circuit.problem.blocks for member in (0, 1)]
    order.append(query_role(circuit.hops))
    places = [place + place // 2 * 0.45 for place in range(len(order))]
    unit = (_WIDTH - _LEFT - 40) / max(places[-1], 1)
    return {role: _LEFT + 14 + unit * place for role, place in zip(order, places, strict=True)}


def _symbol(x: float, y: float, role: int, hops: int, size: int = 15) -> str:
    mark = "?" if role == query_role(hops) else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="middle"><tspan font-style="italic">x</tspan>'
        f'<tspan font-size="70%" dy="0.28em">{symbol_of(role, hops)}</tspan><tspan dy="-0.2em">{mark}</tspan></text>'
    )


def _svg(height: float, words: str, parts: Sequence[str]) -> Markup:
    head = f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(words)}">'
    return Markup(head + "".join(parts) + "</svg>")
