"""Circuits as graphs of EAP-IG and of MIB's circuit track (Hanna et al. 2024; Mueller et al. 2025), in JSON.

The nodes of a graph are heads (`a0.h0` is our L1.H1), MLPs (`m0`), `input` and `logits`. An edge leads from a node that
writes into the stream to a node that reads it; a head has three inputs, `<q>`, `<k>` and `<v>`. A graph has no roles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from hopscope.circuits.circuit import Circuit
from hopscope.errors import InputError, in_a_line
from hopscope.model.architecture import Architecture
from hopscope.model.hooks import HookedModel, Patched
from hopscope.records import read_bytes, write_text

_HEAD = re.compile(r"a(\d{1,4})\.h(\d{1,4})")


def write_graph(path: Path, circuit: Circuit, width: int, parallel: bool) -> None:
    """Write a circuit as a graph that `Graph.from_json` of EAP-IG reads, with a score for every head.

    The graph includes the heads with an active row and all MLPs. MLPs get no score, since circuits do not ablate them.
    The score of a head, from 0 to 1, is the rank of its last row in the order in which rows are removed: first the rows
    that the search ablated, then the rows of the circuit, the least important first. A head without such rows gets 0.
    The score of an edge is the lower score of its two ends. An edge is in the graph if both of its ends are.

    `width` is that of the stream; `parallel` is whether an MLP reads the same stream as the attention of its layer.

    Raises:
        InputError: no circuit was found, or its card was not measured.
    """
    went = [(row.layer + 1, row.head + 1) for row in circuit.search.removed]
    for row in circuit.measured_card.order:
        layer, head = re.findall(r"\d+", row)[:2]
        went.append((int(layer), int(head)))
    last = {head: (number + 1) / len(went) for number, head in enumerate(went)}
    nodes: dict[str, dict[str, Any]] = {"input": {"in_graph": True}}
    for layer in range(circuit.layers):
        for head in range(circuit.heads):
            here = layer + 1, head + 1
            nodes[f"a{layer}.h{head}"] = {"in_graph": here in circuit.used_heads, "score": last.get(here, 0.0)}
        nodes[f"m{layer}"] = {"in_graph": True}
    nodes["logits"] = {"in_graph": True}
    edges = {
        name: {
            "score": min(nodes[end].get("score", 1.0) for end in ends),
            "in_graph": all(nodes[end]["in_graph"] for end in ends),
        }
        for name, ends in _edges(circuit.layers, circuit.heads, parallel)
    }
    shape = {"n_layers": circuit.layers, "n_heads": circuit.heads, "parallel_attn_mlp": parallel, "d_model": width}
    write_text(path, json.dumps({"cfg": shape, "nodes": nodes, "edges": edges}) + "\n")


def _edges(layers: int, heads: int, parallel: bool) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name of every edge of a model, and the two nodes that the edge connects."""
    before = ["input"]
    for layer in range(layers):
        here, mlp = [f"a{layer}.h{head}" for head in range(heads)], f"m{layer}"
        yield from ((f"{one}->{head}<{way}>", (one, head)) for one in before for head in here for way in "qkv")
        yield from ((f"{one}->{mlp}", (one, mlp)) for one in (before if parallel else before + here))
        before += [*here, mlp]
    yield from ((f"{one}->logits", (one, "logits")) for one in before)


def heads_of_graph(path: Path, shape: Architecture) -> tuple[str, ...]:
    """Return the heads in a graph, as `L1.H1`.

    Raises:
        InputError: the file holds no graph, the graph's model has another shape, or no head is in the graph.
    """
    written = read_bytes(path, "a graph as Graph.to_json of EAP-IG writes it")
    try:
        graph = json.loads(written)  # strict readers refuse NaN, which a score may be
        layers, heads = (int(graph["cfg"][name]) for name in ("n_layers", "n_heads"))
        inside = [name for name, node in graph["nodes"].items() if node["in_graph"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is no graph as Graph.to_json of EAP-IG writes it ({type(error).__name__}: {in_a_line(error)})"
        ) from None
    if (layers, heads) != (shape.layers, shape.heads):
        raise InputError(
            f"{path} is for a model of {layers} layers x {heads} heads, but this has {shape.layers} x {shape.heads}"
        )
    found = [(int(head[1]) + 1, int(head[2]) + 1) for name in inside if (head := _HEAD.fullmatch(name))]
    if not found:
        raise InputError(f"{path} has no head in_graph; choose some by their scores first, with apply_topn of EAP-IG")
    return tuple(f"L{layer}.H{head}" for layer, head in sorted(found))


def is_parallel(model: HookedModel) -> bool:
    """Whether the MLP of a language model's first layer reads the same stream as its attention, without its output.

    If so, removing the attention's output from the layer changes the layer's output by exactly that.
    """
    stream = model.embed(torch.zeros(1, 1, 4, dtype=torch.long))
    off = Patched(written={0: torch.zeros_like(stream)})
    whole, without = model.run(stream, stop=1), model.run(stream, stop=1, hooks=off)
    return torch.allclose(whole - without, off.written[0], rtol=1e-3, atol=1e-4)
