"""What a tokenizer does not read: nothing, in the ways that tokenizers of models are made; and what one lacks."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from hopscope.problem.text.questions import FORMULATIONS, question
from hopscope.problem.text.tokens import unread

PROMPTS = [question(name, index=index).prompt for name in FORMULATIONS for index in range(4)]


def made(kind: str, texts: list[str] = PROMPTS) -> Any:
    """A tokenizer as those of GPT-2, Llama, T5 and BERT are made, learned from some texts."""
    if kind == "bytes":
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer: Any = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    elif kind == "spaces as letters":
        inner = Tokenizer(models.BPE(unk_token="<unk>"))
        inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["<unk>"], show_progress=False)
    elif kind == "pieces":
        inner = Tokenizer(models.Unigram())
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=200, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
        )
    else:
        inner = Tokenizer(models.WordPiece(unk_token="<unk>"))
        inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False)
    inner.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token=None if kind == "bytes" else "<unk>")


@pytest.mark.parametrize("kind", ["bytes", "spaces as letters", "pieces", "words"])
def test_tokenizers_of_every_make_read_all(kind: str) -> None:
    whole = made(kind)
    assert [unread(prompt, whole) for prompt in PROMPTS] == [""] * len(PROMPTS)


@pytest.mark.parametrize("kind", ["spaces as letters", "pieces", "words"])
def test_what_was_never_learned_is_told(kind: str) -> None:
    lacking = made(kind, ["a b c d 0 1 2 3 what is the value of"] * 9)
    assert "=" in unread("a = 3\n", lacking)


def test_that_a_character_is_skipped_is_told() -> None:
    """The library counts on without it: what is told stands at the end."""
    inner = Tokenizer(models.BPE(vocab={"a": 0, "3": 1, " ": 2}, merges=[]))
    assert unread("a = 3", PreTrainedTokenizerFast(tokenizer_object=inner)) == "3"
