"""Which circuits answer questions in language models of our own?

Three models of the text of equations, each from a seed of its own, trained on one and two hops; each asked for its
circuit at both, by the thorough search, on questions that no training saw. Of models of vectors the paper says that
circuits double; nobody has looked at text.

Rules, by number of hops, over the models that answer (lower 95% Wilson bound of the accuracy at least 95%):

1. Every model has a circuit that is certified in the natural reading. As asked: each has. Not as asked: one that
   answers has none. Inconclusive: fewer than three models answer.
2. No circuit uses fewer layers than theory needs, and its paths carry the answer to where it is written. As asked: so
   it is in every circuit. Not as asked: there is one in which it is not.
3. Lines are resolved where they stand: some path brings a value from another line to a line, before the question
   (doubling). Only from two hops on. As asked: in every circuit; not as asked: in none; else inconclusive.

    hopscope study text results/studies/text
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hopscope.benchmark.own_model.recipe import TextModelRecipe
from hopscope.circuits.compare import Where, strategy
from hopscope.circuits.record import Circuit
from hopscope.circuits.search.budget import Effort
from hopscope.errors import InputError
from hopscope.studies.judgements import Judgement
from hopscope.studies.work import Work

ANSWERS = 0.95
"""Accuracy from which, for sure, a model answers."""

FEWEST = 3
"""Models below which nothing is said of all."""


@dataclass(frozen=True)
class TextStudy:
    """What is trained and asked.

    Attributes:
        recipe: of the models; `seed` is varied.
        seeds: of the models.
        hops: what is asked.
        effort: of the search.
    """

    recipe: TextModelRecipe = field(default_factory=TextModelRecipe)
    seeds: tuple[int, ...] = (0, 1, 2)
    hops: tuple[int, ...] = (1, 2)
    effort: Effort = "thorough"


@dataclass(frozen=True)
class Answered:
    """What was found in one model at one number of hops.

    Attributes:
        seed: of the model.
        hops: D.
        accuracy: of the model.
        lowest: lower end of its 95% interval.
        bar: Brier score that the circuit may have at most.
        losses: of the model (`full`), of the circuit with its patterns imposed and with its own, and of nothing.
        certified: whether all parts of the certificate passed.
        failed: parts that did not.
        strategy: `serial`, `doubling`, or `none` without a circuit.
        layers_used: layers with a path that matters.
        layers_needed: by theory.
        delivers: whether the paths carry x{D} to where the answer is written, by theory.
        paths: of the circuit.
    """

    seed: int
    hops: int
    accuracy: float
    lowest: float
    bar: float
    losses: dict[str, float]
    certified: bool
    failed: tuple[str, ...]
    strategy: str
    layers_used: int
    layers_needed: int
    delivers: bool
    paths: tuple[Where, ...]

    @property
    def answers(self) -> bool:
        """Whether the model answers for sure."""
        return self.lowest >= ANSWERS

    @classmethod
    def of(cls, circuit: Circuit, seed: int) -> Answered:
        """What is kept of a circuit."""
        assert circuit.text is not None
        flow = circuit.certificate.get("deliverability", {})
        return cls(
            seed=seed,
            hops=circuit.hops,
            accuracy=circuit.text.scores["full"].accuracy,
            lowest=circuit.text.lowest,
            bar=circuit.bar,
            losses=circuit.losses,
            certified="natural" in circuit.certified,
            failed=tuple(name for name, part in circuit.certificate.items() if not part["passed"]),
            strategy=strategy(circuit),
            layers_used=flow.get("layers_used", 0),
            layers_needed=flow.get("layers_needed", 0),
            delivers=bool(flow.get("passed", False)),
            paths=tuple(one.path.names(circuit.roles) for one in circuit.paths),
        )


@dataclass(frozen=True)
class TextResult:
    """Everything that was found.

    Attributes:
        found: by model and number of hops.
    """

    found: tuple[Answered, ...]

    def at(self, hops: int) -> list[Answered]:
        """Of the models that answer at a number of hops."""
        return [one for one in self.found if one.hops == hops and one.answers]


def quick() -> TextStudy:
    """That it works: a model that cannot have learned anything."""
    return TextStudy(TextModelRecipe(layers=2, d_model=32, heads=2, most_hops=1, steps=3), (0,), (1,), "quick")


def run(study: TextStudy, folder: Path, work: Work) -> TextResult:
    """Train what is not trained yet, and find the circuit of every model at every number of hops."""
    if not work.idle:
        work.each("models of text", ask, [(study, seed, folder) for seed in study.seeds])
    paths = [(seed, _record(folder, seed, hops)) for seed in study.seeds for hops in study.hops]
    return TextResult(tuple(Answered.of(Circuit.load(path), seed) for seed, path in paths if path.exists()))


def ask(study: TextStudy, seed: int, folder: Path) -> None:
    """One model: trained, asked, its circuits kept beside the study."""
    from hopscope.benchmark.own_model.training import train_text_model
    from hopscope.circuits.text_model import TextModel

    model = folder / "runs" / f"seed-{seed}"
    if not (model / "config.json").exists():
        train_text_model(study.recipe.varied({"seed": seed}), model)
    asked = TextModel(model)
    for hops in study.hops:
        circuit = asked.circuit("equations", hops, effort=study.effort)
        circuit.save(_record(folder, seed, hops))


def judge(result: TextResult) -> list[Judgement]:
    """By the rules above, hop by hop."""
    found = []
    for hops in sorted({one.hops for one in result.found}):
        models, asked = result.at(hops), f"{hops} hop{'s' if hops > 1 else ''}: "
        circuits = [one for one in models if one.paths]
        lacking = sum(not one.certified for one in models)
        flows = [one.delivers and one.layers_used >= one.layers_needed for one in circuits]
        found += [
            _all(asked + "every model has a certified circuit", [one.certified for one in models], lacking > 0),
            _all(asked + "no circuit beats the theory, and each carries the answer", flows, not all(flows)),
        ]
        if hops > 1:
            doubling = [one.strategy == "doubling" for one in circuits]
            found.append(_all(asked + "lines are resolved where they stand", doubling, not any(doubling)))
    return found


def _all(asked: str, models: Sequence[bool], against: bool) -> Judgement:
    """As asked if it is so in all of three models or more; not as asked where something speaks against it."""
    n, yes = len(models), sum(models)
    ours = f"{yes} of {n}"
    if not n:
        return Judgement(asked, "not run", reason="no model answers")
    if against:
        return Judgement(asked, "not as asked", ours, n)
    if n < FEWEST:
        return Judgement(asked, "inconclusive", ours, n, "too few models to tell")
    return Judgement(asked, "as asked", ours, n) if yes == n else Judgement(asked, "inconclusive", ours, n, "some are")


def table(result: TextResult) -> str:
    """A line a model and number of hops."""
    columns: dict[str, Callable[[Answered], str]] = {
        "seed": lambda one: str(one.seed),
        "hops": lambda one: str(one.hops),
        "accuracy": lambda one: f"{one.accuracy:.1%}",
        "paths": lambda one: str(len(one.paths)),
        "layers": lambda one: f"{one.layers_used} ({one.layers_needed} needed)",
        "strategy": lambda one: one.strategy,
        "loss alone": lambda one: f"{one.losses['imposed']:.3f}" if one.paths else "-",
        "certified": lambda one: "yes" if one.certified else "no: " + ", ".join(one.failed),
    }
    if not result.found:
        raise InputError("no model is finished")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(tell(one) for tell in columns.values())} |" for one in result.found]
    return "\n".join(lines) + "\n"


def _record(folder: Path, seed: int, hops: int) -> Path:
    return folder / "circuits" / f"seed-{seed}-{hops}-hops.json"
