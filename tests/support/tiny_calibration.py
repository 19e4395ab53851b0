"""The calibration study on two models of one hop."""

from __future__ import annotations

from studies.calibration import study as calibration
from studies.calibration.kinds import KINDS
from studies.calibration.study import CalibrationStudy

RESTING = ("at rest", "aside", "idle key", "spare look")
"""Kinds with a head that rests, for which there must be two pairs."""

ONE_HOP = tuple(kind for kind in KINDS["natural"] if kind not in RESTING)
"""What there is to plant in models of one hop."""

TINY = CalibrationStudy(built=((1, 0), (1, 1)), kinds=ONE_HOP, each=2, sequences=64, proof=calibration.QUICK)
