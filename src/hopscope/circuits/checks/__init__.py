"""The six checks and the card of a circuit, measured on sequences that no search has seen.

Each file is a check: a function of measured losses, which decides, and one that measures them.
"""

from __future__ import annotations

from hopscope.circuits.checks.card import CHECKS, Card, Check, CheckName, PathGroup, Patterns, all_passed
from hopscope.circuits.checks.config import CertificateConfig
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.checks.measure_card import measure_card
from hopscope.circuits.checks.run_checks import check_in_stages, no_circuit, run_checks
from hopscope.circuits.evaluate.bootstrap import Measured, tidy

__all__ = [
    "CHECKS", "Card", "CertificateConfig", "Check", "CheckName", "Evidence", "Measured", "PathGroup", "Patterns",
    "all_passed", "check_in_stages", "measure_card", "no_circuit", "run_checks", "tidy",
]  # fmt: skip
