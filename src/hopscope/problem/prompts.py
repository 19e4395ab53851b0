"""A task of your own: prompts, the roles of their words, their acceptable answers and the right answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from hopscope.checks import check_count, check_items, check_path, check_type
from hopscope.errors import InputError, in_a_line
from hopscope.problem.retrieval import Problem
from hopscope.problem.roles import text_role_names
from hopscope.problem.text.formulation import Draw, Extensions, LineOrder
from hopscope.problem.text.questions import Question, questions
from hopscope.problem.text.tokens import Tokens, answer_tokens, check_fast, encode, refuse_uncovered, role_spans
from hopscope.records import convert, write_text

TEXT, ANSWER = "text", "answer"
"""Roles of every prompt: `text` for tokens without another role; `answer` for a last token without another role."""

_ROLE = re.compile(r">?[\w+.?'-]{1,24}[>=]?")

LEAST = 8
"""The minimum number of prompts of a task; the search uses half of the prompts and the checks the other half."""


@dataclass(frozen=True)
class Prompt:
    """A prompt with its roles and answers.

    Attributes:
        prompt: the exact text that the model reads, without a chat template.
        roles: start and end (excluded) of the characters of each role; the last token that covers them has the role.
        answers: the acceptable answers. A space is inserted before an answer if the prompt ends with a letter or digit
            and the answer begins with one.
        right: index of the right answer in `answers`, from 0.
        counterfactual: a minimally different prompt in which the right answer is no longer right.
        other_chains: in a prompt of several chains, the `roles` of each chain that is not asked for. Roles that only
            the chain asked for has, such as those of the question, are left out.
    """

    prompt: str
    roles: dict[str, tuple[int, int]]
    answers: tuple[str, ...]
    right: int = 0
    counterfactual: str | None = None
    other_chains: tuple[dict[str, tuple[int, int]], ...] = ()

    def check(self, number: int) -> None:
        """Raise an `InputError` if the prompt is invalid; `number`, from 1, identifies the prompt in messages."""
        which, length = f"prompt {number}", len(self.prompt)
        if len(set(self.answers)) < max(2, len(self.answers)) or "" in self.answers:
            raise InputError(f"{which} needs at least two different answers, got {list(self.answers)}")
        check_count(f"right in {which}", self.right, 0, len(self.answers) - 1)
        for chain in self.other_chains:
            if odd := {*chain} - {*self.roles} or {*chain} ^ {*self.other_chains[0]}:
                raise InputError(
                    f"role {min(odd)!r} of {which} must be in all other chains or in none, and in the chain asked for"
                )
        if not self.roles:
            raise InputError(f"{which} has no roles; name the words between which attention is followed")
        places = [place for roles in (self.roles, *self.other_chains) for place in roles.items()]
        for role, (start, end) in places:
            if not _ROLE.fullmatch(role) or role in (TEXT, "or"):
                rule = f"use up to 24 letters, digits or _+-.?, not {TEXT!r} or 'or'"
                raise InputError(f"{role!r} in {which} is not a role name; {rule}")
            if not 0 <= start < end <= length or not self.prompt[start:end].strip(" "):
                raise InputError(
                    f"role {role!r} of {which} must be characters of the prompt, from 0 to {length}, got {[start, end]}"
                )

    def continued(self, answer: str) -> str:
        """Return the prompt followed by an answer."""
        apart = " " if self.prompt[-1:].isalnum() and answer[:1].isalnum() else ""
        return f"{self.prompt}{apart}{answer}"


@dataclass(frozen=True)
class PromptRoles(Problem):
    """A task of your own, as circuits record it: its name, role names (the answer follows the last role) and chains."""

    task: str
    names: tuple[str, ...]
    chains: int = 1

    @property
    def all_roles(self) -> tuple[str, ...]:
        """Names of the roles, by number."""
        return self.names

    @property
    def named(self) -> str:
        """The task's name."""
        return self.task


