"""The least memory that training takes, so that a run that cannot fit is refused before it begins."""

from __future__ import annotations

import torch

from hopscope.errors import InputError
from hopscope.files import in_words, memory
from hopscope.kernels import fused_block
from hopscope.training.engine import Engine
from hopscope.training.setup import Setup

HELD_OUT = 4096
"""Number of sequences in the fixed held-out set behind a run's result."""


def least_memory(setup: Setup, engine: Engine) -> int:
    """Bytes that training takes at the least: weights, gradients and moments of all models, the activations kept for
    the backward pass of the models that are computed together, one batch of data, and the held-out set.
    """
    problem, recipe, models = setup.problem, setup.recipe, len(setup.seeds)
    shape = recipe.architecture(problem)
    width, inner = shape.d_model, shape.heads * shape.d_head
    length, number = problem.sequence_length, 4
    block = 4 * width * inner + (8 * width**2 if shape.mlp else 0)
    weights = shape.layers * block + width * (problem.input_dim + problem.target_dim)
    ours = engine.fused or engine.fused_blocks
    patterns = 0 if ours else shape.heads * length  # fused attention recomputes them in the backward pass
    hidden = 4 * width * (1 if engine.fused_blocks else 2) if shape.mlp else 0  # likewise GELU's output
    made_again = engine.fused_blocks and not fused_block.keeps_products(engine.precision)
    kept = 2 * width + (inner if made_again else 3 * inner + hidden + patterns)
    rows = recipe.batch_size * length
    activations = shape.layers * rows * kept * (2 if engine.precision == "bf16" else number)
    data = models * max(rows, recipe.validation_size * length) * problem.input_dim * number
    held_out = HELD_OUT * length * problem.input_dim * number
    return 4 * number * models * weights + min(models, engine.models_at_once) * activations + data + held_out


def check_memory(setup: Setup, engine: Engine) -> None:
    """Check that a run fits into the memory of the engine's device.

    Raises:
        InputError: the run would take more memory than there is.
    """
    needed, there = least_memory(setup, engine), memory_of(engine)
    if needed > there:
        raise InputError(
            f"this run would take {in_words(needed)} of memory at the least and there are {in_words(there)}; "
            "make layers, d_model, batch_size, hops, chains or the number of seeds smaller"
        )


def memory_of(engine: Engine) -> int:
    """Bytes of memory of the engine's device."""
    device = torch.device(engine.device)
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else memory()
