"""Keys of the environment: refused at the door, and in no file, whoever hands them over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hopscope.benchmark.names import all_redacted, holds_secret, is_secret
from hopscope.benchmark.results import Results
from hopscope.benchmark.run import ProgramRespondent, benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.cli.benchmark import _arguments
from hopscope.errors import InputError

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


def test_a_number_that_is_a_secret_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "1234567890")
    with pytest.raises(InputError, match="-M pin would put a secret"):
        _arguments(("pin=[1234567890]",))


def test_other_arguments_are_taken() -> None:
    given = ('limits={"max_tokens": 5, "tokenizer": "t", "list": [1, null, true]}', "device=cpu", "text={", "n=1.5")
    assert _arguments(given) == {
        "limits": {"max_tokens": 5, "tokenizer": "t", "list": [1, None, True]},
        "device": "cpu",
        "text": "{",
        "n": 1.5,
    }
    with pytest.raises(InputError, match="-M deep is nested too deeply"):
        _arguments(("deep=" + 100_000 * "[",))


def test_names_of_secrets() -> None:
    assert all(map(is_secret, ("authorization", "AUTHORIZATION", "x-api-key")))
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
    with pytest.raises(InputError, match="the name p stands for another model"):
        benchmark([model], tmp_path, ["equations"], [1], 1, BenchmarkSettings())


@pytest.mark.filterwarnings("ignore")  # of Inspect and what it imports
def test_a_key_with_a_colour_in_it_is_not_told() -> None:
    pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")
    from hopscope.benchmark.guard import said

    marked = f"{KEY[:8]}[bold red]{KEY[8:12]}[/bold red]{KEY[12:]}"
    assert said(ValueError(f"bad key {marked}, or {KEY}")) == "bad key [secret], or [secret]"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "arguments",
    [
        {"default_headers": {"Authorization": "Bearer x"}},
        {"default_headers": {"x": [KEY]}},
        {"some_token": "x"},
    ],
)
def test_from_python_too_what_inspect_would_log_is_refused(arguments: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")
    from hopscope.benchmark.hosted import HostedModel

    (name,) = arguments
    with pytest.raises(InputError, match=f"the argument {name} holds a secret, which Inspect would write to its logs"):
        HostedModel("openai-api/local/m", tmp_path, base_url="http://127.0.0.1:9/v1", arguments=arguments)
    model = HostedModel("openai-api/local/m", tmp_path, base_url="http://127.0.0.1:9/v1", arguments={"api_key": "x"})
    assert model.identity == {"arguments": {}, "base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "address",
    ["http://me:word@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=x", f"http://127.0.0.1:9/{KEY}/v1"],
)
def test_an_address_that_holds_a_secret_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is given or stands in the environment; without telling it."""
    pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")
    from hopscope.benchmark.hosted import HostedModel

    with pytest.raises(InputError, match="base_url holds a name, password or key") as said:
        HostedModel("openai-api/local/m", tmp_path, base_url=address)
    assert address not in str(said.value)
    monkeypatch.setenv("LOCAL_BASE_URL", address)
    with pytest.raises(InputError, match="base_url holds a name, password or key"):
        HostedModel("openai-api/local/m", tmp_path)


def test_numbers_of_one_address_are_not_those_of_another(tmp_path: Path) -> None:
    """Records from before addresses were kept are taken for those of the first that is asked."""
    model = ProgramRespondent("p", lambda item: item.answer)
    point = (["equations"], [1], 1)
    for identity in ({"arguments": {}}, {"arguments": {}, "base_url": "http://a/v1"}):
        model.identity = identity
        benchmark([model], tmp_path, *point)
    model.identity = {"arguments": {}, "base_url": "http://b/v1"}
    with pytest.raises(InputError, match="the name p stands for another model, by its base_url; write to another"):
        benchmark([model], tmp_path, *point)
