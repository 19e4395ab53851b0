"""Circuits of many models: found side by side, a process a model, and what a study keeps of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.circuits.certificate import RULES, Proof
from hopscope.circuits.certificate.part import Sense
from hopscope.circuits.compare import overlap, steps_beyond_first, strategy
from hopscope.circuits.kept import circuit_path, require_of
from hopscope.circuits.record import Circuit
from hopscope.circuits.search.budget import Budget
from hopscope.studies.judgements import Judgement
from hopscope.studies.kept import Models
from hopscope.studies.work import Work
from hopscope.theory.path import NamedPath
from hopscope.training.setup import Setup

if TYPE_CHECKING:
    from hopscope.training.run import RunFolder


@dataclass(frozen=True)
class Seen:
    """What is kept of the circuit of one model.

    Attributes:
        model: its run folder's name with that of the arm.
        seed: it was trained from.
        layers: of the model.
        step: of the checkpoint; None for the last.
        hops: D.
        loss: of the model as it is; None where it diverged: it has no circuit.
        certified: in which senses.
        delivers: whether its paths carry x{D} to the query by theory.
        strategy: of the circuit, see `hopscope.circuits.compare.strategy`.
        paths: of the natural reading; empty without a circuit.
        again: those that the search ended in from other orders, once an order.
        strict: of the strict reading; empty without one, and where that circuit does not hold the bar.
        strict_again: those that it ended in from other orders.
        made: how the model was trained and looked at, see `hopscope.studies.kept.made_by`; empty if it is not known.
        rules: version of what the certificate asked, see `hopscope.circuits.certificate.part.RULES`; the first studies
            did not say.
    """

    model: str
    seed: int
    layers: int
    step: int | None
    hops: int
    loss: float | None
    certified: tuple[Sense, ...]
    delivers: bool
    strategy: str
    paths: tuple[NamedPath, ...]
    again: tuple[tuple[NamedPath, ...], ...]
    strict: tuple[NamedPath, ...]
    strict_again: tuple[tuple[NamedPath, ...], ...]
    made: str = ""
    rules: int = 1

    def holds(self, bar: float) -> bool:
        """Whether the model's own loss is below the bar; one that diverged holds none."""
        return self.loss is not None and self.loss < bar

    @property
    def repeated(self) -> int:
        """Paths more than steps: what a second head does again, or a later layer."""
        return len(self.paths) - len({(query, key) for *_, query, key in self.paths})

    @property
    def heads(self) -> int:
        """Heads with a path."""
        return len({where[:2] for where in self.paths})

    @property
    def shared_heads(self) -> int:
        """Heads, beyond those of the first useful layer, with paths of more than one step."""
        first = min((layer for layer, *_ in self.paths), default=0)
        steps: dict[tuple[int, int], set[tuple[str, str]]] = {}
        for layer, head, query, key in self.paths:
            if layer > first:
                steps.setdefault((layer, head), set()).add((query, key))
        return sum(len(done) > 1 for done in steps.values())

    @property
    def within(self) -> float | None:
        """Mean overlap of the steps beyond the first useful layer that two searches of this model end in."""
        searches = [steps_beyond_first(paths) for paths in (self.paths, *self.again)]
        pairs = [overlap(one, two) for one, two in combinations(searches, 2)]
        return sum(pairs) / len(pairs) if pairs and self.paths else None

    @classmethod
    def of(cls, circuit: Circuit, model: str, step: int | None = None) -> Seen:
        """What is kept of a record."""
        paths, *again = circuit.ends
        strict = circuit.strict
        if strict and strict.loss(strict.fill).mse > circuit.bar:
            strict = None
        return cls(
            model=model,
            seed=circuit.seed,
            layers=circuit.layers,
            step=step,
            hops=circuit.hops,
            loss=circuit.losses["full"],
            certified=circuit.certified,
            delivers=circuit.delivers,
            strategy=strategy(circuit),
            paths=paths,
            again=tuple(again),
            strict=tuple(path.where for path in strict.paths) if strict else (),
            strict_again=strict.others if strict else (),
            rules=circuit.rules,
        )

    @classmethod
    def of_diverged(cls, run: RunFolder, model: str) -> Seen:
        """What is kept of the model of a run in which there is nothing to look for."""
        return cls(
            model=model,
            seed=run.seeds[0],
            layers=run.recipe.layers,
            step=None,
            hops=run.problem.hops,
            loss=None,
            certified=(),
            delivers=False,
            strategy="none",
            paths=(),
            again=(),
            strict=(),
            strict_again=(),
            rules=RULES,
        )


