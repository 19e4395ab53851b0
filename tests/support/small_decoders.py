"""Small language models made on the spot: random ones of the families that people use, ones whose every probability is
written down, and our own, trained for seconds."""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel

from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import publish

_WIDE: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_GROUPED = {**_WIDE, "num_key_value_heads": 2}
_WINDOWED = {**_GROUPED, "head_dim": 12, "sliding_window": 5}

FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=40, n_positions=64, n_embd=32, n_layer=3, n_head=4, eos_token_id=2)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPED)),
    "mistral, with a window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**_WINDOWED)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**_GROUPED)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_GROUPED, head_dim=12)),
    "gemma": lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(**_GROUPED, head_dim=12)),
    "gemma 2, with soft caps and windows": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**_WINDOWED, query_pre_attn_scalar=12)
    ),
    "gemma 3": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**_WINDOWED)),
    "gpt neo, with local layers": lambda: transformers.GPTNeoForCausalLM(
        transformers.GPTNeoConfig(
            vocab_size=40, max_position_embeddings=64, hidden_size=32, num_layers=3, num_heads=4, window_size=5,
            attention_types=[[["global", "local", "global"], 1]], eos_token_id=2,
        )
    ),
    "gpt oss, with sinks": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**_GROUPED, head_dim=12, num_local_experts=2, num_experts_per_tok=1)
    ),
    "gpt neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**_WIDE)),
    "gpt bigcode": lambda: transformers.GPTBigCodeForCausalLM(
        transformers.GPTBigCodeConfig(
            vocab_size=40, n_positions=64, n_embd=32, n_layer=3, n_head=4, multi_query=False, eos_token_id=2
        )
    ),
    "gpt bigcode, keys shared": lambda: transformers.GPTBigCodeForCausalLM(
        transformers.GPTBigCodeConfig(vocab_size=40, n_positions=64, n_embd=32, n_layer=3, n_head=4, eos_token_id=2)
    ),
    "phi": lambda: transformers.PhiForCausalLM(transformers.PhiConfig(**_WIDE)),
    "phi 3": lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(**_GROUPED)),
}  # fmt: skip
"""By name: a model with random weights, large enough that heads do something."""


def decoder(name: str) -> Any:
    """A model of a family; the same one at each call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = FAMILIES[name]()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight.normal_(0, 0.3)
                elif not bool(weight.any()):
                    weight.normal_(0, 0.1)
    return model.eval()


def stir(model: Any, by: float = 0.2) -> Any:
    """A new model, its weights changed at random so that its layers do something."""
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)), alpha=by)
    return model


Table = dict[str, dict[str, float]]
"""After which token which token, with what probability; `START` is the end of the prompt."""

START, END = "<start>", "<end>"
CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}<start>"


def bigram(folder: Path, table: Table, metaspace: bool = False, chat: bool = True) -> Path:
    """The folder of a model whose next token depends on the last one alone; what the table omits has no probability.

    With `metaspace`, the tokenizer adds a space before its first word, as Llama's did, and writes spaces as `▁`.
    Without `chat`, the prompt ends with a line break, which then is `START`.
    """
    written = [END, START, "<unknown>", *table, *(word for row in table.values() for word in row)]
    words = dict.fromkeys([*written, *string.printable, "\N{LOWER ONE EIGHTH BLOCK}"])  # a prompt is read by the letter
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unknown>"))
    escaped = ["".join(c if c.isalnum() or c.isspace() else f"\\{c}" for c in word) for word in sorted(words, key=len)]
    cut = pre_tokenizers.Split(Regex("|".join(reversed(escaped))), "isolated")
    if metaspace:
        inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first"), cut])
        inner.decoder = decoders.Metaspace(prepend_scheme="first")
    else:
        inner.pre_tokenizer = cut
        inner.decoder = decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, unk_token="<unknown>", clean_up_tokenization_spaces=False,
        additional_special_tokens=[START],
    )  # fmt: skip
    if chat:
        tokenizer.chat_template = CHAT
    width = 2 * len(words)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
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


OWN_RECIPE = TextModelRecipe(layers=2, d_model=64, heads=4, most_hops=1, steps=150, rate=3e-3)
OWN_TINY = TextModelRecipe(layers=1, heads=2, d_model=16, most_hops=2, steps=8, batch=4, rate=0.01, warmup=2)
"""Ours: trained for seconds, it answers in the right form and at chance; trained in a moment, it learns nothing."""
CHAT_LINES = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def chat_model(plain: Path, folder: Path) -> Path:
    """The same model behind a chat template."""
    publish(transformers.AutoModelForCausalLM.from_pretrained(plain), folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = CHAT_LINES
    tokenizer.save_pretrained(folder)
    return folder
