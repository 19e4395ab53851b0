"""Which circuits answer questions in language models of our own, and how do they emerge?

Models are trained on the text of equations, with three seeds per condition (six for `pruned` and `pruned-six-layers`).
Circuits are searched for at every number of hops in training, on questions drawn apart from the training text
(234 of the 512 that check circuits of one hop, and 69 of two hops, have facts that are also in it):

- `two-hops`: 4 layers, one and two hops. After every line, the loss has the value of the line's letter as a target.
- `only-questions`: as `two-hops`, but only questions have targets.
- `few-heads`: as `two-hops`, with two heads per layer instead of eight, so that fewer heads can do the same work.
  Circuits must go 90% of the way from guessing to the model, not 95%.
- `pruned`: as `two-hops`, trained twice as long. Once the model answers, heads are pruned, as many at a time as raise
  the loss by at most 0.02 nats together. More heads are pruned only once the model answers again.
- `pruned-three-hops`: as `pruned`, with 5 layers and one to three hops.
- `pruned-six-layers`: as `pruned-three-hops`, with one more layer, a longer training, and bf16 where the processor has
  a unit for it.
- `by-the-word`: as `only-questions`, but a line is four tokens instead of two: its name, the equals sign, its value and
  the line break.
- `four-hops`: 5 layers, one to four hops, and a longer training. Lines have targets, as in `two-hops`.
- `not-taught`: as `four-hops`, but only questions have targets, so nothing teaches the model what to do at a line.

The rules apply to each condition and number of hops. They count models that answer, which means that the lower 95%
Wilson bound of the accuracy is at least 95%. Nothing is confirmed before every seed of the condition is finished, or
with five models or fewer (the lower 95% Clopper-Pearson bound on the share would be at most one half). One model is
enough to refute every rule but rule 4:

1. Every model answers. Confirmed: every model does. Refuted: the whole interval of one model's accuracy is below 95%.
2. Every model that answers has a certified circuit. Confirmed: every model does. Refuted: one model has none.
3. No circuit uses fewer layers than theory needs, and its paths carry the answer to where it is written. Confirmed:
   this is true of every circuit. Refuted: it is false of one circuit.
4. Lines are resolved where they are: some path carries a value from one line to another, before the question (the
   strategy is `doubling` or `line by line`). This rule is for two hops or more. Confirmed: it is true of every circuit.
   Refuted: it is true of no circuit, and every seed is finished. Otherwise inconclusive.
5. One kind of token represents a line: all paths into lines, of all circuits, attend to names, or all to links, or all
   to values, or all to line ends. Confirmed: they attend to one kind, and every circuit has such paths. Refuted: they
   attend to several kinds.

    python -m studies text results/studies/text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import train_text_model
from studies.tools.circuits import NamedPath, delivers
from studies.tools.judgements import Judgement, all_of
from studies.tools.records import counted, markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

ANSWERS = 0.95
"""A model answers if the lower 95% bound of its accuracy is at least this."""


@dataclass(frozen=True)
class TextCondition:
    """Models that differ only in their seeds.

    Attributes:
        name: the name of the condition.
        recipe: the recipe of the models; its `seed` is varied.
        effort: the effort of the search.
        faithfulness: the share of the way from guessing to the model that circuits must go at least.
        seeds: the seeds of the models.
    """

    name: str
    recipe: TextModelRecipe
    effort: Literal["quick", "thorough"] = "thorough"
    faithfulness: float = 0.95
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def hops(self) -> range:
        """The numbers of hops for which circuits are searched."""
        return range(self.recipe.least_hops, self.recipe.most_hops + 1)


_TWO = TextModelRecipe()
_PRUNED = replace(_TWO, steps=2 * _TWO.steps, prune_every=100)
_FOUR = TextModelRecipe(layers=5, most_hops=4, steps=6_000)
_SIX = replace(_PRUNED, layers=6, most_hops=3, steps=10_000, precision="auto")

CONDITIONS = (
    TextCondition("two-hops", _TWO),
    TextCondition("only-questions", replace(_TWO, taught=0.0)),
    TextCondition("few-heads", replace(_TWO, heads=2), "quick", faithfulness=0.9),
    TextCondition("pruned", _PRUNED, "quick", seeds=(3, 4, 5, 6, 7, 8)),
    TextCondition("pruned-three-hops", replace(_PRUNED, layers=5, most_hops=3), "quick", seeds=(3, 4, 5)),
    TextCondition("pruned-six-layers", _SIX, "quick", seeds=(3, 4, 5, 6, 7, 8)),
    TextCondition("by-the-word", replace(_TWO, taught=0.0, cut="word")),
    TextCondition("four-hops", _FOUR, "quick"),
    TextCondition("not-taught", replace(_FOUR, taught=0.0), "quick"),
)


@dataclass(frozen=True)
class Answered:
    """The results of one model at one number of hops.

    Attributes:
        condition: the condition of the model.
        seed: the seed of the model.
        hops: D.
        accuracy: the accuracy of the model.
        lowest: the lower end of its 95% interval.
        max_loss: the highest Brier score that the circuit may have.
        losses: the losses of the model (`full`), of the circuit with imposed patterns (`imposed`) and with its own
            (`own`), and of the model with every path ablated (`nothing`).
        certified: whether the circuit passed all checks; older records use the earlier rules, which had twelve parts.
        failed: the checks that the circuit did not pass.
        strategy: the strategy of the circuit.
        layers_used: the number of layers with a path that matters.
        layers_needed: the number of layers that theory needs.
        delivers: whether, by theory, the paths carry x{D} to where the answer is written.
        lands_on: how many paths into lines attend to each kind of token.
        paths: the paths of the circuit.
    """

    condition: str
    seed: int
    hops: int
    accuracy: float
    lowest: float
    max_loss: float
    losses: dict[str, float]
    certified: bool
    failed: tuple[str, ...]
    strategy: str
    layers_used: int
    layers_needed: int
    delivers: bool
    lands_on: dict[str, int]
    paths: tuple[NamedPath, ...]

    @property
    def answers(self) -> bool:
        """Whether the model counts as one that answers."""
        return self.lowest >= ANSWERS

    @classmethod
    def of(cls, circuit: hs.Circuit, condition: str, seed: int) -> Answered:
        """Return the results from a circuit."""
        assert circuit.text is not None
        layers = circuit.checks["delivery"].numbers if "delivery" in circuit.checks else {}
        paths = tuple(path.path.names(circuit.roles) for path in circuit.paths)
        return cls(
            condition=condition,
            seed=seed,
            hops=circuit.hops,
            accuracy=circuit.text.scores["full"].accuracy,
            lowest=circuit.text.lowest,
            max_loss=circuit.max_loss,
            losses=circuit.losses,
            certified=circuit.certified,
            failed=circuit.failed,
            strategy=circuit.strategy,
            layers_used=int(layers.get("layers", 0)),
            layers_needed=int(layers.get("layers_needed", 0)),
            delivers=delivers(circuit),
            lands_on=_kinds_landed_on(paths),
            paths=paths,
        )


@dataclass(frozen=True)
class TextResult:
    """All results, one entry for each condition, model and number of hops."""

    found: tuple[Answered, ...]


@dataclass(frozen=True)
class TextStudy:
    """The models to train and ask.

    Attributes:
        conditions: the conditions of the study.
    """

    conditions: tuple[TextCondition, ...] = CONDITIONS


def standard(_: hs.Recipe) -> TextStudy:
    """Return the study with all conditions. They have their own recipes, so the given recipe is not used."""
    return TextStudy()


def quick(_: hs.Recipe) -> TextStudy:
    """Return a tiny version that only shows that the study runs, with a model that cannot learn anything."""
    recipe = TextModelRecipe(layers=2, d_model=32, heads=2, most_hops=1, steps=4)
    return TextStudy((TextCondition("quick", recipe, "quick", seeds=(0,)),))


def run(study: TextStudy, folder: Path, work: Work) -> TextResult:
    """Train the models that are missing, and find the circuit of every model at every number of hops.

    A model is not needed if its circuits are in the folder of the study.
    """
    models = [(condition, seed) for condition in study.conditions for seed in condition.seeds]
    work.each("models of text", find_text_circuits, [(condition, seed, folder) for condition, seed in models])
    found = [
        Answered.of(hs.Circuit.load(path), condition.name, seed)
        for condition, seed in models
        for hops in condition.hops
        if (path := _record(folder, condition, seed, hops)).exists()
    ]
    return TextResult(tuple(found))


def find_text_circuits(condition: TextCondition, seed: int, folder: Path) -> None:
    """Train one model, find its circuits, and store them in the folder of the study."""
    missing = [hops for hops in condition.hops if not _record(folder, condition, seed, hops).exists()]
    model = folder / "runs" / condition.name / f"seed-{seed}"
    if missing and not (model / "config.json").exists():
        train_text_model(condition.recipe.varied({"seed": seed}), model)
    for hops in missing:
        found = hs.LanguageModel(model).find_circuit(
            hs.text("equations", hops), effort=condition.effort, faithfulness=condition.faithfulness, progress=False
        )
        found.save(_record(folder, condition, seed, hops))


def judge(result: TextResult) -> list[Judgement]:
    """Judge every condition and number of hops by the rules in the module's docstring."""
    found = []
    for condition in dict.fromkeys(answered.condition for answered in result.found):
        for hops in sorted({answered.hops for answered in result.found if answered.condition == condition}):
            of_hops = [found for found in result.found if (found.condition, found.hops) == (condition, hops)]
            found += _judge(of_hops, f"{condition}, {counted(hops, 'hop')}: ")
    return found


