"""Circuits of many models: found side by side, a process a model, and what a study keeps of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hopscope.circuits.certificate.part import Sense
from hopscope.circuits.compare import Where, strategy
from hopscope.circuits.record import Circuit
from hopscope.circuits.search.budget import Effort
from hopscope.studies.work import Work


@dataclass(frozen=True)
class Seen:
    """What is kept of the circuit of one model.

    Attributes:
        model: its run folder's name with that of the arm.
        seed: it was trained from.
        layers: of the model.
        step: of the checkpoint; None for the last.
        hops: D.
        loss: of the model as it is.
        certified: in which senses.
        delivers: whether its paths carry x{D} to the query by theory.
        strategy: `serial`, `doubling`, or `none` without a circuit.
        paths: of the natural reading; empty without a circuit.
        again: those that the search ended in from other orders, once an order.
        strict: of the strict reading; empty without one.
        strict_again: those that it ended in from other orders.
    """

    model: str
    seed: int
    layers: int
    step: int | None
    hops: int
    loss: float
    certified: tuple[Sense, ...]
    delivers: bool
    strategy: str
    paths: tuple[Where, ...]
    again: tuple[tuple[Where, ...], ...]
    strict: tuple[Where, ...]
    strict_again: tuple[tuple[Where, ...], ...]

    @classmethod
    def of(cls, circuit: Circuit, model: str, step: int | None = None) -> Seen:
        """What is kept of a record."""
        mine = tuple(one.path.names(circuit.hops) for one in circuit.paths)
        others = [tuple(path.names(circuit.hops) for path in other.paths) for other in circuit.others]
        same = len(circuit.search.get("orders_ending_here", ())) - 1
        strict = circuit.strict
        return cls(
            model=model,
            seed=circuit.seed,
            layers=circuit.layers,
            step=step,
            hops=circuit.hops,
            loss=circuit.losses["full"],
            certified=circuit.certified,
            delivers=bool(circuit.certificate.get("deliverability", {}).get("passed")),
            strategy=strategy(circuit),
            paths=mine,
            again=(*others, *[mine] * same),
            strict=tuple(path.where for path in strict.paths) if strict else (),
            strict_again=strict.others if strict else (),
        )


def find_circuits(runs: Sequence[Path], work: Work, effort: Effort = "quick") -> tuple[Seen, ...]:
    """The circuit of the only model of each run; what is found already is not looked for again."""
    work.each("circuits", find, [(path, 0, effort) for path in runs])
    return tuple(Seen.of(Circuit.load(path / "circuit.json"), f"{path.parent.name}/{path.name}") for path in runs)


def find(path: Path, number: int, effort: Effort, step: int | None = None) -> None:
    """Find the circuit of one model of the run in `path`; one that stands beside it is kept."""
    from hopscope.circuits.find import circuit_of_run
    from hopscope.training.run import RunFolder

    circuit_of_run(RunFolder(path), number, step, effort=effort)


def seen_table(seen: Sequence[Seen]) -> str:
    """A row a model, as Markdown."""
    lines = ["| model | loss | strategy | paths (strict) | certified | delivers |", "|---|---|---|---|---|---|"]
    for one in seen:
        step = "" if one.step is None else f" at step {one.step}"
        certified = ", ".join(one.certified) or "no"
        lines.append(
            f"| {one.model}{step} | {one.loss:.4f} | {one.strategy} | {len(one.paths)} ({len(one.strict) or '-'}) "
            f"| {certified} | {'yes' if one.delivers else 'no'} |"
        )
    return "\n".join(lines) + "\n"
