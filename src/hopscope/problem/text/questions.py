"""Questions: the prompt, the right answer, the acceptable answers, and the accuracy of guessing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from hopscope.checks import check_count, check_seed
from hopscope.errors import InputError
from hopscope.problem.text.chains import Equations, Kingdoms, LivesWith
from hopscope.problem.text.conditional import Functions, Relatives
from hopscope.problem.text.formulation import (
    PAPER_CHAINS,
    THINK,
    Draw,
    Extensions,
    Formulation,
    Latent,
    Line,
    Mention,
    Wording,
    digest,
)

FORMULATIONS: dict[str, Formulation[Any]] = {
    formulation.name: formulation for formulation in (Equations(), LivesWith(), Kingdoms(), Functions(), Relatives())
}
"""The formulations by name, in the paper's order F1 ... F5."""

FORMAT = "hopscope-text-1"
"""Part of every address. Change it whenever draws or wording change, so that equal ids mean equal prompts."""


@dataclass(frozen=True)
class Question:
    """A retrieval question as text, with its answers.

    Attributes:
        formulation: name of the formulation.
        hops, chains: number of retrieval steps, and number of interleaved chains.
        seed, index: the seed of the question, and its number from 0 among the questions of that seed.
        latent: the structure that the prompt puts into words.
        extensions: departures from the paper's format.
        shots: solved questions printed before this question.
    """

    formulation: str
    hops: int
    chains: int
    seed: int
    index: int
    latent: Latent
    extensions: Extensions
    shots: tuple[Question, ...] = ()

    @cached_property
    def _wording(self) -> Wording:
        return FORMULATIONS[self.formulation].write(self.latent, self.extensions.form)

    @property
    def id(self) -> str:
        """The formulation, D, and a hash of all that determines the prompt; equal ids mean equal prompts."""
        address = self.formulation, self.hops, self.chains, self.seed, self.index
        changed = repr(sorted(self.extensions.changed().items()))
        return f"{self.formulation}-{self.hops}-{digest(FORMAT, *address, changed)[:16]}"

    @cached_property
    def facts(self) -> tuple[Line, ...]:
        """The lines before the question, in text order."""
        return tuple(self._wording.facts[number] for number in self.latent.order)

    @cached_property
    def question(self) -> Line:
        """The last line (before any filler), with its instruction if it has one."""
        line = self._wording.question
        if self.extensions.form != "instruction":
            return line
        instruction = THINK if self.extensions.think else FORMULATIONS[self.formulation].instruction
        return line._replace(pieces=(*line.pieces, f" {instruction}"), roles=(*line.roles, None))

    @property
    def _before(self) -> str:
        between = "\n" if self.extensions.form == "instruction" else " "
        return "".join(f"{shot.prompt}{between}{shot.answer}\n\n" for shot in self.shots)

    @property
    def _lines(self) -> tuple[Line, ...]:
        return (*self.facts * self.extensions.repeat, self.question)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The index in the prompt of the first character of each fact, in every copy, and then of the question."""
        return tuple(accumulate((len(line.text) + 1 for line in self._lines[:-1]), initial=len(self._before)))

    @cached_property
    def prompt(self) -> str:
        """The exact text that a model reads."""
        text = self._before + "\n".join(line.text for line in self._lines)
        filler = self.extensions.filler
        return f"{text}\n{' '.join('.' * filler)}" if filler else text

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of the prompt in UTF-8."""
        return digest(self.prompt)

    @property
    def answer(self) -> str:
        """The right answer."""
        return self._wording.answer

    @property
    def acceptable(self) -> tuple[str, ...]:
        """All answers that are accepted as answers, right or wrong, in ascending order."""
        return self._wording.acceptable

    @property
    def guess(self) -> float:
        """Accuracy of a uniform guess among the acceptable answers."""
        return 1 / len(self.acceptable)

    @property
    def floors(self) -> dict[str, float]:
        """For each kind of line, the accuracy of the best guess that does not read lines of that kind."""
        return dict(FORMULATIONS[self.formulation].floors(self.chains, self.extensions))

    @property
    def shortcut(self) -> float:
        """The highest of the floors; no accuracy up to this value is evidence of retrieval."""
        return max(self.floors.values())

    @property
    def lines(self) -> tuple[int, ...]:
        """Line numbers, from 1 in the first copy of the facts, of those that lead to the answer, in retrieval order."""
        return tuple(self.latent.order.index(line) + 1 for line in self._wording.asked)

    def mentions(self) -> list[Mention]:
        """Return every symbol of the facts and the question, with its position and role."""
        mentions = []
        for number, (line, start) in enumerate(zip(self._lines, self.starts, strict=True), start=1):
            for piece, role in zip(line.pieces, line.roles, strict=True):
                if role is not None:
                    mentions.append(Mention(start, start + len(piece), number, role, line.lookup, line.chain))
                start += len(piece)
        return mentions

    def record(self, roles: bool = False) -> dict[str, Any]:
        """Return the question as plain JSON values; with `roles`, include its mentions."""
        address = ("id", "formulation", "hops", "chains", "seed", "index", "extensions")
        names = (*address, "prompt", "prompt_hash", "answer", "acceptable", "guess", "shortcut", "lines")
        record = {name: getattr(self, name) for name in names}
        record |= {"extensions": self.extensions.changed(), "acceptable": [*self.acceptable], "lines": [*self.lines]}
        record["latent"] = asdict(self.latent)
        return record | ({"mentions": [mention._asdict() for mention in self.mentions()]} if roles else {})


