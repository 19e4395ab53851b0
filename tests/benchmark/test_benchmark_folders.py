"""Model folders of many families: which are whole, which are refused and why, whose code is run, how each is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from collections.abc import Callable

import pytest
import torch
from respondents import SAMPLING, TWO_HOPS, WEIGHING, ask
from safetensors.torch import load_file, save_file
from small_decoders import FAMILIES, decoder, stir

from examples.text_model.recipe import TextModelRecipe
from examples.text_model.text import make_tokenizer
from examples.text_model.training import make_model, publish
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.errors import InputError
from hopscope.language.model_folder import open_model_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports


def test_folders_that_are_no_models(tmp_path: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=r"has no config\.json"):
        LocalModel(tmp_path)
    shutil.copytree(folders["plain"], tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(InputError, match="cannot be opened as a causal language model"):
        LocalModel(tmp_path / "broken", "cpu")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_folder_without_a_tokenizer_is_refused(family: str, tmp_path: Path) -> None:
    """For the one the library makes a tokenizer without words, of the other it says much."""
    decoder(family).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"holds no tokenizer; .* with tokenizer\.save_pretrained$"):
        open_model_folder(tmp_path)


@pytest.mark.parametrize(
    ("config", "dropped", "sentence"),
    [
        ({}, "model.layers.0.self_attn.", r"model\.layers\.0\.self_attn\.k_proj\.weight is missing .* \(and 3 more\)"),
        ({"num_hidden_layers": 2}, None, r"model\.layers\.2\..* has no place in the model"),
        ({"num_hidden_layers": 99}, None, r"model\.layers\.4\..* is missing from the weights"),
        ({"intermediate_size": 31}, None, r"has the shape \(32, 128\) in the weights and \(31, 128\) in the model"),
    ],
)
def test_weights_that_are_not_the_configurations_are_refused(
    config: dict[str, int], dropped: str | None, sentence: str, tmp_path: Path
) -> None:
    """The library fills what is missing with random numbers and leaves out what is too much."""
    publish(make_model(TextModelRecipe()), tmp_path)
    there = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(there | config))
    if dropped is not None:
        weights = load_file(tmp_path / "model.safetensors")
        kept = {name: weight for name, weight in weights.items() if not name.startswith(dropped)}
        save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=sentence):
        open_model_folder(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_saved_model_folders_of_all_families_open(family: str, tied: bool, tmp_path: Path) -> None:
    model = decoder(family)
    model.config.tie_word_embeddings = tied
    type(model)(model.config).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    heads = {"lm_head.weight", "embed_out.weight"} & load_file(tmp_path / "model.safetensors").keys()
    assert bool(heads) is not tied
    open_model_folder(tmp_path)


def test_questions_longer_than_the_context_and_unknown_tokens_are_refused(tmp_path: Path) -> None:
    """A question longer than its table of places, and a token that its embedding has no row for."""
    import transformers

    made = make_tokenizer()
    config = transformers.GPT2Config(vocab_size=len(made), n_positions=30, n_embd=32, n_layer=2, n_head=4)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    assert len(ask(tmp_path, 2, WEIGHING)) == 2
    for settings in (WEIGHING, BenchmarkSettings(attempts=1, max_tokens=4)):
        with pytest.raises(InputError, match="takes at most 30; pass a lower max_tokens, or ask for fewer hops"):
            ask(tmp_path, 2, settings, cell=Cell("equations", 6))
    made.add_tokens(["[model]"], special_tokens=True)
    made.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}[model]"
    made.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=rf"the tokenizer has {len(made)} tokens, but GPT2LMHeadModel knows"):
        ask(tmp_path, 2, WEIGHING)


def test_an_added_token_that_no_text_has_is_no_hindrance(tmp_path: Path, folders: dict[str, Path]) -> None:
    """Gemma 3's tokenizer has one for images, beyond the rows of its small models; and many a folder has one to pad."""
    shutil.copytree(folders["plain"], tmp_path / "model")
    made = make_tokenizer()
    made.add_special_tokens({"pad_token": "[PAD]"})
    made.save_pretrained(tmp_path / "model")
    for settings in (WEIGHING, SAMPLING):
        plain, padded = (ask(folder, 5, settings, cell=TWO_HOPS) for folder in (folders["plain"], tmp_path / "model"))
        assert [replace(record, model="") for record in padded] == [replace(record, model="") for record in plain]


