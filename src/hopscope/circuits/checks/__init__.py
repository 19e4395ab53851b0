"""The certificate of a circuit: what makes it more than a guess, part by part, on sequences that no search has seen.

Each file is a part or a family of parts. A part measures, says in one sentence what it saw, and passes or fails by a
rule that stands in its docstring. Each can fail: `studies/calibration.py` plants false circuits and counts.
"""

from __future__ import annotations

from hopscope.circuits.checks.certificate import Certificate, CertificateConfig, Part, Sense, tidy
from hopscope.circuits.checks.certify import PARTS, certify, no_circuit
from hopscope.circuits.checks.evidence import Evidence

__all__ = ["PARTS", "Certificate", "CertificateConfig", "Evidence", "Part", "Sense", "certify", "no_circuit", "tidy"]
