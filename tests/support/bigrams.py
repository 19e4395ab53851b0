"""Language models whose every probability is written down: the next token depends on the last one alone."""

from __future__ import annotations

import math
import string
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

Table = dict[str, dict[str, float]]
"""After which token which token, with what probability; `START` stands for the end of the prompt."""

START, END = "<start>", "<end>"
CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}<start>"


def bigram(folder: Path, table: Table, metaspace: bool = False, chat: bool = True) -> Path:
    """A model folder. What the table does not say has no probability.

    Args:
        folder: where to.
        table: the model.
        metaspace: a tokenizer that adds a space before its first word, as Llama's did, and writes spaces as `▁`.
        chat: with a chat template; without one the prompt ends with a line break, which then is `START`.
    """
    written = [END, START, "<unknown>", *table, *(word for row in table.values() for word in row)]
    words = dict.fromkeys([*written, *string.printable, "\N{LOWER ONE EIGHTH BLOCK}"])  # a prompt is read by the letter
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unknown>"))
    cut = pre_tokenizers.Split(Regex("|".join(map(_escaped, sorted(words, key=len, reverse=True)))), "isolated")
    if metaspace:
        inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first"), cut])
        inner.decoder = decoders.Metaspace(prepend_scheme="first")
    else:
        inner.pre_tokenizer = cut
        inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, unk_token="<unknown>", clean_up_tokenization_spaces=False,
        additional_special_tokens=[START],
    )  # fmt: skip
    if chat:
        tokenizer.chat_template = CHAT
    width = 2 * len(words)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words), hidden_size=width, intermediate_size=2, num_hidden_layers=1, num_attention_heads=1,
            max_position_embeddings=4096, tie_word_embeddings=False, bos_token_id=None, eos_token_id=0,
        )
    )  # fmt: skip
    ids = {word: i for i, word in enumerate(words)}
    if not chat:
        table = {("\n" if word == START else word): row for word, row in table.items()}
    with torch.no_grad():
        for weight in (*model.model.layers[0].self_attn.parameters(), *model.model.layers[0].mlp.parameters()):
            weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(words), width))
        model.lm_head.weight.zero_()
        # The norm turns a one-hot vector into sqrt(width) times it.
        model.lm_head.weight[:, : len(words)] = -200 / math.sqrt(width)
        for word, row in table.items():
            for other, chance in row.items():
                model.lm_head.weight[ids[other], ids[word]] = math.log(chance) / math.sqrt(width)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _escaped(word: str) -> str:
    return "".join(f"\\{char}" if not char.isalnum() and not char.isspace() else char for char in word)
