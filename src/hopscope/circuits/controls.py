"""Negative controls: the tools do what they say, and the circuit says nothing where there is nothing to say."""

from __future__ import annotations

import torch

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.evidence import Evidence, Part, tidy
from hopscope.circuits.form import KEEP, RESAMPLE, Form
from hopscope.model.fast import FastTransformer
from hopscope.model.initial import initialise
from hopscope.theory.path import Row


def harness(evidence: Evidence) -> Part:
    """No silent no-op: replaying the model's own patterns changes not one bit, other patterns change the answers."""
    evaluator = evidence.few
    rows = evaluator.rows
    kept: dict[Row, Form] = dict.fromkeys(rows, KEEP)
    plain, replayed, resampled = evaluator.errors([{}, kept, dict.fromkeys(rows, RESAMPLE)])
    moved = float((resampled - plain).abs().max())
    replay = float((replayed - plain).abs().max())
    return {
        "passed": replay == 0.0 and moved > 1e-3,
        "says": f"replaying the model's own patterns changes nothing; patterns of other sequences change losses by up "
        f"to {moved:.2g}"
        if replay == 0.0
        else f"replaying the model's own patterns changes losses by {replay:.2g}: the tools are broken",
        "replay_difference": replay,
        "resample_difference": tidy(moved),
    }


def untrained(evidence: Evidence) -> Part:
    """The same program in a model of the same shape with initial weights: it must not solve the problem there."""
    model = FastTransformer(evidence.evaluator.shape, 1)
    initialise(model, [int(torch.randint(2**31, (), generator=evidence.random("untrained")))])
    evaluator = Evaluator(model.requires_grad_(False), evidence.problem, evidence.few.batch)
    own, imposed = evaluator.mse([{}, evidence.program])
    return {
        "passed": min(own, imposed) > evidence.bar,
        "says": f"in an untrained model the same program has a loss of {imposed:.2f}",
        "full_mse": tidy(own),
        "imposed_mse": tidy(imposed),
    }