def test_questions_that_a_tokenizer_does_not_read_are_refused_before_any_is_asked(folders: dict[str, Path]) -> None:
    """Ours knows equations alone: of anything else the model would see but unknown tokens, and answer all the same."""
    sentence = r"no token for some characters \('\w+.*'\) in a question of kingdoms"
    for settings in (WEIGHING, SAMPLING):
        with pytest.raises(InputError, match=sentence):
            ask(folders["plain"], 2, settings, cell=Cell("kingdoms", 5))


def test_models_that_look_ahead_or_cannot_be_run_are_refused(tmp_path: Path) -> None:
    import transformers

    small: dict[str, Any] = {
        "vocab_size": len(make_tokenizer()), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }  # fmt: skip
    ahead = transformers.BertLMHeadModel(transformers.BertConfig(**small))  # its folder does not say `is_decoder`
    broken = transformers.StableLmForCausalLM(transformers.StableLmConfig(**small))  # 32 key heads, the default
    for model, sentence in ((ahead, "looks ahead in a text"), (broken, "cannot be run: ")):
        stir(model)
        folder = tmp_path / type(model).__name__
        model.save_pretrained(folder)
        make_tokenizer().save_pretrained(folder)
        with pytest.raises(InputError, match=sentence):
            LocalModel(folder, "cpu")


def test_a_chat_template_that_cannot_be_filled_in_is_refused(tmp_path: Path, folders: dict[str, Path]) -> None:
    for template, why in (
        ("{{ raise_exception('system first') }}", "system first"),
        ({"rag": "{{ x }}"}, "no default"),
    ):
        made, folder = make_tokenizer(), tmp_path / why
        made.chat_template = template
        shutil.copytree(folders["plain"], folder)
        made.save_pretrained(folder)
        with pytest.raises(InputError, match=rf"chat template cannot be filled in: .*{why}"):
            ask(folder, 1, WEIGHING)


CODE = """
open({ran!r}, "w")
from transformers import LlamaConfig, LlamaForCausalLM


class Mine(LlamaConfig):
    model_type = "mine"


class Model(LlamaForCausalLM):
    config_class = Mine
"""


@pytest.mark.slow
def test_code_that_a_folder_brings_is_run_where_it_is_asked_for_alone(tmp_path: Path, folders: dict[str, Path]) -> None:
    """Whatever is on standard input: transformers itself would take a `y` from there."""
    folder, out, ran = tmp_path / "model", tmp_path / "out", tmp_path / "ran"
    shutil.copytree(folders["plain"], folder)
    (folder / "its_own.py").write_text(CODE.format(ran=str(ran)))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "architectures": ["Model"]}
    config |= {"auto_map": {"AutoConfig": "its_own.Mine", "AutoModelForCausalLM": "its_own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    asked = ["--model", str(folder), "--out", str(out), "--formulation", "equations", "--hops", "1", "--count", "2"]

    def ask(*more: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", "from hopscope.cli import main; main()", "benchmark", *asked, *more]
        environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
        return subprocess.run(program, input="y\n" * 9, capture_output=True, text=True, env=environment)

    refused = ask()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pass --trust-remote-code (in Python trust_remote_code=True)" in refused.stderr
    assert not ran.exists()
    assert not out.exists()
    allowed = ask("--trust-remote-code")
    assert allowed.returncode == 0, allowed.stderr
    assert ran.exists()
    with (folder / "its_own.py").open("a") as file:
        file.write("# changed\n")
    changed = ask("--trust-remote-code")
    assert changed.returncode == 2
    assert "belongs to another model" in changed.stderr, "its code is part of what a model is"


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
