"""The network in the page against PyTorch: answers, losses, interventions, information flow; the text of a state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from explorer_pages import chunk_json, in_node, unpack
from small_models import random_model

from hopscope.circuits.evaluate.ablations import ALIKE, IDENTITY, UNIFORM, ZERO, Ablation, AblationKind, one_hot
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.explorer.arrays import batch_of, half, pack, prompts, weights
from hopscope.explorer.manifest import _problem
from hopscope.model.architecture import Architecture
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import plain
from hopscope.theory.path_flow import deliver

FORMS = {
    "nothing": {},
    "uniform": UNIFORM,
    "identity": IDENTITY,
    "zero": ZERO,
    "one_hot": one_hot(5),
    "knock_out": Ablation(AblationKind.KNOCK_OUT, (5, 7)),
    "alike": ALIKE,
    "mixture": Ablation(AblationKind.MIXTURE, (5, 7), (0.3, 0.7)),
    "mean": Ablation(AblationKind.MEAN, (), tuple(np.linspace(0, 1, 18).tolist())),
}

SHAPES = {
    "A": (RetrievalProblem(hops=4), {"layers": 12, "heads": 1, "d_model": 128}),
    "D": (RetrievalProblem(hops=4), {"layers": 24, "heads": 1, "d_model": 512, "head_dim": 16, "mlp": False}),
    "laptop": (RetrievalProblem(hops=4), {"layers": 4, "heads": 8, "d_model": 64, "head_dim": 16, "mlp": False}),
    "other scores, no mask, no norm, other order": (
        RetrievalProblem(hops=4, causal=False, order="1,2,4,3", curriculum=False, chains=3),
        {"layers": 3, "heads": 2, "d_model": 32, "causal": False, "layer_norm": False, "score_scale": "d_model"},
    ),
}  # fmt: skip

RUN = """
const { problem, shape, names, weights, symbols, places, programs } = given;
const net = network(shape, names, await unpack(weights.head, weights.text));
const arrays = { symbols: await unpack(symbols.head, symbols.text), places: await unpack(places.head, places.text) };
const model = { problem, live: { count: 2 }, arrays };
return [0, 1].map((n) => {
  const prompt = promptOf(model, n), whole = forward(net, prompt.inputs, null, { all: true });
  return programs.map((rows) => {
    const program = new Map(rows.map(([name, form]) => [name, form])), edit = editOf(program, prompt, shape.causal);
    const start = Math.min(firstLayer(program, shape.layers), shape.layers - 1);
    const out = forward(net, prompt.inputs, edit, { start, streams: whole.streams });
    const again = rows.length && rows[0][1].kind !== "uniform" ? out : forward(net, prompt.inputs, edit);
    return { errors: [...errors(problem, prompt, out.answers)], answers: [...out.answers], again: [...again.answers] };
  });
});
"""


def model_of(problem: RetrievalProblem, shape: dict[str, object]) -> Transformer:
    """Random weights whose patterns are far from uniform."""
    architecture = Architecture(d_input=problem.input_dim, d_output=problem.target_dim, reads=problem.chains, **shape)  # type: ignore[arg-type]
    model = Transformer(architecture)
    initialise(model, [0])
    with torch.no_grad():
        for block in model.blocks:
            block.attention.query.weight.mul_(4)
    return model.requires_grad_(False)


def form_json(row: HeadRow, form: Ablation) -> list[object]:
    fields = {"kind": form.kind.value, "keys": list(form.keys), "weights": list(form.weights)}
    return [f"{row.layer}.{row.head}.{row.query}", fields]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("A", "D") else []) for name in SHAPES]
)
def test_answers_and_losses_are_those_of_pytorch_under_every_intervention(name):
    problem, shape = SHAPES[name]
    model = half(model_of(problem, shape))
    batch = batch_of(problem)[:2]
    evaluator = VectorEvaluator(model, problem, batch)
    rows = [HeadRow(layer, head, query) for layer in (1, 2) for head in range(model.shape.heads) for query in (8, 1)]
    programs = [dict.fromkeys(rows, form) if form else {} for form in FORMS.values()]
    packed = weights(model)
    given = {
        "problem": _problem(problem),
        "shape": plain(model.shape) | {"d_head": model.shape.d_head, "divisor": model.shape.divisor},
        "names": packed[0],
        "weights": chunk_json(packed[1]),
        **{name: chunk_json(chunk) for name, chunk in prompts(problem).items()},
        "programs": [[form_json(*row_and_form) for row_and_form in program.items()] for program in programs],
    }
    found = in_node(RUN, given)
    expected = evaluator.errors(programs)
    errors = torch.tensor([[program["errors"] for program in programs] for programs in found]).transpose(0, 1)
    assert (errors - expected).abs().max() < 1e-3
    answers = torch.tensor([programs[0]["answers"] for programs in found]).view_as(model(batch.inputs[None])[0])
    assert (answers - model(batch.inputs[None])[0]).abs().max() < 1e-3
    again = [(program["answers"], program["again"]) for programs in found for program in programs]
    assert all(first == other for first, other in again)  # from the trunk or from nothing
    spread = (expected - expected[:1]).abs().amax(dim=(1, 2))
    assert (spread[1:] > 1e-3).all(), "an intervention that does nothing proves nothing"


def test_half_precision_costs_less_than_a_thousandth():
    problem, shape = SHAPES["laptop"]
    model = model_of(problem, shape)
    batch = batch_of(problem)
    whole, stored = (VectorEvaluator(transformer, problem, batch).mse([{}])[0] for transformer in (model, half(model)))
    assert whole != stored
    assert abs(whole - stored) < 1e-3
    large = random_model(problem, spread=1e6)
    assert weights(large)[1].dtype == "float32"  # half precision ends at 65,504
    assert torch.isfinite(half(large).embed.weight).all()


@pytest.mark.parametrize(
    ("dtype", "delta"), [("uint8", False), ("uint8", True), ("uint16", False), ("float16", False), ("float32", False)]
)
def test_arrays_come_back_as_they_went(dtype, delta):
    array = (np.abs(np.random.default_rng(0).normal(size=(5, 3, 4))) * 60).astype(dtype)
    chunk = pack(array, delta=delta)
    assert (unpack(chunk) == array).all()
    found = in_node("return [...await unpack(given.head, given.text)];", chunk_json(chunk))
    assert (np.array(found, dtype=np.float32) == array.reshape(-1).astype(np.float32)).all()


def test_the_flow_along_paths_is_the_theorys():
    paths = [AttentionPath(0, 0, 1, 0), AttentionPath(0, 0, 3, 2), AttentionPath(1, 0, 6, 1), AttentionPath(1, 0, 6, 5)]
    asked = """const known = (held) => [0, 1, 2, 3].filter((k) => knows(held[6], k));
    return given.sets.map((paths) => alongPaths(given.start.map(BigInt), 3, paths).map(known));"""
    sets = [paths, paths[:2], paths[2:], [*paths, AttentionPath(2, 0, 6, 3)]]
    given = [[path._asdict() for path in cut] for cut in sets]
    found = in_node(asked, {"start": [3 << place for place in (1, 2, 3, 4, 5, 6, 0)], "sets": given})
    for cut, history in zip(sets, found, strict=True):
        growth = deliver(3, cut).growth
        expected = [[int(name[1:]) for name in held if name.startswith("x")] for held in growth]
        assert history[: len(expected)] == expected
    assert found[3][3] == [0, 1, 2]


def test_a_state_comes_back_from_its_text_and_nonsense_becomes_the_nearest_state():
    limits = [{"checkpoints": 10, "paths": 5, "heads": 8, "steps": 5}]
    limits.append({"checkpoints": 1, "paths": 0, "heads": 2, "steps": 1})
    code = """const round = (text) => { const state = fromHash(text, given); return state && toHash(state); };
    return ["v1.m0.t4", "v1.m0.t9.p3.q1.x2-4.a1.s40.b1.v3.k0.c0-2-1", "v1.m1.t99.p3.x0-7", "#v1.m7.t-3.x9-1-1", "v2.m0",
      "", "v1.m0.c9-9.<b>"].map(round);"""
    read = ["v1.m0.t4", "v1.m0.t9.p3.q1.x2-4.a1.b1.v3.s40.k0.c0-2-1", "v1.m1.t0", "v1.m0.t9.x1", None, None, "v1.m0.t9"]
    assert in_node(code, limits) == read
