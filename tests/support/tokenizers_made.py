"""Tokenizers that cut the prompts in different ways, made on the spot."""

from __future__ import annotations

from functools import cache
from typing import Any

from hopscope.problem.text.questions import question

CHAT = "<s>{% for message in messages %}[user] {{ message.content }} [end]{% endfor %}[model]"


@cache
def tokenizer(kind: str) -> Any:
    """One that cuts into characters, into words, into bytes merged by frequency, or that chats."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = [
        question(name, seed=1, index=i).prompt for name in ("equations", "lives-with", "kingdoms") for i in range(9)
    ]
    if kind == "characters":
        inner = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))
        inner.train_from_iterator([*texts, "<>[]/"], tokenizers.trainers.BpeTrainer(vocab_size=1, show_progress=False))
    else:
        inner = tokenizers.Tokenizer(tokenizers.models.BPE())
        inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=320 if kind == "short" else 600,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        inner.train_from_iterator(texts, trainer)
    made: Any = PreTrainedTokenizerFast(tokenizer_object=inner, clean_up_tokenization_spaces=False)
    if kind == "chat":
        made.chat_template = CHAT
    return made


def ending(made: Any, end: str) -> Any:
    """A tokenizer that from now on puts a token behind every text, as Llama's does with `add_eos_token=True`."""
    import tokenizers

    made.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, made.convert_tokens_to_ids(end))]
    )
    return made
