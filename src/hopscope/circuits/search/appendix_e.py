"""The paper's own procedure (Appendix E): impose a pattern on every head, then remove imposed paths one by one.

Heads are set from the last layer to the first, while the heads below still make their own patterns. An idle head
becomes uniform or the identity, whichever gives the lower loss. A useful head gets a whole new pattern: a weight of 1
on every key that it is expected to attend to, and the same filling in all its other rows. Then paths are removed until
none can be removed.

The loss with imposed patterns is not enough to decide this. Imposed patterns do the routing, so heads that help later
heads to find their keys seem idle. Therefore the remaining paths must always carry the answer in theory
(`theory.path_flow`). Paths that cost nothing are removed from the last layer first, so that the earliest of several
heads with the same function stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal

from hopscope.circuits.evaluate.ablations import IDENTITY, UNIFORM, ZERO, Ablation, AblationKind, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.resume import Search, Stage
from hopscope.circuits.search.config import CLEAR, FREE, LAST, SearchConfig
from hopscope.circuits.search.gauge import Gauge, Random, random_order
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.theory.path_flow import arrives

HeadNumbers = tuple[int, int]
"""Layer and head, from 0."""

KeyMap = Mapping[int, int]
"""The keys that a useful head attends to, as a map from query role to key role."""

IDLE = (UNIFORM, IDENTITY)
"""The ablations of an idle head; the paper uses "whichever serves"."""

Fill = Literal["zero", "uniform", "identity"]
"""How the rows without a path in a useful head are filled. Read literally, Appendix E says `zero`."""

FILLS: dict[Fill, Ablation] = {"zero": ZERO, "uniform": UNIFORM, "identity": IDENTITY}
"""The ablation of each filling."""


def imposed_paths(state: Interventions) -> list[AttentionPath]:
    """Return the paths of imposed interventions, which are their one-hot rows, from the first layer to the last."""
    one_hots = ((row, ablation) for row, ablation in state.items() if ablation.kind is AblationKind.ONE_HOT)
    return sorted(AttentionPath(*row, ablation.keys[0]) for row, ablation in one_hots)


def useful_heads(state: Interventions) -> set[HeadNumbers]:
    """Return the heads with an imposed path."""
    return {(path.layer, path.head) for path in imposed_paths(state)}


def fill_of(state: Interventions) -> Ablation:
    """Return the ablation of those rows in useful heads that have no path; `ZERO` if there are no such rows."""
    useful = useful_heads(state)
    others = (ablation for row, ablation in state.items() if row[:2] in useful)
    return next((ablation for ablation in others if ablation.kind is not AblationKind.ONE_HOT), ZERO)


def filled(state: Interventions, fill: Ablation) -> Interventions:
    """Return the interventions in which those rows of useful heads that have no path get the ablation `fill`."""
    useful, paths = useful_heads(state), {path.row for path in imposed_paths(state)}
    return {row: fill if row[:2] in useful and row not in paths else ablation for row, ablation in state.items()}


def without(state: Interventions, path: AttentionPath) -> list[Interventions]:
    """Return the interventions with one path removed, by giving its row the filling of the other rows.

    If it is the head's only path, the whole head becomes idle, with one result for each ablation in `IDLE`.
    """
    head = path.row[:2]
    if sum(other.row[:2] == head for other in imposed_paths(state)) > 1:
        return [{**state, path.row: fill_of(state)}]
    return [state | {row: idle for row in state if row[:2] == head} for idle in IDLE]


class AppendixE:
    """The procedure on the sequences of a gauge. A `state` is the ablations of all rows of the heads settled so far."""

    def __init__(self, gauge: Gauge, units: Units) -> None:
        self._gauge, self._units = gauge, units

    @cached_property
    def _maps(self) -> dict[HeadNumbers, list[KeyMap]]:
        """The expected key maps of each head (see `_expected`), from the last layer to the first."""
        heads = sorted({(row.layer, row.head) for row in self._units.rows}, reverse=True)
        return {head: self._expected(head) for head in heads}

    def imposed(self) -> Interventions:
        """Settle every head (`_settled`), last layer first; repeat while the score is too high but falling."""
        state, score, before = Interventions(), float("inf"), float("inf")
        while not state or self._gauge.limit() < score < before:
            before = score
            for head in self._maps:
                state, score = self._settled(state, head)
        return state

    def reduced(self, state: Interventions, generator: Random = None) -> Interventions:
        """Remove paths until none can be removed: first those that cost nothing, last layer first, then the cheapest.

        Paths are removed within a share of the slack, and then up to the threshold itself, as in the paper: if the
        loss stays below the threshold without a path, the path is superfluous. If the loss is above the threshold from
        the start, paths are removed as long as the loss does not rise.
        """
        state = self._without_the_free(self._idle_served(state))
        state = self._credited(self.one_by_one(state, self._gauge.limit(LAST), generator))
        before = None
        while state != before:
            before = state
            state = self.one_by_one(self._idle_served(state), self._gauge.max_loss, generator)
        return state

    def removals(self, state: Interventions) -> list[tuple[AttentionPath, Interventions]]:
        """Return each path that theory does not need, last layer first, with each state that results without it."""
        return [(path, left) for path in self._spared(state) for left in without(state, path)]

    def delivers(self, paths: Sequence[AttentionPath]) -> bool:
        """Whether these paths can carry the answer in theory; True if the task has no theory."""
        scene = self._gauge.evaluator.scene
        return scene is None or arrives(scene, paths)

    def _with_head(
        self, state: Interventions, head: HeadNumbers, does: Ablation | KeyMap, fill: Ablation = ZERO
    ) -> Interventions:
        """Return the state with one head made idle (`does` is an ablation) or useful (`does` maps queries to keys)."""
        keys, rest = ({}, does) if isinstance(does, Ablation) else (does, fill)
        roles = range(self._gauge.evaluator.where.roles)
        return state | {HeadRow(*head, query): one_hot(keys[query]) if query in keys else rest for query in roles}

    def _expected(self, head: HeadNumbers) -> list[KeyMap]:
        """Return the expected key maps of a head: one with the heaviest key of every row, one for clear rows only."""
        keys: dict[int, tuple[int, float]] = {}
        for row in (row for row in self._units.rows if (row.layer, row.head) == head):
            weights, heavy = self._units.weights(row), self._units.heavy(row)
            if heavy:
                key = max(heavy, key=lambda key: weights[key])
                keys[row.query] = key, weights[key]
        every = {query: key for query, (key, _) in keys.items()}
        clear = {query: key for query, (key, weight) in keys.items() if weight >= CLEAR}
        return [map_ for map_ in ([every] if every == clear else [every, clear]) if map_]

    def _settled(self, state: Interventions, head: HeadNumbers) -> tuple[Interventions, float]:
        """Choose the ablations of one head while all others stay as they are; return the new state with its score.

        The head becomes useful if theory needs it. Otherwise it becomes idle, unless the score would then exceed the
        limit and is lower with a useful head.
        """
        idle: list[Ablation | KeyMap] = [*IDLE]
        ways = [[self._with_head(state, head, does) for does in kind] for kind in (idle, self._maps[head]) if kind]
        # Whether theory needs the head: heads that are not yet settled may still attend to all their expected keys.
        possible = [self.delivers(self._possible(kind[0])) for kind in ways]
        self._gauge.rough.depart_from(state)
        costs = [self._gauge.rough.mse(kind) for kind in ways]
        best = [kind[cost.index(min(cost))] for kind, cost in zip(ways, costs, strict=True)]
        self._gauge.evaluator.depart_from(state)
        scores = self._gauge.scores(best[:1])
        if len(best) == 1 or (scores[0] <= self._gauge.limit() and possible[0] >= possible[1]):
            return best[0], scores[0]
        scores += self._gauge.scores(best[1:])
        chosen = 1 if possible[1] > possible[0] or scores[1] < scores[0] else 0
        return best[chosen], scores[chosen]

    def _possible(self, state: Interventions) -> list[AttentionPath]:
        """Return the paths of the settled heads, and the expected paths of all other heads."""
        settled = {row[:2] for row in state}
        rest = ((head, maps[0]) for head, maps in self._maps.items() if maps and head not in settled)
        return imposed_paths(state) + [
            AttentionPath(*head, query, key) for head, keys in rest for query, key in keys.items()
        ]

    def _spared(self, state: Interventions) -> list[AttentionPath]:
        """Return the paths that theory does not need, last layer first; all paths if they cannot carry the answer."""
        paths = sorted(imposed_paths(state), reverse=True)
        if not self.delivers(paths):
            return paths
        return [path for path in paths if self.delivers([other for other in paths if other != path])]

    def _without_the_free(self, state: Interventions) -> Interventions:
        """Remove paths that cost nothing, last layer first, as long as removing all of them still costs nothing."""
        (now,) = self._gauge.scores([state])
        most = now + FREE * max(self._gauge.max_loss - now, 0.0)
        self._gauge.rough.depart_from(state)
        removals = self.removals(state)
        rough, *costs = self._gauge.rough.mse([state, *(left for _, left in removals)])
        free: dict[AttentionPath, float] = {}
        for (path, _), cost in zip(removals, costs, strict=True):
            free[path] = min(cost, free.get(path, cost))
        chain = [state]
        for path in (path for path, cost in free.items() if cost - rough <= most - now):
            if path in self._spared(chain[-1]):
                chain.append(without(chain[-1], path)[0])
        while len(chain) > 1 and self._gauge.scores([chain[-1]])[0] > most:
            chain = chain[: (len(chain) + 1) // 2]
        return chain[-1]

    def one_by_one(self, state: Interventions, limit: float, generator: Random = None) -> Interventions:
        """Remove paths one by one, the cheapest first, as long as the score stays within the limit.

        If the score is above the limit from the start, paths are removed as long as the score does not rise.
        """
        while True:
            near = [left for _, left in self.removals(state)]
            most = max(limit, self._gauge.scores([state])[0])
            order = self._gauge.by_cost(state, near, most, generator)
            self._gauge.evaluator.depart_from(state)
            fitting = next((near[number] for number in order if self._gauge.scores([near[number]])[0] <= most), None)
            if fitting is None:
                return state
            state = fitting

    def _credited(self, state: Interventions) -> Interventions:
        """If heads of a layer attend alike, assign the paths to the head that works best with the model's own patterns.

        In the first useful layer, imposed patterns do not show which of these heads does the work.
        """
        own_patterns, rough = self._units.own_patterns, self._gauge.rough
        for head in sorted(useful_heads(state)):
            useful, keys = useful_heads(state), {p.query: p.key for p in imposed_paths(state) if p.row[:2] == head}
            idle = [other for other in self._maps if other[0] == head[0] and other not in useful]
            alike = [other for other in idle if self._maps[other] and keys.items() <= self._maps[other][0].items()]
            without_head, fill = self._with_head(state, head, IDLE[0]), fill_of(state)
            ways = [state, *(self._with_head(without_head, other, keys, fill) for other in alike)]
            losses = rough.mse([own_patterns(way) for way in ways]) if alike else [0.0]
            best = ways[losses.index(min(losses))]
            if min(losses) < losses[0] - FREE * self._gauge.max_loss:
                most = max(self._gauge.limit(), *self._gauge.scores([state]))
                state = best if self._gauge.scores([best])[0] <= most else state
        return state

    def _idle_served(self, state: Interventions) -> Interventions:
        """Switch idle heads between uniform and identity: all whose switch lowers the loss, only the best, or none."""
        useful, (first, second) = useful_heads(state), IDLE
        idle = [head for head in dict.fromkeys((row.layer, row.head) for row in state) if head not in useful]
        others = {head: second if state[HeadRow(*head, 0)] == first else first for head in idle}
        self._gauge.rough.depart_from(state)
        flipped = [self._with_head(state, head, does) for head, does in others.items()]
        now, *costs = self._gauge.rough.mse([state, *flipped])
        gaining = [head for cost, head in sorted(zip(costs, idle, strict=True)) if cost < now]
        ways = [state]
        for head in gaining:
            ways.append(self._with_head(ways[-1], head, others[head]))
        tried = [state, *ways[1:2], *ways[-1:]]
        scores = self._gauge.scores(tried)
        return tried[scores.index(min(scores))]


def appendix_e(evaluator: Evaluator, units: Units, config: SearchConfig) -> Search[list[Interventions]]:
    """Run the procedure in several orders and return the resulting interventions, best first.

    They are sorted by whether the loss is low enough, whether the paths carry the answer in theory, the number of
    paths and the number of heads. On all sequences, no path of the first result can be removed. The list is
    empty if the model's own loss is too high. A budget of one order tries only the best filling and removes the
    cheapest paths first; a larger budget tries every filling, and random orders.
    """
    if float(evaluator.own.mean()) > config.max_loss:
        return []
    scanning, random = Gauge.scanning(evaluator, config), config.budget.orders - 1
    procedure = AppendixE(scanning, units)
    stages = 2 + (len(FILLS) if random else 1) + random

    def stage(name: str, compute: Callable[[], Interventions], number: int) -> Stage[Interventions]:
        return Stage(f"Appendix E: {name}", compute, evaluator.problem, done=number, stages=stages)

    first = yield stage("heads", procedure.imposed, 0)
    starts = {name: filled(first, fill) for name, fill in FILLS.items()}
    scores = dict(zip(starts, scanning.scores(list(starts.values())), strict=True))
    best = min(starts, key=lambda name: scores[name])
    orders: list[tuple[str, Interventions, Random]] = [(best, starts[best], None)]
    if random:
        orders += [(name, start, None) for name, start in starts.items() if name != best]
    for number in range(1, random + 1):
        orders.append((f"random-{number}", starts[best], random_order(config, f"strict-random-{number}")))
    ends: list[Interventions] = []
    for number, (name, start, generator) in enumerate(orders, start=1):
        ends.append((yield stage(name, partial(procedure.reduced, start, generator), number)))
    confirming = AppendixE(gauge := Gauge.confirming(evaluator, config), units)
    by_end = gauge.scores(ends)

    def merit(number: int) -> tuple[bool, bool, int, int, float]:
        paths, score = imposed_paths(ends[number]), by_end[number]
        few = len(paths), len(useful_heads(ends[number]))
        return score > gauge.max_loss, not confirming.delivers(paths), *few, score

    smallest, *others = (ends[number] for number in sorted(range(len(ends)), key=merit))
    confirmed = partial(confirming.one_by_one, smallest, gauge.max_loss)
    return [(yield stage("on all sequences", confirmed, len(orders) + 1)), *others]
