"""A GPT-2 with weights set by hand that answers equations of one hop by a known circuit, with decoys beside it.

Layer 1, head 1 looks at the token before and takes its name; layer 2, head 2 looks from the answer's place to the value
whose line begins with the name asked for, and copies it. All other heads look somewhere and write where nobody reads.
"""

from __future__ import annotations

from typing import Any

import torch

from examples.text_model.text import EQUALS, NAMES, SYMBOLS, WORDS

POSITIONS, COUNT, WIDTH, HEADS, HEAD = 16, len(SYMBOLS), 224, 4, 56
PLACE = slice(0, POSITIONS)
NAME = slice(16, 16 + COUNT)
VALUE = slice(NAME.stop, NAME.stop + COUNT)
BEFORE = slice(VALUE.stop, VALUE.stop + COUNT)
OUT = slice(BEFORE.stop, BEFORE.stop + COUNT)
REST = slice(OUT.stop, WIDTH)
SHARP, BLUNT = 30.0, 12.0
"""Of the first head and of the second: blunt enough that an average of all names, in which the one asked for stands
twice, does not do."""

CIRCUIT = ["L1.H1 >x1 -> x0>", "L1.H1 answer -> x0?", "L2.H2 answer -> >x1"]


@torch.no_grad()
def planted() -> Any:
    """The model; its tokenizer is that of our own models of text."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(WORDS), n_positions=POSITIONS, n_embd=WIDTH, n_layer=2, n_head=HEADS, eos_token_id=0,
        bos_token_id=None, tie_word_embeddings=False, layer_norm_epsilon=1e-9,
    )  # fmt: skip
    model: Any = GPT2LMHeadModel(config)
    for name, weight in model.named_parameters():
        weight.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
    body = model.transformer
    body.wpe.weight[:, PLACE] = torch.eye(POSITIONS)
    for token in range(len(WORDS)):
        at = REST.start
        if NAMES.start <= token < NAMES.stop:
            at = NAME.start + token - NAMES.start
        elif EQUALS.start <= token < EQUALS.stop:
            at = VALUE.start + token - EQUALS.start
        body.wte.weight[token, at] = 1.0
    # A norm sees two ones and zeros: what it takes away and divides by is known.
    mean = 2 / WIDTH
    spread = (2 / WIDTH - mean**2) ** 0.5

    def reads(layer: int, kind: int, head: int, source: slice, gain: float = 1.0, shift: int = 0) -> None:
        """Let a head's query (0), key (1) or value (2) be a slice of the stream."""
        start = kind * WIDTH + head * HEAD
        attention = body.h[layer].attn.c_attn
        for number in range(source.stop - source.start):
            if 0 <= number + shift < HEAD:
                attention.weight[source.start + number, start + number + shift] = gain * spread
                attention.bias[start + number + shift] = gain * mean

    def writes(layer: int, head: int, target: slice) -> None:
        for number in range(target.stop - target.start):
            body.h[layer].attn.c_proj.weight[head * HEAD + number, target.start + number] = 1.0

    scale = SHARP * HEAD**0.5
    reads(0, 0, 0, PLACE, scale)
    reads(0, 1, 0, PLACE, shift=1)
    reads(0, 2, 0, NAME)
    writes(0, 0, BEFORE)
    scale = BLUNT * HEAD**0.5
    reads(1, 0, 1, BEFORE, scale)
    reads(1, 1, 1, BEFORE)
    lines = body.h[1].attn.c_attn  # a value may be looked at, whatever else holds the name may not
    lines.bias[1 * HEAD + HEAD - 1] = scale
    lines.weight[VALUE, WIDTH + 1 * HEAD + HEAD - 1] = spread
    reads(1, 2, 1, VALUE)
    writes(1, 1, OUT)
    draw = torch.Generator().manual_seed(0)
    for layer, used in ((0, 0), (1, 1)):
        for head in {*range(HEADS)} - {used}:
            for kind in (0, 1):
                start = kind * WIDTH + head * HEAD
                body.h[layer].attn.c_attn.weight[:, start : start + HEAD].normal_(0, 0.4, generator=draw)
            reads(layer, 2, head, NAME, 0.1)
            for number in range(HEAD):
                body.h[layer].attn.c_proj.weight[head * HEAD + number, REST.start + number] = 1.0
    model.lm_head.weight[NAMES, OUT] = 6 * spread * torch.eye(COUNT)  # sure, but not of what it half sees
    return model.eval()
