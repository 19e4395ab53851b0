"""The paper's own procedure (Appendix E): every head's whole map is replaced, then imposed paths are taken away.

Heads are gone through from the last layer to the first, those below still making their own patterns. An idle head
becomes uniform or the identity, whichever serves; in a useful one the whole map is replaced, ones where it is expected
to look and its other rows filled in one way. When all heads are set, paths are taken away one by one until none can go.

With imposed patterns alone this would degenerate: they do the routing, and the heads by which later ones find their
keys look idle. So what is left must always carry the answer in theory (`theory.delivery`); and what costs nothing is
removed from the last layer first, so that of two heads that tie pairs the earlier one stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.form import ZERO, Form
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.search.config import CLEAR, FREE, LAST, SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.imposed import IDLE, HeadNumbers, Imposed, Looks
from hopscope.circuits.search.units import Units
from hopscope.theory.follow import arrives, by_layer
from hopscope.theory.path import AttentionPath

Removal = tuple[AttentionPath, Imposed]
"""A path, and what is left without it."""


def strict(evaluator: Evaluator, units: Units, config: SearchConfig, generator: torch.Generator | None) -> Draft:
    """A program with every head idle or imposed, of which no path can be taken away; its loss may be too high."""
    search = Strict(Gauge.scanning(evaluator, config), units)
    return search.reduced(search.imposed(ZERO), generator).program


class Strict:
    """The procedure on one batch.

    Args:
        gauge: the model and the sequences that decide.
        units: hypotheses about its rows.
    """

    def __init__(self, gauge: Gauge, units: Units) -> None:
        self._gauge, self._units = gauge, units
        self._roles = gauge.evaluator.where.roles
        heads = sorted({(row.layer, row.head) for row in units.rows}, reverse=True)
        self._maps = {head: self._expected(head) for head in heads}

    def imposed(self, fill: Form) -> Imposed:
        """Settle every head, last layer first; then all of them again as long as that is needed and helps."""
        state, score, before = Imposed({}, fill, self._roles), float("inf"), float("inf")
        while not state.heads or self._gauge.limit() < score < before:
            before = score
            for head in self._maps:
                state, score = self._settled(state, head)
        return state

    def reduced(self, state: Imposed, generator: torch.Generator | None = None) -> Imposed:
        """Take paths away until none can go: first those that cost nothing, from the last layer, then the least costly.

        This is done within the share of the room meant for it, then up to the threshold itself, as in the paper: a path
        without which the loss stays below it is superfluous. Above it, paths go while the loss does not rise.

        Args:
            state: what is imposed on all heads.
            generator: perturbs costs; `None` for the least costly first.
        """
        state = self._without_the_free(self._idle_served(state))
        state = self._credited(self.one_by_one(state, self._gauge.limit(LAST), generator))
        before = None
        while state != before:
            before = state
            state = self.one_by_one(self._idle_served(state), self._gauge.max_loss, generator)
        return state

    def removals(self, state: Imposed) -> list[Removal]:
        """Every path that theory can spare, last layer first; twice if its head becomes idle, once for either way."""
        return [(path, left) for path in self._spared(state) for left in state.without(path)]

    def delivers(self, paths: Sequence[AttentionPath]) -> bool:
        """Whether paths carry the answer in theory."""
        return arrives(self._gauge.evaluator.scene, by_layer(paths, self._roles))

    def scores(self, states: Sequence[Imposed]) -> list[float]:
        """The scores of states: losses with the doubt on top."""
        return self._gauge.scores([state.program for state in states])

    def _expected(self, head: HeadNumbers) -> list[Looks]:
        """Where a head may be expected to look: every row at its heaviest role; and the same for clear rows alone."""
        rows = [row for row in self._units.rows if (row.layer, row.head) == head]
        looks: dict[int, tuple[int, float]] = {}
        for row in rows:
            weights, heavy = self._units.hypotheses.weights(row), self._units.hypotheses.heavy(row)
            if heavy:
                key = max(heavy, key=lambda key: weights[key])
                looks[row.query] = key, weights[key]
        every = {query: key for query, (key, _) in looks.items()}
        clear = {query: key for query, (key, weight) in looks.items() if weight >= CLEAR}
        return [map_ for map_ in ([every] if every == clear else [every, clear]) if map_]

    def _settled(self, state: Imposed, head: HeadNumbers) -> tuple[Imposed, float]:
        """Settle one head, given all others, and return the state with its score.

        The head becomes idle if that is within the limit and theory does not need it, else what serves best.
        """
        idle: list[Form | Looks] = [*IDLE]
        ways = [[state.with_head(head, does) for does in kind] for kind in (idle, self._maps[head]) if kind]
        # Theory must not need the head: heads not yet settled may still look wherever they are expected to.
        possible = [self.delivers(self._possible(kind[0])) for kind in ways]
        self._gauge.rough.depart_from(state.program)
        costs = [self._gauge.rough.mse([way.program for way in kind]) for kind in ways]
        best = [kind[cost.index(min(cost))] for kind, cost in zip(ways, costs, strict=True)]
        self._gauge.evaluator.depart_from(state.program)
        scores = self.scores(best[:1])
        if len(best) == 1 or (scores[0] <= self._gauge.limit() and possible[0] >= possible[1]):
            return best[0], scores[0]
        scores += self.scores(best[1:])
        chosen = 1 if possible[1] > possible[0] or scores[1] < scores[0] else 0
        return best[chosen], scores[chosen]

    def _possible(self, state: Imposed) -> list[AttentionPath]:
        """The paths of the heads that are settled, and all that the others are expected to have."""
        rest = ((head, maps[0]) for head, maps in self._maps.items() if maps and head not in state.heads)
        return state.paths + [AttentionPath(*head, query, key) for head, looks in rest for query, key in looks.items()]

    def _spared(self, state: Imposed) -> list[AttentionPath]:
        """The paths that theory can spare, last layer first; all of them if they do not deliver anyway."""
        paths = sorted(state.paths, reverse=True)
        if not self.delivers(paths):
            return paths
        return [path for path in paths if self.delivers([other for other in paths if other != path])]

    def _without_the_free(self, state: Imposed) -> Imposed:
        """Take away the paths that cost nothing alone, last layer first, as many as cost nothing together."""
        (now,) = self.scores([state])
        most = now + FREE * max(self._gauge.max_loss - now, 0.0)
        self._gauge.rough.depart_from(state.program)
        rough, *costs = self._gauge.rough.mse([state.program, *(left.program for _, left in self.removals(state))])
        free: dict[AttentionPath, float] = {}
        for (path, _), cost in zip(self.removals(state), costs, strict=True):
            free[path] = min(cost, free.get(path, cost))
        chain = [state]
        for path in (path for path, cost in free.items() if cost - rough <= most - now):
            if path in self._spared(chain[-1]):
                chain.append(chain[-1].without(path)[0])
        while len(chain) > 1 and self.scores([chain[-1]])[0] > most:
            chain = chain[: (len(chain) + 1) // 2]
        return chain[-1]

    def one_by_one(self, state: Imposed, limit: float, generator: torch.Generator | None = None) -> Imposed:
        """Take paths away one by one, the least costly first, within the limit; above it, only if it costs nothing."""
        while True:
            near = [left for _, left in self.removals(state)]
            most = max(limit, self.scores([state])[0])
            order = self._gauge.by_cost(state.program, [one.program for one in near], most, generator)
            self._gauge.evaluator.depart_from(state.program)
            fitting = next((near[number] for number in order if self.scores([near[number]])[0] <= most), None)
            if fitting is None:
                return state
            state = fitting

    def _credited(self, state: Imposed) -> Imposed:
        """Of the heads of a layer that look alike, credit the one that serves with the model's own patterns.

        In the first useful layer imposed patterns do not show which of them does the work.
        """
        for head in sorted(state.useful):
            looks = state.heads[head]
            assert not isinstance(looks, Form)
            idle = [one for one in self._maps if one[0] == head[0] and one not in state.useful and self._maps[one]]
            alike = [one for one in idle if looks.items() <= self._maps[one][0].items()]
            ways = [state, *(state.with_head(head, IDLE[0]).with_head(one, looks) for one in alike)]
            natural = self._gauge.rough.mse([self._units.natural(way.program) for way in ways]) if alike else [0.0]
            best = ways[natural.index(min(natural))]
            if min(natural) < natural[0] - FREE * self._gauge.max_loss:
                most = max(self._gauge.limit(), *self.scores([state]))
                state = best if self.scores([best])[0] <= most else state
        return state

    def _idle_served(self, state: Imposed) -> Imposed:
        """Switch idle heads between uniform and identity: all that gain by it alone, the best of them, or none."""
        idle = [head for head in state.heads if head not in state.useful]
        first, second = IDLE
        others = {head: second if state.heads[head] == first else first for head in idle}
        self._gauge.rough.depart_from(state.program)
        flipped = [state.with_head(head, does) for head, does in others.items()]
        now, *costs = self._gauge.rough.mse([one.program for one in (state, *flipped)])
        gaining = [head for cost, head in sorted(zip(costs, idle, strict=True)) if cost < now]
        ways = [state]
        for head in gaining:
            ways.append(ways[-1].with_head(head, others[head]))
        some = [state, *ways[1:2], *ways[-1:]]
        scores = self.scores(some)
        return some[scores.index(min(scores))]
