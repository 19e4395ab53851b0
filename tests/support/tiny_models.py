"""Models made on the spot: tiny, random, on disk, with a tokenizer of a few words. Nothing is fetched."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from hopscope.problem.text.questions import FORMULATIONS, question

SPLIT = r"\n|[A-Za-z]+|\d| |[^\sA-Za-z\d]"
CHAT = "{% for m in messages %}<user>{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<model>{% endif %}"


def words() -> list[str]:
    """Every word, digit, sign and space of the paper's five formats."""
    found: set[str] = set("abcdefghijklmnopqrstuvwxyz0123456789")
    for name in FORMULATIONS:
        for index in range(30):
            item = question(name, index=index)
            found |= set(re.findall(SPLIT, item.prompt)) | set(item.acceptable)
    return ["<end>", "<user>", "<model>", *sorted(found | {"\n", " "})]


def tokenizer(chat: bool) -> PreTrainedTokenizerFast:
    """One token a word."""
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(words())}, unk_token="<user>"))
    inner.pre_tokenizer = Split(Regex(SPLIT), behavior="isolated")
    inner.decoder = Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<end>",
        additional_special_tokens=["<user>", "<model>"],
        clean_up_tokenization_spaces=False,
    )
    if chat:
        fast.chat_template = CHAT
    return fast


def random_gpt2(folder: Path, likely: tuple[str, ...], chat: bool = False, seed: int = 0, push: float = 7.0) -> Path:
    """A random GPT-2 on disk that knows nothing, but likes to say the `likely` words and to end.

    Without the push a random model says an acceptable answer once in thousands of attempts.
    """
    torch.manual_seed(seed)
    fast = tokenizer(chat)
    config = GPT2Config(
        vocab_size=len(fast), n_positions=512, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.15, tie_word_embeddings=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        direction = torch.nn.functional.normalize(torch.randn(config.n_embd), dim=0)
        model.transformer.ln_f.bias.copy_(8 * direction)
        ids = fast.convert_tokens_to_ids([*likely, "<end>", "\n"])
        model.lm_head.weight[ids] += push / 8 * direction
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
