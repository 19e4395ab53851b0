"""What every path of a circuit does at one checkpoint, and what its ablation costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import UNIFORM, knock_out
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.role_maps import Coordinates, RoleMaps, role_maps
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.emergence.config import PathAblation
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Pattern
from hopscope.model.transformer import Block, LayerNorm, Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.problem.vectors import Batch, position_codes


@dataclass(frozen=True)
class Observation:
    """What one model does on one batch.

    Attributes:
        attention: mean weight along each path over the chains, by sequence.
        foremost: share of chains in which the path's key gets more weight than any other position, by sequence.
        errors: squared errors by sequence and target hop.
        ablated: the same with each path ablated.
        maps: role maps of every head.
        measures: the progress measures.
    """

    attention: Float[Tensor, "path sequence"]
    foremost: Float[Tensor, "path sequence"]
    errors: Float[Tensor, "sequence hop"]
    ablated: Float[Tensor, "path sequence hop"]
    maps: RoleMaps
    measures: Float[Tensor, " measure"]


@torch.no_grad()
def observe(
    transformer: Transformer,
    problem: RetrievalProblem,
    batch: Batch,
    paths: Sequence[AttentionPath],
    ablation: PathAblation = "uniform",
    measures: Sequence[Measure] = (),
) -> Observation:
    """Observe one model on sequences with one leading axis: one forward pass with patterns, and for each path of the
    circuit one with it ablated, from its layer on."""
    evaluator = VectorEvaluator(transformer, problem, batch)
    patterns = transformer.patterns(batch.inputs[None])
    weights, foremost = zip(*(_along(path, patterns, evaluator.where) for path in paths), strict=True)
    return Observation(
        attention=torch.stack(weights),
        foremost=torch.stack(foremost),
        errors=evaluator.errors([{}])[0],
        ablated=_ablated(evaluator, paths, ablation),
        maps=role_maps(patterns, evaluator.where),
        measures=torch.tensor([measured(transformer, problem, measure) for measure in measures], dtype=torch.float64),
    )


def check_paths(paths: Sequence[AttentionPath], problem: RetrievalProblem, shape: Architecture) -> None:
    """Check that paths exist in a model.

    Raises:
        InputError: there are no paths, or one is in a layer or head, or between roles, that the model lacks.
    """
    if not paths:
        raise InputError("the circuit has no paths, so there is nothing to follow; pass some")
    for path in paths:
        highest = (shape.layers - 1, shape.heads - 1, query_role(problem.hops), query_role(problem.hops))
        place = (path.layer, path.head, path.query, path.key)
        if not all(0 <= number <= most for number, most in zip(place, highest, strict=True)):
            raise InputError(
                f"the circuit has a path in layer {path.layer + 1}, head {path.head + 1}, from role {path.query} to "
                f"{path.key}, which this run lacks: it is another run's circuit"
            )


def _along(
    path: AttentionPath, patterns: Sequence[Pattern], where: Coordinates
) -> tuple[Float[Tensor, " sequence"], Float[Tensor, " sequence"]]:
    """Mean weight along a path, and how often it is the largest of its row, by sequence."""
    pattern = patterns[path.layer][0, :, path.head]  # sequence query key
    query = where.place[..., path.query]
    key = where.place[..., path.key]
    rows = pattern.gather(1, query[..., None].expand(-1, -1, pattern.shape[-1]))  # sequence chain key
    weight = rows.gather(2, key[..., None])[..., 0]
    others = rows.scatter(2, key[..., None], -1.0).amax(dim=-1)
    return weight.mean(dim=-1), (weight > others).float().mean(dim=-1)


def _ablated(
    evaluator: Evaluator, paths: Sequence[AttentionPath], ablation: PathAblation
) -> Float[Tensor, "path sequence hop"]:
    """The errors without each path; layer by layer, so that what lies below a layer is computed once."""
    errors: dict[AttentionPath, Tensor] = {}
    for layer in sorted({path.layer for path in paths}):
        in_layer = [path for path in paths if path.layer == layer]
        without = [{path.row: UNIFORM if ablation == "uniform" else knock_out(path.key)} for path in in_layer]
        errors |= dict(zip(in_layer, evaluator.errors(without), strict=True))
    return torch.stack([errors[path] for path in paths])


@dataclass(frozen=True)
class Measure:
    """A progress measure and where it is taken.

    Attributes:
        name: `previous-token match`, `symbol match` or `copy`.
        heads: (layer, head), from 1: one head, or for the symbol match the earlier and the later head.
        hop: for `copy`, the hop whose read-out it uses.
    """

    name: str
    heads: tuple[tuple[int, int], ...]
    hop: int | None = None

    def __str__(self) -> str:
        heads = " and ".join(f"{layer}.{head}" for layer, head in self.heads)
        return f"{self.name}{'' if self.hop is None else f' of x{self.hop}'}, head{'s' * (len(self.heads) > 1)} {heads}"


def defined(paths: Sequence[AttentionPath], problem: RetrievalProblem) -> list[Measure]:
    """The measures that can be taken of a circuit's heads."""
    hops, asker = problem.hops, query_role(problem.hops)

    def heads(*ends: tuple[int, int]) -> list[tuple[int, int]]:
        return sorted({(path.layer + 1, path.head + 1) for path in paths if (path.query, path.key) in ends})

    pairing = heads(*((second_member(hop), first_member(hop)) for hop in range(1, hops + 1)))
    reading = heads((asker, second_member(1)))
    return [
        *(Measure("previous-token match", (head,)) for head in pairing if problem.position == "token"),
        *(Measure("symbol match", (early, late)) for early in pairing for late in reading if early[0] < late[0]),
        *(Measure("copy", (head,), n) for n in problem.target_hops for head in heads((asker, second_member(n)))),
    ]


