"""GPT-2s with weights set by hand that answer equations of one hop by a known circuit of two heads.

One head attends to the token before and takes its name; another, in a later layer, attends from the answer's place to
the value whose line begins with the name asked for, and copies it. All other heads are decoys, or random: these attend
to something and write a little of it into the stream, as the MLPs do, each changes the loss a little, none is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import hopscope as hs
from examples.text_model.text import EQUALS, NAMES, SYMBOLS, WORDS
from hopscope.problem.prompts import Prompt, PromptTask
from hopscope.problem.text.questions import Question

POSITIONS = 16
"""Of a question of one hop there are eleven positions."""
SHARP, BLUNT = 30.0, 12.0
"""Of the first head and of the second: blunt enough that an average of all names, in which the one asked for occurs
twice, does not do."""


@dataclass(frozen=True)
class Planted:
    """Where the circuit is, and how large the model.

    Attributes:
        layers: of the model.
        heads: of a layer.
        width: of the stream; with `symbols` at least one a head more, and the positions and four times the symbols.
        before: layer and head, from 0, of the head that attends to the token before.
        value: of the one that attends to the value asked for.
        symbols: how many names and values are known; a question of one hop uses the first fourteen.
        noise: what all random heads, and all MLPs, add to a component of the stream together (one deviation).
        seed: of the random heads.
    """

    layers: int
    heads: int
    width: int
    before: tuple[int, int]
    value: tuple[int, int]
    symbols: int = 16
    noise: float = 0.02
    seed: int = 0

    @property
    def circuit(self) -> list[str]:
        """Its paths."""
        before, value = (f"L{layer + 1}.H{head + 1}" for layer, head in (self.before, self.value))
        return [f"{before} >x1 -> x0>", f"{before} answer -> x0?", f"{value} answer -> >x1"]

    def part(self, number: int) -> slice:
        """A part of the stream after the positions: the names, values, names before and answers."""
        start = POSITIONS + number * self.symbols
        return slice(start, start + self.symbols)


SMALL = Planted(layers=2, heads=4, width=224, before=(0, 0), value=(1, 1), symbols=len(SYMBOLS))
CIRCUIT = SMALL.circuit
PLACE = slice(0, POSITIONS)


class _Weights:
    """The weights of a model to be set by hand; a norm sees two ones and zeros, and what it does to them is known."""

    def __init__(self, plan: Planted) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=len(WORDS), n_positions=POSITIONS, n_embd=plan.width, n_layer=plan.layers, n_head=plan.heads,
            eos_token_id=0, bos_token_id=None, tie_word_embeddings=False, layer_norm_epsilon=1e-9,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            self.model: Any = GPT2LMHeadModel(config)
        self.layers = self.model.transformer.h
        self.width, self.head_width = plan.width, plan.width // plan.heads
        self.mean = 2 / plan.width
        self.spread = (2 / plan.width - self.mean**2) ** 0.5

    def own(self, place: tuple[int, int], kind: int) -> slice:
        """The columns of a head's queries (0), keys (1) or values (2)."""
        start = kind * self.width + place[1] * self.head_width
        return slice(start, start + self.head_width)

    def reads(self, place: tuple[int, int], kind: int, source: slice, gain: float = 1.0, shift: int = 0) -> None:
        """Let them be a slice of the stream."""
        attention, start = self.layers[place[0]].attn.c_attn, self.own(place, kind).start
        for number in range(source.stop - source.start):
            if number + shift < self.head_width:
                attention.weight[source.start + number, start + number + shift] = gain * self.spread
                attention.bias[start + number + shift] = gain * self.mean

    def writes(self, place: tuple[int, int], target: slice) -> None:
        output = self.layers[place[0]].attn.c_proj.weight
        for number in range(target.stop - target.start):
            output[place[1] * self.head_width + number, target.start + number] = 1.0

    def plant(self, plan: Planted) -> Any:
        """Embeddings, the circuit's two heads and the last product; the model."""
        name, value, before, out = map(plan.part, range(4))
        self.model.transformer.wpe.weight[:, PLACE] = torch.eye(POSITIONS)
        for token in range(len(WORDS)):
            at = out.stop + token % (plan.width - out.stop)
            if token in range(NAMES.start, NAMES.start + plan.symbols):
                at = name.start + token - NAMES.start
            elif token in range(EQUALS.start, EQUALS.start + plan.symbols):
                at = value.start + token - EQUALS.start
            self.model.transformer.wte.weight[token, at] = 1.0
        for place in (plan.before, plan.value):
            for kind in range(3):
                self.layers[place[0]].attn.c_attn.weight[:, self.own(place, kind)] = 0.0
            self.layers[place[0]].attn.c_proj.weight[self.own(place, 0)] = 0.0
        self.reads(plan.before, 0, PLACE, SHARP * self.head_width**0.5)
        self.reads(plan.before, 1, PLACE, shift=1)
        self.reads(plan.before, 2, name)
        self.writes(plan.before, before)
        self.reads(plan.value, 0, before, BLUNT * self.head_width**0.5)
        self.reads(plan.value, 1, before)
        attention = self.layers[plan.value[0]].attn.c_attn  # a value may be attended to, and nothing else with the name
        attention.bias[self.own(plan.value, 0).stop - 1] = BLUNT * self.head_width**0.5
        attention.weight[value, self.own(plan.value, 1).stop - 1] = self.spread
        self.reads(plan.value, 2, value)
        self.writes(plan.value, out)
        answers = self.model.lm_head.weight[NAMES.start : NAMES.start + plan.symbols]
        answers[:, out] = 6 * self.spread * torch.eye(plan.symbols)  # sure, but not of what it half sees
        return self.model.eval()


