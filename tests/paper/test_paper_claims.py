"""The claims table: fifteen rows whatever was found, findings that say what they rest on, JSON and back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.paper.claims import (
    RULES,
    VERDICTS,
    Finding,
    between_marks,
    complete,
    main,
    read_claims,
    write_claims,
)
from hopscope.paper.presets import named
from hopscope.paper.reproduce import read

IDS = [f"C{number}" for number in range(1, 16)]
ROOT = Path(__file__).parents[2]
STORED = ("laptop", "figure-4", "paper-short", "paper")


def finding(claim: str = "C4", verdict: Any = "reproduced", **changes: Any) -> Finding:
    values: dict[str, Any] = {"observed": "yes", "n": 8, "interval": (0.1, 0.2), "scale": "laptop: D = 3"}
    values["reason"] = "too few models" if verdict == "inconclusive" else ""
    return Finding(claim, verdict, **{**values, "run": "sweep", **changes})


def test_nothing_found_gives_fifteen_rows_not_run() -> None:
    rows = complete([])
    assert [row.id for row in rows] == IDS
    assert {row.verdict for row in rows} == {"not run"}
    assert all(not row.observed and row.run is None for row in rows)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"claim": "C16"}, "C1 to C15"),
        ({"claim": "c1"}, "C1 to C15"),
        ({"observed": ""}, "needs observed"),
        ({"scale": ""}, "needs scale"),
        ({"n": 0}, "needs n"),
        ({"interval": None}, "needs interval"),
        ({"verdict": "inconclusive", "reason": ""}, "needs reason"),
    ],
)
def test_findings_that_do_not_say_what_they_rest_on_are_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        finding(**change)


ends = st.floats(-1e9, 1e9)
intervals = st.one_of(st.text(min_size=1), st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair))))


@settings(max_examples=8)
@given(st.text(min_size=1), intervals, st.text(min_size=1), st.sampled_from(VERDICTS), st.sampled_from(IDS))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, observed, interval, scale, verdict, claim) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("claims") / "claims.json"
    rows = complete([finding(claim, verdict, observed=observed, interval=interval, scale=scale)])
    write_claims(path, rows)
    assert read_claims(path) == rows


@pytest.mark.parametrize("there", ["mine", "{}", "[1]", '[{"id": "C16"}]', '[{"id": []}]', '[{"mine": 1}]'])
def test_claims_replace_claims_alone(there: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    for rows in ([finding()], []):
        write_claims(path, complete(rows))
    assert read_claims(path) == complete([])
    path.write_text(there)
    for write in (lambda: write_claims(path, complete([])), lambda: read(named("tiny"), tmp_path)):
        with pytest.raises(InputError, match=r"is not (a|readable as a) table of claims"):
            write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["claims.json"]
    assert path.read_text() == there


def stored(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], str]:
    """The text of a stored table after a change of its rows."""

    def text(path: Path) -> str:
        write_claims(path, complete([finding()]))
        rows = json.loads(path.read_text())
        change(rows)
        return json.dumps(rows)

    return text


@pytest.mark.parametrize(
    "made",
    [
        stored(lambda rows: rows[3].update(n=9)),
        stored(lambda rows: rows.pop(0)),
        stored(lambda rows: rows[3].pop("checksum")),
        *(lambda _, text=text: text for text in ("{", "{}", "[1]", '[{"id": "C1"}]', '[{"id": "C99"}]')),
    ],
)
def test_a_damaged_table_is_refused_and_kept(tmp_path: Path, made: Callable[[Path], str]) -> None:
    path = tmp_path / "claims.json"
    path.write_text(text := made(path))
    with pytest.raises(InputError, match=r"claims\.json.*untouched"):
        read_claims(path)
    assert path.read_text() == text
    assert [bool(checked.trouble) for checked in check(tmp_path)] == [True]


def test_the_pages_say_what_the_stored_claims_and_the_rules_say(tmp_path: Path) -> None:
    """What `make claims` would write is there."""
    pages = [tmp_path / name for name in ("README.md", "claims.md")]
    there = [ROOT / "README.md", ROOT / "docs" / "claims.md"]
    for page, copy in zip(there, pages, strict=True):
        shutil.copy(page, copy)
    stored = {name: ROOT / "results" / name / "claims.json" for name in STORED}
    main([*map(str, pages), *(f"{name}={path}" for name, path in stored.items())])
    for page, copy in zip(there, pages, strict=True):
        assert copy.read_text() == page.read_text()
    c3 = ("inconclusive: too few pairs", "**reproduced**, n = 41", "not run", "**reproduced**, n = 37")
    assert f"| C3 | {RULES['C3'].title} | {' | '.join(c3)} |" in pages[0].read_text()
    assert "*validation MSE < 0.01 (Section 8.2); n counts models*" in pages[1].read_text()
    for broken in (copy.read_text().replace("<!-- end of rules -->", ""), "<!-- end of rules -->" + copy.read_text()):
        with pytest.raises(InputError, match="marks"):
            between_marks(broken, "rules", "")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "figure-4" else [pytest.mark.slow]) for name in STORED]
)
def test_the_stored_claims_are_what_the_rules_say_of_the_stored_data(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results" / name, tmp_path / name)
    assert read(named(name), tmp_path / name).claims == (read_claims(ROOT / "results" / name / "claims.json"))
