"""False circuits, checked with own and with imposed patterns, each until a check refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import hopscope as hs
from hopscope.circuits import checks
from hopscope.circuits.checks import Evidence, Patterns
from hopscope.circuits.checks.card import not_passed
from hopscope.circuits.custom_circuit import _of_parts
from hopscope.circuits.evaluate.units import Units
from studies.calibration.study import STUDY, standard
from studies.tools.study import answer
from studies.tools.work import Work


def refused(model: Any, circuit: Sequence[Any], max_loss: float, seed: int) -> Mapping[str, tuple[str, ...]]:
    """By patterns, the first check that refuses a circuit, measured as `Model.check` measures it."""
    found: dict[str, tuple[str, ...]] = {}
    for patterns in get_args(Patterns):
        evaluator = model.evaluator.fresh(hs.SearchBudget().confirming, seed, "circuit search")
        units = Units.of(evaluator)
        interventions, groups = _of_parts(circuit, evaluator, units)
        proof = hs.CertificateConfig()
        evidence = Evidence(evaluator, units, interventions, max_loss, seed + 1, proof, patterns, groups)
        failed = (name for name, measure in checks._MEASURED.items() if not_passed({name: measure(evidence)}))
        found[patterns] = tuple(islice(failed, 1))
    return found


def calibrate(folder: Path) -> str:
    """The calibration of the checks with both patterns, in this folder; returns its tables."""
    study = replace(STUDY, standard=lambda recipe: replace(standard(recipe), refused=refused))
    return answer(study, None, folder, Work(workers=1)).text
