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

And by arm, of the models that answer at every number of hops: hops are learned in order, the accuracy at each passing
half of the way from guessing to certain, on 256 questions, at a later checkpoint than at the hop before. As asked: in
all. Not as asked: in one a hop passes at an earlier checkpoint than the hop before. Else inconclusive: checkpoints may
be too far apart to tell. Not run where there are no checkpoints. How they answer what is put otherwise than in training
is judged by the rule of `studies.text_otherwise`.

(The rules were content with three models, of which three draws in ten are alike where three models in ten are not. So
nothing is as asked of arms with three seeds any more.)

    python -m studies text results/studies/text
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from examples.text_model.recipe import TextModelRecipe
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.search.config import Effort
from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_json, write_json
from hopscope.records import convert, plain
from hopscope.training.recipe import Recipe
from hopscope.training.work import Work
from hopscope.words import counted, markdown_table
from studies.text_found import ANSWERS, Answered, Grown, TextResult
from studies.text_otherwise import Otherwise, ask_otherwise, judge_otherwise, otherwise_table
from studies.tools.judgements import Judgement, all_of
from studies.tools.study import Study

QUESTIONS = 256
"""Questions that are asked of every checkpoint."""


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
    effort: Effort = "thorough"
    faithfulness: float = 0.95
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def hops(self) -> range:
        """The numbers of hops that are asked."""
        return range(self.recipe.least_hops, self.recipe.most_hops + 1)


_TWO = TextModelRecipe()
_PRUNED = replace(_TWO, steps=2 * _TWO.steps, prune_every=100)
_FOUR = TextModelRecipe(layers=5, most_hops=4, steps=6_000, checkpoint_every=500)
_SIX = replace(_PRUNED, layers=6, most_hops=3, steps=10_000, precision="auto")

ARMS = (
    TextArm("two-hops", _TWO),
    TextArm("only-questions", replace(_TWO, taught=0.0, checkpoint_every=300)),
    TextArm("few-heads", replace(_TWO, heads=2), "quick", faithfulness=0.9),
    TextArm("pruned", _PRUNED, "quick", seeds=(3, 4, 5, 6, 7, 8)),
    TextArm("pruned-three-hops", replace(_PRUNED, layers=5, most_hops=3), "quick", seeds=(3, 4, 5)),
    TextArm("pruned-six-layers", _SIX, "quick", seeds=(3, 4, 5, 6, 7, 8)),
    TextArm("by-the-word", replace(_TWO, taught=0.0, cut="word", checkpoint_every=300)),
    TextArm("four-hops", _FOUR, "quick"),
    TextArm("not-taught", replace(_FOUR, taught=0.0), "quick"),
)


@dataclass(frozen=True)
class TextStudy:
    """What is trained and asked.

    Attributes:
        arms: the arms of the study.
    """

    arms: tuple[TextArm, ...] = ARMS


def standard(_: Recipe) -> TextStudy:
    """All arms. They have recipes of their own, so the one that is given is not used."""
    return TextStudy()


def quick(_: Recipe) -> TextStudy:
    """A tiny version that only shows that the study runs: a model that cannot have learned anything."""
    recipe = TextModelRecipe(layers=2, d_model=32, heads=2, most_hops=1, steps=4, checkpoint_every=2)
    return TextStudy((TextArm("quick", recipe, "quick", seeds=(0,)),))


def run(study: TextStudy, folder: Path, work: Work) -> TextResult:
    """Train what is not trained yet, find the circuit of every model at every number of hops, and follow their growth.

    Models whose circuits are there already, as records beside the study, are not needed.
    """
    models = [(arm, seed) for arm in study.arms for seed in arm.seeds]
    work.each("models of text", ask, [(arm, seed, folder) for arm, seed in models])
    records = [(arm, seed, _record(folder, arm, seed, hops)) for arm, seed in models for hops in arm.hops]
    histories = [_history(folder, arm, seed) for arm, seed in models]
    otherwise = [_otherwise(folder, arm, seed) for arm, seed in models]
    return TextResult(
        tuple(Answered.of(_circuit(path), arm.name, seed) for arm, seed, path in records if path.exists()),
        tuple(convert(read_json(path, "how a model grew"), Grown, str(path)) for path in histories if path.exists()),
        tuple(one for path in otherwise if path.exists() for one in _read_otherwise(path)),
    )


def ask(arm: TextArm, seed: int, folder: Path) -> None:
    """Train one model, find its circuits, and follow how it grew; what is found is kept beside the study."""
    from examples.text_model.training import train_text_model
    from hopscope.language.text_model import TextModel

    missing = [hops for hops in arm.hops if not _record(folder, arm, seed, hops).exists()]
    found_out = not missing and (not arm.recipe.checkpoint_every or _history(folder, arm, seed).exists())
    model = folder / "runs" / arm.name / f"seed-{seed}"
    if not found_out and not (model / "config.json").exists():
        train_text_model(arm.recipe.varied({"seed": seed}), model)
    if (model / "config.json").exists() and not _otherwise(folder, arm, seed).exists():
        asked_otherwise = ask_otherwise(arm.name, seed, arm.recipe.most_hops, model)
        write_json(_otherwise(folder, arm, seed), plain(asked_otherwise))
    if found_out:
        return
    asked = TextModel(model)
    for hops in missing:
        found = asked.find_circuit("equations", hops, effort=arm.effort, faithfulness=arm.faithfulness)
        found.save(_record(folder, arm, seed, hops))
    if arm.recipe.checkpoint_every:
        write_json(_history(folder, arm, seed), plain(watched(arm, seed, folder, model)))


