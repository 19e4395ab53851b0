"""The arrays of the page: how they are packed, and the arrays that the page's network computes with.

Packing takes differences along time, groups bytes by their place in a value, and applies zlib and base64;
`web/bytes.js` decodes the text. The network needs the weights in half precision, the rows of the circuit, and prompts
that training did not use.
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
"""The number of sequences in the page, which are the sequences of `hopscope emergence`."""

_AVERAGED = 256
"""A positional pattern is the mean over this many sequences; a mean over few would depend on their shuffles."""


@dataclass(frozen=True)
class Chunk:
    """A packed array.

    Attributes:
        dtype: `uint8`, `uint16`, `float16` or `float32`, little endian.
        shape: the shape of the array.
        delta: whether entries along the first axis, except the first, are differences from the previous, modulo 256.
        text: base64 text of the zlib-compressed bytes: the lowest byte of every value, then every second byte, ...
    """

    dtype: str
    shape: tuple[int, ...]
    delta: bool
    text: str

    @property
    def head(self) -> dict[str, Any]:
        """The information that is needed to unpack the array."""
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
    """Return the weights in half precision, or unchanged if a weight is too large for half precision."""
    state = transformer.state_dict()
    largest = max(float(weight.abs().max()) for weight in state.values())
    return {name: weight.half() if largest < torch.finfo(torch.half).max else weight for name, weight in state.items()}


def half(transformer: Transformer) -> Transformer:
    """Return the model with the weights that the page holds."""
    rounded = type(transformer)(transformer.shape, transformer.models)
    rounded.load_state_dict(halved(transformer))
    return rounded.requires_grad_(False)


def weights(transformer: Transformer) -> tuple[list[tuple[str, int]], Chunk]:
    """Return the names and sizes of the weights, and all weights in one flat array."""
    state = halved(transformer)
    flat = np.concatenate([weight.numpy().reshape(-1) for weight in state.values()])
    return [(name, weight.numel()) for name, weight in state.items()], pack(flat)


def batch_of(problem: RetrievalProblem) -> Batch:
    """Return the prompts of the page."""
    return held_out(problem, PROMPTS, purpose="emergence")


def prompts(problem: RetrievalProblem) -> dict[str, Chunk]:
    """Return the prompts as symbols [prompt, chain, symbol, d_symbol] and positions of roles [prompt, chain, role]."""
    batch = batch_of(problem)
    tokens = batch.inputs[..., : problem.symbol_dim]
    holders = [query_role(problem.hops), *(second_member(hop) for hop in range(1, problem.hops + 1))]
    at = batch.place[..., holders].flatten(1)  # prompt chain*symbol
    symbols = torch.take_along_dim(tokens, at[..., None], dim=1)  # prompt chain*symbol d_symbol
    shape = (PROMPTS, problem.chains, problem.hops + 1, problem.symbol_dim)
    places = batch.place.numpy().astype(np.uint16)
    return {"symbols": pack(symbols.reshape(shape).numpy()), "places": pack(places)}


def circuit_alone(circuit: Circuit, transformer: Transformer) -> tuple[list[dict[str, Any]], Chunk | None]:
    """Return the rows of a circuit as plain values, and the positional patterns that some rows refer to.

    Rows that are not returned are uniform. Active rows have the model's own patterns; all other rows are ablated as in
    the search. The positional mean of a row is taken over many sequences, as when the circuit runs alone.
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