@dataclass(frozen=True)
class PromptTask:
    """A task of your own, for `hs.LanguageModel.find_circuit`.

        >>> task = hs.prompts.ioi(count=8)
        >>> task.prompts[0].prompt[slice(*task.prompts[0].roles["S2"])], len(task.prompts)
        ('Sarah', 8)

    Args:
        name: name of the task, for records and files.
        prompts: the prompts; all have the same roles and the same number of answers.

    Raises:
        InputError: there are too few prompts, or a prompt is invalid or differs in roles or number of answers.
    """

    name: str
    prompts: tuple[Prompt, ...]
    thrifty: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.-]+", self.name):
            raise InputError(f"a task's name consists of letters, digits, '.', '_' and '-', got {self.name!r}")
        object.__setattr__(self, "prompts", check_items("prompts", self.prompts, "hs.prompts.Prompt"))
        if len(self.prompts) < LEAST:
            raise InputError(f"a task needs at least {LEAST} prompts, got {len(self.prompts)}; write more of them")
        first = self.prompts[0]
        for number, prompt in enumerate(self.prompts, start=1):
            check_type(f"prompt {number}", prompt, Prompt, "an hs.prompts.Prompt")
            prompt.check(number)
            if missing := {*first.roles} ^ {*prompt.roles}:
                raise InputError(f"prompts 1 and {number} need the same roles; role {min(missing)!r} is only in one")
            if len(prompt.answers) != len(first.answers):
                both = f"got {len(first.answers)} and {len(prompt.answers)}"
                raise InputError(f"prompts 1 and {number} need the same number of answers, {both}")
            if [*map(set, prompt.other_chains)] != [*map(set, first.other_chains)]:
                raise InputError(f"prompts 1 and {number} need the same number of other chains, with the same roles")
        final = self.problem.names[-1]
        if final == ANSWER and any(p.roles.get(ANSWER, (0, len(p.prompt)))[1] < len(p.prompt) for p in self.prompts):
            raise InputError(f"role {ANSWER!r} means the last token; end every prompt with it, or rename it")
        if any(final in chain for chain in first.other_chains):
            raise InputError(f"role {final!r} ends the prompts, so no other chain can have it; leave it out there")

    @classmethod
    def read(cls, path: Path | str) -> PromptTask:
        """Read a task from a JSONL file with one prompt per line; the task is named after the file.

        Raises:
            InputError: the file cannot be read, or a line of the file is not a prompt.
        """
        path, prompts = check_path("a task", path), []
        try:
            lines = path.read_text(encoding="utf-8").split("\n")  # JSON may hold other line separators
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read as a task ({in_a_line(error)}); give a JSONL file") from None
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise InputError(f"line {number} of {path} is not JSON ({in_a_line(error)})") from None
                prompts.append(convert(value, Prompt, f"line {number} of {path} (one prompt per line)"))
        return cls(path.stem, tuple(prompts))

    def write(self, path: Path | str) -> None:
        """Write the task to a JSONL file for `read`."""
        rows = (json.dumps({k: v for k, v in asdict(prompt).items() if v not in (None, ())}) for prompt in self.prompts)
        write_text(check_path("a task", path), "".join(f"{row}\n" for row in rows))

    @cached_property
    def problem(self) -> PromptRoles:
        """The roles in order of position, `text`, and the final role: the role that ends every prompt or `answer`."""
        first = self.prompts[0].roles
        final = next((role for role in first if all(p.roles[role][1] == len(p.prompt) for p in self.prompts)), ANSWER)
        where = {role: sum(prompt.roles[role][0] for prompt in self.prompts) for role in first if role != final}
        names = (*sorted(where, key=where.__getitem__), TEXT, final)
        return PromptRoles(self.name, names, 1 + len(self.prompts[0].other_chains))

    @property
    def floor(self) -> float:
        """Accuracy without reading: the better of a uniform guess and always giving the commonest right answer."""
        ((_, most),) = Counter(prompt.answers[prompt.right] for prompt in self.prompts).most_common(1)
        return max(1 / len(self.prompts[0].answers), most / len(self.prompts))

    def tokens(self, tokenizer: Any, count: int, seed: int, purpose: str = "") -> list[Tokens]:
        """Return up to `count` prompts for a purpose, as tokens with their roles.

        Every other prompt is used for searches and the rest for checks; each half is in random order. If a result is in
        doubt, its half is read from the other end.

        Raises:
            InputError: the tokenizer gives no offsets or does not cover a prompt, two roles share a token, or two
                answers begin with the same token.
        """
        check_fast(tokenizer)
        read = [self._tokens(number, tokenizer) for number in range(len(self.prompts))]
        half = read[0 if purpose.startswith("circuit search") else 1 :: 2]
        order = Draw("prompts", self.name, seed, purpose.removesuffix(", in doubt")).some(half, len(half))
        return order[:: -1 if purpose.endswith("in doubt") else 1][:count]

    def _tokens(self, number: int, tokenizer: Any) -> Tokens:
        prompt, names, which = self.prompts[number], self.problem.names, f"prompt {number + 1} of {self.name}"
        for text in (prompt.prompt, *map(prompt.continued, prompt.answers)):
            refuse_uncovered(text, tokenizer, which)
        ids, offsets = encode(prompt.prompt, tokenizer, False)
        answers = dict(zip(prompt.answers, map(prompt.continued, prompt.answers), strict=True))
        ids, candidates = answer_tokens(ids, answers, tokenizer, False, which)
        taken = {0: (TEXT, -1), len(ids) - 1: (names[-1], 0)}
        chains = enumerate((prompt.roles, *prompt.other_chains))
        for name, (start, end), chain in ((*place, number) for number, roles in chains for place in roles.items()):
            at = max((n for n, span in enumerate(offsets) if span[0] < end and span[1] > start), default=0)
            if name != names[-1] and at in taken:
                mend = "move or drop one role" if at else "heads rest at the first token, so put another word before it"
                raise InputError(
                    f"roles {taken[at][0]!r} and {name!r} share the token {prompt.prompt[slice(*offsets[at])]!r} in "
                    f"{which}; {mend}"
                )
            taken |= {at: (name, chain)} if name != names[-1] else {}
        found = [taken.get(at, (TEXT, -1)) for at in range(len(ids))]
        role, of_chain = tuple(names.index(name) for name, _ in found), tuple(chain for _, chain in found)
        return Tokens(tuple(ids), role, of_chain, candidates, prompt.right)


