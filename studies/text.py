"""Which circuits answer questions in language models of our own, and how do they come to be?

Models of the text of equations, three seeds an arm (of `pruned` and `pruned-six-layers` six), asked for their circuits
at every number of hops they were trained on, on questions that no training saw:

- `two-hops`: 4 layers, one and two hops. Behind every line the loss asks for the value of its letter.
- `only-questions`: as `two-hops`, but only questions are asked; lines are not.
- `few-heads`: as `two-hops`, with two heads a layer and not eight, so that fewer can do the same; circuits must go 90%
  of the way from guessing to the model, not 95%.
- `pruned`: as `two-hops`, trained twice as long. Once it answers, heads are taken away, as many at a time as together
  cost no more than 0.02 nats, and more only when it answers again. (Arms before it took them one by one from a fixed
  step on, or at 0.1 nats: of nine models three lost two hops, or had not learned them yet.)
- `pruned-three-hops`: as `pruned`, 5 layers, one to three hops.
- `pruned-six-layers`: as `pruned-three-hops`, with a layer more, longer, and in bf16 where the processor has a unit for
  it. (Of the models before it one of three came to answer three hops; a trial with six layers did.)
- `by-the-word`: as `two-hops`, but only questions are asked, and a line is four tokens, not two: its name, the equals
  sign, its value, the line break.
- `four-hops`: 5 layers, one to four hops, a longer training; lines are asked for, as in `two-hops`.
- `not-taught`: as `four-hops`, but only questions are asked. What a line comes to is taught nowhere, so that what
  happens there is the model's own choice.

Rules, by arm and number of hops, over the models that answer (lower 95% Wilson bound of the accuracy at least 95%).
Until every seed of the arm is finished nothing is as asked, nor with so few models that half of all others might do
otherwise (the lower 95% Clopper-Pearson bound on the share is at most one half: five or fewer). Not as asked is what
one model decides:

1. Every model answers. As asked: each does. Not as asked: of one the whole interval of the accuracy is below 95%.
2. Every model that answers has a circuit that is certified in the natural reading. As asked: each has. Not as asked:
   one has none.
3. No circuit uses fewer layers than theory needs, and its paths carry the answer to where it is written. As asked: so
   it is in every circuit. Not as asked: there is one in which it is not.
4. Lines are resolved where they stand: some path brings a value from another line to a line, before the question (the
   strategy is `doubling` or `line by line`). Only from two hops on. As asked: in every circuit; not as asked: in none,
   every seed being finished; else inconclusive.
5. One kind of token says what a line says: all look-ups into lines, of all circuits, land on names, or on links, or on
   values, or on line ends. As asked: on one kind, and in every circuit there are some. Not as asked: on several.

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
from studies.tools.circuits import NamedPath
from studies.tools.judgements import Judgement, all_of
from studies.tools.records import counted, markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

ANSWERS = 0.95
"""A model answers if its accuracy is surely at least this."""


@dataclass(frozen=True)
class TextArm:
    """Models that differ only in their seeds.

    Attributes:
        name: the name of the arm.
        recipe: the recipe of the models; its `seed` is varied.
        effort: the effort of the search.
        faithfulness: how far, at least, circuits must go of the way from guessing to the model.
        seeds: the seeds of the models.
    """

    name: str
    recipe: TextModelRecipe
    effort: Literal["quick", "thorough"] = "thorough"
    faithfulness: float = 0.95
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def hops(self) -> range:
        """The numbers of hops that are asked."""
        return range(self.recipe.least_hops, self.recipe.most_hops + 1)


_TWO = TextModelRecipe()
_PRUNED = replace(_TWO, steps=2 * _TWO.steps, prune_every=100)
_FOUR = TextModelRecipe(layers=5, most_hops=4, steps=6_000)
_SIX = replace(_PRUNED, layers=6, most_hops=3, steps=10_000, precision="auto")

ARMS = (
    TextArm("two-hops", _TWO),
    TextArm("only-questions", replace(_TWO, taught=0.0)),
    TextArm("few-heads", replace(_TWO, heads=2), "quick", faithfulness=0.9),
    TextArm("pruned", _PRUNED, "quick", seeds=(3, 4, 5, 6, 7, 8)),
    TextArm("pruned-three-hops", replace(_PRUNED, layers=5, most_hops=3), "quick", seeds=(3, 4, 5)),
    TextArm("pruned-six-layers", _SIX, "quick", seeds=(3, 4, 5, 6, 7, 8)),
    TextArm("by-the-word", replace(_TWO, taught=0.0, cut="word")),
    TextArm("four-hops", _FOUR, "quick"),
    TextArm("not-taught", replace(_FOUR, taught=0.0), "quick"),
)


@dataclass(frozen=True)
class Answered:
    """What was found in one model at one number of hops.

    Attributes:
        arm: the arm of the model.
        seed: the seed of the model.
        hops: D.
        accuracy: the accuracy of the model.
        lowest: the lower end of its 95% interval.
        bar: the highest Brier score that the circuit may have.
        losses: of the model (`full`), of the circuit with its patterns imposed and with its own, and of nothing.
        certified: whether all parts of the certificate passed.
        failed: the parts that did not pass.
        strategy: the strategy of the circuit.
        layers_used: the number of layers with a path that matters.
        layers_needed: the number of layers that are needed by theory.
        delivers: whether the paths carry x{D} to where the answer is written, by theory.
        looked_up: how many look-ups into lines land on each kind of token.
        paths: the paths of the circuit.
    """

    arm: str
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
    looked_up: dict[str, int]
    paths: tuple[NamedPath, ...]

    @property
    def answers(self) -> bool:
        """Whether the model surely answers."""
        return self.lowest >= ANSWERS

    @classmethod
    def of(cls, circuit: hs.Circuit, arm: str, seed: int) -> Answered:
        """What is kept of a circuit."""
        assert circuit.text is not None
        layers = circuit.checks["delivery"].numbers if "delivery" in circuit.checks else {}
        paths = tuple(path.path.names(circuit.roles) for path in circuit.paths)
        return cls(
            arm=arm,
            seed=seed,
            hops=circuit.hops,
            accuracy=circuit.text.scores["full"].accuracy,
            lowest=circuit.text.lowest,
            bar=circuit.max_loss,
            losses=circuit.losses,
            certified=circuit.certified,
            failed=circuit.failed,
            strategy=circuit.strategy,
            layers_used=int(layers.get("layers", 0)),
            layers_needed=int(layers.get("layers_needed", 0)),
            delivers=circuit.delivers,
            looked_up=_kinds_looked_up(paths),
            paths=paths,
        )


@dataclass(frozen=True)
class TextResult:
    """Everything that was found, one entry for each arm, model and number of hops."""

    found: tuple[Answered, ...]


@dataclass(frozen=True)
class TextStudy:
    """What is trained and asked.

    Attributes:
        arms: the arms of the study.
    """

    arms: tuple[TextArm, ...] = ARMS


def standard(_: hs.Recipe) -> TextStudy:
    """All arms. They have recipes of their own, so the one that is given is not used."""
    return TextStudy()


def quick(_: hs.Recipe) -> TextStudy:
    """A tiny version that only shows that the study runs: a model that cannot have learned anything."""
    recipe = TextModelRecipe(layers=2, d_model=32, heads=2, most_hops=1, steps=4)
    return TextStudy((TextArm("quick", recipe, "quick", seeds=(0,)),))


def run(study: TextStudy, folder: Path, work: Work) -> TextResult:
    """Train what is not trained yet, and find the circuit of every model at every number of hops.

    Models whose circuits are there already, as records beside the study, are not needed.
    """
    models = [(arm, seed) for arm in study.arms for seed in arm.seeds]
    work.each("models of text", ask, [(arm, seed, folder) for arm, seed in models])
    records = [(arm, seed, _record(folder, arm, seed, hops)) for arm, seed in models for hops in arm.hops]
    return TextResult(
        tuple(Answered.of(hs.Circuit.load(path), arm.name, seed) for arm, seed, path in records if path.exists())
    )


def ask(arm: TextArm, seed: int, folder: Path) -> None:
    """Train one model and find its circuits, which are kept beside the study."""
    missing = [hops for hops in arm.hops if not _record(folder, arm, seed, hops).exists()]
    model = folder / "runs" / arm.name / f"seed-{seed}"
    if missing and not (model / "config.json").exists():
        train_text_model(arm.recipe.varied({"seed": seed}), model)
    for hops in missing:
        asked = hs.LanguageModel(model)
        found = asked.find_circuit(hs.text("equations", hops), effort=arm.effort, faithfulness=arm.faithfulness)
        found.save(_record(folder, arm, seed, hops))


def judge(result: TextResult) -> list[Judgement]:
    """Judge by the rules above, arm by arm and hop by hop."""
    found = []
    for arm in dict.fromkeys(one.arm for one in result.found):
        for hops in sorted({one.hops for one in result.found if one.arm == arm}):
            of_hops = [one for one in result.found if (one.arm, one.hops) == (arm, hops)]
            found += _judge(of_hops, f"{arm}, {counted(hops, 'hop')}: ")
    return found


def _missing(arm: str, finished: Sequence[Answered]) -> bool:
    """Whether seeds of the arm are missing; none are of an arm that is not among `ARMS`."""
    planned = {seed for one in ARMS if one.name == arm for seed in one.seeds}
    return not planned <= {one.seed for one in finished}


def _does_not(one: Answered) -> bool:
    """Whether a model surely does not answer: its accuracy, raised by its distance from the lower end of the interval,
    is too low."""
    return 2 * one.accuracy - one.lowest < ANSWERS


def _judge(asked: Sequence[Answered], where: str) -> list[Judgement]:
    missing = _missing(asked[0].arm, asked)
    models = [one for one in asked if one.answers]
    circuits = [model for model in models if model.paths]
    certified = [model.certified for model in models]
    none = "no model that answers has a circuit" if models else "no model answers"
    flows = [circuit.delivers and circuit.layers_used >= circuit.layers_needed for circuit in circuits]
    kinds = sorted({kind for circuit in circuits for kind, count in circuit.looked_up.items() if count})
    found = [
        all_of(where + "every model answers", [one.answers for one in asked], any(map(_does_not, asked)), missing),
        all_of(where + "every model has a certified circuit", certified, not all(certified), missing),
        all_of(
            where + "no circuit beats the theory, and each carries the answer", flows, not all(flows), missing, none
        ),
    ]
    if asked[0].hops > 1:
        resolved = [circuit.strategy != "serial" for circuit in circuits]
        in_none = not any(resolved) and not missing  # which one more circuit can change
        found.append(all_of(where + "lines are resolved where they stand", resolved, in_none, missing, none))
    one_kind = Judgement(where + "look-ups land on one kind of token", "not run", reason=none)
    if circuits:
        some = [len(kinds) == 1 and any(circuit.looked_up.values()) for circuit in circuits]
        verdict = all_of(one_kind.asked, some, len(kinds) > 1, missing)
        one_kind = replace(verdict, ours=" and ".join(f"{kind}s" for kind in kinds))
    return [*found, one_kind]


def table(result: TextResult) -> str:
    """A Markdown table with a row for each model and number of hops."""
    columns: dict[str, Callable[[Answered], str]] = {
        "arm": lambda one: one.arm,
        "seed": lambda one: str(one.seed),
        "hops": lambda one: str(one.hops),
        "accuracy": lambda one: f"{one.accuracy:.1%}",
        "paths": lambda one: str(len(one.paths)),
        "layers": lambda one: f"{one.layers_used} ({one.layers_needed} needed)",
        "strategy": lambda one: one.strategy,
        "look-ups land on": lambda one: ", ".join(f"{kind} {count}" for kind, count in one.looked_up.items()) or "-",
        "loss alone": lambda one: f"{one.losses['imposed']:.3f}" if one.paths else "-",
        "certified": lambda one: "yes" if one.certified else "no: " + ", ".join(one.failed),
    }
    if not result.found:
        raise hs.InputError("no model is finished")
    return markdown_table(columns, ([tell(one) for tell in columns.values()] for one in result.found))


def _kinds_looked_up(paths: Sequence[NamedPath]) -> dict[str, int]:
    """How many paths into a line from outside it land on its name, link, value or end; kinds with none are left out."""
    counts = {"name": 0, "link": 0, "value": 0, "end": 0}
    for _, _, query, key in paths:
        pair, kind = _place(key)
        if pair and pair != _place(query)[0]:
            counts[kind] += 1
    return {kind: count for kind, count in counts.items() if count}


def _place(role: str) -> tuple[int, str]:
    """The pair of a role, from 1, and which token of its line it is; 0 outside the lines."""
    for pattern, kind, further in ((r"x(\d+)>", "name", 1), (r">x(\d+)", "value", 0), (r"x(\d+)=", "link", 1)):
        if found := re.fullmatch(pattern, role):
            return int(found[1]) + further, kind
    ends = re.fullmatch(r"x(\d+)\.", role)
    return (int(ends[1]), "end") if ends else (0, "")


def _record(folder: Path, arm: TextArm, seed: int, hops: int) -> Path:
    return folder / "circuits" / f"{arm.name}-seed-{seed}-{hops}-hops.json"


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
