"""Bad input and damaged files from the shell: one plain sentence, and nothing on disk has changed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from command_line import call
from killing import contents
from small_runs import OPTIONS

from hopscope.cli.exit import readable
from hopscope.integrity import check

A_RUN = "is a run folder, which holds only"
TOO_LARGE = "of memory at the least"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: it holds a run by name, files of somebody else and a pipe."""
    for folder in ("file", "run", "empty"):
        (tmp_path / folder).mkdir()
    (tmp_path / "file" / "letter.txt").write_text("Dear")
    (tmp_path / "file" / "mine.html").write_text("<p>Dear</p>")
    (tmp_path / "run" / "run.json").write_text("{}")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_refusal(room: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    before, names = contents(room), {path.name for path in room.rglob("*")}
    assert call(*arguments) == 2
    assert (contents(room), {path.name for path in room.rglob("*")}) == (before, names)
    *_, said = capsys.readouterr().err.splitlines()  # what it computes in may be said before
    assert said.startswith("hopscope: ")
    assert words in said
    assert said.isprintable()
    assert len(said) < 1000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train new --hops -1", "hops must be a whole number of at least 1, got -1"),
        ("train new --hops x", "'x' is not of the kind INT"),
        ("train new --heads 3 --head-dim none --d-model 16", "divisible by heads, got 16 and 3"),
        ("train new --depth 3", "see `hopscope train --help`"),
        ("train new --order random", "order must be deepest-first, shallowest-first, or each of the pairs 1 to 3 once"),
        ("train new --device abacus", "abacus"),
        ("train file/letter.txt", "letter.txt is a file; give a folder"),
        ("sweep file/letter.txt/x/y", "letter.txt is a file; give a folder"),
        ("train file", "is in use and holds no hopscope run"),
        ("train run/inside", A_RUN),
        ("train fifo", "fifo"),
        ("train /dev/full", "/dev/full"),
        ("sweep new --depths 0-3", "depths must be"),
        ("sweep new --depths 999999999-1", "depths must be"),
        ("sweep run", A_RUN),
        ("sweep new --steps 4 --log-every 8 --precision fp32", "at least log_every"),
        ("reproduce --out run/inside", A_RUN),
        ("report nowhere", "is not a folder"),
        ("explore", "missing argument 'RUN...'; see `hopscope explore --help`"),
        ("explore empty", "run.json does not exist"),
        ("export file --out run/graph.json", A_RUN),
        ("emergence nowhere --seed -1", "nowhere"),
        ("check nowhere", "nowhere is not a folder; give the folder of runs or of a benchmark"),
        ("check fifo", "fifo"),
        ("theory --hops 4 --order 1,2,3", "order must be"),
        ("theory --hops 0", "up to 100,000 different whole numbers of at least 1, as in 5, 1-64 or 1,2,4; got '0'"),
        ("theory --hops ²", "got '²'"),
        ("theory --hops 3-1", "got '3-1'"),
        ("theory --hops 1-3,2", "got '1-3,2'"),
        ("theory --hops 1-999999999", "got '1-999999999'"),
        ("theory --hops 1-4 --show", "--show takes one chain; give one number, as in --hops 5"),
        ("theory --hops 900 --show", "must be at most 256 with --show, --order or --best-order, got 900"),
        ("theory --hops 5 --show --order sideways", "order must be deepest-first, shallowest-first"),
        ("theory --hops 3 --no-mask", "both masks; leave --no-mask out"),
        ("theory --hops 4 --order 1,2,4,3 --best-order", "leave out either"),
        ("theory --hops 3-4 --order 1,2,4,3", "each of the pairs 1 to 3 once, first to last, separated by commas"),
        ("sample vectors --hops 1000000 --count 1000000", "of memory, and this machine has"),
        ("benchmark --model empty --out run/figures/b", A_RUN),
        ("benchmark --model gpt-4", "gpt-4 is neither a folder nor a provider's model"),
        ("benchmark --model a/b --hops 7", "got 7 and 4; extended names"),
        ("benchmark --model a/b --hops 2 --formulation lives-with", "got hops for lives-with; leave hops out"),
        ("benchmark --model a/b --formulation sums", "there is no formulation 'sums'"),
        ("benchmark --model a/b --temperature 0", "temperature must be above 0"),
        ("benchmark --model . --base-url z", "a model folder runs here and has no provider; leave --base-url out"),
        ("benchmark --model a/b --device cpu", "no model is a folder; leave --device out"),
        ("benchmark --model a/b --out file/letter.txt/out", "letter.txt is a file; give a folder"),
        ("benchmark --model a/b -M device", "-M takes NAME=VALUE, got 'device'"),
        ("benchmark --model a/b -M api_key=x", "-M api_key would put a secret on the command line"),
        ("benchmark --model a/b --model a/b", "a model was named twice"),
        ("benchmark --model a/b --names random", "names does not apply to kingdoms"),
    ],
)
def test_bad_input(room: Path, capsys: pytest.CaptureFixture[str], line: str, words: str) -> None:
    check_refusal(room, capsys, tuple(line.split()), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sweep", "", "--depths", "1"), "FOLDER needs a path that is not empty and has no null character in it"),
        (("circuit", ""), "RUN needs a path that is not empty"),
        (("sweep", "new", "--plain-seeds", ""), "plain seeds must be up to 100,000 different whole numbers"),
        (("train", "new", "--order", "a" * 100_000), "order must be"),
        (("train", "new", "--hooks", "\udcff"), "hooks"),
        (("theory", "--hops", "9" * 100_000 + "\u202e"), "hops must be"),
        (("sample", "equations", "--names", "\x1b[31m\u202ered"), "names"),
    ],
)
def test_odd_text(room: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    check_refusal(room, capsys, arguments, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--threads 1000000", "threads must be at most"),
        ("--device meta", "device 'meta' cannot be used here"),
        ("--device hpu", "device 'hpu' cannot be used here"),
        ("--d-model 100000000", TOO_LARGE),
        ("--batch-size 10000000000", TOO_LARGE),
        ("--hops 100000000", TOO_LARGE),
        ("--hops 1" + "0" * 12, TOO_LARGE),
        ("--hops " + "9" * 5000, "hops"),
        ("--seeds 0-99999 --mlp", TOO_LARGE),
        ("--seeds 1-999999999", "seeds must be"),
        ("--seeds " + "9" * 30, "seeds must be up to 100,000 different whole numbers of at least 0"),
        ("--steps 1" + "0" * 400, "steps must be at most"),
        ("--learning-rate 1e400", "'1e400' is not of the kind FLOAT"),
    ],
    ids=lambda text: text[:30],
)
def test_what_this_machine_cannot_do(room: Path, capsys: pytest.CaptureFixture[str], options: str, words: str) -> None:
    check_refusal(room, capsys, ("train", "new", *OPTIONS, *options.split()), words)


