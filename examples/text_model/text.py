"""The text of equations as tokens: a tokenizer for it, and training texts by the batch.

A line is two tokens, `e` and ` = a` with its line break. If a recipe cuts lines by the word, a line is four tokens. In
the question, the words before the letter are one token, and the words after it are one token. Nothing is lost: decoding
returns the text, byte for byte.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

import hopscope as hs
from examples.text_model.recipe import Cut, TextModelRecipe

PAPER_CHAINS, ALPHABET = 4, string.ascii_lowercase
INSTRUCTION = "Say directly only the numeric value, without any other words."
END, UNKNOWN = "<end>", "<unknown>"
ASK, INSTRUCT = "What is the value of ", f"? {INSTRUCTION}"
SYMBOLS = [*(str(i) for i in range(10)), *ALPHABET]
"""The digits and letters to which a letter can be equal."""

WORDS = [END, UNKNOWN, "\n", ASK, INSTRUCT, f"{INSTRUCT}\n", *SYMBOLS, *(f" = {symbol}\n" for symbol in SYMBOLS)]
TOKENS = {word: token for token, word in enumerate(WORDS)}
NAMES = slice(TOKENS["0"], TOKENS["0"] + len(SYMBOLS))
EQUALS = slice(NAMES.stop, NAMES.stop + len(SYMBOLS))
"""The two tokens of every symbol: `NAMES` for the symbol alone, `EQUALS` for the symbol after an equals sign."""
ASKED = TOKENS[f"{INSTRUCT}\n"]
"""The last token of a question."""
BREAK, LINK = TOKENS["\n"], len(WORDS)
"""The token of the line break, and the token of the equals sign if lines are cut by the word."""

IGNORED = -100
"""The label of a position without a target, as in PyTorch's cross-entropy."""

Structure = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]
"""The links and the orders that determine the facts, by level. The links name the symbol of the level before to which
each symbol leads; the orders name the symbol of each line."""


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed for one purpose, independent of the seeds for all other purposes."""
    text = ":".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def vocabulary(cut: Cut) -> list[str]:
    """Return all words, in the order of their tokens."""
    return WORDS if cut == "line" else [*WORDS, " = "]


def make_tokenizer(cut: Cut = "line") -> Any:
    """Return the tokenizer, which saves as a plain `tokenizers` file. Text of other kinds becomes `<unknown>`."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(WordLevel({word: token for token, word in enumerate(vocabulary(cut))}, unk_token=UNKNOWN))
    link = r" = [a-z0-9]\n" if cut == "line" else " = "
    inner.pre_tokenizer = Split(Regex(rf"{link}|{ASK}|\{INSTRUCT}\n?|\n|[a-z0-9]"), behavior="isolated")
    inner.decoder = Fuse()
    library: Any = PreTrainedTokenizerFast
    return library(tokenizer_object=inner, eos_token=END, unk_token=UNKNOWN, clean_up_tokenization_spaces=False)


class Texts:
    """The training texts of a recipe. The texts of a step depend only on the seed and the step.

    With probability `dense`, a step has texts of the largest D that ask for every letter of a level, in random order,
    as soon as the lines of the level are written. Otherwise, its texts have the benchmark's form and a random D. No
    answer comes before the last question, so no answer can be found by exclusion.
    """

    def __init__(self, recipe: TextModelRecipe) -> None:
        self.recipe = recipe
        self.held = {
            structure_of(question.latent)
            for hops in range(1, recipe.most_hops + 1)
            for question in hs.questions("equations", hops, recipe.held_count, recipe.held_seed)
        }

    def batch(self, step: int) -> tuple[Int[Tensor, "row pos"], Int[Tensor, "row pos"]]:
        """Return the texts of a step and their labels, as from `write`. No text has a question with held-out facts."""
        recipe = self.recipe
        draw = torch.Generator().manual_seed(derive_seed(recipe.seed, "text", step))

        def chance(share: float) -> bool:
            return float(torch.rand((), generator=draw)) < share

        def between(least: int, most: int) -> int:
            return least + int(torch.randint(most - least + 1, (), generator=draw))

        def permutations(*shape: int) -> Any:
            return torch.rand(recipe.batch, *shape, generator=draw).argsort(-1)

        dense = chance(recipe.dense)
        hops = recipe.most_hops if dense else between(recipe.least_hops, recipe.most_hops)
        asking = range(1 if dense else hops, hops + 1)
        chains = between(1, PAPER_CHAINS) if dense and chance(recipe.fewer) else PAPER_CHAINS
        chosen: list[Structure] = []
        while len(chosen) < recipe.batch:
            drawn = [(_frozen(links), _frozen(orders)) for links, orders in permutations(2, hops, chains).tolist()]
            chosen += [(a, b) for a, b in drawn if not any((a[:depth], b[:depth]) in self.held for depth in asking)]
        asked = permutations(hops, chains)[..., : None if dense else 1].tolist()
        order = permutations(hops + 1, PAPER_CHAINS)[..., :chains]
        names = (order if chains < PAPER_CHAINS else order.sort(-1).values).tolist()
        texts = [
            write(structure, {depth: letters[depth - 1] for depth in asking}, called, recipe.cut)
            for structure, letters, called in zip(chosen, asked, names, strict=False)
        ]
        ids, labels = torch.tensor(texts).unbind(1)
        return ids, labels


def write(
    structure: Structure, asked: Mapping[int, Sequence[int]], names: Sequence[Sequence[int]], cut: Cut = "line"
) -> tuple[list[int], list[int]]:
    """Return the tokens of a text, from its facts to the answer of the last question, and their labels.

    A label is the target at a position: the value of the line's letter after a line, the answer after a question, and
    the end after the last answer.

    Args:
        structure: the facts.
        asked: for each level, the symbols that are asked for after its lines; the last level must have a question.
        names: for each level from 0 to D, which of the paper's four names each symbol has.
        cut: how a line is cut into tokens.
    """
    ids: list[int] = []
    labels: list[int] = []
    before = said = [NAMES.start + name for name in names[0]]
    for level, (link, order) in enumerate(zip(*structure, strict=True), start=1):
        letters = [TOKENS["a"] + PAPER_CHAINS * (level - 1) + name for name in names[level]]
        said = [said[below] for below in link]
        for i in order:
            value = before[link[i]]
            line = [letters[i], value + len(SYMBOLS)] if cut == "line" else [letters[i], LINK, value, BREAK]
            ids += line
            labels += [*[IGNORED] * (len(line) - 1), said[i]]
        for i in asked.get(level, ()):
            ids += [TOKENS[ASK], letters[i], ASKED]
            labels += [IGNORED, IGNORED, said[i]]
        before = letters
    return [*ids, labels[-1]], [*labels, TOKENS[END]]


def structure_of(latent: Any) -> Structure:
    """Return the structure of a question in the paper's format."""
    places = [symbol % PAPER_CHAINS for symbol in latent.order]
    orders = [places[start : start + PAPER_CHAINS] for start in range(0, len(places), PAPER_CHAINS)]
    return latent.links, _frozen(orders)


def _frozen(levels: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(level) for level in levels)
