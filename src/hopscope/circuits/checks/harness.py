"""Do the tools do what they say? The evaluator is compared with the plain transformer, run independently."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.circuits.checks.certificate import Part, tidy
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.evaluate.ablations import ALIKE, RESAMPLE, Ablation, AblationKind, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.role_maps import Sequences
from hopscope.model.hooks import Hooks, Pattern
from hopscope.problem.paths import HeadRow

_SAME = 1e-4
"""The largest difference in a loss that two orders of summation in fp32 may make."""

_MOVED = 1e-3
"""How much other patterns must change some loss at least."""


def harness(evidence: Evidence) -> Part:
    """Does the evaluator give what the plain transformer gives when every pattern is put in its place by hand?

    The plain transformer is run on the model's weights with this file's own edit. First the patterns recorded from the
    model are replayed; then programs are written position by position from where the chains stand: the imposed circuit,
    the natural one, and for every layer one with its rows where they look least, since a circuit leaves much as it is.
    Passes if all agree with the evaluator to fp32, and patterns of other sequences do change the losses (so that an
    edit which silently does nothing is seen).
    """
    evaluator = evidence.rough
    programs: list[Interventions] = [{}, evidence.program, evidence.natural, *_averted(evidence)]
    resampled: Interventions = dict.fromkeys(evaluator.live_rows, RESAMPLE)
    own, *rest, moved = evaluator.errors([*programs, resampled])
    differences = [
        _difference(errors, _by_hand(evaluator, program))
        for errors, program in zip((own, *rest), programs, strict=True)
    ]
    differences[0] = max(differences[0], _difference(own, evaluator.plain_errors()))
    change = float((moved - own).abs().max())
    same, moves = max(differences) <= _SAME, change >= _MOVED
    if not same:
        says = f"patterns put in place by hand and the evaluator differ by {max(differences):.2g}: the tools are broken"
    elif not moves:
        says = "patterns of other sequences change nothing: the tools are broken, or the model attends to nothing"
    else:
        says = (
            f"patterns put in place by hand give the evaluator's losses to {max(differences):.1g}; patterns of other "
            f"sequences change them by up to {change:.2g}"
        )
    names = ("replay_difference", "imposed_difference", "natural_difference", "averted_difference")
    numbers = dict(zip(names, map(tidy, [*differences[:3], max(differences[3:])]), strict=True))
    return Part(same and moves, says, {**numbers, "resample_difference": tidy(change)})


def _difference(errors: Float[Tensor, "sequence hop"], meant: Float[Tensor, "sequence hop"]) -> float:
    """The largest difference between errors, relative where errors are large."""
    return float(((errors - meant).abs() / meant.abs().clamp(min=1.0)).max())


def _averted(evidence: Evidence) -> list[Interventions]:
    """For every layer, a program with its rows at the role that they look at least, of those that they may see."""
    evaluator = evidence.evaluator
    programs: list[dict[HeadRow, Ablation]] = [{} for _ in range(evaluator.shape.layers)]
    for row in evaluator.live_rows:
        seen = evaluator.where.visible[row.query].nonzero().flatten().tolist()
        if seen:
            programs[row.layer][row] = one_hot(min(seen, key=evidence.hypotheses.weights(row).__getitem__))
    return [*programs]


def _by_hand(evaluator: Evaluator, program: Interventions) -> Float[Tensor, "sequence hop"]:
    """Errors of the plain model with a program written into its patterns."""
    with torch.no_grad():
        edit = evaluator.edit(program) if program else None
        captured = evaluator.transformer.patterns(evaluator.batch.inputs[None], edit)
    return evaluator.plain_errors(_Placed(captured, program, evaluator.batch, evaluator.shape.causal))


class _Placed(Hooks):
    """Puts patterns in place by writing them where the roles stand, one row after another.

    Recorded patterns (`captured`) serve an empty program, and rows at their positional mean.
    """

    def __init__(self, captured: list[Pattern], program: Interventions, batch: Sequences, causal: bool) -> None:
        self._captured, self._program, self._causal = captured, program, causal
        self._role, self._chain, self._place = batch.role, batch.chain, batch.place  # a batch works them out anew

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern with this layer's rows in place."""
        captured = self._captured[layer][..., -pattern.shape[-2] :, :]
        if not self._program:
            return captured
        placed, hidden = pattern.clone(), pattern.shape[-1] - pattern.shape[-2]
        for row, form in self._program.items():
            if row.layer == layer and form.kind is not AblationKind.KEEP:
                sequence, query = (self._role[:, hidden:] == row.query).nonzero(as_tuple=True)
                before = (pattern if form == ALIKE else captured)[0, sequence, row.head, query]
                placed[0, sequence, row.head, query] = self._weights(form, sequence, query + hidden, before)
        return placed

    def _weights(
        self,
        form: Ablation,
        sequence: Int[Tensor, " row"],
        query: Int[Tensor, " row"],
        before: Float[Tensor, "row key"],
    ) -> Float[Tensor, "row key"]:
        """What the positions of one row attend to; `before` is their own pattern, or its mean over the batch."""
        position = torch.arange(before.shape[-1]).expand_as(before)
        if form.kind in (AblationKind.UNIFORM, AblationKind.MEAN):
            seen = (position <= query[..., None]).float() if self._causal else torch.ones_like(before)
            if form.kind is AblationKind.MEAN:
                own, others = torch.tensor(form.weights).view(2, -1)
                role, chain = self._role[sequence], self._chain[sequence]
                mine = chain.gather(1, query[:, None])
                near = ((chain == mine) & (mine >= 0)) | (position == query[..., None])
                seen = seen * torch.where(near, own[role], others[role])
            return seen / seen.sum(dim=-1, keepdim=True)
        if form.kind is AblationKind.IDENTITY:
            return (position == query[..., None]).float()
        if form.kind in (AblationKind.ONE_HOT, AblationKind.MIXTURE):
            shares = [share / sum(form.weights) for share in form.weights] or [1.0]
            keys = [self._place[sequence, self._chain[sequence, query], key, None] for key in form.keys]
            return torch.stack([share * (position == key) for key, share in zip(keys, shares, strict=True)]).sum(dim=0)
        if form == ALIKE:
            rows = zip(sequence.tolist(), query.tolist(), before, strict=True)
            return torch.stack([self._alike(number, at, weights) for number, at, weights in rows])
        return torch.zeros_like(before) if form.kind is AblationKind.ZERO else before

    def _alike(self, sequence: int, query: int, weights: Float[Tensor, " key"]) -> Float[Tensor, " key"]:
        """What one position attends to if all chains are alike to it; in text the chain asked about is its own too."""
        places, role = self._place[sequence].tolist(), self._role[sequence].tolist()
        asked = [place for place in places if place[-1] >= 0]
        chain = int(self._chain[sequence, query])
        own = {*(places[chain] if chain >= 0 else ()), *(asked[0] if len(asked) == 1 else ())}
        seen = [key for place in places for key in place if key >= 0 and key != query]
        seen = [key for key in seen if key <= query or not self._causal]
        even, blind = weights.clone(), weights.clone()
        for key in seen:
            same = [one for one in seen if role[one] == role[key]]
            others = [one for one in same if one not in own]
            even[key] = weights[same].mean() if others else 0.0
            if key in own:
                blind[key] = weights[others].mean() if others else 0.0
        if blind.sum() > 1e-6 * weights.sum():
            return blind * (weights.sum() / blind.sum())
        even[query] += weights.sum() - even.sum()
        return even