def watched(arm: TextArm, seed: int, folder: Path, model: Path) -> Grown:
    """How a model came to answer, and how the paths of its final circuits came to attend."""
    from examples.text_model.training import checkpoint_path
    from hopscope.language.text_batch import TextTask
    from hopscope.language.text_model import TextModel

    steps = range(arm.recipe.checkpoint_every, arm.recipe.steps + 1, arm.recipe.checkpoint_every)
    circuits = {hops: _circuit(_record(folder, arm, seed, hops)) for hops in arm.hops}
    accuracy: dict[str, list[float]] = {str(hops): [] for hops in arm.hops}
    attention: dict[str, dict[str, list[float]]] = {
        str(hops): {one.path.describe(circuit.roles): [] for one in circuit.paths} for hops, circuit in circuits.items()
    }
    for step in steps:
        asked = TextModel(checkpoint_path(model, step))
        for hops, circuit in circuits.items():
            evaluator = asked.evaluator(TextTask.of("equations", hops), QUESTIONS, seed=1)
            accuracy[str(hops)].append(evaluator.scores({}).accuracy)
            maps = evaluator.role_maps().same[0]
            for path in (one.path for one in circuit.paths):
                attention[str(hops)][path.describe(circuit.roles)].append(round(float(maps[path]), 4))
    return convert(
        {"arm": arm.name, "seed": seed, "steps": list(steps), "accuracy": accuracy, "attention": attention}, Grown, "it"
    )


def judge(result: TextResult) -> list[Judgement]:
    """Judge by the rules above, arm by arm and hop by hop."""
    found = []
    for arm in dict.fromkeys(one.arm for one in result.found):
        for hops in sorted({one.hops for one in result.found if one.arm == arm}):
            found += _judge(result.at(arm, hops), f"{arm}, {counted(hops, 'hop')}: ")
        grown, in_order = [one for one in result.grown if one.arm == arm], f"{arm}: hops are learned in order"
        if grown:
            told = [one.in_order for one in result.answering(arm)]
            found.append(all_of(in_order, [one is True for one in told], False in told, _missing(arm, grown)))
        else:
            found.append(Judgement(in_order, "not run", reason="no checkpoints are kept"))
        otherwise = [one for one in result.otherwise if one.arm == arm]
        found += judge_otherwise(arm, otherwise, partial(result.seeds, arm), _missing(arm, otherwise))
    return found


def _missing(arm: str, finished: Sequence[Answered | Grown | Otherwise]) -> bool:
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
    circuits = [one for one in models if one.paths]
    certified = [one.certified for one in models]
    none = "no model that answers has a circuit" if models else "no model answers"
    flows = [one.delivers and one.layers_used >= one.layers_needed for one in circuits]
    kinds = sorted({kind for one in circuits for kind, count in one.looked_up.items() if count})
    found = [
        all_of(where + "every model answers", [one.answers for one in asked], any(map(_does_not, asked)), missing),
        all_of(where + "every model has a certified circuit", certified, not all(certified), missing),
        all_of(
            where + "no circuit beats the theory, and each carries the answer", flows, not all(flows), missing, none
        ),
    ]
    if asked[0].hops > 1:
        resolved = [one.strategy != "serial" for one in circuits]
        in_none = not any(resolved) and not missing  # which one more circuit can change
        found.append(all_of(where + "lines are resolved where they stand", resolved, in_none, missing, none))
    one_kind = Judgement(where + "look-ups land on one kind of token", "not run", reason=none)
    if circuits:
        some = [len(kinds) == 1 and any(one.looked_up.values()) for one in circuits]
        verdict = all_of(one_kind.asked, some, len(kinds) > 1, missing)
        one_kind = replace(verdict, ours=" and ".join(f"{kind}s" for kind in kinds))
    return [*found, one_kind]


def table(result: TextResult) -> str:
    """Markdown tables: a row for each model and number of hops, then the answers to questions put in other ways."""
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
        "certified": lambda one: f"yes, by rules {one.rules}" if one.certified else "no: " + ", ".join(one.failed),
    }
    if not result.found:
        raise InputError("no model is finished")
    found = markdown_table(columns, ([tell(one) for tell in columns.values()] for one in result.found))
    return f"{found}\n{otherwise_table(result.otherwise, result.seeds)}"


def _record(folder: Path, arm: TextArm, seed: int, hops: int) -> Path:
    return folder / "circuits" / f"{arm.name}-seed-{seed}-{hops}-hops.json"


def _circuit(path: Path) -> Circuit:
    """The circuit in a record.

    Raises:
        InputError: the record is damaged, or belongs to a model of vectors.
    """
    circuit = Circuit.load(path)
    if circuit.text is None:
        raise InputError(f"{path} holds the circuit of a model of vectors, not of a language model; {UNTOUCHED}")
    return circuit


def _history(folder: Path, arm: TextArm, seed: int) -> Path:
    return folder / "grown" / f"{arm.name}-seed-{seed}.json"


def _otherwise(folder: Path, arm: TextArm, seed: int) -> Path:
    return folder / "otherwise" / f"{arm.name}-seed-{seed}.json"


def _read_otherwise(path: Path) -> list[Otherwise]:
    return convert(read_json(path, "answers to questions put otherwise"), list[Otherwise], str(path))


STUDY = Study("text", TextResult, standard, quick, run, judge, table, None)
