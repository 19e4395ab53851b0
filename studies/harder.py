"""What makes one and two hops harder for a pretrained model, and what does it answer instead? (Section 4)

The study asks questions of equations, written as code, in several dresses. A dress changes the order of the facts or
the names, changes the number or the length of the chains, repeats the facts, or adds solved questions, comments,
earlier values or dead ends. One forward pass over each prompt and a space gives the probability of every letter and
digit as the next word.

    python -m examples.models qwen
    python -m studies.harder ask models/Qwen2.5-Coder-1.5B-Instruct runs/harder
    python -m studies.harder condense runs/harder/Qwen2.5-Coder-1.5B-Instruct results/language-models/harder

`ask` asks one dress at one D after the other, and continues where it was stopped. `condense` reads the records that
exist so far.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

import hopscope as hs
from hopscope.plot import save
from hopscope.statistics import holm, sign_test, wilson
from studies.tools import records
from studies.tools.command import status

HOPS = (1, 2, 3)
BATCH = 16
COMMENTS = ("# nothing changes below", "# see the notes of the last meeting", "# this part was written in spring") * 3

KINDS = (
    "right",
    "own earlier value",
    "value of another chain",
    "letter of its own chain",
    "another letter",
    "another digit",
    "anything else",
)
"""The kinds of next word."""

CODE = hs.Extensions(form="code")
Question = Any


@dataclass(frozen=True)
class Dress:
    """A way to write a drawn question. `write` returns the prompt, by default the prompt that the extensions give."""

    name: str
    extensions: hs.Extensions = CODE
    chains: int = 4
    write: Callable[[Question], str] = lambda question: str(question.prompt)
    least_hops: int = 1

    def file(self, runs: Path, hops: int) -> Path:
        """Return the path of the records of this dress at one D. The file has one line per question."""
        return runs / f"{self.name.replace(' ', '-').replace(chr(39), '')}-{hops}.jsonl"


def with_comments(question: Question) -> str:
    """Return the prompt with nine lines of comments between the facts and the question."""
    return _lines(*_facts(question), *COMMENTS, question.question.text)


def with_earlier_values(question: Question) -> str:
    """Return the prompt with lines before the facts that assign other numbers to the letters of level 1.

    As in Python, the last assignment to a letter counts.
    """
    latent = question.latent
    earlier = [f"{letter} = {earlier_value(latent, number)}" for number, letter in enumerate(latent.words[1])]
    return _lines(*earlier, *_facts(question), question.question.text)


def earlier_value(latent: Any, number: int) -> str:
    """Return the number that is first assigned to letter `number` of level 1: the number of the next chain."""
    values = latent.words[0]
    return str(values[(latent.links[0][number] + 1) % len(values)])


def with_dead_ends(question: Question) -> str:
    """Return the prompt with one more letter per chain. It copies the chain's last letter and is never asked for."""
    words = question.latent.words
    used = sum(map(len, words[1:]))
    more = zip(ascii_lowercase[used:], words[-1], strict=False)
    return _lines(*_facts(question), *(f"{letter} = {copied}" for letter, copied in more), question.question.text)


def with_unequal_chains(question: Question) -> str:
    """Return the prompt in which the last letter of every chain that is not asked for gets its number directly."""
    latent = question.latent
    path = latent.path
    short = {
        f"{letter} = {latent.words[-2][path(number)[1]]}": f"{letter} = {latent.words[0][path(number)[-1]]}"
        for number, letter in enumerate(latent.words[-1])
        if number != latent.asked
    }
    return _lines(*(short.get(fact, fact) for fact in _facts(question)), question.question.text)


def _facts(question: Question) -> list[str]:
    return [line.text for line in question.facts]


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _code(**changed: Any) -> hs.Extensions:
    return hs.Extensions(form="code", **changed)


DRESSES = (
    Dress("as published"),
    Dress("question's block first", _code(lines="reversed")),
    Dress("lines shuffled", _code(lines="shuffled")),
    Dress("names in random order", _code(names="random")),
    Dress("facts twice", _code(repeat=2)),
    Dress("1 solved question", _code(shots=1)),
    Dress("4 solved questions", _code(shots=4)),
    Dress("2 chains", _code(names="extended"), chains=2),
    Dress("3 chains", _code(names="extended"), chains=3),
    Dress("8 chains", _code(names="extended"), chains=8),
    Dress("comments", write=with_comments),
    Dress("earlier values", write=with_earlier_values),
    Dress("dead ends", write=with_dead_ends),
    Dress("unequal chains", write=with_unequal_chains, least_hops=2),
)
PUBLISHED = DRESSES[0].name


