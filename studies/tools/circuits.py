"""Circuits of many models: found in parallel, a process for each model, and what a study keeps of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.checks.certificate import Sense
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.compare import overlap, steps_beyond_first
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.store import circuit_path, require_of
from hopscope.problem.paths import NamedPath
from hopscope.training.setup import Setup
from hopscope.training.work import Work
from hopscope.words import markdown_table
from studies.tools.judgements import Judgement
from studies.tools.kept import Models

if TYPE_CHECKING:
    from hopscope.training.run import RunFolder

RULES = 14
"""Version of what certificates ask, as the records of studies number it."""


@dataclass(frozen=True)
class Seen:
    """What is kept of the circuit of one model.

    Attributes:
        model: the name of its run folder with that of the arm.
        seed: the seed it was trained from.
        layers: the number of layers of the model.
        step: the step of the checkpoint; None for the last.
        hops: D.
        loss: the loss of the unchanged model; None where it diverged, and so has no circuit.
        certified: the senses in which its circuit is certified.
        delivers: whether its paths carry x{D} to the query by theory.
        strategy: the strategy of the circuit, see `hopscope.circuits.strategy.strategy`.
        paths: the paths of the circuit in the natural reading; empty without a circuit.
        again: the paths of the circuits that searches in other orders ended in, one entry for each order.
        strict: the paths of the circuit in the strict reading; empty without one, and where it does not hold the bar.
        strict_again: the paths of the strict circuits that searches in other orders ended in.
        made: how the model was trained and examined, see `studies.tools.kept.made_by`; empty if it is not known.
        rules: the version of what the certificate asked, see `hopscope.circuits.checks.certificate.RULES`; 1 for the
            first studies, which did not say.
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
        """Whether the model's own loss is below the bar; a model that diverged does not hold it."""
        return self.loss is not None and self.loss < bar

    @property
    def repeated(self) -> int:
        """How many more paths than steps there are: what a second head, or a later layer, does again."""
        return len(self.paths) - len({(query, key) for *_, query, key in self.paths})

    @property
    def heads(self) -> int:
        """The number of heads with a path."""
        return len({where[:2] for where in self.paths})

    @property
    def shared_heads(self) -> int:
        """The number of heads, beyond those of the first useful layer, with paths of more than one step."""
        first = min((layer for layer, *_ in self.paths), default=0)
        steps: dict[tuple[int, int], set[tuple[str, str]]] = {}
        for layer, head, query, key in self.paths:
            if layer > first:
                steps.setdefault((layer, head), set()).add((query, key))
        return sum(len(done) > 1 for done in steps.values())

    @property
    def within(self) -> float | None:
        """Mean overlap of the steps beyond the first useful layer, over pairs of searches of this model; None without
        any."""
        searches = [steps_beyond_first(paths) for paths in (self.paths, *self.again)]
        pairs = [overlap(one, two) for one, two in combinations(searches, 2)]
        return sum(pairs) / len(pairs) if pairs and self.paths else None

    @classmethod
    def of(cls, circuit: Circuit, model: str, step: int | None = None) -> Seen:
        """What is kept of a circuit's record."""
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
            strategy=circuit.strategy,
            paths=paths,
            again=tuple(again),
            strict=tuple(path.where for path in strict.paths) if strict else (),
            strict_again=strict.others if strict else (),
            rules=RULES,
        )

    @classmethod
    def of_diverged(cls, run: RunFolder, model: str) -> Seen:
        """What is kept of a model that diverged, in which there is nothing to search for."""
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
    """How circuits are searched for.

    Attributes:
        budget: the budget of the search.
        proof: how much stands behind a certificate.
    """

    budget: SearchConfig = field(default_factory=lambda: SearchConfig.of("quick"))
    proof: CertificateConfig = field(default_factory=CertificateConfig)


HASTY = Search(
    SearchConfig(orders=1, growing=1, sequences=16, confirming=32, deciding=32, every_subset=2, pairs=2),
    CertificateConfig(sequences=32, deciding=32, few=16, rough=4, draws=4, halves=4),
)
"""For the quick versions of studies; its certificates are worth nothing."""


def find_circuits(
    setups: Sequence[Setup], folder: Path, work: Work, search: Search | None = None, known: Iterable[Seen] = ()
) -> tuple[Seen, ...]:
    """Train what is not trained yet, in order, and find the circuit of each model as soon as it is trained.

    Circuits that are there are not searched for again. If the work is cut short, the first models have their circuits.
    A model that diverged counts as one without a circuit.

    Args:
        setups: runs of one model each.
        folder: where the run folders are.
        work: how the work is done.
        search: how circuits are searched for; None for `Search()`.
        known: models seen before, perhaps on another machine; a model made as one of them is not made again.

    Raises:
        InputError: a run or a circuit there is damaged, or is another's.
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
    """Find the circuit of the first model of the run in `path` at a step, None for the last, unless it had diverged."""
    from hopscope.circuits.find import circuit_of_run
    from hopscope.training.run import RunFolder

    run = RunFolder(path)
    if not diverged(run, step):
        circuit_of_run(run, 0, step, effort=search.budget, proof=search.proof)


def diverged(run: RunFolder, step: int | None = None) -> bool:
    """Whether the first model of a finished run had diverged, at a checkpoint or in the end."""
    import torch

    if not run.result.models[0].diverged:
        return False  # it had not diverged before either: NaN stays NaN
    weights = () if step is None else run.transformer(step).state_dict().values()
    return step is None or not all(bool(torch.isfinite(weight).all()) for weight in weights)


def by_one_rule(judgement: Judgement, models: Iterable[Seen]) -> Judgement:
    """A judgement about certificates, if one version of the rules made all of them; otherwise it becomes inconclusive.

    Models that diverged have no certificate, and do not count.
    """
    models = tuple(one for one in models if one.loss is not None)
    if len({one.rules for one in models}) < 2 or judgement.verdict in ("inconclusive", "not run"):
        return judgement
    mixed = f"certified {rules_in_words(models)}, which do not ask the same"
    return replace(judgement, verdict="inconclusive", reason=mixed)


def rules_in_words(models: Iterable[Seen]) -> str:
    """The rules that certified these models, as `by rules 1 and 2`; models that diverged do not count."""
    rules = sorted({one.rules for one in models if one.loss is not None})
    return f"by rules {' and '.join(map(str, rules)) or '-'}"


def between(models: Sequence[Seen]) -> list[float]:
    """For each model, the mean overlap of its steps beyond the first useful layer with those of every other."""
    steps = [steps_beyond_first(one.paths) for one in models]
    return [
        mean(overlap(mine, other) for place, other in enumerate(steps) if place != number)
        for number, mine in enumerate(steps)
        if len(steps) > 1
    ]


def seen_table(seen: Sequence[Seen]) -> str:
    """A Markdown table with a row for each model."""
    rows = []
    for one in seen:
        step = "" if one.step is None else f" at step {one.step}"
        certified = f"{', '.join(one.certified)}, by rules {one.rules}" if one.certified else "no"
        loss = "diverged" if one.loss is None else f"{one.loss:.4f}"
        paths, delivers = f"{len(one.paths)} ({len(one.strict) or '-'})", "yes" if one.delivers else "no"
        rows.append((f"{one.model}{step}", loss, one.strategy, paths, certified, delivers))
    return markdown_table(("model", "loss", "strategy", "paths (strict)", "certified", "delivers"), rows)
