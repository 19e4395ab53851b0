"""A negative control on the weights: an untrained head must not do what a head of the circuit does."""

from __future__ import annotations

import torch

from hopscope.circuits.certificate.evidence import COUNTS, Evidence, by_sequence
from hopscope.circuits.certificate.part import Part, tidy
from hopscope.circuits.evaluator import Evaluator
from hopscope.model.initial import initialise
from hopscope.model.transformer import Attention, Block, Transformer


def untrained(evidence: Evidence) -> Part:
    """The circuit in the same model with one of its heads untrained, head by head, and with all of them untrained.

    Nothing is imposed on patterns here: the head's queries, keys, values and output get initial weights, and what was
    in them was needed or was not. Passes if each time the loss lies above the bar for sure, and a fifth of it above the
    circuit's own.
    """
    heads = sorted({(row.layer, row.head) for row in evidence.rows})
    exempt = {(row.layer, row.head) for row in evidence.exempt}
    fresh, some = fresh_weights(evidence), [[head] for head in heads] + [heads]
    programs = [evidence.natural if exempt & {*chosen[:1]} else evidence.base for chosen in some]
    losses = []
    for chosen, program in zip(some, programs, strict=True):
        model = with_heads_of(fresh, evidence.evaluator.transformer, chosen)
        losses.append(by_sequence(Evaluator(model, evidence.problem, evidence.few.batch), [program])[0])
    own = by_sequence(evidence.few, programs)
    measured = evidence.measured(losses)
    rises = evidence.measured([one - other for one, other in zip(losses, own, strict=True)])
    needed = [
        one.interval[0] > evidence.bar and rise.interval[0] > COUNTS * evidence.bar
        for one, rise in zip(measured, rises, strict=True)
    ]
    *alone, together = [one.mean for one in measured]
    says = (
        f"with any of its {len(heads)} heads untrained the circuit has a loss of at least {min(alone, default=0):.3f}"
    )
    says += f", with all of them {together:.2f}"
    if not all(needed):
        named = "; ".join(f"layer {layer + 1} head {head + 1}" for layer, head in some[needed.index(False)])
        says = f"with untrained weights in {named or 'no head'} the circuit is as good"
    rows = [
        {"head": [layer + 1, head + 1], "mse": tidy(loss)} for (layer, head), loss in zip(heads, alone, strict=True)
    ]
    return Part(all(needed), says, {"heads": rows, "all_mse": tidy(together)})


def fresh_weights(evidence: Evidence) -> Transformer:
    """A model of the same shape with initial weights."""
    model = type(evidence.evaluator.transformer)(evidence.evaluator.shape, 1)
    initialise(model, [int(torch.randint(2**31, (), generator=evidence.random("untrained")))])
    return model.requires_grad_(False)


def with_heads_of(donor: Transformer, model: Transformer, heads: list[tuple[int, int]]) -> Transformer:
    """A copy of a model with some of its heads, (layer, head) from 0, taken from another model of its shape."""
    mixed = type(model)(model.shape, 1)
    mixed.load_state_dict(model.state_dict())
    mixed.requires_grad_(False)
    width = model.shape.d_head
    for layer, head in heads:
        here, (mine, theirs) = slice(head * width, (head + 1) * width), (_attention(m, layer) for m in (mixed, donor))
        for name in ("query", "key", "value"):
            for kind in ("weight", "bias"):
                getattr(getattr(mine, name), kind)[..., here] = getattr(getattr(theirs, name), kind)[..., here]
        mine.out.weight[:, here] = theirs.out.weight[:, here]
    return mixed


def _attention(model: Transformer, layer: int) -> Attention:
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block.attention
