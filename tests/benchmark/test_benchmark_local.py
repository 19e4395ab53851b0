"""Model folders on disk: chance by sampling and by weighing, the same replies in any batch, kill and resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

import torch
from respondents import SAMPLING, TWO_HOPS, WEIGHING, ask
from small_decoders import chat_model
from tokenizers_made import ending

from examples.text_model.text import make_tokenizer
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports

DIGITS = ("0", "1", "2", "3")


def test_replies_do_not_depend_on_the_batch(folders: dict[str, Path]) -> None:
    one, many = (ask(folders["plain"], 6, SAMPLING, batch) for batch in (1, 5))
    assert one == many
    weights = [[record.weights for record in ask(folders["plain"], 3, WEIGHING, batch)] for batch in (1, 64)]
    for first, second in zip(*weights, strict=True):
        assert first == pytest.approx(second, rel=1e-4)


def test_weights_are_those_of_a_slow_reading(folders: dict[str, Path]) -> None:
    """One sequence at a time, with the library's own forward pass."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folders["plain"])
    model = AutoModelForCausalLM.from_pretrained(folders["plain"]).eval()
    ends = tokenizer.convert_tokens_to_ids(["<end>", "\n"])
    item = WEIGHING.questions(TWO_HOPS, 1)[0]
    [record] = ask(folders["plain"], 1, WEIGHING)
    assert record.weights is not None
    for answer in item.acceptable:
        ids = tokenizer(item.prompt + "\n" + answer)["input_ids"]
        with torch.no_grad():
            chances = (model(torch.tensor([ids])).logits[0].double() / 2).softmax(-1)
        expected = float(chances[-2, ids[-1]] * chances[-1, ends].sum())
        assert expected - record.unweighed <= record.weights[answer] * 1.0001
        assert record.weights[answer] <= expected * 1.0001
    assert record.unweighed <= 1e-4 * record.p_acceptable
    assert record.p_correct == record.weights[item.answer]


def test_a_model_is_not_asked_behind_an_end_that_its_tokenizer_appends(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    shutil.copytree(folders["plain"], tmp_path / "ends")
    ending(make_tokenizer(), "<end>").save_pretrained(tmp_path / "ends")
    plain, ends = (ask(folder, 3, WEIGHING) for folder in (folders["plain"], tmp_path / "ends"))
    assert [record.weights for record in ends] == [record.weights for record in plain]


def test_text_that_ends_with_the_limit_is_rejected(folders: dict[str, Path]) -> None:
    """With one token there is no room for an end, so only an empty reply can end by itself."""
    records = ask(folders["plain"], 5, BenchmarkSettings(attempts=5, max_tokens=1))
    assert all(record.accepted is None for record in records)
    assert any(text in DIGITS for record in records for text in record.rejected)


def test_a_name_stands_for_one_model(tmp_path: Path, folders: dict[str, Path]) -> None:
    point = (["equations"], [1], 2, WEIGHING)
    benchmark([LocalModel(folders["plain"], "cpu")], tmp_path / "out", *point)
    other = chat_model(folders["plain"], tmp_path / "model")
    with pytest.raises(InputError, match="local/model belongs to another model"):
        benchmark([LocalModel(other, "cpu")], tmp_path / "out", *point)


def test_rotary_frequencies_are_not_rounded_in_bf16(folders: dict[str, Path]) -> None:
    exact, rough = (LocalModel(folders["plain"], "cpu", precision=precision) for precision in ("fp32", "bf16"))
    buffers = dict(exact._model.named_buffers())
    assert any((buffer != buffer.bfloat16()).any() for buffer in buffers.values())
    assert all(torch.equal(buffers[name], buffer) for name, buffer in rough._model.named_buffers())


def test_killed_at_any_write_it_goes_on_to_the_same_result(tmp_path: Path, folders: dict[str, Path]) -> None:
    """The k-th record is half written when the program dies, for every k; replies under way are drawn again alike."""
    model, points = LocalModel(folders["plain"], "cpu", 3), (["equations"], [1, 2], 3, SAMPLING)
    whole = benchmark([model], tmp_path / "whole", *points)
    for k in range(1, 7):
        out = tmp_path / f"killed-{k}"

        def dying(record: Any, k: int = k, out: Path = out) -> None:
            [path] = (out / "records").glob("*.jsonl")
            lines = path.read_bytes().splitlines(keepends=True)
            if len(lines) == k:
                path.write_bytes(b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            benchmark([model], out, *points, progress=dying)
        [path] = (out / "records").iterdir()
        before = path.read_bytes()
        assert before.count(b"\n") == k - 1
        assert benchmark([model], out, *points) == whole
        assert path.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
        ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
        assert len(ids) == len(set(ids)) == 6
