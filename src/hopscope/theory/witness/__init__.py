"""Witness transformers: weights written by hand that solve D hops in the fewest layers possible.

Their circuit is known, so they are a ground truth for circuit discovery. They differ from the paper's setting: symbols
have equal length and K = 32, so that each symbol is similar only to itself. Position codes have 32 dimensions and a
base that separates neighbours. There is no LayerNorm and no MLP.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_count
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.witness.masked import causal_program
from hopscope.theory.witness.program import assemble, circuit
from hopscope.theory.witness.unmasked import unmasked_program


@dataclass(frozen=True)
class Witness:
    """A hand-built transformer (one model, in float32), its problem, and the paths that its answers depend on."""

    problem: RetrievalProblem
    transformer: Transformer
    circuit: tuple[AttentionPath, ...]


def build_witness(
    hops: int, *, causal: bool = True, chains: int = 4, curriculum: bool = True, spare_heads: int = 0
) -> Witness:
    """Build a transformer that solves D hops in the exact minimum number of layers.

    Args:
        hops: D, the number of hops.
        causal: whether to use a causal mask; layers then have one head (pointer doubling), otherwise two heads.
        chains: N, the number of chains.
        curriculum: whether the transformer answers with x1 ... x{D} (IC) or with x{D} alone.
        spare_heads: number of heads with zero weights to add to every layer.

    Raises:
        InputError: a value is out of range.
    """
    for name, value, least in (("hops", hops, 1), ("chains", chains, 1), ("spare_heads", spare_heads, 0)):
        check_count(name, value, least)
    problem = RetrievalProblem(
        hops=hops,
        chains=chains,
        symbol_dim=32,
        # The unmasked program must tell a pair's members apart, and nothing linear in token codes does.
        position="token" if causal else "pair",
        # A small base keeps neighbours far apart; `earlier` needs at least the sequence's length.
        base=1.5 * chains * (2 * hops + 1) if causal else 2.0,
        causal=causal,
        curriculum=curriculum,
        position_dim=32,
        symbols="unit",
    )
    program = (causal_program if causal else unmasked_program)(problem)
    return Witness(problem, assemble(program, spare_heads), circuit(program))