def formulation(name: str) -> Formulation[Any]:
    """Return the formulation of that name, written with `-` or `_`; raise an `InputError` if there is none."""
    found = FORMULATIONS.get(name.replace("_", "-")) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"there is no formulation {name!r}; there are {', '.join(FORMULATIONS)}")
    return found


def question(
    name: str,
    hops: int | None = None,
    seed: int = 0,
    index: int = 0,
    chains: int = PAPER_CHAINS,
    extensions: Extensions | None = None,
) -> Question:
    """Return question number `index` (from 0) of the list that `questions` returns for the same other arguments."""
    form, extensions = formulation(name), Extensions() if extensions is None else extensions
    hops = form.paper_hops if hops is None else hops
    form.check(hops, chains, extensions)
    check_seed(seed, "seed")
    check_count("index", index, least=0)
    address = form.name, hops, chains, seed, index  # without extensions, which re-dress the same structure

    def drawn(shot: int, extensions: Extensions, shots: tuple[Question, ...] = ()) -> Question:
        latent = form.draw(Draw(FORMAT, *address, shot), hops, chains, extensions)
        return Question(*address, latent, extensions, shots)

    alone = replace(extensions, shots=0)
    return drawn(0, extensions, tuple(drawn(shot, alone) for shot in range(1, extensions.shots + 1)))


def questions(
    formulation: str,
    hops: int | None = None,
    count: int = 500,
    seed: int = 0,
    chains: int = PAPER_CHAINS,
    extensions: Extensions | None = None,
) -> list[Question]:
    """Return the first `count` questions of a seed; a longer list starts with the shorter one (Section 4, Appendix A).

    Args:
        formulation: equations, lives-with, kingdoms, functions or relatives.
        hops: D, the number of retrieval steps; the paper's by default.
        count: number of questions.
        seed: seed that the questions are drawn from.
        chains: number of interleaved chains.
        extensions: changes to the paper's format.

    Raises:
        InputError: the formulation does not exist or does not allow these values, or a value is out of range.

    Examples:
        >>> import hopscope as hs
        >>> [first, second] = hs.questions("equations", hops=2, count=2, seed=0)
        >>> print(first.prompt)
        c = 1
        a = 2
        d = 3
        b = 0
        h = b
        f = d
        g = a
        e = c
        What is the value of f? Say directly only the numeric value, without any other words.
        >>> first.answer, first.acceptable, first.lines
        ('3', ('0', '1', '2', '3'), (6, 3))
    """
    check_count("count", count)
    return [question(formulation, hops, seed, index, chains, extensions) for index in range(count)]