def spans(parts: Iterable[tuple[str, str]]) -> tuple[str, dict[str, tuple[int, int]]]:
    """Join pieces of text, each with its role or an empty string; return the prompt and its roles.

    >>> hs.prompts.spans([("When ", ""), ("Mary", "IO"), (" left", "")])
    ('When Mary left', {'IO': (5, 9)})
    """
    text, roles = "", dict[str, tuple[int, int]]()
    for part in parts:
        if isinstance(part, str) or len(part) != 2:
            raise InputError(f"parts must be pairs of a text and its role, as (' and ', ''), got {part!r}")
        piece, role = part
        if role in roles:
            raise InputError(f"role {role!r} is given twice; give each piece of text a role of its own")
        roles |= {role: (len(text), len(text) + len(piece))} if role else {}
        text += piece
    return text, roles


def _task(name: str, make: Callable[[Draw], Prompt], count: int, seed: int) -> PromptTask:
    check_count("count", count, LEAST)
    return PromptTask(name, tuple(make(Draw("hopscope-prompts", name, seed, number)) for number in range(count)))


_NAMES = (
    "Mary", "John", "Tom", "James", "Sarah", "Anna", "David", "Emma", "Paul", "Lisa", "Mark", "Jack", "Kate", "Peter",
)  # fmt: skip
_PLACES = ("garden", "station", "museum", "school", "market", "office")
_THINGS = ("key", "book", "ring", "letter", "map", "drink")
_WORDS = 16  # of a prompt of `induction`
_GIVEN = ("handed", "gave", "showed")
_OPENINGS = (
    ("When ", " and", " walked", " to"), ("After ", " and", " had", " met at"), ("While ", " and", " were", " in"),
)  # fmt: skip


def ioi(count: int = 512, seed: int = 0) -> PromptTask:
    """Indirect object identification (Wang et al. 2022) in our own wording: which of two names is not repeated?

    Roles: IO, S1, the word after S1 (`S1+1`), S2, and `end`, the last token.
    """

    def make(draw: Draw) -> Prompt:
        (io, s, third), turn = draw.some(_NAMES, 3), draw.below(2)
        names = [[(io, "IO")], [(s, "S1")]]
        before, and_, verb, after = _OPENINGS[draw.below(3)]
        words = [(and_, ""), (verb, "")]
        words[turn] = (words[turn][0], "S1+1")  # turn 0: S1 comes first
        first, second = names[::-1] if turn == 0 else names
        place, thing, given = (some[draw.below(len(some))] for some in (_PLACES, _THINGS, _GIVEN))
        opening = [(before, ""), *first, words[0], (" ", ""), *second, words[1], (f"{after} the {place}, ", "")]
        text, roles = spans([*opening, (s, "S2"), (f" {given} the {thing}", ""), (" to", "end")])
        start, end = roles["S2"]
        return Prompt(text, roles, (io, s), 0, f"{text[:start]}{third}{text[end:]}")

    return _task("ioi", make, count, seed)


