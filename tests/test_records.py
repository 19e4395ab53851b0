"""Records and files: strict, typed, whole or not at all; whatever is wrong is named, and the file is left alone."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.records import (
    RecordFormat,
    load_tensors,
    read_rows,
    row_lines,
    save_tensors,
    seal,
    write_bytes,
    write_text,
)


@dataclass(frozen=True)
class Leg:
    length: float
    side: Literal["left", "right"] = "left"

    def __post_init__(self) -> None:
        if self.length <= 0:
            raise InputError(f"length must be above 0, got {self.length}")


@dataclass(frozen=True)
class Animal:
    name: str
    legs: tuple[Leg, ...]
    eyes: int = 2
    weight: float | None = None


CAT = Animal("cat", (Leg(2.5), Leg(2.5, "right")), weight=4.0)
FORMAT = RecordFormat(Animal, "animal", "the record of an animal")
FIELDS = {"name": "cat", "legs": [{"length": 2.5, "side": "left"}], "eyes": 2, "weight": None}


def written(path: Path, **changes: object) -> Path:
    """A record with other fields, as whoever writes it on purpose would have it: with a checksum that fits."""
    fields = {"kind": "animal", "schema": 1, **FIELDS, **changes}
    fields = {name: value for name, value in fields.items() if value is not ...}
    path.write_text(json.dumps({**fields, "seal": seal(fields, "run")}))
    return path


def flipped(data: bytes):
    """The data with every third of its bits flipped, one at a time."""
    for bit in range(0, 8 * len(data), 3):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def test_a_record_round_trips(tmp_path):
    FORMAT.write(tmp_path / "cat.json", CAT, "run")
    assert FORMAT.read(tmp_path / "cat.json", "run") == FORMAT.read(tmp_path / "cat.json") == CAT
    fields = json.loads((tmp_path / "cat.json").read_text())
    assert list(fields) == ["kind", "schema", "seal", "name", "legs", "eyes", "weight"]
    assert fields["legs"] == [{"length": 2.5, "side": "left"}, {"length": 2.5, "side": "right"}]
    with pytest.raises(InputError, match="belongs to another run"):
        FORMAT.read(tmp_path / "cat.json", "another")


@settings(max_examples=20)  # each is synced
@given(st.builds(Animal, st.text(), st.tuples(st.builds(Leg, st.floats(1e-300, 1e300))), st.integers(-(2**62), 2**62)))
def test_every_animal_comes_back(tmp_path_factory, animal):
    path = tmp_path_factory.mktemp("any") / "animal.json"
    FORMAT.write(path, animal)
    assert FORMAT.read(path) == animal


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "cake"}, "is not the record of an animal"),
        ({"kind": ...}, "is not the record of an animal"),
        ({"schema": 2}, "has schema 2, not 1"),
        ({"schema": "1"}, "has schema '1'"),
        ({"schema": ...}, "has schema None"),
        ({"name": ...}, "missing required field name"),
        ({"eyes": ...}, "lacks the field eyes"),
        ({"legs": [{"length": 1.0}]}, r"lacks the field legs\.0\.side"),
        ({"wings": 2}, "has the unknown field wings"),
        ({"legs": [{"length": 1.0, "side": "left", "knees": 1}]}, r"has the unknown field legs\.0\.knees"),
        ({"eyes": "2"}, "eyes: Expected int, got str"),
        ({"eyes": True}, "eyes: Expected int, got bool"),
        ({"eyes": 2.0}, "eyes: Expected int, got float"),
        ({"legs": 4}, "legs: Expected array, got int"),
        ({"legs": [{"length": 1.0, "side": "left"}, {"length": 0.0}]}, r"legs\[1\]: length must be above 0"),
        ({"legs": [{"length": 1.0, "side": "top"}]}, r"legs\[0\]\.side: Invalid enum value 'top'"),
    ],
)
def test_a_wrong_field_is_named_with_its_rule(tmp_path, changes, words):
    path = written(tmp_path / "cat.json", **changes)
    before = path.read_bytes()
    with pytest.raises(InputError, match=words) as refused:
        FORMAT.read(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b"cake", b"\xff\xfe", b'{"name": "\xff"}', b'{"eyes": NaN}',
        b'{"eyes": ' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"kind": ' * 100_000,
    ],
)  # fmt: skip
def test_damaged_and_foreign_files_are_named_and_left_alone(tmp_path, text):
    path = tmp_path / "cat.json"
    path.write_bytes(text)
    for look in (FORMAT.read, lambda path: FORMAT.write(path, CAT)):
        with pytest.raises(InputError, match=r"cat\.json is not .*the record of an animal.*left untouched"):
            look(path)
    assert path.read_bytes() == text
    with pytest.raises(InputError, match=r"nowhere\.json does not exist; expected the record of an animal"):
        FORMAT.read(tmp_path / "nowhere.json")


def test_a_record_replaces_one_of_its_own_kind_and_run(tmp_path):
    path = tmp_path / "cat.json"
    for run in ("run", "another"):
        FORMAT.check_replaces(path, "run")
        FORMAT.write(path, CAT, run)
    with pytest.raises(InputError, match="or of another run"):
        FORMAT.check_replaces(path, "run")
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        write_bytes(tmp_path, b"")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_no_number_that_is_not_finite_is_written(tmp_path, bad):
    animal = Animal("cat", (Leg(bad if bad > 0 else 1.0),), weight=bad)
    with pytest.raises(ValueError, match="Out of range float"):
        FORMAT.write(tmp_path / "cat.json", animal)
    with pytest.raises(ValueError, match="Out of range float"):
        row_lines([animal], "run")
    assert not list(tmp_path.iterdir())


def test_rows_are_typed_and_a_line_cut_short_does_not_count(tmp_path):
    path, rows = tmp_path / "legs.jsonl", [Leg(1.0), Leg(2.5, "right")]
    path.write_text(row_lines(rows, "run") + '{"length": 3')
    assert read_rows(path, Leg, "legs", "run") == rows
    for damaged in (row_lines(rows, "another"), row_lines(rows, "run") + "garbage\n", '{"length": 1}\n'):
        path.write_text(damaged)
        with pytest.raises(InputError, match=r"line \d of .*legs\.jsonl is damaged, or of another run"):
            read_rows(path, Leg, "legs", "run")
    path.write_text(row_lines([CAT], "run"))
    with pytest.raises(InputError, match=r"line 1 of .*legs\.jsonl is not legs \(.*length"):
        read_rows(path, Leg, "legs", "run")


def test_every_bit_of_a_record_a_row_and_tensors_is_covered(tmp_path):
    record = tmp_path / "cat.json"
    FORMAT.write(record, CAT, "run")
    for changed in flipped(record.read_bytes()):
        record.write_bytes(changed)
        with suppress(InputError):
            assert FORMAT.read(record, "run") == CAT  # a space that became a line break
    rows, state = tmp_path / "rows.jsonl", tmp_path / "state.safetensors"
    rows.write_text(row_lines([Leg(1.0)], "run"))
    for changed in flipped(rows.read_bytes()[:-1]):
        rows.write_bytes(changed + b"\n")
        with pytest.raises(InputError):
            read_rows(rows, Leg, "legs", "run")
    save_tensors(state, {"a": torch.arange(3.0), "b": torch.ones(2, dtype=torch.bfloat16)}, 7, "run")
    data = state.read_bytes()
    step, tensors = load_tensors(state, "run")
    assert (step, tensors["a"].tolist()) == (7, [0.0, 1.0, 2.0])
    for changed in flipped(data):
        state.write_bytes(changed)
        with pytest.raises(InputError, match=r"state\.safetensors"):
            load_tensors(state, "run")
    state.write_bytes(data)
    state.rename(tmp_path / "step-000007.safetensors")
    with pytest.raises(InputError, match="is damaged or renamed"):
        load_tensors(tmp_path / "step-000007.safetensors", "run")


def test_a_record_beside_runs_is_checked(tmp_path):
    path = tmp_path / "deep" / "cat.json"
    with pytest.raises(InputError, match="holds no run, no benchmark and no other record"):
        check(tmp_path)
    FORMAT.write(path, CAT, "some")
    (tmp_path / "foreign.json").write_text('{"theirs": 1}')
    assert [(result.file, result.trouble) for result in check(tmp_path)] == [(str(path), "")]
    path.write_text(path.read_text().replace('"cat"', '"dog"'))
    assert "does not fit its checksum" in check(tmp_path)[0].trouble
    path.write_text(path.read_text().replace('"seal"', '"weal"'))
    assert "does not fit its checksum" in check(tmp_path)[0].trouble
    (tmp_path / "foreign.json").write_text("{")
    assert len([result for result in check(tmp_path) if result.trouble]) == 2
    (tmp_path / "run" / "metrics.jsonl").parent.mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    assert "run.json is missing" in check(tmp_path)[-1].trouble


def test_leftovers_of_a_killed_process_are_removed_by_the_next_write(tmp_path):
    gone, other = tmp_path / ".a.json.999999999.tmp", tmp_path / ".b.json.999999999.tmp"
    for path in (gone, other):
        path.write_text("half")
    running = tmp_path / f".a.json.{os.getppid()}.tmp"
    running.write_text("of a process that still writes")
    foreign = tmp_path / ".a.json.copy.tmp"
    foreign.write_text("of another program")
    write_text(tmp_path / "a.json", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", other.name, running.name, foreign.name}


def test_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_file_is_synced_before_it_is_renamed(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        plain = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, plain=plain, name=name: (order.append(name), plain(*given))[1])
    write_text(tmp_path / "a", "content")
    assert order == ["fsync", "replace", "fsync"]