def _missing(condition: str, finished: Sequence[Answered]) -> bool:
    """Return whether seeds of the condition are missing; False for a condition that is not in `CONDITIONS`."""
    planned = {seed for known in CONDITIONS if known.name == condition for seed in known.seeds}
    return not planned <= {answered.seed for answered in finished}


def _does_not_answer(model: Answered) -> bool:
    """Return whether a model clearly does not answer: the upper end of its accuracy's interval, taken as symmetric, is
    too low."""
    return 2 * model.accuracy - model.lowest < ANSWERS


def _judge(found: Sequence[Answered], where: str) -> list[Judgement]:
    missing = _missing(found[0].condition, found)
    models = [model for model in found if model.answers]
    circuits = [model for model in models if model.paths]
    certified = [model.certified for model in models]
    none = "no model that answers has a circuit" if models else "no model answers"
    flows = [circuit.delivers and circuit.layers_used >= circuit.layers_needed for circuit in circuits]
    kinds = sorted({kind for circuit in circuits for kind, count in circuit.lands_on.items() if count})
    answer = [model.answers for model in found]
    judgements = [
        all_of(where + "every model answers", answer, any(map(_does_not_answer, found)), missing),
        all_of(where + "every model has a certified circuit", certified, not all(certified), missing),
        all_of(
            where + "no circuit beats the theory, and each carries the answer", flows, not all(flows), missing, none
        ),
    ]
    if found[0].hops > 1:
        resolved = [circuit.strategy != "serial" for circuit in circuits]
        in_none = not any(resolved) and not missing  # one more circuit could change this
        judgements.append(all_of(where + "lines are resolved where they are", resolved, in_none, missing, none))
    one_kind = Judgement(where + "paths into lines attend to one kind of token", "not run", reason=none)
    if circuits:
        same = [len(kinds) == 1 and any(circuit.lands_on.values()) for circuit in circuits]
        verdict = all_of(one_kind.hypothesis, same, len(kinds) > 1, missing)
        one_kind = replace(verdict, observed=" and ".join(f"{kind}s" for kind in kinds))
    return [*judgements, one_kind]


