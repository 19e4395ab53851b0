"""The role of every token of a prompt, for any tokenizer that gives the character offsets of its tokens.

The last token of a word has the word's role. The line of pair k has roles for its two symbols, for the link between
them (`x{k-1}=`) and for the end of the line (`x{k}.`). The question has roles for the symbol asked for (`x0?`) and for
the last token of the prompt (`answer`), which the answer follows. A token that covers several roles has the role of the
symbol, else of the link, else of the end. Everything else, including examples and instructions, has the role `text` and
belongs to no chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

from hopscope.errors import InputError, in_a_line
from hopscope.problem.roles import answer_role, text_role_names
from hopscope.problem.text.chains import Chains
from hopscope.problem.text.questions import Question


@dataclass(frozen=True)
class Tokens:
    """A question as the tokens that a model reads.

    Attributes:
        ids, role: the tokens and the role number of each token. If all acceptable answers begin with the same tokens,
            such as a space, these tokens are included.
        chain: the number of every token's chain, as in `Line.chain`; -1 for `text`.
        candidates: for every acceptable answer, the first token in which it differs from the other answers.
        right: index of the right answer among the candidates.
    """

    ids: tuple[int, ...]
    role: tuple[int, ...]
    chain: tuple[int, ...]
    candidates: tuple[int, ...]
    right: int


def tokens(question: Question, tokenizer: Any) -> Tokens:
    """Return the tokens of a question with their roles; if the tokenizer has a chat template, it is used.

    Raises:
        InputError: the formulation has no chains, facts are printed several times, the tokenizer gives no offsets or
            does not cover the question (see `written`), or two answers cannot be told apart by one token.
    """
    if not isinstance(question.latent, Chains):
        raise InputError(f"{question.formulation} has no chains; circuits need equations, lives-with or kingdoms")
    if question.extensions.repeat > 1:
        raise InputError(
            f"circuits need repeat=1, so that each role has one position, got {question.extensions.repeat}"
        )
    check_fast(tokenizer)
    (text, first), template = written(question, tokenizer), in_a_chat(question, tokenizer)
    ids, offsets = encode(text, tokenizer, template)
    space = "" if question.extensions.form == "instruction" else " "
    answers = {answer: f"{text}{space}{answer}" for answer in question.acceptable}
    ids, candidates = answer_tokens(ids, answers, tokenizer, template, f"a question of {question.formulation}")
    hops, spans = question.hops, [*role_spans(question)]
    role, chain = [text_role_names(hops).index("text")] * len(ids), [-1] * len(ids)
    taken: set[tuple[int, int]] = set()
    for number, (start, end) in reversed([*enumerate(offsets)]):
        covered = [span for span in spans if start < span[1] + first and end > span[0] + first]
        *_, own, of = min(covered, key=lambda span: span[2], default=(0, 0, -1, -1))
        if own >= 0 and (own, of) not in taken:
            role[number], chain[number] = own, of
            taken.add((own, of))
    role[-1], chain[-1] = answer_role(hops), question.latent.asked
    right = question.acceptable.index(question.answer)
    return Tokens(tuple(ids), tuple(role), tuple(chain), candidates, right)


def check_fast(tokenizer: Any) -> None:
    """Raise an `InputError` if a tokenizer does not give the characters that its tokens cover."""
    if not getattr(tokenizer, "is_fast", False):
        raise InputError("the tokenizer gives no offsets of its tokens; circuits need a fast tokenizer")


def answer_tokens(
    ids: list[int], answers: Mapping[str, str], tokenizer: Any, template: bool, which: str
) -> tuple[list[int], tuple[int, ...]]:
    """Return a text's tokens, followed by those that begin all answers, and the first distinct token of each answer.

    `answers` maps each answer to the text followed by that answer, `template` says whether the text went through a chat
    template, and `which` describes the text in messages.

    Raises:
        InputError: an answer changes the tokens of the text, or two answers cannot be told apart by one token.
    """
    read = {answer: encode(text, tokenizer, template)[0] for answer, text in answers.items()}
    for answer, found in read.items():
        if found[: len(ids)] != ids:
            raise InputError(
                f"the tokenizer joins the end of {which} with the answer {answer!r}; end the prompt a word earlier, or "
                "with another character"
            )
    alike = takewhile(lambda column: len({*column}) == 1, zip(*read.values(), strict=False))
    shared = [column[0] for column in alike]
    by_token: dict[tuple[int, ...], str] = {}
    for answer, found in read.items():
        own = tuple(found[len(shared) : len(shared) + 1])
        if not own or own in by_token:
            other = by_token.get(own, next(name for name in read if name != answer))
            raise InputError(
                f"the answers {other!r} and {answer!r} of {which} begin with the same token in this tokenizer; choose "
                "other answers, such as digits"
            )
        by_token[own] = answer
    return shared, tuple(token for (token,) in by_token)


def in_a_chat(question: Question, tokenizer: Any) -> bool:
    """Whether a question is a chat turn: it has the form `instruction`, and the tokenizer has a chat template."""
    return question.extensions.form == "instruction" and tokenizer.chat_template is not None


def written(question: Question, tokenizer: Any) -> tuple[str, int]:
    """Return the text that a model reads, and the index of the character at which the prompt begins.

    The text is a chat turn or, without a chat template, the prompt and a line break. In the forms `completion` and
    `code`, the text is the prompt alone.

    Raises:
        InputError: the tokenizer has no token for a part of the prompt, or its chat template cannot be filled in,
            changes the prompt, or makes the model think first.
    """
    prompt = question.prompt
    refuse_uncovered(prompt, tokenizer, f"a question of {question.formulation}")
    if question.extensions.form != "instruction":
        return prompt, 0
    if tokenizer.chat_template is None:
        return f"{prompt}\n", 0
    turn, how = [{"role": "user", "content": prompt}], {"add_generation_prompt": True, "enable_thinking": False}
    try:
        text = str(tokenizer.apply_chat_template(turn, tokenize=False, **how))
    except Exception as error:  # a template is a program and can raise any error
        raise InputError(
            f"the tokenizer's chat template cannot be filled in: {in_a_line(error)}; mend or remove it"
        ) from None
    if text.rstrip().endswith("<think>") and not question.extensions.think:
        raise InputError(
            "the tokenizer's chat template opens <think>, so the model thinks before it answers; ask with think, or in "
            "the form completion or code"
        )
    if prompt not in text:
        raise InputError("the chat template changes what the user says, so that no token has a role; use another model")
    return text, text.rindex(prompt)


def role_spans(question: Question) -> Iterator[tuple[int, int, int, int]]:
    """Yield the characters of each role in the prompt as (start, end, role, chain), with the end excluded."""
    names = text_role_names(question.hops)
    for _, group in groupby(question.mentions(), lambda mention: mention.line):
        first, *rest = group
        chain = -1 if first.chain is None else first.chain
        yield first.start, first.end, names.index(first.role), chain
        for last in rest:  # the second symbol of a fact; the question has one
            link, end = f"x{last.lookup - 1}=", f"x{last.lookup}."
            yield first.end, last.start, names.index(link), chain
            yield last.start, last.end, names.index(last.role), chain
            yield last.end, question.prompt.index("\n", last.end) + 1, names.index(end), chain


def encode(text: str, tokenizer: Any, in_a_chat: bool) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the tokens of a text and, with a fast tokenizer, the characters that each token covers.

    Special tokens at the end are left out, so that a model continues the prompt.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    special = not in_a_chat  # a chat template has added the special tokens already
    found = tokenizer(text, add_special_tokens=special, return_special_tokens_mask=True, return_offsets_mapping=fast)
    ids, end = list(found["input_ids"]), len(found["input_ids"])
    while end and found["special_tokens_mask"][end - 1]:
        end -= 1
    return ids[:end], [(int(start), int(stop)) for start, stop in found["offset_mapping"][:end]] if fast else []


def refuse_uncovered(text: str, tokenizer: Any, which: str) -> None:
    """Raise an `InputError` if a tokenizer has no tokens for a part of a text; `which` describes the text."""
    if lost := uncovered(text, tokenizer):
        raise InputError(
            f"the tokenizer has no token for some characters ({''.join(dict.fromkeys(lost))[:20]!r}) in {which}, so "
            "the model would not see them; change the text or the model"
        )


def uncovered(text: str, tokenizer: Any) -> str:
    """Return the characters of a text for which a tokenizer has no token, so that a model never sees them.

    White space that tokens skip is not reported, since tokenizers of whole words skip it. If a tokenizer's offsets skip
    a character, a character at the end of the piece is reported instead. Without offsets, the whole text is returned if
    it has an unknown token.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast)
    ids, unknown = found["input_ids"], tokenizer.unk_token_id
    if not fast:
        return text if unknown in ids else ""
    blank, read = set[int](), {at for at, char in enumerate(text) if char.isspace()}
    for token, (start, end) in zip(ids, found["offset_mapping"], strict=True):
        (blank if token == unknown else read).update(range(start, end))
    return "".join(char for at, char in enumerate(text) if at in blank or at not in read)
