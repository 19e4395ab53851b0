"""Model folders: which are whole, which are refused and why, and whose code is run."""

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
        with pytest.raises(InputError, match="places for 30; pass a lower max_tokens, or ask for fewer hops"):
            ask(tmp_path, 2, settings, cell=Cell("equations", 6))
    made.add_tokens(["[model]"], special_tokens=True)
    made.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}[model]"
    made.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=rf"the tokenizer has {len(made)} tokens and GPT2LMHeadModel knows"):
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
