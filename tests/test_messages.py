"""Messages: one plain sentence on one line; bad input is refused before anything is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hopscope
from hopscope.cli import main
from hopscope.cli.exit import readable


def test_messages_are_one_printable_line(capsys):
    shown = readable("got \x1b[31m\u202e" + "x" * 100_000 + "\nand more")
    assert len(shown) < 300
    assert shown.isprintable()
    with pytest.raises(SystemExit) as stop:
        main(["theory", "--hops", "9" * 100_000 + "\u202e"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert len(said) < 1000
    assert "\u202e" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["emergence", "nowhere", "--seed", "-1"], "nowhere"),
        (["sweep", "new", "--plain-seeds", ""], "plain seeds must be different whole numbers"),
        (["sweep", "new", "--steps", "4", "--log-every", "8", "--precision", "fp32"], "at least log_every"),
        (["sample", "vectors", "--hops", "1000000", "--count", "1000000"], "of memory at the least"),
        (["theory", "--hops", "4", "--order", "1,2,3"], "order must be"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


SOURCE = Path(hopscope.__file__).parent
RETIRED = re.compile(r"\b(anew|look(s|ed)? at|look-?ups?|brings?|brought|gathers?|told|seam|the bar|watch(es|ed)?)\b")
"""Words that messages had and that say less than the nouns of the field."""


def messages(source: str) -> Iterator[str]:
    """The texts of the `InputError`s that a file raises, with X for every value in them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError" and node.args:
            first = node.args[0]
            parts = first.values if isinstance(first, ast.JoinedStr) else [first]
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


def test_messages_are_one_plain_sentence():
    found = [message for file in SOURCE.rglob("*.py") for message in messages(file.read_text(encoding="utf-8"))]
    assert len(found) > 200
    assert [message for message in found if RETIRED.search(message) or message.endswith(".") or "\n" in message] == []


def test_messages_are_found():
    assert [*messages("raise InputError(f'hops must be at least 1, got {hops}')")] == ["hops must be at least 1, got X"]


def test_line_breaks_are_the_same_on_every_system():
    """On Windows text files have others by default, and the seal of a row with another line break does not fit."""
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for call in (
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        ):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            written = name == "open" and any(set(word) <= {*"wax+t"} and word for word in words)
            of_path = name == "write_text" and isinstance(call.func, ast.Attribute)
            if (written or of_path) and "newline" not in [keyword.arg for keyword in call.keywords]:
                wrong.append(f"{path.name}:{call.lineno}")
    assert wrong == []
