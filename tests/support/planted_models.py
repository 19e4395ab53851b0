"""Models by hand: witnesses whose heads share work, cancel, back up or do harm, and what the checks must notice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks import MEASURED
from hopscope.circuits.checks.card import CertificateConfig, Check, CheckName, Patterns
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.evaluate.ablations import POSITIONAL, UNIFORM, Ablation, one_hot
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Attention, Block, Transformer
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import position_codes
from hopscope.theory.witness import Witness, build_witness
from hopscope.theory.witness.program import Head, LayerProgram, Term, assemble, same_code, same_symbol
from hopscope.training.data import held_out
from studies.calibration import resting as rests
from studies.calibration.altered import Altered, BlockWithMore, tying_path
from studies.calibration.sink import Sink, with_sink

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
    return model.blocks[layer].attention


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
    """Two heads do the last of two hops; without the second, the loss stays below the threshold."""
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
    return Evidence(evaluator, Units.of(evaluator), program | (change or {}), **options)


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


def _evidence(
    altered: Altered, known: Witness, change: dict[HeadRow, Ablation] | None = None, patterns: Patterns = "own"
) -> Evidence:
    """The known model's circuit, and some rows changed, in the altered model."""
    module: Any = altered.model(known.problem)
    batch = held_out(known.problem, 64, 0, "circuit search")
    evaluator = VectorEvaluator(module.transformer, known.problem, batch)
    circuit = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in known.circuit}
    return Evidence(evaluator, Units.of(evaluator), circuit | (change or {}), 0.05, 1, LITTLE, patterns)


def sink() -> Evidence:
    """The witness of three hops with a head that rests at a key of its chain and reads nothing; claimed as a path."""
    known, rest = witness(3), Sink(0, 1, 5)
    path = tying_path(known.problem, rest.layer, known.transformer.shape.heads, rest.pair)
    return _evidence(with_sink(known, rest), known, {path.row: one_hot(path.key)})


def resting(weight: float) -> tuple[Evidence, AttentionPath]:
    """The witness of three hops with one head more, which rests: most of its weight is where it reads nothing. Its row
    is at its positional mean; and the path to what it attends to with that weight."""
    known, rest = build_witness(hops=3), rests.Rest(0, 2, weight, 0)
    known.transformer.requires_grad_(False)
    path = tying_path(known.problem, rest.layer, known.transformer.shape.heads, rest.pair)
    return _evidence(rests.resting(known, rest), known, {path.row: POSITIONAL}), path


class _TwoHeads(BlockWithMore):
    """A block with two heads more, of one pattern; one writes what it `reads`, the other its opposite."""

    def __init__(
        self, block: Block, own: Float[Tensor, "query key"], reads: Callable[[Tensor], Tensor], gain: float
    ) -> None:
        super().__init__(block, own, more=2)
        self.reads, self.gain = reads, gain

    def written(
        self, pattern: Float[Tensor, "sequence head query key"], normed: Float[Tensor, "1 sequence pos d_model"]
    ) -> Float[Tensor, "sequence pos d_model"]:
        before: Tensor = self.attention.write(pattern[None, :, :-2], normed)[0]
        return before + self.gain * (self.reads(pattern[:, -2]) - self.reads(pattern[:, -1]))[..., None]


def _cancelling(
    own: Float[Tensor, "query key"], reads: Callable[[Tensor], Tensor], gain: float, patterns: Patterns
) -> Evidence:
    known = witness(2)
    alter = lambda layer, block: _TwoHeads(block, own, reads, gain if layer == 1 else 0.0)
    return _evidence(Altered(known.transformer, alter), known, patterns=patterns)


def cancelling_at_rest(patterns: Patterns) -> Evidence:
    """Two heads that cancel. Both attend to themselves and write what they attend to elsewhere; alone, either harms."""
    itself = torch.eye(witness(2).problem.sequence_length)
    return _cancelling(itself, lambda pattern: (pattern * (1 - itself)).sum(dim=-1), 3.0, patterns)


def cancelling_little(patterns: Patterns) -> Evidence:
    """Two heads that cancel. Both put a little weight on the position before, and write what they attend to there."""
    own = torch.eye(witness(2).problem.sequence_length)
    after = torch.arange(1, len(own))
    own[after, after], own[after, after - 1] = 0.95, 0.05

    def before(pattern: Float[Tensor, "sequence query key"]) -> Float[Tensor, "sequence query"]:
        return torch.nn.functional.pad(pattern.diagonal(-1, dim1=1, dim2=2), (1, 0))

    return _cancelling(own, before, 100.0, patterns)


