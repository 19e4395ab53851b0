"""Keys of the environment: refused at the door, and in no file, whoever hands them over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hopscope.benchmark.redaction import all_redacted, holds_secret, is_secret
from hopscope.benchmark.results import Results
from hopscope.benchmark.run import ProgramRespondent, benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.cli.benchmark_verb import _arguments
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
    for arguments in (*({"default_headers": header} for header in headers), {"some_token": "x"}):
        with pytest.raises(InputError, match=r"the argument \w+ holds a secret, which Inspect would write to its logs"):
            opened(arguments=arguments)
    assert opened(arguments={"api_key": "x"}).identity == {"arguments": {}, "base_url": "http://127.0.0.1:9/v1"}
    for secret in ("me:word@127.0.0.1:9/v1", "127.0.0.1:9/v1?api_key=x", f"127.0.0.1:9/{KEY}/v1"):
        with pytest.raises(InputError, match="base_url holds a name, password or key") as said:
            opened(base_url=f"http://{secret}")
        assert secret not in str(said.value)
        monkeypatch.setenv("LOCAL_BASE_URL", f"http://{secret}")
        with pytest.raises(InputError, match="base_url holds a name, password or key"):
            opened(base_url=None)
