"""The base of the five formulations: extensions, random draws, random structures, and their wording."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from hopscope.checks import Range, check_count, check_fields, check_type
from hopscope.errors import InputError

PAPER_CHAINS = 4
MOST_LINES = 250_000
"""The maximum number of lines in a prompt: more than any model can read, but drawn within seconds."""
THINK = "Think step by step, then write only the answer on the last line."

Form = Literal["instruction", "completion", "code"]
LineOrder = Literal["blocks", "reversed", "shuffled"]
T = TypeVar("T")


@dataclass(frozen=True)
class Extensions:
    """Changes to the formats of Appendix A; the defaults change nothing.

        >>> (shuffled,) = hs.questions("equations", hops=2, count=1, extensions=hs.Extensions(lines="shuffled"))

    Args:
        form: how the question is asked: `instruction`, the paper's sentence; `completion`, a last line to continue
            (`c =`), for models not trained to follow instructions; `code`, the facts as lines of Python and then
            `print(c)  # Output:`. The last two forms are used without a chat template.
        names: which names are used: `paper`, the published names; `extended`, as many names as needed, in blocks like
            the paper's; `random`, names in random order, so that they do not reveal their level.
        lines: order of the lines: `blocks`, the published order; `reversed`, the blocks in reverse order, so that
            the block of the question's symbol is first; `shuffled`, all lines in one random order.
        latin: give all functions different values at each argument (a Latin square), so that no floor exceeds 1/4.
        repeat: number of times that the facts are printed, 1 in the paper.
        filler: number of dots on a line after the question.
        shots: number of solved questions printed before the question.
        think: ask for the reasoning first and the answer alone on the last line.

    Raises:
        InputError: a value is out of range, or two extensions exclude each other.
    """

    form: Form = "instruction"
    names: Literal["paper", "extended", "random"] = "paper"
    lines: LineOrder = "blocks"
    latin: bool = False
    repeat: Annotated[int, Range(1, 10_001)] = 1
    filler: Annotated[int, Range(0, 10_001)] = 0
    shots: Annotated[int, Range(0, 10_001)] = 0
    think: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.form != "instruction" and (self.think or self.filler):
            raise InputError(f"the form {self.form} asks for the answer at once; leave think and filler out")
        if self.think and self.shots:
            raise InputError("solved questions show no reasoning, so shots and think exclude each other; drop one")

    def changed(self) -> dict[str, Any]:
        """Return the extensions that differ from the paper's format, by name."""
        values = ((field, getattr(self, field.name)) for field in fields(self))
        return {field.name: value for field, value in values if value != field.default}


def digest(*address: str | int) -> str:
    """Return the SHA-256 of an address in hexadecimal; a character that no part contains is put between its parts."""
    return hashlib.sha256("\x1f".join(str(part) for part in address).encode()).hexdigest()


class Draw:
    """A stream of random numbers that depends only on its address.

    All draws use `uniform`, which gives numbers in [0, 1): Python keeps only these numbers the same in all versions.
    """

    def __init__(self, *address: str | int) -> None:
        self.uniform = random.Random(int(digest(*address)[:32], 16)).random

    def below(self, count: int) -> int:
        """Return a uniform whole number in [0, count)."""
        return int(self.uniform() * count)

    def permutation(self, count: int) -> tuple[int, ...]:
        """Return a uniform permutation of 0 ... count - 1 (Fisher and Yates)."""
        values = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]
        return tuple(values)

    def some(self, values: Sequence[T], count: int) -> list[T]:
        """Return `count` different items of `values` in random order."""
        return [values[i] for i in self.permutation(len(values))[:count]]

    def order(self, blocks: Sequence[int], shuffled: Sequence[bool], lines: LineOrder) -> tuple[int, ...]:
        """Return the numbers of a prompt's lines in their order in the prompt.

        `blocks` holds the size of each block and `shuffled` whether the lines within the block are shuffled. `lines`
        then decides whether the blocks are reversed or all lines are shuffled.
        """
        ordered, first = list[list[int]](), 0
        for size, mixed in zip(blocks, shuffled, strict=True):
            ordered.append([first + i for i in (self.permutation(size) if mixed else range(size))])
            first += size
        if lines == "reversed":
            ordered.reverse()
        flat = [line for block in ordered for line in block]
        return tuple(self.some(flat, len(flat)) if lines == "shuffled" else flat)