PAIR = RetrievalProblem(hops=1, symbol_dim=64, position="pair", base=2.0, causal=False, position_dim=32, symbols="unit")
"""One hop without a mask: the members of a pair exchange their symbols, so that either would answer the query."""
PAIR_CIRCUIT = (AttentionPath(0, 0, 0, 1), AttentionPath(1, 0, 2, 0))
"""The first member of a pair attends to the second; the query attends to the first, which holds both symbols then."""
SCORE = 3000.0
"""Of a match: all weight is on what matches."""
LARGE, FLAT = HeadRow(1, 1, 2), HeadRow(1, 2, 2)
"""Of `large_background`, the row of the head of large magnitude, and of one that subtracts what all rows share."""


@torch.no_grad()
def two_keys(share: float, alternating: float = 0.0) -> Witness:
    """The query reads x0 and x1 from either member of the pair, a `share` of them from `x0>`; its circuit names that.

    `alternating` is how much the choice depends on the symbol; from 100 on, most queries attend to one member alone.
    """
    first = torch.eye(PAIR.symbol_dim)[:, :1]
    terms = (
        same_symbol(PAIR, "symbol", "symbol", SCORE + math.log(share / (1 - share))),
        same_symbol(PAIR, "symbol", "partner", SCORE),
        Term("symbol", "symbol", alternating * first, first),
        _no_query(),
    )
    model = _exchange_then((Head(terms, (("symbol", "sum"), ("partner", "sum")), {}),), ("sum",))
    start, width = PAIR.code_dim, PAIR.symbol_dim
    model.read.weight[0, start : start + width] -= torch.eye(width)  # what is read is x0 + x1, and x0 is known
    return Witness(PAIR, model.requires_grad_(False), PAIR_CIRCUIT)


@torch.no_grad()
def large_background(share: float, score: float) -> Witness:
    """One head reads x1 clearly at `x0>`; another, not in the circuit, writes a `share` of it by little attention.

    `score` is what its own `x0>` has above any other row; below 0 it attends everywhere else.
    """
    heads = tuple(
        Head((*(same_symbol(PAIR, "symbol", "symbol", match) for match in scores), _no_query()), (("partner", to),), {})
        for scores, to in (((SCORE,), "clear"), ((score,), "large"), ((), "flat"))
    )
    model = _exchange_then(heads, ("clear", "large", "flat"))
    rows, width = 2 * PAIR.chains, PAIR.symbol_dim
    gain = share / (math.exp(score) / (math.exp(score) + rows - 1) - 1 / rows)
    clear = PAIR.code_dim + 2 * width
    for number, weight in enumerate((1 - share, gain, -gain)):
        model.read.weight[0, clear + number * width :][:width] = weight * torch.eye(width)
    return Witness(PAIR, model.requires_grad_(False), PAIR_CIRCUIT)


def _exchange_then(heads: tuple[Head, ...], slots: tuple[str, ...]) -> Any:
    """The members of a pair exchange their symbols, then these heads attend; the first of their slots is read."""
    exchange = Head(
        (same_code(PAIR, "code", "code", 800.0), same_symbol(PAIR, "symbol", "symbol", -60.0)),
        (("symbol", "partner"),),
        {},
    )
    sizes = {"code": PAIR.code_dim} | dict.fromkeys(("symbol", "partner", *slots), PAIR.symbol_dim)
    return assemble(LayerProgram(PAIR, sizes, "symbol", "code", ((exchange,), heads), slots[:1]))


def _no_query() -> Term:
    """A term that keeps a head from attending to queries."""
    codes = position_codes(PAIR).double()
    is_query = torch.zeros(len(codes), 1, dtype=torch.float64)
    is_query[-PAIR.chains :] = -1
    found = torch.linalg.lstsq(codes, is_query, driver="gelsd").solution.float()
    return Term(None, "code", torch.ones(1, 1), 4000.0 * found)


def run_checks(evidence: Evidence) -> dict[CheckName, Check]:
    """The six checks of a circuit."""
    return {name: measure(evidence) for name, measure in MEASURED.items()}