def test_a_model_folder_without_a_configuration(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="the extra `llm` is not installed")
    check_refusal(room, capsys, ("benchmark", "--model", "empty"), "is no model folder: it has no config.json")


def test_without_the_extra(room: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hopscope.benchmark.hosted", raising=False)
    for module in ("inspect_ai", "inspect_ai.model"):
        monkeypatch.setitem(sys.modules, module, None)
    check_refusal(room, capsys, ("benchmark", "--model", "openai/gpt-4o"), "pip install -c constraints.txt '.[llm]'")


def test_a_sentence_is_one_printable_line() -> None:
    shown = readable("got \x1b[31m\u202e" + "x" * 100_000 + "\nand more")
    assert len(shown) < 300
    assert shown.isprintable()


TRAIN = ("train", "run", *OPTIONS, "--no-compiled")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, with the record of its search."""
    folder = tmp_path_factory.mktemp("damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("hopscope.training.trainer.HELD_OUT", 16)
        assert call(*TRAIN) == 0
        assert call("circuit", "run", "--no-figures", "--effort", "quick") == 0
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "run"))


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
def test_damaged_files(
    run: Path, capsys: pytest.CaptureFixture[str], how: str, name: str, reader: tuple[str, ...]
) -> None:
    DAMAGES[how](run / name)
    before = contents(run)
    assert call(*reader) == (1 if reader[0] == "check" else 2)
    assert contents(run) == before
    said = capsys.readouterr()
    assert name in said.out + said.err
    assert "Traceback" not in said.err


def test_a_flipped_bit_of_any_file_of_a_run_is_found(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "run") == 0
    assert "none damaged" in capsys.readouterr().out
    files = [path for path in run.rglob("*") if path.suffix in (".json", ".jsonl", ".safetensors")]
    assert len(files) > 5
    for path in files:
        before = path.read_bytes()
        for place in (len(before) // 3, len(before) // 2, len(before) - 3):
            path.write_bytes(before[:place] + bytes([before[place] ^ 16]) + before[place + 1 :])
            found = [checked.trouble for checked in check(run) if checked.trouble]
            assert any(path.name in trouble for trouble in found), (path.name, place)
        path.write_bytes(before)
