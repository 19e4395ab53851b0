"""Language models with weights set by hand in which a part of the answer comes by a way that no circuit names.

Equations of one hop, in which a word stands between the name asked for and the answer's place. Each model has the same
three paths, `PATHS`, and beside them something that a circuit of these paths does not say.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from examples.text_model.text import ASK
from hopscope.problem.text.equations import Equations

COUNT, PLACES, HEADS, WIDTH = 4, 12, 4, 96
HEAD = WIDTH // HEADS
NAMES, VALUES = "abcd", "0123"
PLACE, NAME, VALUE, BEFORE, OUT, GOT = (slice(at, at + size) for at, size in (
    (0, PLACES), (12, COUNT), (16, COUNT), (20, COUNT), (24, COUNT), (28, COUNT)
))  # fmt: skip
WORD, ANSWER, REST = 32, 33, slice(36, 36 + HEAD)
LEVEL = slice(WIDTH - 2, WIDTH)
"""Two large numbers that cancel, so that a norm divides everything by nearly the same."""
LARGE = 30.0
SPREAD = LARGE * (2 / WIDTH) ** 0.5

_MIDDLE, _LAST = f"? {Equations.instruction}".rsplit(" ", 1)
WORDS = [
    "<end>",
    "\n",
    f" {_LAST}",
    *NAMES,
    *(f" = {value}\n" for value in VALUES),
    ASK,
    _MIDDLE,
    f" {_LAST}\n",
    *VALUES,
]
TOKENS = {word: token for token, word in enumerate(WORDS)}
PATHS = ["L1.H1 >x1 -> x0>", "L1.H1 answer -> x0?", "L3.H2 answer -> >x1"]
W, A, ASKED = 10, 11, 9
"""Where the word, the answer's place and the name asked for stand."""


@cache
def split_tokenizer() -> Any:
    """A tokenizer in which two tokens follow the name asked for."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(WordLevel(TOKENS, unk_token="<end>"))
    cut = rf" = [0-9]\n|{ASK}|\{_MIDDLE}| {re.escape(_LAST)}\n?|[a-z0-9]"
    inner.pre_tokenizer = Split(Regex(cut), behavior="isolated")
    inner.decoder = Fuse()
    library: Any = PreTrainedTokenizerFast
    return library(tokenizer_object=inner, eos_token="<end>", unk_token="<end>", clean_up_tokenization_spaces=False)


class Sketch:
    """A GPT-2 of three layers and four heads whose weights are set head by head; what is not set does nothing."""

    @torch.no_grad()
    def __init__(self, certain: float = 8.0) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=len(WORDS), n_positions=PLACES, n_embd=WIDTH, n_layer=3, n_head=HEADS, eos_token_id=0,
            bos_token_id=None, tie_word_embeddings=False, layer_norm_epsilon=1e-9,
        )  # fmt: skip
        self.model: Any = GPT2LMHeadModel(config)
        for name, weight in self.model.named_parameters():
            weight.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        body = self.model.transformer
        body.wpe.weight[:, PLACE] = torch.eye(PLACES)
        body.wte.weight[:, LEVEL] = torch.tensor([LARGE, -LARGE])
        for number in range(COUNT):
            body.wte.weight[TOKENS[NAMES[number]], NAME.start + number] = 1
            body.wte.weight[TOKENS[f" = {VALUES[number]}\n"], VALUE.start + number] = 1
            self.model.lm_head.weight[TOKENS[VALUES[number]], OUT.start + number] = certain * SPREAD
        body.wte.weight[TOKENS[_MIDDLE], WORD] = 1
        body.wte.weight[TOKENS[f" {_LAST}\n"], ANSWER] = 1
        draw = torch.Generator().manual_seed(0)
        for layer in range(3):  # decoys look somewhere and write where nobody reads
            for kind in (0, 1):
                at = kind * WIDTH + 3 * HEAD
                body.h[layer].attn.c_attn.weight[:32, at : at + HEAD].normal_(0, 3.0, generator=draw)
            self.reads(layer, 3, 2, NAME, 0, 0.1)
            self.writes(layer, 3, 0, REST)

    @torch.no_grad()
    def looks(self, layer: int, head: int, scores: Tensor) -> None:
        """Let the score of every key for every query be what stands in a matrix over what they hold; rank HEAD at most.

        Args:
            layer: the layer, from 0.
            head: the head, from 0.
            scores: score[i, j] for a query that holds i and a key that holds j.
        """
        left, size, right = torch.linalg.svd(scores * HEAD**0.5)
        assert float(size[HEAD:].max()) < 1e-4
        body, root = self.model.transformer.h[layer].attn.c_attn, size[:HEAD].sqrt() * SPREAD
        for kind, side in ((0, left[:, :HEAD]), (1, right[:HEAD].T)):
            at = kind * WIDTH + head * HEAD
            body.weight[:, at : at + HEAD] = side * root

    @torch.no_grad()
    def reads(self, layer: int, head: int, kind: int, source: slice, shift: int = 0, gain: float = 1.0) -> None:
        """Let a head's values (kind 2) begin at `shift` with a slice of the stream."""
        at, weight = kind * WIDTH + head * HEAD + shift, self.model.transformer.h[layer].attn.c_attn.weight
        for number in range(source.stop - source.start):
            weight[source.start + number, at + number] += gain * SPREAD

    @torch.no_grad()
    def writes(self, layer: int, head: int, shift: int, target: slice, gain: float = 1.0) -> None:
        """Let a head write its values, from `shift` on, to a slice of the stream."""
        weight = self.model.transformer.h[layer].attn.c_proj.weight
        for number in range(target.stop - target.start):
            weight[head * HEAD + shift + number, target.start + number] += gain

    def moves(self, layer: int, head: int, source: slice, target: slice, gain: float = 1.0) -> None:
        """Let a head bring one slice of what it looks at to another."""
        self.reads(layer, head, 2, source)
        self.writes(layer, head, 0, target, gain)


