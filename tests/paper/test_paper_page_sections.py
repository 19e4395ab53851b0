"""What the sections of the report say of records, beside the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.circuits.circuit import Circuit
from hopscope.paper.presets import PAPER_SHORT
from hopscope.paper.section_5 import section as layers_needed
from hopscope.paper.section_8 import read
from hopscope.paper.section_8 import section as circuits

RECORDED = Path(__file__).parents[2] / "results" / "paper-short"


@pytest.mark.slow
def test_circuits_are_called_certified_only_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Circuit, "certified", property(lambda circuit: circuit.seed == 1))
    result = read(PAPER_SHORT.circuits, RECORDED)
    for models, said in ((result.models[:2], "1 of 2 certified"), (result.models[:1], "0 of 1 certified")):
        shown = circuits(replace(result, models=models), tmp_path)
        assert shown is not None
        assert f"circuits of the 12-layer models, {said} on sequences" in shown.paragraphs[0]


def test_the_caption_of_the_flow_names_what_is_drawn(tmp_path: Path) -> None:
    """Which is both masks, and what positions share."""
    (figure,) = layers_needed(2, tmp_path).figures
    drawn = figure.stem.with_suffix(".svg").read_text()
    for title, said in (
        ("What positions share before any layer, D = 2", "What positions share before any layer, D = 2"),
        ("no mask", "without a mask"),
        ("causal mask", "a causal one"),
    ):
        assert title in drawn
        assert said in figure.caption
