"""Records on disk: strict, typed, versioned; whatever is wrong is named in one sentence, and the file is left alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.records import RecordForm, convert, read_rows, row_lines
from hopscope.seals import sealed_table, unsealed_table


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
FORM = RecordForm(Animal, "animal", "the record of an animal", schema=2)
FIELDS = {"name": "cat", "legs": [{"length": 2.5, "side": "left"}], "eyes": 2, "weight": None}


def older(fields: dict[str, Any], schema: int) -> dict[str, Any]:
    """Schema 1 counted its legs; what says nothing of itself is schema 0 and had none."""
    if schema == 0:
        return {**fields, "legs": []}
    return {**fields, "legs": [{"length": 1.0}] * fields["legs"]}


def read(path: Path, **options: Any) -> Animal:
    return replace(FORM, **options).read(path)


def written(path: Path, **changes: Any) -> Path:
    fields = {"kind": "animal", "schema": 2, **FIELDS, **changes}
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not ...}))
    return path


def test_what_is_written_is_read(tmp_path):
    FORM.write(tmp_path / "cat.json", CAT)
    assert read(tmp_path / "cat.json") == CAT
    told = json.loads((tmp_path / "cat.json").read_text())
    assert list(told) == ["kind", "schema", "seal", "name", "legs", "eyes", "weight"]
    assert told["legs"] == [{"length": 2.5, "side": "left"}, {"length": 2.5, "side": "right"}]


@given(st.builds(Animal, st.text(), st.tuples(st.builds(Leg, st.floats(1e-300, 1e300))), st.integers(-(2**62), 2**62)))
def test_every_animal_comes_back(tmp_path_factory, animal):
    path = tmp_path_factory.mktemp("any") / "animal.json"
    FORM.write(path, animal)
    assert read(path) == animal


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "cake"}, "is not the record of an animal"),
        ({"kind": ...}, "is not the record of an animal"),
        ({"schema": 3}, "has schema 3 and this hopscope reads 2 at most"),
        ({"schema": "2"}, "has schema '2'"),
        ({"schema": True}, "has schema True"),
        ({"schema": ...}, "has schema None"),
        ({"schema": 1}, "has the old schema 1"),
        ({"name": ...}, "missing required field name"),
        ({"wings": 2}, "has no field wings"),
        ({"legs": [{"length": 1.0, "knees": 1}]}, r"has no field legs\[0\].knees"),
        ({"eyes": "2"}, "eyes is '2': Expected int, got str"),
        ({"eyes": True}, "eyes is True: Expected int, got bool"),
        ({"eyes": 2.0}, "eyes is 2.0: Expected int, got float"),
        ({"eyes": None}, "eyes is None: Expected int, got null"),
        ({"weight": 10**400}, "weight is 1000.*: Number out of range"),
        ({"legs": 4}, "legs is 4: Expected array"),
        (
            {"legs": [{"length": 1.0}, {"length": 0.0}]},
            r"legs\[1\] is {'length': 0.0}: length must be above 0",
        ),
        ({"legs": [{"length": 1.0, "side": "top"}]}, r"legs\[0\].side is 'top': Invalid enum value"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_rule(tmp_path, changes, words):
    path = written(tmp_path / "cat.json", **changes)
    before = path.read_bytes()
    with pytest.raises(InputError, match=words) as refused:
        read(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b"cake", b"\xff\xfe", b'{"name": "\xff"}', b'{"eyes": NaN}',
        b'{"eyes": ' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"kind": ' * 100_000, written,
    ],
)  # fmt: skip
def test_damaged_and_foreign_files_are_named_and_left_alone(tmp_path, text):
    path = tmp_path / "cat.json"
    path.write_bytes(written(path).read_bytes()[:-1] if text is written else text)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"cat\.json is not .*the record of an animal.*left untouched"):
        read(path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match=r"nowhere\.json does not exist; expected the record of an animal"):
        read(tmp_path / "nowhere.json")


def test_older_schemas_are_upgraded(tmp_path):
    path = written(tmp_path / "cat.json", schema=1, legs=3)
    assert read(path, upgrade=older).legs == (Leg(1.0),) * 3
    written(path, kind=..., schema=..., legs=...)
    assert read(path, upgrade=older).legs == ()
    with pytest.raises(InputError, match="is not the record"):
        read(written(path, kind="cake"), upgrade=older)
    written(path, schema=..., format=2)  # what runs called it
    assert read(path).eyes == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_no_number_that_is_not_finite_is_written(tmp_path, bad):
    animal = Animal("cat", (Leg(bad if bad > 0 else 1.0),), weight=bad)
    with pytest.raises(ValueError, match=r"legs\.0\.length" if bad > 0 else "weight"):
        FORM.write(tmp_path / "cat.json", animal)
    assert not list(tmp_path.iterdir())


def test_rows_are_typed_and_a_line_cut_short_does_not_count(tmp_path):
    path = tmp_path / "legs.jsonl"
    path.write_text('{"length": 1}\n{"length": 2.5, "side": "right"}\n{"length": 3')
    assert read_rows(path, Leg, "legs", "run") == [Leg(1.0), Leg(2.5, "right")]
    path.write_text('{"length": 1}\n{"length": 2, "side": 4}\n')
    with pytest.raises(InputError, match=r"line 2 of .*legs\.jsonl is not legs \(.*side"):
        read_rows(path, Leg, "legs", "run")


def test_plain_values_become_typed_ones():
    assert convert({"length": 1}, Leg, "a leg") == Leg(1.0)
    with pytest.raises(InputError, match="a leg: Expected object, got int"):
        convert(4, Leg, "a leg")


@pytest.mark.parametrize("rows", [[{"a": 1}, {"a": 2.5, "b": [1, "x"]}], [{"a": None}]])
def test_every_bit_of_a_table_is_sealed(tmp_path, rows):
    path = tmp_path / "table.json"
    data = json.dumps(sealed_table(rows)).encode()
    assert unsealed_table(path, json.loads(data)) == rows
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            bare = unsealed_table(path, json.loads(changed))
        except (ValueError, AttributeError):  # AttributeError: no list of objects, which readers of tables see first
            continue
        assert bare == rows or len(rows) == 1  # of one row the name of its checksum may be another: an unknown field
        assert bare == rows or len(bare[0]) == 2
    with pytest.raises(InputError, match="does not fit its checksum"):
        unsealed_table(path, sealed_table(rows)[:-1] or [{"checksum": "of nothing"}])


def test_what_was_a_bare_list_is_read(tmp_path, caplog):
    path = tmp_path / "animal.json"
    path.write_text('[{"length": 1.5}]')
    rest = {"name": "cat", "legs": None}
    old = read(path, bare="legs", upgrade=lambda fields, schema: {**rest, **fields})
    assert old.legs == (Leg(1.5),)
    assert "before files had checksums" in caplog.text
    path.write_text('[{"length": -1}]')
    with pytest.raises(InputError, match=r"animal\.json is damaged: legs\[0\].*untouched"):
        read(path, bare="legs", upgrade=lambda fields, schema: {**rest, **fields})
    with pytest.raises(InputError, match="is not the record of an animal"):
        read(path)


def test_a_foreign_file_is_not_first_said_to_be_an_old_record(tmp_path, caplog):
    """Where every version states its kind, a file that does not is something else; where not, its fields tell."""
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2"}')
    for named, words in (
        (True, "is not the record of an animal"),
        (False, "is damaged: .*missing required field name"),
    ):
        with pytest.raises(InputError, match=words):
            read(path, upgrade=lambda fields, schema: fields, always_named=named)
    assert not caplog.messages


def test_a_seal_whose_name_is_damaged_is_no_old_record(tmp_path):
    path = tmp_path / "cat.json"
    FORM.write(path, CAT)
    path.write_text(path.read_text().replace('"seal"', '"weal"'))
    with pytest.raises(InputError, match="the name of its checksum"):
        read(path)
    assert check(tmp_path)[0].trouble


def test_garbage_among_rows_is_no_old_file(tmp_path, caplog):
    path = tmp_path / "rows.jsonl"
    path.write_text(row_lines([CAT], "some") + "garbage\n")
    with pytest.raises(InputError, match=r"line 2 of .* is not animals"):
        read_rows(path, type(CAT), "animals", "some")
    assert caplog.text == ""


def test_a_record_beside_runs_is_checked(tmp_path, capsys):
    path = tmp_path / "deep" / "cat.json"
    with pytest.raises(InputError, match="holds no run, no benchmark and no other record"):
        check(tmp_path)
    FORM.write(path, CAT, "some")
    (tmp_path / "foreign.json").write_text('{"theirs": 1}')
    assert [(one.file, one.sealed, one.trouble) for one in check(tmp_path)] == [(str(path), True, "")]
    path.write_text(path.read_text().replace('"cat"', '"dog"'))
    assert "does not fit its checksum" in check(tmp_path)[0].trouble
    (tmp_path / "foreign.json").write_text("{")
    assert len([one for one in check(tmp_path) if one.trouble]) == 2
    (tmp_path / "run" / "metrics.jsonl").parent.mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    assert "run.json is missing" in check(tmp_path)[-1].trouble
