"""A GPT-2 of any size with the circuit of `planted_text` put into two of its heads; all others are random.

Random heads attend to something and write a little of what they find everywhere into the stream, and so do the MLPs:
the model still answers, each of them changes the loss a little, and none is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from examples.text_model.text import EQUALS, NAMES, WORDS

POSITIONS, COUNT = 16, 16
"""Of a question of one hop there are eleven positions; it has the first ten digits and the first four letters."""
PLACE = slice(0, POSITIONS)
NAME = slice(PLACE.stop, PLACE.stop + COUNT)
VALUE = slice(NAME.stop, NAME.stop + COUNT)
BEFORE = slice(VALUE.stop, VALUE.stop + COUNT)
OUT = slice(BEFORE.stop, BEFORE.stop + COUNT)
REST = OUT.stop
SHARP, BLUNT = 30.0, 12.0


@dataclass(frozen=True)
class Stand:
    """A model to stand in for a large one.

    Attributes:
        layers: of it.
        heads: of a layer.
        width: of the stream; at least 17 a head, and 80.
        before: where the head is that looks at the token before: layer and head from 0.
        value: where the one is that looks at the value asked for.
        noise: what all random heads, and all MLPs, add to a component of the stream together (one deviation).
        seed: of the random heads.
    """

    layers: int
    heads: int
    width: int
    before: tuple[int, int]
    value: tuple[int, int]
    noise: float = 0.02
    seed: int = 0

    @property
    def circuit(self) -> list[str]:
        """Its paths."""
        before, value = (f"L{layer + 1}.H{head + 1}" for layer, head in (self.before, self.value))
        return [f"{before} >x1 -> x0>", f"{before} answer -> x0?", f"{value} answer -> >x1"]


@torch.no_grad()
def planted_big(stand: Stand) -> Any:
    """The model; its tokenizer is that of our own models of text."""
    from transformers import GPT2Config, GPT2LMHeadModel

    width, head_width = stand.width, stand.width // stand.heads
    config = GPT2Config(
        vocab_size=len(WORDS), n_positions=POSITIONS, n_embd=width, n_layer=stand.layers, n_head=stand.heads,
        eos_token_id=0, bos_token_id=None, tie_word_embeddings=False, layer_norm_epsilon=1e-9,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        model: Any = GPT2LMHeadModel(config)
    draw = torch.Generator().manual_seed(stand.seed)
    # A norm sees two ones and zeros: what it takes away and divides by is known.
    mean = 2 / width
    spread = (2 / width - mean**2) ** 0.5
    small = stand.noise / stand.layers**0.5
    spreads = {
        "attn.c_attn.weight": width**-0.5, "attn.c_proj.weight": small * width**-0.5,
        "mlp.c_fc.weight": width**-0.5, "mlp.c_proj.weight": small * width**-0.5,
    }  # fmt: skip
    for name, weight in model.named_parameters():
        spread_of = next((one for kind, one in spreads.items() if name.endswith(kind)), None)
        if spread_of is None:
            weight.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        else:
            weight.normal_(0.0, spread_of, generator=draw)
    body = model.transformer
    body.wpe.weight[:, PLACE] = torch.eye(POSITIONS)
    names = range(NAMES.start, NAMES.start + COUNT)
    for token in range(len(WORDS)):
        at = REST + token % (width - REST)
        if token in names:
            at = NAME.start + token - NAMES.start
        elif EQUALS.start <= token < EQUALS.start + COUNT:
            at = VALUE.start + token - EQUALS.start
        body.wte.weight[token, at] = 1.0

    def own(place: tuple[int, int], kind: int) -> slice:
        """Where a head's queries (0), keys (1) or values (2) stand."""
        start = kind * width + place[1] * head_width
        return slice(start, start + head_width)

    def reads(place: tuple[int, int], kind: int, source: slice, gain: float = 1.0, shift: int = 0) -> None:
        """Let them be a slice of the stream."""
        attention, start = body.h[place[0]].attn.c_attn, own(place, kind).start
        for number in range(source.stop - source.start):
            if number + shift < head_width:
                attention.weight[source.start + number, start + number + shift] = gain * spread
                attention.bias[start + number + shift] = gain * mean

    def writes(place: tuple[int, int], target: slice) -> None:
        output = body.h[place[0]].attn.c_proj.weight
        for number in range(target.stop - target.start):
            output[place[1] * head_width + number, target.start + number] = 1.0

    for place in (stand.before, stand.value):
        for kind in range(3):
            body.h[place[0]].attn.c_attn.weight[:, own(place, kind)] = 0.0
        body.h[place[0]].attn.c_proj.weight[own(place, 0)] = 0.0
    reads(stand.before, 0, PLACE, SHARP * head_width**0.5)
    reads(stand.before, 1, PLACE, shift=1)
    reads(stand.before, 2, NAME)
    writes(stand.before, BEFORE)
    reads(stand.value, 0, BEFORE, BLUNT * head_width**0.5)
    reads(stand.value, 1, BEFORE)
    attention = body.h[stand.value[0]].attn.c_attn
    query, key = own(stand.value, 0), own(stand.value, 1)
    attention.bias[query.stop - 1] = BLUNT * head_width**0.5  # a value may be looked at, whatever else may not
    attention.weight[VALUE, key.stop - 1] = spread
    reads(stand.value, 2, VALUE)
    writes(stand.value, OUT)
    model.lm_head.weight[NAMES.start : NAMES.start + COUNT, OUT] = 6 * spread * torch.eye(COUNT)
    return model.eval()
