"""Odd options and damaged files: a command ends with a sentence, and where it refuses nothing on disk has changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from command_line import call
from killing import contents

from hopscope.integrity import check

TINY = "--layers 1 --heads 1 --d-model 8 --head-dim 8 --no-mlp --steps 2 --batch-size 2 --log-every 1 --final-steps 1"
TINY += " --validation-size 2 --schedule constant --device cpu --precision fp32 --no-compiled --hops 1 --chains 2"
TRAIN = ("train", "run", *TINY.split())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small run, the record of its search, and what is no run."""
    folder = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("hopscope.training.trainer.HELD_OUT", 16)
        assert call(*TRAIN) == 0
        assert call("circuit", "run", "--no-figures", "--effort", "quick") == 0
    (folder / "file").write_text("a file")
    return folder


@pytest.fixture
def inside(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is the working one."""
    shutil.copytree(made, tmp_path / "room")
    os.mkfifo(tmp_path / "room" / "fifo")
    monkeypatch.chdir(tmp_path / "room")
    return tmp_path / "room"


def refused(inside: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that must refuse and leave every file as it was."""
    before = contents(inside)
    assert call(*arguments) in (1, 2)
    assert contents(inside) == before
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert 0 < len(said.out + said.err) < 20_000
    return said.out + said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "new", "--hops", "9" * 5000),
        ("train", "new", "--learning-rate", "-1e400"),
        ("train", "new", "--seeds", "1-999999999"),
        ("train", "new", "--order", "a" * 100_000),
        ("train", "new", "--hooks", "\udcff"),
        ("train", "n" * 300, *TINY.split()),
        ("train", "fifo", *TINY.split()),
        ("train", "/dev/full", *TINY.split()),
        ("sweep", "file/x/y", "--depths", "1"),
        ("sweep", "new", "--depths", "999999999-1"),
        ("circuit", "run", "--max-loss", "nan"),
        ("circuit", "run", "--checkpoint", "9223372036854775808"),
        ("emergence", "run", "--sequences", "1" + "0" * 400),
        ("theory", "--hops", "3", "--figure", "/dev/full/a.svg"),
        ("sample", "equations", "--names", "\x1b[31m\u202ered"),
        ("sample", "vectors", "--count", "1000000000000"),
        ("check", "fifo"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40].encode("ascii", "replace").decode(),
)
def test_odd_options(inside: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    refused(inside, capsys, *arguments)


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "nested": lambda path: path.write_bytes(b"[" * 200_000 + b"]" * 200_000),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "endless": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("run.json", TRAIN),
        ("run.json", ("circuit", "run", "--show")),
        ("circuit.json", ("circuit", "run", "--show")),
        ("metrics.jsonl", ("check", "run")),
        ("state.safetensors", ("check", "run")),
    ],
)
def test_damaged_files(inside: Path, capsys: pytest.CaptureFixture[str], how: str, name: str, reader: tuple[str, ...]):
    DAMAGES[how](inside / "run" / name)
    assert name in refused(inside, capsys, *reader)


def test_a_flipped_bit_of_any_file_of_a_run_is_found(inside: Path) -> None:
    files = [path for path in (inside / "run").rglob("*") if path.suffix in (".json", ".jsonl", ".safetensors")]
    assert len(files) > 5
    for path in files:
        before = path.read_bytes()
        for place in (len(before) // 3, len(before) // 2, len(before) - 3):
            path.write_bytes(before[:place] + bytes([before[place] ^ 16]) + before[place + 1 :])
            found = [checked.trouble for checked in check(inside / "run") if checked.trouble]
            assert any(path.name in trouble for trouble in found), (path.name, place)
        path.write_bytes(before)