@torch.no_grad()
def measured(transformer: Transformer, problem: RetrievalProblem, measure: Measure) -> float:
    """The value of a measure in one model."""
    heads = [_Head(transformer, layer, head) for layer, head in measure.heads]
    symbols = transformer.embed.weight[0, : problem.symbol_dim]
    if measure.hop is None and len(heads) == 1:
        return _previous_token_match(heads[0], transformer, problem)
    if measure.hop is None:
        early, late = heads
        copied = early.moves(symbols)
        return _likeness((late.normed(symbols) @ late.query) @ (late.normed(copied) @ late.key).T)
    place = problem.target_hops.index(measure.hop)
    columns = slice(place * problem.symbol_dim, (place + 1) * problem.symbol_dim)
    written = _normed(heads[0].moves(symbols), transformer.norm)
    return _likeness(written @ transformer.read.weight[0, :, columns])


def _previous_token_match(head: _Head, transformer: Transformer, problem: RetrievalProblem) -> float:
    codes = position_codes(problem)
    inputs = torch.cat([codes.new_zeros(codes.shape[0], problem.symbol_dim), codes], dim=-1)
    normed = head.block.attention_norm(transformer.embed(inputs[None, None]))
    pattern = head.block.attention.pattern(normed, normed)[0, 0, head.number]
    allowed = torch.ones_like(pattern).tril() if problem.causal else torch.ones_like(pattern)
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    before, by_chance = (weights.diagonal(-1).mean().item() for weights in (pattern, uniform))
    return (before - by_chance) / (1 - by_chance)


class _Head:
    """One head: its block, its number there, and its weights."""

    def __init__(self, transformer: Transformer, layer: int, head: int) -> None:
        block = transformer.blocks[layer - 1]
        assert isinstance(block, Block)
        self.block, self.number, attention = block, head - 1, block.attention
        at = slice(self.number * attention.d_head, head * attention.d_head)
        self.query, self.key = attention.query.weight[0, :, at], attention.key.weight[0, :, at]
        self._value, self._out = attention.value.weight[0, :, at], attention.out.weight[0, at]

    def normed(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """The stream as the head reads it, up to scale."""
        return _normed(x, self.block.attention_norm)

    def moves(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """What the head writes where it attends to `x`."""
        moved: Tensor = self.normed(x) @ self._value @ self._out
        return moved


def _normed(x: Float[Tensor, "row d_model"], norm: object) -> Float[Tensor, "row d_model"]:
    """The rows after a norm and before its offset, up to scale; as they are where there is none."""
    return (x - x.mean(dim=-1, keepdim=True)) * norm.weight[0, 0] if isinstance(norm, LayerNorm) else x


def _likeness(matrix: Float[Tensor, "k k"]) -> float:
    """The cosine between a matrix and the identity; 0 for a matrix of zeros."""
    size = matrix.norm() * matrix.shape[0] ** 0.5
    return float(matrix.trace() / size) if size > 0 else 0.0
