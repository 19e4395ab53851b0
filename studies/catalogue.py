"""All studies, each with the function that draws its figure, or None if the study has no figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from studies import (
    census,
    codes,
    curriculum,
    depth,
    descent,
    escape,
    heads,
    learning,
    places,
    plateau,
    pruning,
    rows,
    text,
    unsaid,
    whole,
)
from studies.calibration import study as calibration
from studies.figures.census import census as draw_census
from studies.figures.codes import codes as draw_codes
from studies.figures.curriculum import curriculum as draw_curriculum
from studies.figures.depth import depth as draw_depth
from studies.figures.descent import descent as draw_descent
from studies.figures.escape import escape as draw_escape
from studies.figures.heads import heads as draw_heads
from studies.figures.places import places as draw_places
from studies.figures.plateau import plateau as draw_plateau
from studies.figures.pruning import pruning as draw_pruning
from studies.figures.survival import survival as draw_survival
from studies.figures.unsaid import unsaid as draw_unsaid
from studies.tools.study import Study

STUDIES: dict[str, tuple[Study[Any, Any], Callable[[Any], Any] | None]] = {
    study.name: (study, draw)
    for study, draw in (
        (learning.STUDY, draw_survival),
        (depth.STUDY, draw_depth),
        (heads.STUDY, draw_heads),
        (places.STUDY, draw_places),
        (rows.STUDY, draw_survival),
        (escape.STUDY, draw_escape),
        (codes.STUDY, draw_codes),
        (unsaid.STUDY, draw_unsaid),
        (plateau.STUDY, draw_plateau),
        (curriculum.STUDY, draw_curriculum),
        (census.STUDY, draw_census),
        (pruning.STUDY, draw_pruning),
        (descent.STUDY, draw_descent),
        (text.STUDY, None),
        (whole.STUDY, None),
        (calibration.STUDY, None),
    )
}
"""The studies by name, in the order in which `--help` lists them."""
