"""Models of many families: each is asked as it can be, several together or not, and in its own tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

import torch
from respondents import TWO_HOPS, WEIGHING
from small_decoders import stir

from examples.text_model.text import make_tokenizer
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.settings import BenchmarkSettings, Cell

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports


def recurrent() -> Any:
    """It reads what is put before a shorter question, whatever the mask says."""
    import transformers

    config = transformers.RwkvConfig(
        vocab_size=len(make_tokenizer()), hidden_size=32, num_hidden_layers=2, attention_hidden_size=32
    )
    return transformers.RwkvForCausalLM(config)


def counting() -> Any:
    """Its places are counted from the first token of a batch, whatever the mask says."""
    import transformers

    config = transformers.BartConfig(
        vocab_size=len(make_tokenizer()), d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48,
        max_position_embeddings=256,
    )  # fmt: skip
    return transformers.BartForCausalLM(config)


@pytest.mark.parametrize("made", [recurrent, counting])
def test_a_model_that_padding_would_change_is_asked_questions_of_one_length_together(
    made: Callable[[], Any], tmp_path: Path
) -> None:
    stir(made()).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    items = [item for hops in (1, 3) for item in WEIGHING.questions(Cell("equations", hops), 3)]
    one, many = LocalModel(tmp_path, "cpu", 1), LocalModel(tmp_path, "cpu", 8)
    found: list[Any] = []
    for asked in (one, many):
        asked.ask(items, WEIGHING, found.append)
    for alone, beside in zip(found[:6], found[6:], strict=True):
        assert alone.weights == pytest.approx(beside.weights, rel=1e-3)


def test_a_tokenizer_is_the_folders_own(tmp_path: Path) -> None:
    """In the place of its own way of cutting the library puts that of Qwen2, which loses the signs between words."""
    import transformers

    made = make_tokenizer()
    config = transformers.Qwen2Config(
        vocab_size=len(made), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    transformers.Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    [question] = WEIGHING.questions(TWO_HOPS, 1)
    [(_, read)] = LocalModel(tmp_path, "cpu")._read_all([question], WEIGHING)
    assert read.ids.tolist() == [made(question.prompt + "\n")["input_ids"]]


def roberta() -> Any:
    """Its places begin at the token behind the one that pads."""
    import transformers

    config = transformers.RobertaConfig(
        vocab_size=len(make_tokenizer()), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=256, is_decoder=True, pad_token_id=1, eos_token_id=0,
    )  # fmt: skip
    return transformers.RobertaForCausalLM(config)


@pytest.mark.slow
@pytest.mark.parametrize("made", [recurrent, roberta])
def test_models_that_the_library_goes_on_from_in_another_way_write_what_they_say_of_the_whole_text(
    made: Callable[[], Any], tmp_path: Path
) -> None:
    """The library gives one other places, and where several are asked together keeps one state for all in the other."""
    model, tokenizer = stir(made(), 0.4), make_tokenizer()
    model.eval().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    greedy, items = BenchmarkSettings(temperature=0, attempts=1, max_tokens=6), WEIGHING.questions(TWO_HOPS, 8)
    records: list[Any] = []
    LocalModel(tmp_path, "cpu").ask(items, greedy, records.append)
    for record, item in zip(records, items, strict=True):
        ids = tokenizer(item.prompt + "\n")["input_ids"]
        length, text = len(ids), ""
        while len(ids) < length + 6 and "\n" not in text and ids[-1] != tokenizer.eos_token_id:
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
            text = tokenizer.decode([token for token in ids[length:] if token != tokenizer.eos_token_id])
        assert record.rejected + ((record.response,) if record.accepted else ()) == (text.split("\n")[0],)
    weighed: list[Any] = []
    LocalModel(tmp_path, "cpu").ask(items[:2], WEIGHING, weighed.append)
    ends = [0, tokenizer.convert_tokens_to_ids("\n")]
    for record, item in zip(weighed, items, strict=False):
        ids = tokenizer(item.prompt + "\n" + item.answer)["input_ids"]
        with torch.no_grad():
            chances = (model(torch.tensor([ids]), use_cache=False).logits[0].double() / 2).softmax(-1)
        expected = float(chances[-2, ids[-1]] * chances[-1, ends].sum())
        assert record.weights[item.answer] == pytest.approx(expected, rel=1e-3, abs=record.unweighed)