def alike(one: slice, other: slice, score: float = 1.0) -> Tensor:
    """Scores by which a query that holds something in one slice looks at what holds the same in another."""
    scores = torch.zeros(WIDTH, WIDTH)
    scores[range(one.start, one.stop), range(other.start, other.stop)] = score
    return scores


def level(score: float, query: int | None = None) -> Tensor:
    """A score for a query (None: all) on all keys that hold a value."""
    scores = torch.zeros(WIDTH, WIDTH)
    at = WIDTH - 2 if query is None else query
    scores[at, VALUE] = score / (LARGE if query is None else 1)
    return scores


def ties(sketch: Sketch) -> None:
    """Layer 1 head 1: everything takes the name before it; the answer's place and the word take the name asked for."""
    scores = torch.zeros(WIDTH, WIDTH)
    for place in range(PLACES):
        scores[place, ASKED if place >= W else max(place - 1, 0)] = 60.0
    sketch.looks(0, 0, scores)
    sketch.moves(0, 0, NAME, BEFORE)


BLUNT, SOFT = 9.0, 5.0


def look_up(blunt: float = BLUNT) -> Tensor:
    """Scores of a look from a place to the value whose line begins with the name that was taken."""
    return alike(BEFORE, BEFORE, blunt) + level(2 * blunt)


def elsewhere_at_rest(*places: int) -> Tensor:
    """Scores by which all places but some look at the first, where no value stands."""
    scores = torch.zeros(WIDTH, WIDTH)
    scores[[place for place in range(PLACES) if place not in places], 0] = 60.0
    return scores


def honest(certain: float = 8.0, share: float = 1.0) -> Sketch:
    """The three paths and nothing else; they bring a share of the answer."""
    sketch = Sketch(certain)
    ties(sketch)
    sketch.looks(2, 1, look_up())
    sketch.moves(2, 1, VALUE, OUT, share)
    return sketch


def told_by_the_word(sketch: Sketch, share: float) -> Sketch:
    """The word behind the name looks the line up, and the answer's place reads it in the layer after."""
    sketch.looks(1, 2, look_up(SOFT) + elsewhere_at_rest(W))
    sketch.moves(1, 2, VALUE, GOT)
    sketch.looks(2, 2, at_the_word())
    sketch.moves(2, 2, GOT, OUT, share)
    return sketch


def through_a_word(share: float = 0.5, certain: float = 4.4) -> Sketch:
    """A share of the answer comes by the word behind the name: it looks the line up, the answer's place reads it."""
    return told_by_the_word(honest(certain, 1 - share), share)


def at_the_word(score: float = 40.0) -> Tensor:
    """Scores by which every place looks at the word."""
    scores = torch.zeros(WIDTH, WIDTH)
    scores[WIDTH - 2, WORD] = score / LARGE
    return scores