@dataclass(frozen=True)
class Search:
    """How circuits are looked for.

    Attributes:
        budget: of the search.
        proof: how much stands behind a certificate.
    """

    budget: Budget = field(default_factory=lambda: Budget.of("quick"))
    proof: Proof = field(default_factory=Proof)


HASTY = Search(
    Budget(orders=1, growing=1, sequences=16, confirming=32, deciding=32, every_subset=2, pairs=2),
    Proof(sequences=32, deciding=32, few=16, rough=4, draws=4, halves=4),
)
"""For the quick versions of studies; what it certifies is worth nothing."""


def find_circuits(
    setups: Sequence[Setup], folder: Path, work: Work, search: Search | None = None, known: Iterable[Seen] = ()
) -> tuple[Seen, ...]:
    """Train what is not trained yet, in order, and find the circuit of each model as soon as it is trained.

    What is found is not looked for again. Cut short, it leaves the first models with their circuits. A model that
    diverged is one without a circuit.

    Args:
        setups: a run of one model each.
        folder: where the run folders are.
        work: how.
        search: for circuits.
        known: seen before, perhaps on another machine; what is made as one of them is not made again.

    Raises:
        InputError: a run or a circuit there is damaged, or another's.
    """
    from hopscope.training.many import finished

    search = search or Search()
    models = Models(setups, known, search)
    finished(models.left, folder)  # or a run of something else would be refused when all others are trained
    then = partial(look, step=None, search=search)
    work.train(models.left, folder, dict.fromkeys((setup.name for setup in models.left), then), in_order=True)
    runs = finished(models.left, folder)
    work.each("circuits", look, [(run.path, None, search) for run in runs.values()])
    for name, run in runs.items():
        if diverged(run):
            models.add(name, Seen.of_diverged(run, name))
        elif (path := circuit_path(run.path)).exists():
            circuit = Circuit.load(path)
            require_of(path, circuit, run, 0)
            models.add(name, Seen.of(circuit, name))
    return models.all


def look(path: Path, step: int | None, search: Search) -> None:
    """Find the circuit of the first model of the run in `path`, at a checkpoint or the last, unless it had diverged."""
    from hopscope.circuits.find import circuit_of_run
    from hopscope.training.run import RunFolder

    run = RunFolder(path)
    if not diverged(run, step):
        circuit_of_run(run, 0, step, effort=search.budget, proof=search.proof)


def diverged(run: RunFolder, step: int | None = None) -> bool:
    """Whether the first model of a finished run had diverged, at a checkpoint or in the end."""
    import torch

    if not run.result.models[0].diverged:
        return False  # nor had it before: what is no number stays none
    weights = () if step is None else run.transformer(step).state_dict().values()
    return step is None or not all(bool(torch.isfinite(weight).all()) for weight in weights)


def by_one_rule(judgement: Judgement, models: Iterable[Seen]) -> Judgement:
    """What is said of certificates, if one version of the rules made all of them; else nothing is.

    Models that diverged have none, and do not count.
    """
    models = tuple(one for one in models if one.loss is not None)
    if len({one.rules for one in models}) < 2 or judgement.verdict in ("inconclusive", "not run"):
        return judgement
    mixed = f"certified {rules_in_words(models)}, which do not ask the same"
    return replace(judgement, verdict="inconclusive", reason=mixed)


def rules_in_words(models: Iterable[Seen]) -> str:
    """`by rules 1 and 2`: those that made the certificates of these models, but for those that diverged."""
    rules = sorted({one.rules for one in models if one.loss is not None})
    return f"by rules {' and '.join(map(str, rules)) or '-'}"


def seen_table(seen: Sequence[Seen]) -> str:
    """A row a model, as Markdown."""
    lines = ["| model | loss | strategy | paths (strict) | certified | delivers |", "|---|---|---|---|---|---|"]
    for one in seen:
        step = "" if one.step is None else f" at step {one.step}"
        certified = f"{', '.join(one.certified)}, by rules {one.rules}" if one.certified else "no"
        loss = "diverged" if one.loss is None else f"{one.loss:.4f}"
        lines.append(
            f"| {one.model}{step} | {loss} | {one.strategy} | {len(one.paths)} ({len(one.strict) or '-'}) "
            f"| {certified} | {'yes' if one.delivers else 'no'} |"
        )
    return "\n".join(lines) + "\n"
