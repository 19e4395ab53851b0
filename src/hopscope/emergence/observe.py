"""What every path of a circuit does at one checkpoint, and what its ablation costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Pattern
from hopscope.model.role_maps import Coordinates, RoleMaps, role_maps
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role
from hopscope.problem.vectors import Batch


@dataclass(frozen=True)
class Observation:
    """What one model does on one batch.

    Attributes:
        attention: mean weight along each path over the chains, by sequence.
        foremost: share of chains in which the path's key gets more weight than any other position, by sequence.
        errors: squared errors by sequence and target hop.
        ablated: the same with each path ablated.
        maps: role maps of every head.
    """

    attention: Float[Tensor, "path sequence"]
    foremost: Float[Tensor, "path sequence"]
    errors: Float[Tensor, "sequence hop"]
    ablated: Float[Tensor, "path sequence hop"]
    maps: RoleMaps


@torch.no_grad()
def observe(
    transformer: Transformer,
    problem: RetrievalProblem,
    batch: Batch,
    paths: Sequence[AttentionPath],
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
        ablated=_ablated(evaluator, paths),
        maps=role_maps(patterns, evaluator.where),
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


def _ablated(evaluator: Evaluator, paths: Sequence[AttentionPath]) -> Float[Tensor, "path sequence hop"]:
    """The errors with each path's row uniform; layer by layer, so that what lies below a layer is computed once."""
    errors: dict[AttentionPath, Tensor] = {}
    for layer in sorted({path.layer for path in paths}):
        in_layer = [path for path in paths if path.layer == layer]
        errors |= dict(zip(in_layer, evaluator.errors([{path.row: UNIFORM} for path in in_layer]), strict=True))
    return torch.stack([errors[path] for path in paths])
