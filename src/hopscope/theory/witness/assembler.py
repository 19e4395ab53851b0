"""From a program to the weights of the project's own transformer, every number set by hand, without training."""

from __future__ import annotations

import torch

from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Attention, Block, Transformer
from hopscope.theory.witness.program import Head, LayerProgram


@torch.no_grad()
def assemble(program: LayerProgram, spare_heads: int = 0) -> Transformer:
    """The transformer of a program, without MLPs or LayerNorm.

    Args:
        program: the program.
        spare_heads: number of heads to add to every layer, all zero: they attend uniformly and write nothing.
    """
    problem = program.problem
    at = _offsets(program)
    shape = Architecture(
        d_input=problem.input_dim,
        d_output=problem.target_dim,
        reads=problem.chains,
        layers=len(program.layers),
        heads=max(len(heads) for heads in program.layers) + spare_heads,
        d_model=sum(program.slots.values()),
        head_dim=max(_width(program, head) for heads in program.layers for head in heads),
        mlp=False,
        causal=problem.causal,
        layer_norm=False,
    )
    transformer = Transformer(shape)
    embed, read = transformer.embed.weight[0], transformer.read.weight[0]
    embed[: problem.symbol_dim, at[program.symbol]] = torch.eye(problem.symbol_dim)
    embed[problem.symbol_dim :, at[program.code]] = torch.eye(problem.code_dim)
    for hop, slot in enumerate(program.answers):
        read[at[slot], hop * problem.symbol_dim : (hop + 1) * problem.symbol_dim] = torch.eye(problem.symbol_dim)
    for block, heads in zip(transformer.blocks, program.layers, strict=True):
        assert isinstance(block, Block)
        for number, head in enumerate(heads):
            _write_head(block.attention, number * shape.d_head, head, at)
    return transformer


def _write_head(attention: Attention, start: int, head: Head, at: dict[str, slice]) -> None:
    """Fill the columns of one head (the rows, in the output weights), which begin at `start`."""
    # The model divides scores by sqrt(d_head); a program's scores must come out as they are.
    undo = attention.d_head**0.5
    column = start
    for term in head.terms:
        end = column + term.key_map.shape[1]
        if term.query is None:
            attention.query.bias[0, 0, column:end] = undo * term.query_map[0]
        else:
            attention.query.weight[0, at[term.query], column:end] = undo * term.query_map
        attention.key.weight[0, at[term.key], column:end] = term.key_map
        column = end
    column = start
    for source, filled in head.copies:
        width = at[source].stop - at[source].start
        attention.value.weight[0, at[source], column : column + width] = torch.eye(width)
        attention.out.weight[0, column : column + width, at[filled]] = torch.eye(width)
        column += width


def _offsets(program: LayerProgram) -> dict[str, slice]:
    places, start = {}, 0
    for name, width in program.slots.items():
        places[name] = slice(start, start + width)
        start += width
    return places


def _width(program: LayerProgram, head: Head) -> int:
    """The width that a head needs: numbers that it compares or that it copies, whichever is more."""
    compared = sum(term.key_map.shape[1] for term in head.terms)
    return max(compared, sum(program.slots[source] for source, _ in head.copies))
