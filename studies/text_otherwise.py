"""Do our language models answer where their circuits say that they should, and nowhere else?

A circuit that resolves lines where they stand says what will happen to questions that are put otherwise than in
training: a line can only look up a line before it. So models of the study `text` are asked, at each number of hops from
two on, 512 questions in each of these ways (of shuffled ones in both together), and what the circuits foretell stands
beside it:

- `one hop more` than in training, the same format: not answered.
- `reversed`: the line of the letter asked for first, each line before the one it names: not answered.
- `reversed, D times`: such facts printed as often as there are hops. From copy to copy a line finds one that has come a
  hop further, and in the last the chain is told: answered.
- `shuffled, in order`: all lines in one random order, those of the chain asked for as in training: answered.
- `shuffled, out of order`: all others of these questions: not answered.
- `names in any order`: the same letters, but they do not tell how deep a line stands, as they do in training: answered,
  since circuits match letters and do not count. (First asked with any of the alphabet's letters, of which the models
  have never seen most, and answered by none: that asked nothing.)

Rule, by arm, number of hops and way, over the models that answer in the format of training (for one hop more: at the
most hops of training). Of those that do not answer `shuffled, in order` nothing is said in `reversed` and `shuffled,
out of order`: they may be lost in any order but that of training. Foretold to be answered, it is as asked if the whole
95% Wilson interval of the accuracy is above half of the way from guessing to certain in all such models, six or more,
and every seed of the arm is finished; not as asked if in one of them it is below. Foretold not to be, it is as asked if
it is below a quarter of the way in all, and not as asked if in one it is above half. Else inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from hopscope.problem.text.chains import Chains
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import Draw
from hopscope.problem.text.questions import Question, questions
from hopscope.statistics import wilson
from hopscope.words import markdown_table
from studies.tools.judgements import Judgement, all_of

if TYPE_CHECKING:
    from hopscope.benchmark.trial import Record

Way = Literal[
    "one hop more",
    "reversed",
    "reversed, D times",
    "shuffled, in order",
    "shuffled, out of order",
    "names in any order",
]

FORETOLD: Mapping[Way, bool] = {
    "one hop more": False,
    "reversed": False,
    "reversed, D times": True,
    "shuffled, in order": True,
    "shuffled, out of order": False,
    "names in any order": True,
}
"""Whether circuits that resolve lines where they stand answer questions that are put in this way."""

CONTROL: Mapping[Way, Way] = {"reversed": "shuffled, in order", "shuffled, out of order": "shuffled, in order"}
"""What a model must answer for its failure in another way to say something."""

HALF_WAY, QUARTER = 0.625, 0.4375
"""Accuracies half and a quarter of the way from guessing among four to certainty."""

ASKED, SEED = 512, 2
"""Questions asked in each way (both orders of shuffled lines share them), and the seed they are drawn from."""


@dataclass(frozen=True)
class Otherwise:
    """How one model answers questions that are put otherwise than in training.

    Attributes:
        arm: the arm of the model.
        seed: the seed of the model.
        way: the way in which they are put.
        hops: the number of hops D that is asked.
        questions: how many questions were asked.
        right: how many of them were answered rightly.
    """

    arm: str
    seed: int
    way: Way
    hops: int
    questions: int
    right: int

    def tells_of(self, *, planned: bool) -> set[str]:
        """The name of a model asked in this way."""
        return {f"{self.arm} {self.seed} {self.hops} {self.way}"}

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% Wilson interval of the accuracy."""
        return wilson(self.right, self.questions)


def put(most_hops: int) -> Iterator[tuple[Way, int, list[Question]]]:
    """The questions in every way and for every number of hops, for a model that was trained on up to `most_hops`."""
    yield "one hop more", most_hops + 1, questions("equations", most_hops + 1, ASKED, SEED)
    for hops in range(2, most_hops + 1):

        def drawn(extensions: Extensions, hops: int = hops) -> list[Question]:
            return questions("equations", hops, ASKED, SEED, extensions=extensions)

        yield "reversed", hops, drawn(Extensions(lines="reversed"))
        yield "reversed, D times", hops, drawn(Extensions(lines="reversed", repeat=hops))
        shuffled = drawn(Extensions(lines="shuffled"))
        yield "shuffled, in order", hops, [one for one in shuffled if in_order(one)]
        yield "shuffled, out of order", hops, [one for one in shuffled if not in_order(one)]
        yield "names in any order", hops, [renamed(one) for one in drawn(Extensions())]