def table(result: TextResult) -> str:
    """Return a Markdown table with a row for each model and number of hops."""
    columns: dict[str, Callable[[Answered], str]] = {
        "condition": lambda found: found.condition,
        "seed": lambda found: str(found.seed),
        "hops": lambda found: str(found.hops),
        "accuracy": lambda found: f"{found.accuracy:.1%}",
        "paths": lambda found: str(len(found.paths)),
        "layers": lambda found: f"{found.layers_used} ({found.layers_needed} needed)",
        "strategy": lambda found: found.strategy,
        "lines represented by": lambda found: ", ".join(f"{kind} {n}" for kind, n in found.lands_on.items()) or "-",
        "loss alone": lambda found: f"{found.losses['imposed']:.3f}" if found.paths else "-",
        "certified": lambda found: "yes" if found.certified else "no: " + ", ".join(found.failed),
    }
    if not result.found:
        raise hs.InputError("no model is finished; run the study without --judge first")
    return markdown_table(columns, ([report(found) for report in columns.values()] for found in result.found))


def _kinds_landed_on(paths: Sequence[NamedPath]) -> dict[str, int]:
    """Return how many paths from outside a line attend to its name, link, value or end. Kinds without paths are left
    out."""
    counts = {"name": 0, "link": 0, "value": 0, "end": 0}
    for _, _, query, key in paths:
        pair, kind = _place(key)
        if pair and pair != _place(query)[0]:
            counts[kind] += 1
    return {kind: count for kind, count in counts.items() if count}


def _place(role: str) -> tuple[int, str]:
    """Return the pair of a role, from 1, and the kind of its token in the line; 0 and "" outside the lines."""
    for pattern, kind, further in ((r"x(\d+)>", "name", 1), (r">x(\d+)", "value", 0), (r"x(\d+)=", "link", 1)):
        if found := re.fullmatch(pattern, role):
            return int(found[1]) + further, kind
    ends = re.fullmatch(r"x(\d+)\.", role)
    return (int(ends[1]), "end") if ends else (0, "")


def _record(folder: Path, condition: TextCondition, seed: int, hops: int) -> Path:
    return folder / "circuits" / f"{condition.name}-seed-{seed}-{hops}-hops.json"


STUDY = Study(
    "text",
    "Which circuits answer questions in language models of our own?",
    TextResult,
    standard,
    quick,
    run,
    judge,
    table,
)