def induction(tokenizer: Any, count: int = 512, seed: int = 0) -> PromptTask:
    """Sixteen random words, repeated: which word followed the last one the first time? Words are single tokens.

    Roles: A1 and B1 are the first occurrence of the pair, A2 is the last token, and `before` and `before2` are the
    words before A1 and A2.
    """
    written = [tokenizer.decode([number]) for number in range(min(len(tokenizer), 20_000))]
    known = sorted({word for word in written if re.fullmatch(r" [a-z]{4,8}", word)})
    known = [word for word in known if len(tokenizer(f"a{word}{word}", add_special_tokens=False)["input_ids"]) == 3]
    if len(known) < 10 * _WORDS:
        raise InputError(f"the tokenizer has {len(known)} words of one token, and induction needs {10 * _WORDS}")

    def make(draw: Draw) -> Prompt:
        drawn = draw.some(known, _WORDS)
        at = _WORDS // 2 + draw.below(_WORDS // 2 - 1)
        named = {at - 1: "before", at: "A1", at + 1: "B1", _WORDS + at - 1: "before2", _WORDS + at: "A2"}
        text, roles = spans((word, named.get(n, "")) for n, word in enumerate([*drawn, *drawn[: at + 1]]))
        others = draw.some([word for n, word in enumerate(drawn) if n not in (0, at, at + 1)], 3)
        return Prompt(text, roles, (drawn[at + 1], *others), 0)

    return _task("induction", make, count, seed)


def code(count: int = 512, seed: int = 0, hops: int = 1, lines: LineOrder = "blocks") -> PromptTask:
    """Equations as code (`hs.text`), after a comment, because heads that rest attend to the first token.

    Roles: those of the chain asked for, named as in `hs.text`: `x0>`, `>x1`, `x1.`, ..., `x0?` and `answer`. The link
    between two symbols has a role only if the second is a number, since the token of a letter includes the space.
    `lines` is the order of the lines, as in `hs.Extensions`. No prompt comes twice, so there may be fewer than `count`.
    """
    above, names = "# Python\n", text_role_names(hops)
    linked = {f"x{hop}=" for hop in range(hops - 1)}

    def prompt(question: Question) -> Prompt:
        spans = [*role_spans(question)]  # the last of which is the question's
        asked = [span for span in spans if span[3] == spans[-1][3]]
        roles = {names[role]: (len(above) + start, len(above) + end) for start, end, role, _ in asked}
        roles = {role: span for role, span in roles.items() if role not in linked}
        answers = tuple(f" {answer}" for answer in question.acceptable)
        return Prompt(above + question.prompt, roles, answers, question.acceptable.index(question.answer))

    name = f"code-{hops}-hops" if lines == "blocks" else f"code-{hops}-hops-{lines}"
    return PromptTask(name, tuple(map(prompt, _as_code(count, seed, hops, lines))))


def code_chains(
    tokenizer: Any, count: int = 512, seed: int = 0, hops: int = 1, lines: LineOrder = "blocks"
) -> PromptTask:
    """The prompts of `code` with roles in the lines of all chains, not only of the chain asked for.

    Roles: those of `code` and, in each line, the equals sign (`x0=` after x0) and the space before the value (`x1-1`
    before x1). The equals sign and the space have a role only if a token ends there.
    """
    check_fast(tokenizer)
    names = text_role_names(hops)

    def prompt(question: Question, plain: Prompt) -> Prompt:
        above, chains = len(plain.prompt) - len(question.prompt), dict[int, dict[str, tuple[int, int]]]()
        ends = {end for _, end in encode(plain.prompt, tokenizer, False)[1]}
        for start, end, role, chain in role_spans(question):  # the last of which is the question's
            name, first, last = names[role], above + start, above + end
            places = {name: (first, last)}
            if name.endswith("="):
                places = {name: (first, last - 1), f"x{int(name[1:-1]) + 1}-1": (first, last)}
                places = {name: place for name, place in places.items() if place[1] in ends}
            chains.setdefault(chain, {}).update(places)
        return replace(plain, roles=chains.pop(chain), other_chains=tuple(chains[other] for other in sorted(chains)))

    drawn, plain = _as_code(count, seed, hops, lines), code(count, seed, hops, lines)
    return PromptTask(plain.name.replace("code", "code-chains"), tuple(map(prompt, drawn, plain.prompts)))


def _as_code(count: int, seed: int, hops: int, lines: LineOrder) -> list[Question]:
    check_count("count", count, LEAST)
    drawn = questions("equations", hops, 4 * count, seed, extensions=Extensions(form="code", lines=lines))
    return list({question.prompt: question for question in drawn}.values())[:count]  # no prompt twice