def _fill(model: Any, deviations: dict[str, float], draw: torch.Generator) -> None:
    """Norms do nothing; weights of a kind are normal with its deviation, and all others zero."""
    for name, weight in model.named_parameters():
        deviation = next((deviation for kind, deviation in deviations.items() if name.endswith(kind)), None)
        if deviation is None:
            weight.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        else:
            weight.normal_(0.0, deviation, generator=draw)


@torch.no_grad()
def planted() -> Any:
    """`SMALL`, whose other heads are decoys that attend to something and write where nobody reads."""
    weights, draw = _Weights(SMALL), torch.Generator().manual_seed(0)
    _fill(weights.model, {}, draw)
    for layer, used in (SMALL.before, SMALL.value):
        for head in {*range(SMALL.heads)} - {used}:
            for kind in (0, 1):
                columns = weights.own((layer, head), kind)
                weights.layers[layer].attn.c_attn.weight[:, columns].normal_(0, 0.4, generator=draw)
            weights.reads((layer, head), 2, SMALL.part(0), 0.1)
            weights.writes((layer, head), slice(SMALL.part(3).stop, SMALL.part(3).stop + weights.head_width))
    return weights.plant(SMALL)


@torch.no_grad()
def planted_among_random(plan: Planted) -> Any:
    """A model of any size, whose other heads and whose MLPs are random."""
    weights, small = _Weights(plan), plan.noise / plan.layers**0.5 * plan.width**-0.5
    deviations = {"attn.c_attn.weight": plan.width**-0.5, "attn.c_proj.weight": small}
    deviations |= {"mlp.c_fc.weight": plan.width**-0.5, "mlp.c_proj.weight": small}
    _fill(weights.model, deviations, torch.Generator().manual_seed(plan.seed))
    return weights.plant(plan)


ROLES = {"x0>": "name", ">x1": "value", "x0?": "asked", "answer": "answer"}


def as_prompt(item: Question) -> Prompt:
    """A question of equations as a prompt of one's own, with the roles of the chain asked for."""
    asked = item.latent.asked  # type: ignore[attr-defined]
    roles = {ROLES[mention.role]: (mention.start, mention.end) for mention in item.mentions() if mention.chain == asked}
    return Prompt(f"{item.prompt}\n", roles, item.acceptable, item.acceptable.index(item.answer))


def equations(count: int = 256) -> PromptTask:
    """Questions that the planted model answers, as a task of one's own; no role is on the first token."""
    drawn = hs.questions("equations", hops=1, count=2 * count, seed=3)
    return PromptTask("equations", tuple(as_prompt(item) for item in drawn if item.lines != (1,))[:count])


def planted_paths() -> list[str]:
    """The planted circuit in the roles of the task."""
    return [" ".join(ROLES.get(word, word) for word in path.split()) for path in CIRCUIT]
