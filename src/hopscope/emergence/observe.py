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
    """Observe one model: one forward pass with patterns, and for each path one without it, from its layer on.

    Args:
        transformer: one model.
        problem: the problem that it answers.
        batch: the sequences, with one leading axis.
        paths: the circuit's paths.
        ablation: how a path is ablated.
        measures: the progress measures to take.
    """
    evaluator = VectorEvaluator(transformer, problem, batch)
    patterns = transformer.patterns(batch.inputs[None])
    weights, foremost = zip(*(_along(path, patterns, evaluator.where) for path in paths), strict=True)
    return Observation(
        attention=torch.stack(weights),
        foremost=torch.stack(foremost),
        errors=evaluator.errors([{}])[0],
        ablated=_ablated(evaluator, paths, ablation),
        maps=role_maps(patterns, evaluator.where),
        measures=torch.tensor(measure(transformer, problem, measures), dtype=torch.float64),
    )


def check_paths(paths: Sequence[AttentionPath], problem: RetrievalProblem, shape: Architecture) -> None:
    """Check that paths exist in a model.

    Raises:
        InputError: there are no paths, or one is in a layer or head, or between roles, that the model lacks.
    """
    if not paths:
        raise InputError("the circuit has no paths, so there is nothing to follow; pass some")
    roles = range(query_role(problem.hops) + 1)
    for path in paths:
        if path.layer not in range(shape.layers) or path.head not in range(shape.heads):
            raise InputError(
                f"the circuit has a path in layer {path.layer + 1}, head {path.head + 1}; the run has {shape.layers} "
                f"layers of {shape.heads} heads, so it is not this run's circuit"
            )
        if path.query not in roles or path.key not in roles:
            raise InputError(f"the circuit has roles that a chain of {problem.hops} hops lacks; it is not this run's")


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
    measures = []
    if problem.position == "token":
        measures += [Measure("previous-token match", (head,)) for head in pairing]
    measures += [Measure("symbol match", (early, late)) for early in pairing for late in reading if early[0] < late[0]]
    for hop in problem.target_hops:
        measures += [Measure("copy", (head,), hop) for head in heads((asker, second_member(hop)))]
    return measures


@torch.no_grad()
def measure(transformer: Transformer, problem: RetrievalProblem, measures: Sequence[Measure]) -> list[float]:
    """The values of the measures in one model."""
    return [_value(transformer, problem, measure) for measure in measures]


def _value(transformer: Transformer, problem: RetrievalProblem, measure: Measure) -> float:
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
    gain = _gain(transformer.norm, transformer.shape.d_model)
    written = heads[0].moves(symbols)
    return _likeness(_centred(written, transformer.shape.layer_norm) * gain @ transformer.read.weight[0, :, columns])


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
        self._layer_norm = transformer.shape.layer_norm
        self._gain = _gain(block.attention_norm, transformer.shape.d_model)
        self.query, self.key = attention.query.weight[0, :, at], attention.key.weight[0, :, at]
        self._value, self._out = attention.value.weight[0, :, at], attention.out.weight[0, at]

    def normed(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """The stream as the head reads it, up to scale."""
        return _centred(x, self._layer_norm) * self._gain

    def moves(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """What the head writes where it attends to `x`."""
        moved: Tensor = self.normed(x) @ self._value @ self._out
        return moved


def _centred(x: Float[Tensor, "row d_model"], layer_norm: bool) -> Float[Tensor, "row d_model"]:
    return x - x.mean(dim=-1, keepdim=True) if layer_norm else x


def _gain(norm: object, d_model: int) -> Float[Tensor, " d_model"]:
    return norm.weight[0, 0] if isinstance(norm, LayerNorm) else torch.ones(d_model)


def _likeness(matrix: Float[Tensor, "k k"]) -> float:
    """The cosine between a matrix and the identity; 0 for a matrix of zeros."""
    size = matrix.norm() * matrix.shape[0] ** 0.5
    return float(matrix.trace() / size) if size > 0 else 0.0