class Line(NamedTuple):
    """A fact or a question, cut into pieces.

    Attributes:
        pieces: the text, cut so that every symbol is a piece of its own.
        roles: the role of every piece, or None for the words around the symbols. Chains have the roles of
            `problem.roles`. Conditional formulations name roles by the symbol: `person>` is a key, `>job` a value and
            `person?` the query.
        lookup: number of the retrieval step that reads this line, 1 for the first step; 0 for the question itself.
        chain: number of the line's chain, i.e. the index of the symbol that asks for the chain; None without a chain.
    """

    pieces: tuple[str, ...]
    roles: tuple[str | None, ...]
    lookup: int
    chain: int | None

    @property
    def text(self) -> str:
        """The line, without its line break."""
        return "".join(self.pieces)


class Mention(NamedTuple):
    """A symbol in the prompt: its characters `start` to `end` (end excluded), in line `line` (counted from 1)."""

    start: int
    end: int
    line: int
    role: str
    lookup: int
    chain: int | None


@dataclass(frozen=True)
class Latent:
    """The structure behind a question, without words; `order` lists its lines by their index in `Wording.facts`."""

    order: tuple[int, ...]


L = TypeVar("L", bound=Latent)


class Wording(NamedTuple):
    """A structure in words.

    Attributes:
        facts: the lines, block by block, each block in the order of its symbols.
        question: the question without the instruction; in other forms, the line that the answer completes.
        answer: the right answer.
        acceptable: all answers that are accepted as answers, right or wrong, in ascending order.
        asked: indices in `facts` of the lines that lead from the question to the answer, in retrieval order.
    """

    facts: Sequence[Line]
    question: Line
    answer: str
    acceptable: tuple[str, ...]
    asked: tuple[int, ...]


class Formulation(ABC, Generic[L]):
    """A way to write the retrieval problem as text.

    Attributes:
        name: the name on the command line; with `_` for `-`, the task name in evaluation harnesses.
        paper_hops: number of retrieval steps of the published question.
        instruction: the published sentence that asks for the answer alone.
        allowed: names of the extensions that apply here.
        asks: for each form, the words before and after the symbol in the last line.
    """

    name: ClassVar[str]
    paper_hops: ClassVar[int]
    instruction: ClassVar[str]
    allowed: ClassVar[frozenset[str]] = frozenset({"form", "lines", "repeat", "filler", "shots", "think"})
    asks: ClassVar[dict[str, tuple[str, str]]] = {
        "instruction": ("What is the value of ", "?"), "completion": ("", " ="), "code": ("print(", ")  # Output:"),
    }  # fmt: skip

    @property
    def task(self) -> str:
        """The name with `_` for `-`, as an identifier."""
        return self.name.replace("-", "_")

    def check(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Raise an `InputError` if hops, chains or extensions do not fit this formulation."""
        check_type("extensions", extensions, Extensions, "Extensions, as Extensions(shots=1)")
        if unknown := [extension for extension in extensions.changed() if extension not in self.allowed]:
            fits = ", ".join(sorted(self.allowed))
            raise InputError(f"{unknown[0]} does not apply to {self.name}, whose extensions are {fits}; leave it out")
        check_count("hops", hops)
        check_count("chains", chains)
        self.check_size(hops, chains, extensions)
        lines = hops * chains * extensions.repeat * (1 + extensions.shots)
        if lines > MOST_LINES:
            raise InputError(
                f"a prompt may have {MOST_LINES:,} lines, including repeats and shots, got {lines:,}; ask for fewer"
            )

    def check_size(self, hops: int, chains: int, extensions: Extensions) -> None:
        """Raise an `InputError` if a size does not fit; unless overridden, only the published size fits."""
        for name, fixed, value in (("hops", self.paper_hops, hops), ("chains", PAPER_CHAINS, chains)):
            if value != fixed:
                raise InputError(f"{name} is {fixed} for {self.name}, whose words are fixed, got {value}; leave it out")

    @abstractmethod
    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> L:
        """Draw a random structure, uniform over all structures that the formulation allows."""

    @abstractmethod
    def write(self, latent: L, form: Form = "instruction") -> Wording:
        """Write the structure in words or, in the form `code`, in lines of Python."""

    @abstractmethod
    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Return, for each kind of line, the accuracy of the best guess that does not read lines of that kind."""
