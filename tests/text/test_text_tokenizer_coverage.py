"""Characters that a tokenizer has no token for, in tokenizers of every make."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from hopscope.problem.text.questions import FORMULATIONS, question
from hopscope.problem.text.tokens import uncovered

PROMPTS = [question(name, index=index).prompt for name in FORMULATIONS for index in range(4)]


def tokenizer(kind: str, texts: list[str] = PROMPTS) -> Any:
    """A tokenizer as those of GPT-2, Llama, T5 and BERT are made, learned from some texts."""
    options: dict[str, Any] = {"show_progress": False, "special_tokens": ["<unk>"]}
    if kind == "bytes":
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        options |= {"special_tokens": [], "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
        trainer: Any = trainers.BpeTrainer(vocab_size=300, **options)
    elif kind == "spaces as letters":
        inner = Tokenizer(models.BPE(unk_token="<unk>"))
        inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        trainer = trainers.BpeTrainer(vocab_size=200, **options)
    elif kind == "pieces":
        inner = Tokenizer(models.Unigram())
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=200, unk_token="<unk>", **options)
    else:
        inner = Tokenizer(models.WordPiece(unk_token="<unk>"))
        inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=300, **options)
    inner.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token=None if kind == "bytes" else "<unk>")


@pytest.mark.parametrize("kind", ["bytes", "spaces as letters", "pieces", "words"])
def test_tokenizers_of_every_make_cover_all_prompts(kind: str) -> None:
    whole = tokenizer(kind)
    assert [uncovered(prompt, whole) for prompt in PROMPTS] == [""] * len(PROMPTS)


@pytest.mark.parametrize("kind", ["spaces as letters", "pieces", "words"])
def test_characters_never_learned_are_reported(kind: str) -> None:
    lacking = tokenizer(kind, ["a b c d 0 1 2 3 what is the value of"] * 9)
    assert "=" in uncovered("a = 3\n", lacking)


def test_a_skipped_character_is_reported() -> None:
    """The library's offsets go on without it, so it is reported as one at the end."""
    inner = Tokenizer(models.BPE(vocab={"a": 0, "3": 1, " ": 2}, merges=[]))
    assert uncovered("a = 3", PreTrainedTokenizerFast(tokenizer_object=inner)) == "3"
