"""The claims: a row each whatever was found, what a finding rests on, one rule for shares, JSON and back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.claims_pages import between_marks, condensed, main
from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.paper.claims import (
    CLAIMS,
    STORED,
    Finding,
    claim_lines,
    complete,
    general,
    read_claims,
    stored,
    write_claims,
)
from hopscope.paper.presets import BY_NAME
from hopscope.paper.reproduce import read

IDS = [f"C{number}" for number in range(1, 22)]
ROOT = Path(__file__).parents[2]
FOLDERS = ("paper", "figure-4", "paper-short")


def finding(claim: str = "C4", outcome: str = "yes", **changes: Any) -> Finding:
    values: dict[str, Any] = {"numbers": "8 of 8", "scale": "laptop: D = 3", "in_general": "open", "share": (8, 8)}
    return Finding(
        claim, outcome, **{**values, "reason": "it fails" if outcome == "no" else "", "run": "sweep", **changes}
    )


def test_nothing_found_gives_a_row_for_each_claim() -> None:
    rows = complete([])
    assert [row.id for row in rows] == IDS == list(CLAIMS)
    assert not any(row.known or row.run for row in rows)
    assert {row.short for row in rows} == {"not run"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"claim": "C22"}, "C1 to C21"),
        ({"claim": "c1"}, "C1 to C21"),
        ({"outcome": "reproduced"}, "an outcome must be"),
        ({"numbers": ""}, "needs numbers"),
        ({"scale": ""}, "needs scale"),
        ({"share": None}, "needs share"),
        ({"outcome": "no", "reason": ""}, "needs reason"),
    ],
)
def test_findings_that_do_not_say_what_they_rest_on_are_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        finding(**change)


@pytest.mark.parametrize(
    ("met", "of", "said"),
    [(35, 35, "open"), (36, 36, "holds"), (42, 43, "open"), (8, 8, "open"), (5, 7, "open"), (4, 7, "open"),
     (3, 7, "does not hold"), (0, 1, "open"), (0, 2, "does not hold"), (0, 0, "not run")],
)  # fmt: skip
def test_one_rule_says_what_a_share_means(met: int, of: int, said: str) -> None:
    assert general("C6", met, of, scale="laptop").in_general == said


def test_both_columns_in_words() -> None:
    found = finding(outcome="2 of 3", numbers="4, 4, 5", spread="4 to 5", share=(6, 10))
    assert found.paper_column == "2 of 3: 4, 4, 5"
    assert found.general_column == "open, 6 of 10 (26% to 88%): 4 to 5"
    assert found.short == "2 of 3; open, 6 of 10"
    (line,) = [line for line in claim_lines([found]) if line.startswith("C4")]
    assert found.short in line
    assert line.endswith(stored()[3].short)


numbers = st.text(min_size=1)
shares = st.integers(1, 99).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(max_examples=8)
@given(numbers, shares, numbers, st.sampled_from(["yes", "no", "2 of 3", "theorem, checked"]), st.sampled_from(IDS))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, words, share, scale, outcome, claim) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("claims") / "claims.json"
    rows = complete([finding(claim, outcome, numbers=words, spread=words, share=share, scale=scale)])
    write_claims(path, rows)
    assert read_claims(path) == rows


@pytest.mark.parametrize("there", ["mine", "{}", "[1]", '[{"id": "C99"}]', '[{"id": "C1"}]', '[{"mine": 1}]'])
def test_claims_replace_claims_alone(there: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    for rows in ([finding()], []):
        write_claims(path, complete(rows))
    assert read_claims(path) == complete([])
    path.write_text(there)
    for write in (lambda: write_claims(path, complete([])), lambda: read(BY_NAME["tiny"], tmp_path)):
        with pytest.raises(InputError, match=r"is not (a|readable as a) table of claims"):
            write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["claims.json"]
    assert path.read_text() == there


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], str]:
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
        changed(lambda rows: rows[3].update(share=[9, 9])),
        changed(lambda rows: rows.pop(0)),
        changed(lambda rows: rows[3].pop("checksum")),
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


def test_what_is_condensed_is_the_first_folders_that_knows(tmp_path: Path) -> None:
    for name, rows in (("a", [finding("C4")]), ("b", [finding("C4", "no"), finding("C5", run=None)])):
        (tmp_path / name).mkdir()
        write_claims(tmp_path / name / "claims.json", complete(rows))
    found = {row.id: row for row in condensed([tmp_path / "a", tmp_path / "b"]) if row.known}
    assert (found["C4"].as_the_paper, found["C4"].run) == ("yes", f"{tmp_path}/a/sweep")
    assert found["C5"].run == f"{tmp_path}/b"
    assert set(found) == {"C4", "C5"}


def test_the_pages_and_the_package_say_what_the_stored_claims_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make claims` would write is there."""
    there = [ROOT / "README.md", ROOT / "docs" / "claims.md", STORED]
    copies = [Path(shutil.copy(page, tmp_path)) for page in there]
    (tmp_path / "results").mkdir()
    for name in (*FOLDERS, "language-models"):
        (tmp_path / "results" / name).mkdir()
        for file in (ROOT / "results" / name).glob("*.json"):
            shutil.copy(file, tmp_path / "results" / name)
    monkeypatch.setattr("docs.claims_pages.STORED", copies[2])
    monkeypatch.chdir(tmp_path)
    main([*map(str, copies[:2]), *(f"results/{name}" for name in (*FOLDERS, "language-models"))])
    for page, copy in zip(there, copies, strict=True):
        assert copy.read_text() == page.read_text()
    row = f"| C3 {CLAIMS['C3'].title} | {CLAIMS['C3'].number} |"
    said = " yes: 42 of 42 runs above 0.7, the lowest at 0.747 | holds, 37 of 37 (91% to 100%) |"
    assert row + said in copies[0].read_text()
    for broken in (copies[1].read_text().replace("<!-- end of cases -->", ""), "<!-- end of cases -->" * 2):
        with pytest.raises(InputError, match="marks"):
            between_marks(broken, "cases", "")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "figure-4" else [pytest.mark.slow]) for name in FOLDERS]
)
def test_the_stored_claims_are_what_the_rules_say_of_the_stored_data(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results" / name, tmp_path / name)
    assert read(BY_NAME[name], tmp_path / name).claims == (read_claims(ROOT / "results" / name / "claims.json"))
