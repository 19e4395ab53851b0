"""What the five formulations have in common: a random structure, its lines, a question, and accuracies of guessers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.problem.text.draw import Draw
from hopscope.problem.text.extensions import Extensions, LineOrder
from hopscope.problem.text.line import Line

PAPER_CHAINS = 4
MOST_LINES = 250_000
"""The most lines of a prompt: more than any model reads, yet drawn in seconds."""
THINK = "Think step by step, then write only the answer on the last line."


@dataclass(frozen=True)
class Latent:
    """The structure behind a question: what the text says, without its words.

    Attributes:
        order: the lines in the order of the text, each by its number in `Formulation.facts`.
    """

    order: tuple[int, ...]

    def record(self) -> dict[str, Any]:
        """The structure as plain values; `Formulation.read` turns them back into a structure."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


L = TypeVar("L", bound=Latent)


class Formulation(ABC, Generic[L]):
    """A way to write the retrieval problem as text.

    Attributes:
        name: its name on the command line; with `_` for `-`, its task name in evaluation harnesses.
        paper_hops: number of retrieval steps of the published question.
        instruction: the words by which the published question asks for nothing but the answer.
        allowed: names of the extensions that apply here.
    """

    name: ClassVar[str]
    paper_hops: ClassVar[int]
    instruction: ClassVar[str]
    allowed: ClassVar[frozenset[str]]

    @property
    def task(self) -> str:
        """The name as an identifier."""
        return self.name.replace("-", "_")

    def check(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse what cannot be written in this formulation.

        Raises:
            InputError: hops, chains or an extension does not fit.
        """
        if not isinstance(extensions, Extensions):
            raise InputError(f"extensions must be Extensions, as Extensions(shots=1), got {extensions!r}")
        for extension in extensions.changed():
            if extension not in self.allowed:
                fits = ", ".join(sorted(self.allowed))
                raise InputError(
                    f"{extension} does not apply to {self.name}, whose extensions are {fits}; leave it out"
                )
        for name, value in (("hops", hops), ("chains", chains)):
            check_count(name, value)
        self.check_size(hops, chains, extensions)
        lines = hops * chains * extensions.repeat * (1 + extensions.shots)
        if lines > MOST_LINES:
            raise InputError(
                f"a prompt may have {MOST_LINES:,} lines, hops times chains in every repeat and solved question, "
                f"got {lines:,}; ask for fewer"
            )

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Refuse a size that this formulation does not allow; by default any but the published one."""
        if hops != self.paper_hops:
            raise InputError(
                f"hops is {self.paper_hops} for {self.name}, whose facts are fixed, got {hops}; leave it out"
            )
        if chains != PAPER_CHAINS:
            raise InputError(
                f"chains is {PAPER_CHAINS} for {self.name}, whose words are fixed, got {chains}; leave it out"
            )

    @abstractmethod
    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> L:
        """A random structure, uniform over those the formulation admits."""

    @abstractmethod
    def facts(self, latent: L) -> list[Line]:
        """The lines, block by block, each block in the order of its symbols."""

    @abstractmethod
    def question(self, latent: L) -> Line:
        """The question, without the instruction."""

    @abstractmethod
    def answer(self, latent: L) -> str:
        """The one right answer."""

    @abstractmethod
    def acceptable(self, latent: L) -> tuple[str, ...]:
        """All answers that count as an answer, right or wrong, in ascending order."""

    @abstractmethod
    def asked(self, latent: L) -> tuple[int, ...]:
        """The lines that lead from the question to the answer, as numbered in `facts`, in that order."""

    @abstractmethod
    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Accuracy of the best guesser that leaves some lines unread, by what is left unread."""

    def read(self, record: Mapping[str, Any]) -> L:
        """The structure that `Latent.record` wrote, also after a round trip through JSON."""
        return self.latent_type(**{name: _frozen(value) for name, value in record.items()})

    @property
    @abstractmethod
    def latent_type(self) -> type[L]:
        """The class of its structures."""


def draw_order(draw: Draw, blocks: Sequence[int], shuffled: Sequence[bool], lines: LineOrder) -> tuple[int, ...]:
    """The order of numbered lines in the text.

    Args:
        draw: the question's random stream.
        blocks: number of lines in each block.
        shuffled: for each block, whether the paper shuffles it.
        lines: the order asked for.
    """
    standing: list[list[int]] = []
    first = 0
    for size, mixed in zip(blocks, shuffled, strict=True):
        standing.append([first + i for i in (draw.permutation(size) if mixed else range(size))])
        first += size
    if lines == "reversed":
        standing.reverse()
    flat = [line for block in standing for line in block]
    return tuple(draw.some(flat, len(flat))) if lines == "shuffled" else tuple(flat)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list | tuple) else value
