"""Circuits as graphs of EAP-IG and MIB, and back: a reader of our own, by what theirs takes, and the verbs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from small_decoders import decoder

from hopscope.circuits.circuit import Circuit
from hopscope.cli import program
from hopscope.errors import InputError
from hopscope.language.hooked import HookedDecoder
from hopscope.language.mib import heads_of_graph, is_parallel, write_graph
from hopscope.model.architecture import Architecture

STORED = Path(__file__).parents[2] / "results" / "explorers" / "a" / "circuit.json"


def written(folder: Path, circuit: Circuit, *, parallel: bool = False) -> tuple[Path, dict[str, Any]]:
    path = folder / "graph.json"
    write_graph(path, circuit, 64, parallel)
    return path, json.loads(path.read_text())


def place(node: str) -> float:
    """When a node writes: heads of a layer, then its MLP."""
    layer = int((re.findall(r"\d+", node) or [99])[0])
    return -1.0 if node == "input" else layer + 0.5 * node.startswith("m")


@pytest.mark.parametrize("parallel", [False, True])
def test_a_circuit_comes_back_from_its_graph(tmp_path: Path, parallel: bool) -> None:
    circuit = Circuit.load(STORED)
    path, graph = written(tmp_path, circuit, parallel=parallel)
    nodes, edges = graph["nodes"], graph["edges"]
    shape = {"n_layers": circuit.layers, "n_heads": circuit.heads, "d_model": 64}
    assert graph["cfg"] == shape | {"parallel_attn_mlp": parallel}
    used = {f"a{layer - 1}.h{head - 1}" for layer, head in circuit.used_heads}
    assert {node for node in nodes if nodes[node]["in_graph"] and node[0] == "a"} == used
    of = Architecture(1, 1, 1, circuit.layers, circuit.heads, 64)
    assert heads_of_graph(path, of) == tuple(f"L{layer}.H{head}" for layer, head in circuit.used_heads)
    wanted = {
        f"{writer}->{reader}{way}"
        for writer in nodes
        for reader in nodes
        if place(writer) < place(reader) - 0.5 * (parallel and reader[0] == "m")
        for way in (["<q>", "<k>", "<v>"] if reader[0] == "a" else [""])
    }
    assert {*edges} == wanted
    for name, edge in edges.items():
        ends = re.split("->|<", name)[:2]
        assert edge["in_graph"] == all(nodes[end]["in_graph"] for end in ends)
        assert edge["score"] == min([1.0, *(nodes[end]["score"] for end in ends if "score" in nodes[end])])


def test_heads_are_scored_in_the_order_of_the_search(tmp_path: Path) -> None:
    circuit = Circuit.load(STORED)
    _, graph = written(tmp_path, circuit)
    scores = {name: node["score"] for name, node in graph["nodes"].items() if name[0] == "a"}
    assert circuit.card is not None
    last, first = circuit.card.order[-1], circuit.search.removed[0]
    layer, head = map(int, re.findall(r"\d+", last)[:2])
    assert max(scores, key=scores.__getitem__) == f"a{layer - 1}.h{head - 1}"
    others = {row[:2] for row in circuit.search.removed[1:]} | {(a - 1, b - 1) for a, b in circuit.used_heads}
    if first[:2] not in others:
        assert scores[f"a{first.layer}.h{first.head}"] == min(score for score in scores.values() if score)
    inside = [scores[f"a{a - 1}.h{b - 1}"] for a, b in circuit.used_heads]
    assert min(inside) > max(score for score in scores.values() if score not in inside)
    with pytest.raises(InputError, match="the card of this circuit was not measured"):
        written(tmp_path, replace(circuit, card=None))


@pytest.mark.parametrize(("name", "parallel"), [("gpt neox", True), ("phi", True), ("gpt2", False), ("gemma 3", False)])
def test_mlps_beside_attention_are_recognised(name: str, parallel: bool) -> None:
    assert is_parallel(HookedDecoder(decoder(name))) == parallel


def test_files_that_are_no_graph_of_the_model_are_refused(tmp_path: Path) -> None:
    path, graph = written(tmp_path, Circuit.load(STORED))
    with pytest.raises(InputError, match="layers x 1 heads, but this has 2 x 4"):
        heads_of_graph(path, Architecture(1, 1, 1, 2, 4, 64))
    shape = Architecture(1, 1, 1, graph["cfg"]["n_layers"], graph["cfg"]["n_heads"], 64)
    for node in graph["nodes"].values():
        node |= {"in_graph": False, "score": float("nan")}  # as EAP-IG writes a node without a score
    path.write_text(json.dumps(graph))
    with pytest.raises(InputError, match="has no head in_graph; choose some by their scores"):
        heads_of_graph(path, shape)
    for text in ("[]", "{", json.dumps({"cfg": graph["cfg"]})):
        path.write_text(text)
        with pytest.raises(InputError, match=r"is no graph as Graph\.to_json of EAP-IG writes it"):
            heads_of_graph(path, shape)


@pytest.mark.slow
@pytest.mark.xdist_group("language circuits")
def test_a_graph_gets_a_card_and_a_circuit_a_graph(folder: Path, found: Circuit, tmp_path: Path) -> None:
    """The planted model's circuit of two heads, as a graph and back; each head is then active in all its rows."""
    record, graph = folder / "circuits" / "equations-1-hops.json", tmp_path / "graph.json"

    def run(*words: str) -> Any:
        return CliRunner().invoke(program, [*words])

    assert run("export", str(record), "--to", "mib", "--out", str(graph)).exit_code == 0
    assert json.loads(graph.read_text())["cfg"]["d_model"] == 224
    asked = ["circuit", "certify", str(folder), "--from", str(graph), "--formulation", "equations", "--hops", "1"]
    circuit = json.loads((done := run(*asked, "--json")).stdout)
    assert {(row["layer"], row["head"]) for row in circuit["paths"]} == {*found.used_heads}
    assert (circuit["checks"]["sufficiency"]["outcome"], done.exit_code) == ("passed", 0)
    new, other = str(tmp_path / "new.json"), tmp_path / "other.json"
    replace(found, model="0" * 16).save(other)
    for words, says in (
        ((*asked, "L1.H1"), "--from says which circuit"),
        (("export", str(STORED), "--to", "mib", "--of", str(folder), "--out", new), "is a circuit of a run"),
        (("export", str(other), "--to", "mib", "--of", str(folder), "--out", new), "is not a circuit of"),
        (("export", str(other), "--to", "mib", "--out", new), "pass --of, the language model"),
        (("export", str(record), "--to", "mib", "--out", str(graph)), "is there already"),
    ):
        assert says in str(run(*words).exception)
