"""The manuscript says what the records say, and refuses a number that it has not or does not name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hopscope as hs
from studies.manuscript import MANUSCRIPT, ROOT, TEMPLATE, written
from studies.tools.inference import share_in_words as share

RECORDS = ("studies", "paper", "figure-4", "language-models", "pretrained", "own-model")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in RECORDS:
        shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name, ignore=_not_json)
    (tmp_path / TEMPLATE).parent.mkdir(parents=True)
    shutil.copy(ROOT / TEMPLATE, tmp_path / TEMPLATE)
    return tmp_path


def _not_json(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if (Path(folder) / name).is_file() and not name.endswith(".json")}


def test_the_manuscript_is_what_the_records_say() -> None:
    assert (ROOT / MANUSCRIPT).read_text() == written(ROOT), "run `make paper`"


def test_a_changed_record_changes_the_text(copy: Path) -> None:
    file = copy / "results/studies/depth/depth.json"
    record = json.loads(file.read_text())
    (less,) = [each for each in record["conditions"] if each["name"] == "causal/many-heads/5-hops/3-layers"]
    less["learned"][0][-1] = 700
    file.write_text(json.dumps(record))
    assert "layer less than the exact depth: 1 of 60" in " ".join(written(copy).split())


def test_a_number_that_no_record_gives_is_refused(copy: Path) -> None:
    template = copy / TEMPLATE
    template.write_text(template.read_text() + "{{ depth.best_of_all }}")
    with pytest.raises(hs.InputError, match="best_of_all"):
        written(copy)


def test_a_number_that_the_text_leaves_out_is_named(copy: Path) -> None:
    template = copy / TEMPLATE
    template.write_text(template.read_text().replace("{{ circuits.whole }}", "none"))
    with pytest.raises(hs.InputError, match=r"circuits\.whole"):
        written(copy)


def test_a_share_has_its_exact_interval() -> None:
    assert share(0, 60) == "0 of 60 (0% to 6%)"
    assert share(30, 30) == "30 of 30 (88% to 100%)"
