"""Witnesses with something planted in them: heads that share work, cancel, back up, or do harm."""

from __future__ import annotations

import torch

from hopscope.circuits.checks import CertificateConfig, Evidence
from hopscope.circuits.evaluate.ablations import UNIFORM, Ablation, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Attention, Block, Transformer
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import position_codes
from hopscope.theory.witness import Witness, build_witness
from hopscope.training.data import held_out

LAST_OF_TWO = AttentionPath(2, 0, 4, 3)
"""The last path of the witness of two hops."""

LITTLE = CertificateConfig(sequences=48, deciding=192, few=24, draws=60, halves=16)


def witness(hops: int, spare_heads: int = 1, noise: float = 2e-5, curriculum: bool = True) -> Witness:
    """A fresh witness whose weights may be changed; the spare heads write nothing and attend uniformly."""
    made = build_witness(hops, spare_heads=spare_heads, curriculum=curriculum)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.transformer.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * noise * parameter.abs().max())
    return made


def attention(model: Transformer, layer: int) -> Attention:
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block.attention


def columns(model: Transformer, head: int) -> slice:
    return slice(head * model.shape.d_head, (head + 1) * model.shape.d_head)


@torch.no_grad()
def copy_head(model: Transformer, layer: int, source: int, target: int, gain: float = 1.0) -> None:
    """Make one head attend as another does, and write `gain` times what it writes."""
    at, one, other = attention(model, layer), columns(model, source), columns(model, target)
    for linear in (at.query, at.key, at.value):
        linear.weight[..., other] = linear.weight[..., one]
        linear.bias[..., other] = linear.bias[..., one]
    at.out.weight[:, other] = gain * at.out.weight[:, one]


@torch.no_grad()
def louder(model: Transformer, layer: int, head: int, gain: float) -> None:
    """Make a head write `gain` times what it writes."""
    attention(model, layer).out.weight[:, columns(model, head)] *= gain


def shared_answer(spare_heads: int = 1) -> Witness:
    """Two heads do the last of two hops, and the share of the second is so small that the loss stays below the
    threshold without it."""
    made = witness(2, spare_heads)
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 1, 0.3)
    louder(made.transformer, LAST_OF_TWO.layer, 0, 0.7)
    return made


def cancelling_heads(made: Witness) -> None:
    """Three pairs of heads beside the last one of two hops: uniform or not, together they do nothing."""
    for head in (1, 3, 5):
        copy_head(made.transformer, LAST_OF_TWO.layer, 0, head, 0.2)
        copy_head(made.transformer, LAST_OF_TWO.layer, 0, head + 1, -0.2)


def evidence_of(
    made: Witness,
    change: dict[HeadRow, Ablation] | None = None,
    *,
    paths: tuple[AttentionPath, ...] | None = None,
    **options,
) -> Evidence:
    """The built-in circuit, imposed, on fresh sequences; or other paths, or some rows changed."""
    batch = held_out(made.problem, 64, 0, "circuit search")
    evaluator = VectorEvaluator(made.transformer, made.problem, batch)
    program = dict.fromkeys(evaluator.rows, UNIFORM)
    program |= {path.row: one_hot(path.key) for path in (made.circuit if paths is None else paths)}
    options = {"max_loss": 0.05, "seed": 1, "proof": LITTLE, **options}
    return Evidence(evaluator, Units.of(evaluator).hypotheses, program | (change or {}), **options)


def also(*heads: int) -> dict[HeadRow, Ablation]:
    """The last path claimed of other heads too."""
    return {LAST_OF_TWO._replace(head=head).row: one_hot(LAST_OF_TWO.key) for head in heads}


@torch.no_grad()
def by_place() -> Witness:
    """One chain, one hop: the query looks where x1 always stands, though nothing tells it that it is its own.

    A second head attends by content, and writes next to nothing.
    """
    problem = RetrievalProblem(hops=1, chains=1, symbol_dim=16)
    width, symbol = problem.input_dim, problem.symbol_dim
    shape = Architecture(width, symbol, 1, 1, 2, width + symbol, head_dim=symbol, mlp=False, layer_norm=False)
    model, eye = Transformer(shape).requires_grad_(False), torch.eye(symbol)
    model.embed.weight[0, :width, :width] = torch.eye(width)
    at, first, second = attention(model, 0), slice(symbol), slice(symbol, 2 * symbol)
    at.query.bias[0, 0, 0] = 30.0 * symbol**0.5
    at.key.weight[0, symbol:width, 0] = torch.linalg.pinv(position_codes(problem))[:, 1]
    at.query.weight[0, first, second], at.key.weight[0, first, second] = eye.roll(1, 0), eye
    at.value.weight[0, first] = torch.cat((eye, eye), dim=1)
    at.out.weight[0, first, width:], at.out.weight[0, second, width:] = eye, 0.1 * eye
    model.read.weight[0, width:] = eye
    return Witness(problem, model, (AttentionPath(0, 0, 2, 1),))
