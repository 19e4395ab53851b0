"""The least memory that training takes, so that a run that cannot fit is refused before it begins."""

from __future__ import annotations

import torch

from hopscope.errors import InputError
from hopscope.kernels import fused_block
from hopscope.machine import in_words, memory
from hopscope.training.execution import Execution, kernels_used, models_at_once
from hopscope.training.setup import Setup

HELD_OUT = 4096
"""Number of sequences in the fixed held-out set behind a run's result."""


def least_memory(setup: Setup, execution: Execution) -> int:
    """Bytes that training takes at the least: weights, gradients and moments of all models, the activations kept for
    the backward pass of the models that are computed together, one batch of data, and the held-out set.
    """
    problem, recipe, models = setup.problem, setup.recipe, len(setup.seeds)
    shape = recipe.architecture(problem)
    width, inner = shape.d_model, shape.heads * shape.d_head
    length, number = problem.sequence_length, 4
    block = 4 * width * inner + (8 * width**2 if shape.mlp else 0)
    weights = shape.layers * block + width * (problem.input_dim + problem.target_dim)
    attention, blocks = kernels_used(problem, recipe, execution)
    patterns = (
        0 if attention or blocks else shape.heads * length
    )  # fused attention recomputes them in the backward pass
    hidden = 4 * width * (1 if blocks else 2) if shape.mlp else 0  # likewise GELU's output
    precision = "fp32" if execution.precision == "auto" else execution.precision
    made_again = blocks and not fused_block.keeps_products(precision)
    kept = 2 * width + (inner if made_again else 3 * inner + hidden + patterns)
    rows = recipe.batch_size * length
    activations = shape.layers * rows * kept * (2 if precision == "bf16" else number)
    data = models * max(rows, recipe.validation_size * length) * problem.input_dim * number
    held_out = HELD_OUT * length * problem.input_dim * number
    return (
        4 * number * models * weights
        + models_at_once(problem, recipe, models, execution) * activations
        + data
        + held_out
    )


def check_memory(setup: Setup, execution: Execution) -> None:
    """Check that a run fits into the memory of the device.

    Raises:
        InputError: the run would take more memory than there is.
    """
    needed, there = least_memory(setup, execution), memory_of(execution)
    if needed > there:
        raise InputError(
            f"this run would take {in_words(needed)} of memory at the least and there are {in_words(there)}; "
            "make layers, d_model, batch_size, hops, chains or the number of seeds smaller"
        )


def memory_of(execution: Execution) -> int:
    """Bytes of memory of the device."""
    device = torch.device(str(execution.device))
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else memory()