class NextWord:
    """A pretrained model whose tokenizer, like Qwen's, makes " 1" two tokens and " a" one token."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        library: Any = AutoModelForCausalLM
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = library.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.head = self.model.get_output_embeddings().weight.detach().float()  # bf16 would round logits to an eighth
        self.space = self._ids(" ")
        self.letters, self.digits = [self._ids(f" {x}") for x in ascii_lowercase], [self._ids(x) for x in digits]
        self.words = [*ascii_lowercase, *digits]

    def _ids(self, text: str) -> int:
        found = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(found) != 1:
            raise hs.InputError(f"{text!r} must be one token, but is {len(found)} in this tokenizer; use a Qwen model")
        return int(found[0])

    def chances(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Return, for each prompt, the probability of every letter and digit as the next word after a space."""
        import torch

        ids = [[*self.tokenizer(prompt)["input_ids"], self.space] for prompt in prompts]
        found: list[dict[str, float]] = [{} for _ in prompts]
        alike = defaultdict[int, list[int]](list)
        for number, row in enumerate(ids):
            alike[len(row)].append(number)
        for numbers in alike.values():
            with torch.no_grad():
                hidden = self.model.model(input_ids=torch.tensor([ids[n] for n in numbers])).last_hidden_state
                said = (hidden[:, -2:].float() @ self.head.T).softmax(-1)
            both = torch.cat([said[:, 0, self.letters], said[:, :1, self.space] * said[:, 1, self.digits]], dim=1)
            for number, row in zip(numbers, both.tolist(), strict=True):
                found[number] = dict(zip(self.words, row, strict=True))
        return found


def ask(model: Path, runs: Path, count: int) -> None:
    """Ask the first `count` questions of every dress at each D, except those that already have a record."""
    answering: NextWord | None = None
    for hops in HOPS:
        for dress in DRESSES:
            if hops < dress.least_hops:
                continue
            path = dress.file(runs, hops)
            kept = path.read_bytes() if path.is_file() else b""
            kept = kept[: kept.rfind(b"\n") + 1]  # without a last line that a killed run left incomplete
            done = kept.count(b"\n")
            if done >= count:
                continue
            answering = answering or NextWord(model)
            asked = hs.questions("equations", hops, count, chains=dress.chains, extensions=dress.extensions)
            runs.mkdir(parents=True, exist_ok=True)
            if path.is_file():
                os.truncate(path, len(kept))
            for start in range(done, count, BATCH):
                part = asked[start : start + BATCH]
                chances = answering.chances([dress.write(question) for question in part])
                rows = [_record(question, chance, dress) for question, chance in zip(part, chances, strict=True)]
                with path.open("a") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in rows))
            print(f"D = {hops}, {dress.name}: {count} questions", flush=True)


def _record(question: Question, chance: dict[str, float], dress: Dress) -> dict[str, Any]:
    """Return the record of one question, with the probability of each kind of next word."""
    kinds = dict.fromkeys(KINDS, 0.0)
    for word, probability in chance.items():
        kinds[_kind(word, question, dress)] += probability
    kinds["anything else"] += max(0.0, 1 - sum(chance.values()))
    values = sum(chance[value] for value in question.acceptable)
    return {
        "index": question.index,
        "likeliest": max(chance, key=chance.__getitem__) == question.answer,
        "share": round(chance[question.answer] / values, 5),
        "lines": question.lines,
        "kinds": {kind: round(probability, 5) for kind, probability in kinds.items()},
    }


def _kind(word: str, question: Question, dress: Dress) -> str:
    latent = question.latent
    path = latent.path(latent.asked)
    own = {latent.words[-1 - step][symbol] for step, symbol in enumerate(path)}
    if word == question.answer:
        return "right"
    if dress.write is with_earlier_values and word == earlier_value(latent, path[-2]):
        return "own earlier value"
    if word in question.acceptable:
        return "value of another chain"
    if word in own:
        return "letter of its own chain"
    return "another letter" if word.isalpha() else "another digit"


