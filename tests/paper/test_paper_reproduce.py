"""From nothing to the report: `hopscope reproduce` itself, on a preset of seconds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

import hopscope as hs
from hopscope.cli.folder_verbs import PRESETS, report
from hopscope.errors import InputError
from hopscope.paper.presets import BY_NAME, TINY
from hopscope.paper.reproduce import read, reproduce, write_pages
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution
from hopscope.training.recipe import Setup
from hopscope.training.side_by_side import runs_display

pytestmark = pytest.mark.xdist_group("reproduce")

CIRCUIT = "circuit-ic-layers-2-seed-0"
FIGURES = ("flow", "figure-4-left", "figure-4-right", CIRCUIT, "figure-6", "figure-7", "appendix-d")


def test_a_report_is_neither_of_a_sweep_nor_of_a_folder_without_its_preset(tmp_path: Path) -> None:
    assert "is not named for a preset; pass --preset" in str(CliRunner().invoke(report, [str(tmp_path)]).exception)
    (tmp_path / "ic-layers-1-seed-0").mkdir()
    (tmp_path / "ic-layers-1-seed-0" / "run.json").write_text("{}")
    result = CliRunner().invoke(report, [str(tmp_path), "--preset", "tiny"])
    assert "is not a folder of a reproduction" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["ic-layers-1-seed-0"]


@pytest.mark.slow
def test_everything_is_there(reproduced: tuple[Path, str]) -> None:
    folder, out = reproduced
    assert out.splitlines()[-2:] == [str(folder / "explorer.html"), str(folder / "report.html")]
    assert [line[:4].strip() for line in out.splitlines()[-24:-3]] == [f"C{n}" for n in range(1, 22)]
    for name in FIGURES:
        for ending in ("png", "svg", "pdf"):
            assert (folder / "figures" / f"{name}.{ending}").stat().st_size > 1000
    models = json.loads((folder / "summary.json").read_text())["models"]
    assert [(model["curriculum"], model["layers"]) for model in models] == list(product((True, False), (1, 2)))
    run = folder / "sweep" / "ic-layers-2-seed-0"
    assert json.loads((run / "circuit.json").read_text())["found"]
    assert (run / "emergence.json").exists()
    page = (folder / "report.html").read_text()
    titles = [re.sub(r"<.*?>", "", title).split(" (")[0] for title in re.findall(r"<h2.*?>(.*?)</h2>", page)]
    assert titles == [
        "Training by depth", "Circuits", "How heads emerge", "How many layers D hops need", "The claims",
    ]  # fmt: skip
    drawn = re.findall(r'href="figures/(.*?).png"', page)
    assert drawn[:3] == ["figure-4-left", "figure-4-right", CIRCUIT]
    assert "hopscope reproduce --preset tiny" in page
    assert 'href="./explorer.html"' in page
    explorer = (folder / "explorer.html").read_text()
    assert "ic-layers-2-seed-0, seed 0" in explorer
    assert 'data-chunk="m0-weights"' in explorer


@pytest.mark.slow
def test_the_claims_say_whose_they_are_and_what_they_rest_on(reproduced: tuple[Path, str]) -> None:
    by_id = {row["id"]: row for row in json.loads((reproduced[0] / "claims.json").read_text())}
    assert list(by_id) == [f"C{n}" for n in range(1, 22)]
    assert all(row["as_the_paper"] in ("not run", "theorem, checked") for row in by_id.values())
    unknown = {claim for claim, row in by_id.items() if row["in_general"] == "not run"}
    assert {"C3", "C6", "C13", "C14", "C19"} <= unknown  # at one hop there is no curriculum to leave out, and no order
    for claim in ("C4", "C8", "C10", "C16"):
        assert by_id[claim]["scale"].startswith("tiny: ")
        assert by_id[claim]["case"]
    assert by_id["C10"]["share"][1] == 1


@pytest.mark.slow
def test_what_is_finished_is_not_done_again_and_can_be_judged_again(reproduced: tuple[Path, str]) -> None:
    folder, _ = reproduced
    claims = (folder / "claims.json").read_bytes()
    before = {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*") if path.is_file()}
    found = hs.reproduce("tiny", folder, Execution(workers=1, precision="fp32"))
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert (folder / "claims.json").read_bytes() == claims
    assert found.claims == read(TINY, folder).claims
    (folder / "claims.json").unlink()
    (folder / "report.html").unlink()
    result = CliRunner().invoke(report, [str(folder), "--preset", "tiny", "--claims-only"])
    assert result.stdout.strip() == str(folder / "claims.json")
    assert (folder / "claims.json").read_bytes() == claims
    assert not (folder / "report.html").exists()
    write_pages(found)


@pytest.mark.slow
def test_a_summary_without_its_runs_suffices_for_section_7(reproduced: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_bytes((reproduced[0] / "summary.json").read_bytes())
    there, here = ({claim.id: claim for claim in read(TINY, folder).claims} for folder in (reproduced[0], tmp_path))
    for claim in ("C1", "C2", "C3", "C4", "C5"):
        assert here[claim] == there[claim]
    whole = (reproduced[0] / "summary.json").read_bytes()
    assert (tmp_path / "summary.json").read_bytes() == whole
    changed = whole.replace(b'"chains": 4', b'"chains": 5', 1)
    (tmp_path / "summary.json").write_bytes(changed)
    with pytest.raises(InputError, match=r"summary\.json is damaged: .*checksum.*untouched"):
        read(TINY, tmp_path)
    assert (tmp_path / "summary.json").read_bytes() == changed


def test_transformers_trained_by_themselves_join(tmp_path: Path) -> None:
    """A, B, C and D in small, far from having learned."""
    recipe = replace(TINY.depth.recipe, layers=1, steps=10, batch_size=8, checkpoint_every=5)
    a, b, c, d = (Setup(name, RetrievalProblem(hops=2), recipe, (seed,)) for seed, name in enumerate("abcd"))
    preset = replace(
        TINY,
        name="paper",
        depth=replace(TINY.depth, seeds=(), plain_seeds=(), followed=None),
        models=replace(TINY.models, setups=(a, b, c), followed=(d,), at="transformers"),
    )
    found = hs.reproduce(preset, tmp_path, Execution(workers=1, precision="fp32"))
    claims = {claim.id: claim for claim in found.claims}
    assert [model.name for model in found.models.compared] == ["a", "b", "c"]
    assert claims["C7"].reason == "no model that solves the task was searched for its circuit"
    assert claims["C6"].reason == "no model of 12 layers, one head and D = 3"
    assert len(found.theory.trained) == 4
    write_pages(found)
    assert "The claims" in (tmp_path / "report.html").read_text()


def test_what_is_no_preset_is_refused() -> None:
    assert tuple(BY_NAME) == PRESETS
    for preset in ("giant", 3, None, {"name": "tiny"}):
        with pytest.raises(InputError, match="a preset is one of laptop, figure-4, paper, paper-short, tiny, or"):
            reproduce(preset)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is not a folder"):
        read(TINY, Path("nowhere"))


def test_neither_a_run_nor_a_file_is_made_a_reproduction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the preset's name too, where nobody named one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    (tmp_path / "runs" / "tiny" / "run.json").write_text("{}")
    with pytest.raises(InputError, match="is a run"):
        reproduce("tiny")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file is a file"):
        reproduce("tiny", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_where_all_runs_are_known_there_is_nothing_left_to_show() -> None:
    """As for a preset without models, or one whose summary has every run."""
    with runs_display([]) as show:
        show({})