def in_order(question: Question) -> bool:
    """Whether each line of the chain asked for stands after the line that it names."""
    return list(question.lines) == sorted(question.lines, reverse=True)


def renamed(question: Question) -> Question:
    """The same question with its letters in any order, whatever their level."""
    latent = question.latent
    assert isinstance(latent, Chains)
    numbers, *levels = latent.words
    drawn = Draw(question.id, "names").permutation(sum(map(len, levels)))
    letters = iter([letter for level in levels for letter in level][place] for place in drawn)
    words = tuple(tuple(next(letters) for _ in level) for level in levels)
    return replace(question, latent=replace(latent, words=(numbers, *words)))


def ask_otherwise(arm: str, seed: int, most_hops: int, model: Path) -> list[Otherwise]:
    """Ask one model in every way. Its answer is the acceptable one that it finds most probable.

    Raises:
        InputError: the folder holds no model.
    """
    from hopscope.benchmark.local import LocalModel
    from hopscope.benchmark.settings import BenchmarkSettings

    asked, found = LocalModel(model, device="cpu"), []
    for way, hops, those in put(most_hops):
        records: list[Record] = []
        asked.weigh(those, BenchmarkSettings(mode="exact", seed=SEED), records.append)
        right = sum(answered(record) == record.answer for record in records)
        found.append(Otherwise(arm, seed, way, hops, len(records), right))
    return found


def answered(record: Record) -> str | None:
    """The most probable of the acceptable answers; None where none has any weight."""
    weights = record.weights or {}
    most = max(weights, key=weights.__getitem__, default=None)
    return most if most is not None and weights[most] > 0 else None


def judge_otherwise(
    arm: str, asked: Sequence[Otherwise], answer: Callable[[int], Set[int]], missing: bool
) -> list[Judgement]:
    """Judge by the rule above, way after way, at every number of hops.

    Args:
        arm: the name of the arm.
        asked: the results of its models, in every way.
        answer: gives the seeds of the models that answer so many hops in the format of training.
        missing: whether a seed of the arm is not finished.
    """
    found = []
    for hops, way in dict.fromkeys((one.hops, one.way) for one in asked):
        models = answer(hops - 1 if way == "one hop more" else hops)
        if way in CONTROL:
            models &= {one.seed for one in _put(asked, hops, CONTROL[way]) if one.interval[0] > HALF_WAY}
        intervals = [one.interval for one in _put(asked, hops, way) if one.seed in models]
        above = [low > HALF_WAY for low, _ in intervals]
        if FORETOLD[way]:
            against = any(high < HALF_WAY for _, high in intervals)
            found.append(all_of(f"{arm}, {hops} hops, {way}: answered", above, against, missing))
        else:
            silent = [high < QUARTER for _, high in intervals]
            found.append(all_of(f"{arm}, {hops} hops, {way}: not answered", silent, any(above), missing))
    return found


def otherwise_table(asked: Sequence[Otherwise], answer: Callable[[str, int], Set[int]]) -> str:
    """A Markdown table with a row for each arm, number of hops and way: the accuracies of the models that answer in the
    format of training.

    Args:
        asked: the results of models of any arms, in every way.
        answer: gives the seeds of the models of an arm that answer so many hops in the format of training.
    """
    rows = []
    for arm, hops, way in dict.fromkeys((one.arm, one.hops, one.way) for one in asked):
        seeds = answer(arm, hops - 1 if way == "one hop more" else hops)
        here = [one.right / one.questions for one in _put(asked, hops, way) if one.arm == arm and one.seed in seeds]
        if here:
            told = f"{median(here):.0%} ({min(here):.0%} to {max(here):.0%})"
            foretold = "answered" if FORETOLD[way] else "not answered"
            rows.append((arm, hops, way, len(here), told, foretold))
    return markdown_table(("arm", "hops", "asked", "models", "accuracy", "foretold"), rows)


def _put(asked: Sequence[Otherwise], hops: int, way: Way) -> list[Otherwise]:
    return [one for one in asked if (one.hops, one.way) == (hops, way)]
