"""`hopscope benchmark`: bad input is refused before a model is opened."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hopscope.cli import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "gpt-4"], "gpt-4 is neither a folder nor a provider's model"),
        (["--model", "a/b", "--hops", "7"], "got 7 and 4; pass --names extended"),
        (["--model", "a/b", "--hops", "2", "--formulation", "lives-with"], "got hops for lives-with; leave hops out"),
        (["--model", "a/b", "--formulation", "sums"], "there is no formulation 'sums'"),
        (["--model", "a/b", "--temperature", "0"], "temperature must be above 0"),
        (["--model", ".", "--base-url", "zzz"], "a model folder runs here and has no provider; leave --base-url out"),
        (["--model", "a/b", "--device", "cpu"], "no model is a folder; leave --device out"),
        (["--model", "a/b", "--out", "letter.txt/out"], "letter.txt is a file; give a folder"),
        (["--model", "a/b", "-M", "device"], "-M takes NAME=VALUE, got 'device'"),
        (["--model", "a/b", "-M", "api_key=x"], "-M api_key would put a secret on the command line"),
        (["--model", "a/b", "--model", "a/b"], "a model was named twice"),
        (["--model", "a/b", "--names", "random"], "names does not apply to kingdoms"),
        (["--model", "."], "is no model folder: it has no config.json"),
    ],
)
def test_bad_input(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if arguments == ["--model", "."]:
        pytest.importorskip("transformers", reason="the extra `llm` is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(SystemExit) as stop:
        main(["benchmark", *arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "benchmark").exists()


def test_without_the_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "hopscope.benchmark.hosted", raising=False)
    for module in ("inspect_ai", "inspect_ai.model"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit):
        main(["benchmark", "--model", "openai/gpt-4o"])
    assert "pip install -c constraints.txt '.[llm]'" in capsys.readouterr().err
