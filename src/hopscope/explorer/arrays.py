"""The page's arrays: how they are packed, and those that its own network computes with.

An array is text: bytes by plane, deltas where time runs, zlib, base64; `web/bytes.js` decodes it. The network needs
weights in half precision, the circuit as rows, and prompts that no training saw.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, AblationKind, own_pattern
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.hooks import Patched
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role, second_member
from hopscope.problem.vectors import Batch
from hopscope.training.data import held_out

PROMPTS = 32
"""The number of sequences in the page: those that `hopscope emergence` measures on."""

_AVERAGED = 256
"""Sequences behind a pattern by position; averaged over few, it would still show how they were shuffled."""


@dataclass(frozen=True)
class Chunk:
    """An array, packed.

    Attributes:
        dtype: `uint8`, `uint16`, `float16` or `float32`, little endian.
        shape: the shape of the array.
        delta: whether every entry of the first axis after the first holds its difference to the one before, modulo 256.
        text: base64 of the zlib stream of all lowest bytes, then all second bytes, and so on.
    """

    dtype: str
    shape: tuple[int, ...]
    delta: bool
    text: str

    @property
    def head(self) -> dict[str, Any]:
        """What a reader must know to unpack it."""
        return {"dtype": self.dtype, "shape": list(self.shape), "delta": self.delta}


def pack(array: np.ndarray[Any, Any], *, delta: bool = False) -> Chunk:
    """Pack an array of one of `Chunk`'s types; `delta` is for bytes that change slowly along the first axis."""
    values = np.ascontiguousarray(array)
    if delta:
        values = np.concatenate([values[:1], values[1:] - values[:-1]])  # modulo 256, as bytes do
    planes = values.reshape(-1).view(np.uint8).reshape(-1, values.dtype.itemsize).T
    packed = zlib.compress(np.ascontiguousarray(planes).tobytes(), 9)
    return Chunk(array.dtype.name, array.shape, delta, base64.b64encode(packed).decode())


def halved(transformer: Transformer) -> dict[str, Tensor]:
    """The weights in half precision, or as they are where one is too large for it."""
    state = transformer.state_dict()
    largest = max(float(weight.abs().max()) for weight in state.values())
    return {name: weight.half() if largest < torch.finfo(torch.half).max else weight for name, weight in state.items()}


def half(transformer: Transformer) -> Transformer:
    """The model with its weights as the page holds them."""
    rounded = type(transformer)(transformer.shape, transformer.models)
    rounded.load_state_dict(halved(transformer))
    return rounded.requires_grad_(False)


def weights(transformer: Transformer) -> tuple[list[tuple[str, int]], Chunk]:
    """Names and sizes of the weights, and all of them one after the other."""
    state = halved(transformer)
    flat = np.concatenate([weight.numpy().reshape(-1) for weight in state.values()])
    return [(name, weight.numel()) for name, weight in state.items()], pack(flat)


def batch_of(problem: RetrievalProblem) -> Batch:
    """The prompts of the page."""
    return held_out(problem, PROMPTS, purpose="emergence")


def prompts(problem: RetrievalProblem) -> dict[str, Chunk]:
    """Symbols [prompt, chain, symbol, d_symbol] and places [prompt, chain, role]: what makes a prompt."""
    batch = batch_of(problem)
    tokens = batch.inputs[..., : problem.symbol_dim]
    holders = [query_role(problem.hops), *(second_member(hop) for hop in range(1, problem.hops + 1))]
    at = batch.place[..., holders].flatten(1)  # prompt chain*symbol
    symbols = torch.take_along_dim(tokens, at[..., None], dim=1)  # prompt chain*symbol d_symbol
    shape = (PROMPTS, problem.chains, problem.hops + 1, problem.symbol_dim)
    places = batch.place.numpy().astype(np.uint16)
    return {"symbols": pack(symbols.reshape(shape).numpy()), "places": pack(places)}


def circuit_alone(circuit: Circuit, transformer: Transformer) -> tuple[list[dict[str, Any]], Chunk | None]:
    """The circuit as rows in JSON (a row left out is uniform), and the positional patterns that some of them refer to.

    Active rows have the model's own patterns; all others are off as the search left them. A row at its positional mean
    is given the mean over many sequences, as when the circuit runs alone.
    """
    given, active = circuit.interventions, set(circuit.rows)
    shape = range(circuit.layers), range(circuit.heads), range(len(circuit.problem.roles))
    rows_of_all = [HeadRow(*row) for row in product(*shape)]
    program = {
        row: own_pattern(given.get(row, KEEP)) if row in active else given.get(row, UNIFORM) for row in rows_of_all
    }
    fixed = sorted({(row.layer, row.head) for row, form in program.items() if form.kind is AblationKind.POSITIONAL})
    rows = [
        {"layer": row.layer, "head": row.head, "query": row.query, "kind": form.kind.value}
        | ({"keys": list(form.keys)} if form.keys else {})
        | ({"weights": list(form.weights)} if form.weights else {})
        | ({"kind": "fixed", "fixed": fixed.index(row[:2])} if form.kind is AblationKind.POSITIONAL else {})
        for row, form in program.items()
        if form != UNIFORM
    ]
    if not fixed:
        return rows, None
    assert isinstance(circuit.problem, RetrievalProblem), "the explorer shows models of vectors"
    many = held_out(circuit.problem, _AVERAGED, purpose="positional means")
    evaluator = VectorEvaluator(transformer, circuit.problem, many)
    seen = Patched(evaluator.edit(program))
    with torch.no_grad():
        transformer.run(transformer.embed(evaluator.batch.inputs[None]), hooks=seen)
    patterns = torch.stack([seen.patterns[layer][0, :, head].mean(dim=0) for layer, head in fixed])
    return rows, pack(patterns.numpy())