@dataclass(frozen=True)
class DressPoint:
    """The results of one dress at one D.

    Attributes:
        likeliest: how many of the `n` questions have the right answer as the likeliest next word.
        low, high: the 95% Wilson interval of `likeliest / n`.
        share: the mean of P(right answer) / P(any value in the text).
        guess: the `share` of a guess among the values.
        lost: how many questions only the published dress gets right.
        won: how many questions only this dress gets right.
        p: the p-value of McNemar's exact test between the two dresses, after Holm's correction over all dresses of this
            D with the same chains. It is None, as are `lost` and `won`, for the published dress and for other chains.
        kinds: the mean probability of each kind of next word.
    """

    dress: str
    hops: int
    n: int
    likeliest: int
    low: float
    high: float
    share: float
    guess: float
    lost: int | None
    won: int | None
    p: float | None
    kinds: dict[str, float]


def points(runs: Path) -> list[DressPoint]:
    """Return the results of every dress that has records, by D and in the order of `DRESSES`."""
    found: list[DressPoint] = []
    for hops in HOPS:
        paths = {dress: dress.file(runs, hops) for dress in DRESSES}
        rows = {
            dress: [json.loads(line) for line in path.read_text().splitlines()]
            for dress, path in paths.items()
            if path.is_file()
        }
        published = [row["likeliest"] for dress, those in rows.items() if dress.name == PUBLISHED for row in those]
        paired = {
            dress: [row["likeliest"] - before for row, before in zip(those, published, strict=False)]
            for dress, those in rows.items()
            if dress.chains == 4 and dress.name != PUBLISHED
        }
        tests = dict(zip(paired, holm([sign_test(changes) for changes in paired.values()]), strict=True))
        for dress, those in rows.items():
            right, changes = sum(row["likeliest"] for row in those), paired.get(dress)
            found.append(
                DressPoint(
                    dress.name,
                    hops,
                    len(those),
                    right,
                    *wilson(right, len(those)),
                    share=sum(row["share"] for row in those) / len(those),
                    guess=1 / dress.chains,
                    lost=changes.count(-1) if changes is not None else None,
                    won=changes.count(1) if changes is not None else None,
                    p=tests.get(dress),
                    kinds={kind: sum(row["kinds"][kind] for row in those) / len(those) for kind in KINDS},
                )
            )
    return found


def condense(runs: Path, out: Path) -> None:
    """Write summary.json, table.md and figure.png from the records in `runs`."""
    found = points(runs)
    if not found:
        raise hs.InputError(f"{runs} holds no records; run ask first")
    from studies.figures.harder import harder

    records.write(out / "summary.json", found)
    (out / "table.md").write_text(table(found))
    save(harder(found), out / "figure")


def table(found: Sequence[DressPoint]) -> str:
    """Return the results as a Markdown table."""
    head = ("D", "dress", "n", "likeliest", "95% interval", "share", "lost", "won", "p", *KINDS)
    rows = [
        (
            *(point.hops, point.dress, point.n, f"{point.likeliest / point.n:.2f}"),
            *(f"{point.low:.2f} to {point.high:.2f}", f"{point.share:.2f}"),
            *("-" if number is None else number for number in (point.lost, point.won)),
            "-" if point.p is None else f"{point.p:.2g}",
            *(f"{point.kinds[kind]:.2f}" for kind in KINDS),
        )
        for point in found
    ]
    return records.markdown_table(head, rows)


def main() -> int:
    """Run `ask` or `condense`, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.harder", description=__doc__.splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    asking, condensing = what.add_parser("ask"), what.add_parser("condense")
    asking.add_argument("model", type=Path, help="the folder of the model")
    asking.add_argument("runs", type=Path, help="a folder, in which the records get one by the model's name")
    asking.add_argument("--count", type=int, default=100, help="number of questions for each dress and D")
    condensing.add_argument("runs", type=Path, help="the folder of one model's records")
    condensing.add_argument("results", type=Path, help="the folder of the summary, table and figure")
    given = parser.parse_args()
    if given.what == "ask":
        return status(lambda: ask(given.model, given.runs / given.model.name, given.count))
    return status(lambda: condense(given.runs, given.results))


if __name__ == "__main__":
    sys.exit(main())
