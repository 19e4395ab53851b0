"""Rewired sequences, as vectors and as text: what changes and what does not; and what rows collect in them."""

from __future__ import annotations

import pytest
import torch
from small_models import PROBLEM, random_model
from tokenizers_made import tokenizer

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.counterfactual import values_rewired
from hopscope.circuits.evaluate.interchange import errors_alike, errors_rewired
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.language.text_batch import text, text_batch, words_rewired
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member
from hopscope.problem.text.tokens import written
from hopscope.problem.vectors import sample
from hopscope.training.data import held_out

ROWS = [HeadRow(0, 1, role) for role in range(5)] + [HeadRow(1, 0, 4), HeadRow(1, 2, 1)]


@pytest.mark.parametrize(
    ("graph", "hops", "fact", "value"),
    [
        ("chain", 3, 1, ">x1"),
        ("chain", 3, 3, ">x3"),
        ("relatives", 4, 2, ">mother"),
        ("functions", 3, 1, ">0"),
        ("functions", 3, 3, ">3"),
    ],
)
@pytest.mark.parametrize("by", [1, 2])
def test_values_of_one_fact_are_other_chains_and_nothing_else_changes(graph, hops, fact, value, by) -> None:
    problem = RetrievalProblem(hops, 3, graph=graph)
    here = sample(problem, 16, torch.Generator().manual_seed(0))
    rewired = values_rewired(problem, here, fact, by)
    there, symbol = rewired.sequences, problem.symbol_dim
    role = problem.roles.index(value)
    assert problem.fact_of(role) == fact
    assert torch.equal(there.place, here.place)
    assert torch.equal(there.targets, here.targets)
    assert torch.equal(there.inputs[..., symbol:], here.inputs[..., symbol:])
    number, at = torch.arange(16)[:, None], here.place[:, :3, role]
    assert torch.equal(there.inputs[number, at, :symbol], here.inputs[number, at.roll(-by, dims=1), :symbol])
    changed = (there.inputs != here.inputs).any(dim=-1)
    assert changed.sum(dim=1).tolist() == [3] * 16
    assert bool(changed[number, at].all())


@pytest.mark.parametrize("kind", ["characters", "words", "short", "chat"])
@pytest.mark.parametrize(("pair", "by"), [(1, 1), (2, 1), (2, 3)])
def test_text_says_another_chains_value_and_nothing_else(kind, pair, by) -> None:
    """Put together it is the text with the words exchanged, of however many tokens they are."""
    made, task = tokenizer(kind), text("equations", 2)
    here = text_batch(task, made, 12, 3)
    rewired = words_rewired(here, pair, by)
    there = rewired.sequences
    for number, question in enumerate(task.questions(12, 3)):
        prompt, first = written(question, made)
        stands = {span.chain: span for span in question.mentions() if span.role == f">x{pair}"}
        wanted, end = "", 0
        for chain, span in sorted(stands.items(), key=lambda one: one[1].start):
            other = stands[(chain + by) % 4]
            wanted += prompt[end : first + span.start] + prompt[first + other.start : first + other.end]
            end = first + span.end
        wanted += prompt[end:]
        length = int(here.answer[number]) + 1
        found = there.inputs[number, :length].tolist()
        said = "".join(made.convert_ids_to_tokens(found)) if kind == "characters" else made.decode(found)
        assert said == wanted
        assert (there.line[number, :length].diff() >= 0)[: int(there.line[number].argmax())].all()
    known = here.place >= 0
    assert torch.equal(there.place >= 0, known)
    sequence, _, _ = known.nonzero(as_tuple=True)
    at = there.place[known]
    assert torch.equal(at, rewired.at[sequence, here.place[known]])
    assert torch.equal(there.role[sequence, at], here.role[sequence, here.place[known]])
    assert torch.equal(there.chain[sequence, at], here.chain[sequence, here.place[known]])
    assert torch.equal(there.line[sequence, at], here.line[sequence, here.place[known]])
    names = there.inputs.gather(1, there.place[..., first_member(pair)])
    assert torch.equal(names, here.inputs.gather(1, here.place[..., first_member(pair)]))


def _evaluator(**kinds: bool) -> VectorEvaluator:
    return VectorEvaluator(random_model(PROBLEM, **kinds), PROBLEM, held_out(PROBLEM, 12, 0, "rewired"))


@pytest.mark.parametrize("mlp", [True, False])
def test_rows_write_what_they_gather_there_on_average_and_all_else_is_read_here(mlp: bool) -> None:
    """By hand, block by block, there for each chain that a value may be of; biases are counted once."""
    evaluator = _evaluator(mlp=mlp)
    model, where = evaluator.transformer, evaluator.where
    program: Interventions = dict.fromkeys(ROWS, UNIFORM) | {HeadRow(0, 0, 3): one_hot(2)}
    theres = [evaluator.rewired(2, by).sequences for by in range(PROBLEM.chains)]
    assert torch.equal(theres[0].batch.inputs, evaluator.batch.inputs)

    def own(block, edit, layer, x):
        normed = block.attention_norm(x)
        return normed, edit.pattern(layer, block.attention.pattern(normed, normed))

    with torch.no_grad():
        x, *ys = (model.embed(source.batch.inputs[None]) for source in (evaluator, *theres))
        for layer, block in enumerate(model.blocks):
            normed, p = own(block, evaluator.edit(program), layer, x)
            off = torch.zeros_like(p, dtype=torch.bool)
            for row in ROWS:
                if row.layer == layer:
                    off[0, :, row.head] |= (where.role == row.query)[..., None] & ~torch.eye(p.shape[-1]).bool()
            zero, write, total = torch.zeros_like(p), block.attention.write, torch.zeros_like(x)
            for number, there in enumerate(theres):
                normed_there, q = own(block, there.edit(program), layer, ys[number])
                alone = write(torch.where(off, q, zero), normed_there) - write(zero, normed_there)
                total += alone / PROBLEM.chains
                ys[number] = ys[number] + write(q, normed_there)
            x = x + write(torch.where(off, zero, p), normed) + total
            if mlp:
                x, *ys = (stream + block.mlp(block.mlp_norm(stream)) for stream in (x, *ys))
        wanted = evaluator.squared_errors(x[:, :, -PROBLEM.chains :]).double().mean(dim=1)
    found = errors_rewired(evaluator, program, {}, ROWS, 2)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert float((found - errors_alike(evaluator, program, {})).abs().max()) > 1e-2
