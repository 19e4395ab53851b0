"""The text of equations as tokens: a tokenizer for it, and training texts by the batch.

A line is two tokens, `e` and ` = a` with its line break; the words of the question are one token on either side of the
letter. Nothing is lost: decoding gives the text back, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.benchmark.own_model.recipe import CHAINS, TextModelRecipe
from hopscope.problem.counter import derive_seed
from hopscope.problem.text.chains import Chains
from hopscope.problem.text.equations import Equations
from hopscope.problem.text.names import ALPHABET
from hopscope.problem.text.questions import questions

END, UNKNOWN = "<end>", "<unknown>"
ASK, INSTRUCT = "What is the value of ", f"? {Equations.instruction}"
SYMBOLS = [*(str(i) for i in range(10)), *ALPHABET]
"""What a letter can be equal to."""

WORDS = [END, UNKNOWN, "\n", ASK, INSTRUCT, f"{INSTRUCT}\n", *SYMBOLS, *(f" = {symbol}\n" for symbol in SYMBOLS)]
_SYMBOL, _EQUALS = WORDS.index(SYMBOLS[0]), WORDS.index(f" = {SYMBOLS[0]}\n")
_ASK, _INSTRUCT = WORDS.index(ASK), WORDS.index(f"{INSTRUCT}\n")
NAMES = slice(_SYMBOL, _SYMBOL + len(SYMBOLS))
EQUALS = slice(_EQUALS, _EQUALS + len(SYMBOLS))
"""Where the two tokens of every symbol stand among the words."""

_LETTER = len(SYMBOLS) - len(ALPHABET)
_PATTERN = rf" = [a-z0-9]\n|{ASK}|\{INSTRUCT}\n?|\n|[a-z0-9]"

IGNORED = -100
"""The label of a place where nothing is asked, as everywhere in PyTorch."""


def make_tokenizer() -> Any:
    """The tokenizer, a plain `tokenizers` file to whoever loads it; text that is no equation becomes `<unknown>`."""
    import transformers
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token=UNKNOWN))
    inner.pre_tokenizer = Split(Regex(_PATTERN), behavior="isolated")
    inner.decoder = Fuse()
    library: Any = transformers
    return library.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, unk_token=UNKNOWN, clean_up_tokenization_spaces=False
    )


@dataclass(frozen=True)
class TextBatch:
    """Texts of one D.

    Attributes:
        ids: facts, questions, the answer to the last one.
        labels: what comes next where something is asked, `IGNORED` elsewhere: after a line the value of its letter,
            after a question the answer, after the answer the end.
        lines: the level, 1 ... D, of the line that ends here, or 0.
        asks: how many levels stand before the question that ends here, or 0.
        structures: links and orders, for each level and place; what decides the facts.
    """

    ids: Int[Tensor, "row pos"]
    labels: Int[Tensor, "row pos"]
    lines: Int[Tensor, " pos"]
    asks: Int[Tensor, " pos"]
    structures: Int[Tensor, "row two level place"]

    @property
    def chains(self) -> int:
        """Interleaved chains."""
        return self.structures.shape[-1]

    def weights(self, recipe: TextModelRecipe) -> Float[Tensor, " pos"]:
        """How much each place counts in the loss; the end after the answer counts 1."""
        counts = (self.lines > 0) * recipe.line_weight + (self.asks > 0) * recipe.answer_weight
        counts[-1] = 1.0
        return counts


class Texts:
    """The training texts of a recipe: those of a step are a function of (seed, step), whatever came before.

    A step has texts of the benchmark's form, of a random D; or, with chance `dense`, texts of the largest D that ask
    for every letter of a level, in random order, as soon as its lines are written. No answer stands before the last
    question, so that none can be had by exclusion.
    """

    def __init__(self, recipe: TextModelRecipe) -> None:
        self.recipe = recipe
        self._held = {hops: _held(hops, recipe) for hops in range(1, recipe.most_hops + 1)}

    def batch(self, step: int) -> TextBatch:
        """The texts of a step, none with a question whose facts are held out."""
        recipe = self.recipe
        draw = torch.Generator().manual_seed(derive_seed(recipe.seed, "text", step))
        dense = float(torch.rand((), generator=draw)) < recipe.dense
        hops = recipe.most_hops if dense else _between(recipe.least_hops, recipe.most_hops, draw)
        asking = range(1 if dense else hops, hops + 1)
        chains = _between(1, CHAINS, draw) if dense and float(torch.rand((), generator=draw)) < recipe.fewer else CHAINS
        kept: list[Tensor] = []
        while len(kept) < recipe.batch:
            drawn = torch.rand(recipe.batch, 2, hops, chains, generator=draw).argsort(-1)
            kept += [row for row in drawn if all(key(row[:, :depth]) not in self._held[depth] for depth in asking)]
        asked = torch.rand(recipe.batch, hops, chains, generator=draw).argsort(-1)[..., : None if dense else 1]
        some = torch.rand(recipe.batch, hops + 1, CHAINS, generator=draw).argsort(-1)[..., :chains]
        if chains == CHAINS:
            some = some.sort(-1).values
        names = paper_names(hops).expand(recipe.batch, -1, -1).gather(2, some)
        return write(torch.stack(kept[: recipe.batch]), {depth: asked[:, depth - 1] for depth in asking}, names)


def _between(least: int, most: int, draw: torch.Generator) -> int:
    return least + int(torch.randint(most - least + 1, (), generator=draw))


def write(
    structures: Int[Tensor, "row two level place"],
    asked: Mapping[int, Int[Tensor, "row question"]],
    names: Int[Tensor, "row level chain"],
) -> TextBatch:
    """The texts of drawn structures.

    Args:
        structures: links (which symbol of the level before each symbol leads to) and orders (which symbol's line
            stands at each place of the level's block).
        asked: which symbols of a level are asked for behind its lines, by level; the last level has a question.
        names: what the symbols of levels 0 ... D are called, as numbers in `SYMBOLS`.
    """
    links, orders = structures.unbind(1)
    rows, hops, chains = links.shape
    values = torch.arange(chains).expand(rows, chains)
    ids: list[Tensor] = []
    labels: list[Tensor] = []
    lines, asks = list[int](), list[int]()
    for level in range(1, hops + 1):
        link, order = links[:, level - 1], orders[:, level - 1]
        before, here = names[:, level - 1], names[:, level]
        values = values.gather(1, link)
        said = _SYMBOL + names[:, 0].gather(1, values)
        ids.append(_woven(_SYMBOL + here.gather(1, order), _EQUALS + before.gather(1, link.gather(1, order))))
        labels.append(_woven(torch.full_like(order, IGNORED), said.gather(1, order)))
        lines += [0, level] * chains
        asks += [0, 0] * chains
        symbols = asked.get(level, order[:, :0])
        nothing = torch.full_like(symbols, IGNORED)
        ask, instruct = torch.full_like(symbols, _ASK), torch.full_like(symbols, _INSTRUCT)
        ids.append(_woven(ask, _SYMBOL + here.gather(1, symbols), instruct))
        labels.append(_woven(nothing, nothing, said.gather(1, symbols)))
        lines += [0, 0, 0] * symbols.shape[1]
        asks += [0, 0, level] * symbols.shape[1]
    ids.append(labels[-1][:, -1:])
    labels.append(torch.zeros(rows, 1, dtype=torch.int64))
    return TextBatch(
        torch.cat(ids, 1), torch.cat(labels, 1), torch.tensor([*lines, 0]), torch.tensor([*asks, 0]), structures
    )


def _woven(*tokens: Int[Tensor, "row piece"]) -> Int[Tensor, "row pos"]:
    """Pieces of several tokens each, piece after piece."""
    return torch.stack(tokens, dim=-1).flatten(1)


def paper_names(hops: int) -> Int[Tensor, "level chain"]:
    """What the paper calls the symbols of levels 0 ... D, as numbers in `SYMBOLS`."""
    letters = _LETTER + torch.arange(hops * CHAINS).view(hops, CHAINS)
    return torch.cat((torch.arange(CHAINS)[None], letters))


def key(structure: Int[Tensor, "two level place"]) -> tuple[int, ...]:
    """Decides the facts: equal keys mean equal facts."""
    return tuple(structure.flatten().tolist())


def structure_of(latent: Chains) -> Int[Tensor, "two level place"]:
    """The structure of a question in the paper's format."""
    order = torch.tensor(latent.order).reshape(len(latent.links), CHAINS) % CHAINS
    return torch.stack((torch.tensor(latent.links), order))


def _held(hops: int, recipe: TextModelRecipe) -> frozenset[tuple[int, ...]]:
    """The facts of the questions that the benchmark asks."""
    if not recipe.held_count:
        return frozenset()
    asked = questions("equations", hops, recipe.held_count, recipe.held_seed)
    return frozenset(key(structure_of(question.latent)) for question in asked if isinstance(question.latent, Chains))