def by_turns_at_a_word(names: str = "cd", blunt: float = SOFT) -> Sketch:
    """For some names the look-up is the word's, and the answer's place looks at the word."""
    sketch = Sketch()
    ties(sketch)
    sketch.looks(1, 2, look_up(blunt) + elsewhere_at_rest(W))
    sketch.moves(1, 2, VALUE, GOT)
    scores = look_up()
    for name in names:
        scores[BEFORE.start + NAMES.index(name), WORD] = 6 * BLUNT
    sketch.looks(2, 1, scores)
    sketch.moves(2, 1, VALUE, OUT)
    sketch.reads(2, 1, 2, GOT, gain=2.0)
    return sketch


class Beside(nn.Module):
    """A part of a layer in which places read one another, unseen: the answer's place looks the line up."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, normed: Tensor) -> Tensor:
        held = normed * SPREAD
        same = held[..., BEFORE] @ held[..., BEFORE].mT * 30 + 30 * held[..., None, :, VALUE].sum(-1)
        look = same.masked_fill(torch.ones_like(same).triu(1).bool(), -torch.inf).softmax(-1)
        out = torch.zeros_like(normed)
        out[..., OUT] = self.share * (look @ held[..., VALUE])
        return out


def beside_attention(share: float = 0.5, certain: float = 4.4) -> Sketch:
    """A share of the answer comes by a look of which no pattern is shown."""
    sketch = honest(certain, 1 - share)
    sketch.model.transformer.h[1].mlp = Beside(share)
    return sketch


def backed_up() -> Sketch:
    """Another head of the last layer does the same look-up, and either is enough."""
    sketch = honest()
    sketch.looks(2, 2, look_up())
    sketch.moves(2, 2, VALUE, OUT)
    return sketch


def repaired() -> Sketch:
    """The word knows the answer too, and the answer's place is told by it in the layer after, as loudly."""
    return told_by_the_word(honest(), 1.0)


def by_names(names: str = "cd") -> Sketch:
    """Another head of the last layer does the look-up for some names, where the named one rests at the first place."""
    sketch = Sketch()
    ties(sketch)
    for head, its in ((1, [one for one in NAMES if one not in names]), (2, names)):
        scores = torch.zeros(WIDTH, WIDTH)
        for name in NAMES:
            at = BEFORE.start + NAMES.index(name)
            if name in its:
                scores[at, at], scores[at, VALUE] = BLUNT, 2 * BLUNT
            else:
                scores[at, 0] = 4 * BLUNT
        sketch.looks(2, head, scores)
        sketch.moves(2, head, VALUE, OUT)
    return sketch


PRODUCT, GATHERED = slice(40, 56), slice(64, 80)
"""A line's name by its value, in the line, and what a head that looks everywhere alike gathers of these."""


class Bound(nn.Module):
    """An MLP that binds the name before a value to the value."""

    def forward(self, normed: Tensor) -> Tensor:
        held, out = normed * SPREAD, torch.zeros_like(normed)
        out[..., PRODUCT] = (held[..., BEFORE, None].clamp(0, 1) * held[..., None, VALUE]).flatten(-2)
        return out


class Picked(nn.Module):
    """An MLP that picks, of all that is gathered at the answer's place, what is bound to the name asked for."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share * PLACES

    def forward(self, normed: Tensor) -> Tensor:
        held, out = normed * SPREAD, torch.zeros_like(normed)
        table = held[..., GATHERED].unflatten(-1, (COUNT, COUNT))
        out[..., OUT] = self.share * (held[..., BEFORE, None] * table).sum(-2) * held[..., ANSWER, None]
        return out


def gathered(share: float, certain: float = 4.0) -> Sketch:
    """A share of the answer comes by a head that looks everywhere alike, and an MLP that picks."""
    sketch = honest(certain, 1 - share)
    with torch.no_grad():
        for layer in sketch.model.transformer.h:  # the decoys write where the product stands
            layer.attn.c_proj.weight[3 * HEAD :] = 0
            layer.mlp = Bound() if layer is sketch.model.transformer.h[0] else layer.mlp
    sketch.moves(1, 2, PRODUCT, GATHERED)
    sketch.model.transformer.h[1].mlp = Picked(share)
    return sketch
