"""The claims table: fifteen rows whatever was found, the stronger scale where two found something, JSON and back."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.paper.claims import ROWS, VERDICTS, Claim, Finding, complete, read_claims, write_claims

IDS = [f"C{number}" for number in range(1, 16)]


def test_nothing_found_gives_fifteen_rows_not_run() -> None:
    rows = complete([])
    assert [row.id for row in rows] == IDS
    assert {row.verdict for row in rows} == {"not run"}
    assert all(row.title and row.paper and not row.ours and row.run is None for row in rows)


def test_fields_are_the_contract_of_claims_json() -> None:
    names = ["id", "title", "paper", "ours", "interval", "scale", "verdict", "run"]
    assert [field.name for field in fields(Claim)] == names


def test_numbers_of_the_paper_stand_in_their_rows() -> None:
    numbers = {
        "C3": "> 0.7 in 100% of runs",
        "C6": "< 0.01",
        "C10": "< 0.05",
        "C11": "0.17 to 0.89",
        "C12": "0.031; circuit alone 0.045",
        "C13": "450 epochs",
        "C15": "1/16",
    }
    for claim, number in numbers.items():
        assert number in ROWS[claim].number


def test_a_plain_mapping_counts_as_a_finding() -> None:
    row = complete([{"id": "C2", "ours": "none of 10", "scale": "simulated", "verdict": "reproduced"}])[1]
    assert (row.ours, row.interval, row.scale, row.verdict, row.run) == (
        "none of 10",
        None,
        "simulated",
        "reproduced",
        None,
    )


@pytest.mark.parametrize("turned", [False, True])
def test_the_stronger_scale_wins_even_when_it_says_no(turned: bool) -> None:
    found = [
        Finding("C5", "8 of 8", None, "laptop: D = 3", "reproduced"),
        Finding("C5", "63 of 64", [0.91, 1.0], "paper: D = 5", "not reproduced"),
    ]
    row = complete(reversed(found) if turned else found)[4]
    assert (row.ours, row.verdict) == ("63 of 64", "not reproduced")
    assert complete(found, order=("paper", "laptop"))[4].ours == "8 of 8"


def test_what_did_not_run_yields_to_what_did() -> None:
    ran = Finding("C1", "no exception", None, "simulated", "reproduced")
    assert complete([*complete([]), ran])[0].verdict == "reproduced"
    assert complete([ran, *complete([])])[0].verdict == "reproduced"


def test_two_verdicts_at_one_scale_are_refused() -> None:
    twice = [Finding("C3", number, None, "laptop", "reproduced") for number in ("0.74", "0.75")]
    with pytest.raises(InputError, match="C3 was judged twice"):
        complete(twice)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"id": "C16"}, "C1 to C15"),
        ({"id": "c1"}, "C1 to C15"),
        ({"verdict": "maybe"}, "maybe"),
        ({"ours": ""}, "ours"),
        ({"ours": 0.3}, "ours"),
        ({"scale": ""}, "scale"),
        ({"run": 3}, "run"),
        ({"interval": [2, 1]}, "interval"),
        ({"interval": [0, float("nan")]}, "interval"),
        ({"interval": [1, 2, 3]}, "interval"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_malformed_findings_are_refused(change: dict[str, object], word: str) -> None:
    good = {"id": "C1", "ours": "1", "interval": None, "scale": "laptop", "verdict": "reproduced", "run": None}
    complete([good])
    with pytest.raises(InputError, match=word):
        complete([good | change])


def test_a_finding_without_a_field_is_refused() -> None:
    with pytest.raises(InputError, match="missing: scale"):
        complete([{"id": "C1", "ours": "1", "verdict": "reproduced"}])


ends = st.floats(-1e9, 1e9)
intervals = st.one_of(st.none(), st.text(), st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair))))


@given(st.text(min_size=1), intervals, st.text(min_size=1), st.sampled_from(VERDICTS), st.sampled_from(IDS))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, ours, interval, scale, verdict, claim) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("claims") / "claims.json"
    rows = complete([Finding(claim, ours, interval, scale, verdict, "sweep")])
    write_claims(path, rows)
    assert read_claims(path) == rows


def test_the_file_is_a_list_of_plain_objects(tmp_path: Path) -> None:
    write_claims(
        tmp_path / "claims.json", complete([Finding("C4", "yes", (0.1, 0.2), "laptop", "reproduced", "sweep")])
    )
    rows = json.loads((tmp_path / "claims.json").read_text())
    assert len(rows) == 15
    assert rows[3] | {"title": "", "paper": ""} == {
        "id": "C4", "title": "", "paper": "", "ours": "yes", "interval": [0.1, 0.2],
        "scale": "laptop", "verdict": "reproduced", "run": "sweep",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '[{"id": "C1"}]', '[{"id": "C99", "ours": "", "scale": "", "verdict": "not run"}]']
)
def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(InputError, match="untouched"):
        read_claims(path)
    assert path.read_text() == text
