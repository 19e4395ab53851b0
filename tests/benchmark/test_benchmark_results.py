"""The results folder: what is kept, gone on from, refused; and that no key of the environment is in any file."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from respondents import ONE, TWO_HOPS, Asked, ProgramRespondent, half, right

from hopscope.benchmark.redaction import all_redacted, file_name, holds_secret, is_secret, redacted
from hopscope.benchmark.results import Results
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.cli.benchmark_verb import _arguments
from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import Question
from hopscope.records import lock


def test_resume_asks_only_what_is_missing(tmp_path: Path) -> None:
    first = Asked("p", half, stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        benchmark([first], tmp_path, *ONE, 20, BenchmarkSettings())
    second, seen = Asked("p", half), []  # type: ignore[var-annotated]
    summary = benchmark([second], tmp_path, *ONE, 20, BenchmarkSettings(), seen.append)
    assert not set(first.asked) & set(second.asked)
    assert len(first.asked) + len(second.asked) == 20
    assert len(seen) == 20
    third = Asked("p", half)
    assert benchmark([third], tmp_path, *ONE, 20, BenchmarkSettings()) == summary
    assert third.asked == []
    benchmark([third], tmp_path, ["equations", "kingdoms"], [2], 25, BenchmarkSettings())
    assert len(third.asked) == 5 + 25


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"models": []}, "models must be a list of one model or more, got []"),
        ({"models": [3]}, "a model must be a folder or name as text, or a Respondent, got 3"),
        ({"hops": 3}, "hops must be a list or tuple of whole numbers, got 3"),
        ({"hops": ["a"]}, "hops must be a whole number of at least 1, got 'a'"),
        ({"hops": [7]}, "hops must be 1..6 and chains 4 for equations in the paper's format"),
        ({"formulations": "equations"}, "formulations must be a list or tuple of names, got 'equations'"),
        ({"count": 1.5}, "count must be a whole number of at least 1, got 1.5"),
        ({"folder": 3}, "the folder of results is given by its path, as text or a pathlib.Path, got 3"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_written(
    values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"models": [Asked("p", right)], "folder": tmp_path / "out", "formulations": ["equations"]}
    with pytest.raises(InputError, match=re.escape(sentence)):
        benchmark(**asked | {"count": 2} | values)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("reply", "kind"), [(None, "NoneType"), (3, "int")])
def test_a_reply_that_is_no_text_is_an_error_of_its_question(reply: Any, kind: str, tmp_path: Path) -> None:
    def odd(item: Question) -> str:
        return item.answer if item.index % 2 else reply

    (point,) = benchmark([Asked("p", odd)], tmp_path, *ONE, 4).points
    assert (point.asked, point.unanswered, point.accepted) == (4, 2, 2)
    errors = [record.error for record in Results(tmp_path).records("p").values()]
    assert errors == [f"p gave {kind} where a reply is text", None] * 2
    again = Asked("p", right)
    assert benchmark([again], tmp_path, *ONE, 4).points[0].accuracy == 1
    assert len(again.asked) == 2


def test_settings_of_a_folder_are_kept(tmp_path: Path) -> None:
    benchmark([Asked("p", right)], tmp_path, *ONE, 2, BenchmarkSettings())
    for other, name in (
        (BenchmarkSettings(seed=1), "seed 0, got 1"),
        (BenchmarkSettings(rule="lenient"), "rule 'exact', got 'lenient'"),
        (BenchmarkSettings(extensions=Extensions(lines="shuffled")), "extensions {}, got {'lines': 'shuffled'}"),
    ):
        with pytest.raises(InputError, match=re.escape(name)):
            benchmark([Asked("p", right)], tmp_path, *ONE, 2, other)
        with pytest.raises(InputError, match=re.escape(name)):  # before a model is opened, and one is not there
            benchmark(["nowhere"], tmp_path, *ONE, 2, other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not readable as a benchmark's results"),
        ("[1]", "is not a benchmark's results"),
        ('{"kind": "circuit", "schema": 1}', "is not a benchmark's results"),
        ('{"kind": "benchmark", "schema": 99}', "has schema 99"),
        ('{"kind": "benchmark", "schema": 1, "models": {}, "settings": {}}', "does not fit its checksum"),
        ('{"someone": "else"}', "is not a benchmark's results"),
    ],
)
def test_damaged_and_foreign_folders_are_named_and_left_alone(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "benchmark.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(words)) as error:
        benchmark([Asked("p", right)], tmp_path, *ONE, 2, BenchmarkSettings())
    assert "left untouched" in str(error.value)
    assert (tmp_path / "benchmark.json").read_text() == text
    assert not (tmp_path / "summary.json").exists()
    with pytest.raises(InputError, match="does not exist"):
        Results(tmp_path / "nowhere")


def test_half_a_line_is_dropped_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    benchmark([Asked("p", right)], tmp_path, *ONE, 3, BenchmarkSettings())
    [path] = (tmp_path / "records").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = Asked("p", right)
    benchmark([again], tmp_path, *ONE, 3, BenchmarkSettings())
    assert len(again.asked) == 1
    assert path.read_bytes() == whole
    path.write_bytes(b"nonsense\n" + whole)
    damaged = path.read_bytes()
    with pytest.raises(InputError, match=r"line 1 of .* is damaged"):
        benchmark([again], tmp_path, *ONE, 3, BenchmarkSettings())
    assert path.read_bytes() == damaged


def test_records_that_are_lost_are_found(tmp_path: Path) -> None:
    def troubles() -> list[str]:
        return [checked.trouble for checked in check(tmp_path) if checked.trouble]

    benchmark([Asked("p", half), Asked("q", right)], tmp_path, *ONE, 3, BenchmarkSettings())
    records = Results(tmp_path).path("q")
    kept = records.read_text()
    assert troubles() == []
    records.write_text("".join(kept.splitlines(keepends=True)[:2]))
    (trouble,) = troubles()
    assert f"{records} has 2 of the 3 records of {TWO_HOPS.formulation}" in trouble
    records.write_text(kept)
    shutil.rmtree(tmp_path / "records")
    assert ["has 0 of the 3 records" in trouble for trouble in troubles()] == [True]
    (tmp_path / "records").write_text("mine")
    assert ["has 0 of the 3 records" in trouble for trouble in troubles()] == [True]


def test_a_benchmark_that_was_stopped_has_lost_nothing(tmp_path: Path) -> None:
    for after, settings in ((0, BenchmarkSettings(attempts=5)), (2, BenchmarkSettings())):  # without answers: no claim
        with pytest.raises(KeyboardInterrupt):
            benchmark([Asked("p", half, stop_after=after), Asked("q", right)], tmp_path, *ONE, 20, settings)
    assert not [checked for checked in check(tmp_path) if checked.trouble]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with lock(tmp_path / ".lock", ""), pytest.raises(InputError, match="another program writes to"):
        benchmark([Asked("p", right)], tmp_path, *ONE, 1, BenchmarkSettings())


def test_file_names_are_harmless_and_differ() -> None:
    names = ["a/b", "a_b", "../../etc/passwd", "", "a\0b", "é" * 300, "CON", "a b"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,80}", file) for file in files)


@pytest.mark.parametrize("secret", ["pässwort-geheim-1", 'with"quote-2', "back\\slash-3", "tab\tbed-secret-4"])
def test_secrets_that_json_escapes_are_taken_out_too(
    secret: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", secret)
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        assert redacted(f"x {text} 1") == "x [secret] 1"
    benchmark([Asked("p", lambda q: f"is {secret}?")], tmp_path, *ONE, 2, BenchmarkSettings(attempts=2))
    records = Results(tmp_path).records("p").values()
    assert [record.rejected for record in records] == [("is [secret]?",) * 2] * 2


def test_by_its_short_name(tmp_path: Path) -> None:
    """`hs.benchmark` is callable, also after its room was imported as a module, as it is here."""
    import hopscope as hs

    with pytest.raises(InputError, match="is neither a folder nor a provider's model"):
        hs.benchmark(["nobody"], tmp_path)


KEY = "sk-very-secret-key-0123456789"
"""What `conftest` puts into the environment."""


@pytest.mark.parametrize(
    "pair",
    [
        "api_key=x",
        "Authorization=x",
        'default_headers={"Authorization": "Bearer x"}',
        'default_headers={"proxy-AUTHORIZATION": "x"}',
        'client={"deep": [{"deeper": {"x-api-key": "x"}}]}',
        f"header=Bearer {KEY}",
        f'client=[["a", "{KEY}"]]',
        f'client={{"{KEY}": 1}}',
        f'client={{"a": "{KEY[:-1]}\\u0039"}}',
        f"{KEY}=1",
    ],
)
def test_an_argument_that_holds_a_secret_is_refused(pair: str) -> None:
    """By its name, a name within it, or a key of the environment in it, however it is spelled; without telling it."""
    with pytest.raises(InputError, match=r"^-M .* would put a secret on the command line; set the provider's") as said:
        _arguments((pair,))
    assert KEY not in str(said.value)


def test_names_of_secrets() -> None:
    assert all(map(is_secret, ("AUTHORIZATION", "x-api-key", "API_KEY_TOKENS")))
    assert not any(map(holds_secret, ("author", {"a": [1, {"b": None}]}, ("x",))))
    assert all_redacted({KEY: [KEY, ("a", 1)]}) == {"[secret]": ["[secret]", ["a", 1]]}


def test_what_a_model_is_is_kept_without_them(tmp_path: Path) -> None:
    """And is the same model when it comes again."""
    model = ProgramRespondent("p", lambda item: item.answer)
    model.identity = {"arguments": {"headers": str({"x": f"Bearer {KEY}"})}, "list": [KEY]}
    for count in (1, 2):
        benchmark([model], tmp_path, ["equations"], [1], count, BenchmarkSettings())
    assert Results(tmp_path).header.models["p"] == {
        "arguments": {"headers": "{'x': 'Bearer [secret]'}"},
        "list": ["[secret]"],
    }
    assert KEY not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    model.identity = {"arguments": {}}
    with pytest.raises(InputError, match="the name p belongs to another model"):
        benchmark([model], tmp_path, ["equations"], [1], 1, BenchmarkSettings())


@pytest.mark.filterwarnings("ignore")
def test_from_python_too_what_inspect_would_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments and addresses, whether given or of the environment; without telling the secret."""
    pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")
    from hopscope.benchmark.hosted import HostedModel

    def opened(**values: Any) -> HostedModel:
        return HostedModel("openai-api/local/m", tmp_path, **{"base_url": "http://127.0.0.1:9/v1", **values})

    headers = {"Authorization": "Bearer x"}, {"x": [KEY]}
    for arguments in (*({"default_headers": header} for header in headers), {"some_token": "x"}, {"api_key": "x"}):
        with pytest.raises(InputError, match=r"the argument \w+ holds a secret, which an error or a log could repeat"):
            opened(arguments=arguments)
    assert opened().identity == {"arguments": {}, "base_url": "http://127.0.0.1:9/v1"}
    for secret in ("me:word@127.0.0.1:9/v1", "127.0.0.1:9/v1?api_key=x", f"127.0.0.1:9/{KEY}/v1"):
        with pytest.raises(InputError, match="base_url holds a name, password or key") as said:
            opened(base_url=f"http://{secret}")
        assert secret not in str(said.value)
        monkeypatch.setenv("LOCAL_BASE_URL", f"http://{secret}")
        with pytest.raises(InputError, match="base_url holds a name, password or key"):
            opened(base_url=None)
