"""Files: whole or not at all, on the disk when they are said to be, and never something that does not end."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import msgspec
import pytest

import hopscope
from hopscope.cli import main
from hopscope.ending import readable
from hopscope.errors import InputError
from hopscope.files import read_json, write_bytes, write_text
from hopscope.seals import sealed_row, unsealed_row


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "closed loop"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "record.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    with pytest.raises((InputError, OSError), match=r"record\.json"):
        read_json(path, "a record")


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path):
    gone = tmp_path / ".a.json.999999999.tmp"
    gone.write_text("half")
    mine = tmp_path / f".a.json.{os.getpid()}.tmp"
    other = tmp_path / ".b.json.999999999.tmp"
    other.write_text("half")
    write_text(tmp_path / "a.json", "whole")
    assert not gone.exists()
    assert not mine.exists()
    assert other.exists()


def test_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_the_disk_is_asked_before_the_name_is_given(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        plain = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, plain=plain, name=name: (order.append(name), plain(*given))[1])
    write_text(tmp_path / "a", "content")
    assert order == ["fsync", "replace", "fsync"]


def test_every_bit_of_a_row_is_sealed():
    line = sealed_row({"step": 5, "loss": 0.25}, "run")[:-1].encode()
    assert unsealed_row(line, "run") == b'{"step": 5, "loss": 0.25}'
    with pytest.raises(ValueError, match="checksum"):
        unsealed_row(line, "another")
    for bit in range(8 * len(line)):
        changed = bytearray(line)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            passed = unsealed_row(bytes(changed), "run")
        except ValueError:
            continue
        assert passed is None
        with pytest.raises(ValueError):
            msgspec.json.decode(bytes(changed))


def test_what_is_said_is_one_line_that_a_terminal_shows_as_it_is(capsys):
    told = readable("got \x1b[31m\u202e" + "x" * 100_000 + "\nand more")
    assert len(told) < 300
    assert told.isprintable()
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
        (["sweep", "new", "--plain-seeds", ""], "plain seeds must be whole numbers"),
        (["sweep", "new", "--steps", "4", "--log-every", "8", "--precision", "fp32"], "at least log_every"),
        (["theory", "--graph", "/dev/zero"], "is not a file"),
        (["sample", "vectors", "--hops", "1000000", "--count", "1000000"], "of memory at the least"),
        (["theory", "--hops", "4", "--order", "1,2,3"], "order must be"),
    ],
)
def test_slips_are_refused_before_anything_is_written(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_seed_of_emergence_is_a_seed():
    from hopscope.emergence.config import EmergenceConfig

    for seed in (-1, 2**63):
        with pytest.raises(InputError, match="seed must be a whole number"):
            EmergenceConfig(seed=seed)


def test_line_breaks_are_the_same_on_every_system():
    """A text file of Windows has others, unless it is told so, and a row with another line break has no seal."""
    source, wrong = Path(hopscope.__file__).parent, []
    for path in source.rglob("*.py"):
        for call in (one for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(one, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            words = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            written = name == "open" and any(set(word) <= {*"wax+t"} and word for word in words)
            of_path = name == "write_text" and isinstance(call.func, ast.Attribute)
            if (written or of_path) and "newline" not in [one.arg for one in call.keywords]:
                wrong.append(f"{path.name}:{call.lineno}")
    assert wrong == []
