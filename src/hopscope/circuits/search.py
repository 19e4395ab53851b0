"""The search for circuits: several ways down, several ways up, and every distinct small program they end in.

Each way is one `order`. `least-cost` lets go first what costs least; `random-i` perturbs the costs; `growing-i` puts
paths back one by one, from nothing. All decisions are exact: a program is accepted for the loss it has, on sequences
set apart for the search, with two standard errors of doubt; the last ones on more sequences, with one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from hopscope.circuits.coordinates import visible_roles
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import UNIFORM
from hopscope.circuits.hypotheses import Hypotheses, Rows, form_of
from hopscope.circuits.prefilter import Prefilter, prefilter
from hopscope.circuits.programs import from_json, to_json
from hopscope.circuits.reduce import Reducer, every_row
from hopscope.errors import InputError
from hopscope.model.transformer import Transformer
from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import AttentionPath, Row
from hopscope.training.data import held_out


@dataclass(frozen=True)
class Settings:
    """How a search is done.

    Args:
        bar: the loss a circuit may have at most; the paper's 0.05.
        orders: ways down, the first by least cost, the others at random.
        growing: ways up.
        sequences: sequences behind most decisions.
        confirming: sequences behind the last ones; the former are among them.
        seed: of the sequences and the random orders.
        every_subset: up to how many rows every subset of a circuit is tried; more take long, 13 some 8,000 trials.
        prefilter: whether gradients say in which order heads are tried; `None` for models of 32 heads or more with at
            least 8 a layer.

    Raises:
        InputError: a value out of range.
    """

    bar: float = 0.05
    orders: int = 3
    growing: int = 2
    sequences: int = 64
    confirming: int = 256
    seed: int = 0
    every_subset: int = 10
    prefilter: bool | None = None

    def __post_init__(self) -> None:
        if not 0 < self.bar < 0.5:
            raise InputError(f"bar must be above 0 and below 0.5 (averaging the candidates gives 0.75), got {self.bar}")
        for name, least in (("orders", 1), ("growing", 0), ("sequences", 8), ("every_subset", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.confirming < self.sequences:
            raise InputError(f"confirming must be at least sequences ({self.sequences}), got {self.confirming}")


@dataclass(frozen=True)
class Standing:
    """Where a search stands.

    Attributes:
        stage: what is being done.
        done: stages finished.
        stages: stages in all.
    """

    stage: str
    done: int
    stages: int


@dataclass(frozen=True)
class Found:
    """A small program that holds the bar.

    Attributes:
        program: every row of the model.
        paths: how many attention paths it has.
        heads: in how many heads.
        mse: its loss on the confirming sequences.
        orders: the orders that ended in it.
    """

    program: Rows
    paths: int
    heads: int
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class Search:
    """What a search gives back.

    Attributes:
        full_mse: the model's own loss on the confirming sequences.
        found: distinct programs, fewest paths first, then fewest heads, then lowest loss; empty if none holds the bar.
        minimality: of the first: `every subset` (no smaller part of it holds the bar), `pairs` (none with one or two
            paths less does) or `single` (none with one path less does).
        evaluations: programs evaluated.
        prefilter: how the gradient order compared with exact scores; `None` if it was not used.
    """

    full_mse: float
    found: tuple[Found, ...]
    minimality: str
    evaluations: int
    prefilter: Prefilter | None


class Searcher:
    """A search over one model.

    Args:
        transformer: one model.
        problem: what it answers.
        settings: how.
        watch: told where the search stands.
        memory: results of orders by name, as plain JSON; what is there is not done again, what is done is added.
        remember: called after `memory` has grown.
    """

    def __init__(
        self,
        transformer: Transformer,
        problem: RetrievalProblem,
        settings: Settings,
        watch: Callable[[Standing], None] | None = None,
        memory: dict[str, Any] | None = None,
        remember: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.settings, self._problem = settings, problem
        self._watch, self._remember = watch or (lambda standing: None), remember or (lambda memory: None)
        self._memory: dict[str, Any] = {} if memory is None else memory
        seed = settings.seed
        batch = held_out(problem, settings.confirming, seed, "circuit search")
        self.evaluator = Evaluator(transformer, problem, batch[: settings.sequences])
        self.wide = Evaluator(transformer, problem, batch)
        self.hypotheses = Hypotheses(
            self.wide.role_maps(), visible_roles(self.evaluator.batch.place, transformer.shape.causal), problem.hops
        )
        rough = Evaluator(transformer, problem, batch[: max(8, settings.sequences // 4)])
        self._scan = Reducer(self.evaluator, self.hypotheses, settings.bar, rough)
        self._confirm = Reducer(self.wide, self.hypotheses, settings.bar, self.evaluator, doubt=1.0)
        self._ends: dict[tuple[Row, ...], Rows | None] = {}
        self._prefilter: Prefilter | None = None

    def run(self) -> Search:
        """Search. The same model, problem and settings give the same result, resumed or not."""
        settings = self.settings
        full = self.wide.mse([{}])[0]
        if full > settings.bar:
            return Search(full, (), "none", self._evaluations(), None)
        down = ["least-cost", *(f"random-{number}" for number in range(1, settings.orders))]
        up = [f"growing-{number}" for number in range(1, settings.growing + 1)]
        stages = len(down) + len(up) + 1
        ends: list[tuple[str, Rows]] = []
        for number, name in enumerate((*down, *up)):
            self._watch(Standing(name, number, stages))
            if name not in self._memory:
                self._memory[name] = self._descend(name) if name in down else self._grow(name, down)
                self._remember(self._memory)
            end = self._memory[name]["end"]
            if end is not None:
                ends.append((name, self._complete(from_json(end, self._problem))))
        self._watch(Standing("subsets", stages - 1, stages))
        found = self._distinct(ends)
        minimality = "none"
        if found:
            found, minimality = self._smallest(found)
        self._watch(Standing("done", stages, stages))
        return Search(full, tuple(found), minimality, self._evaluations(), self._prefilter)

    def _descend(self, name: str) -> dict[str, Any]:
        """One way down: the rows that are left when what is easily done without is off, and the circuit it ends in."""
        jitter = None if name == "least-cost" else self._generator(name)
        pools = self._scan.fewer(jitter, self._gradient_order())
        end = self._end([*pools, self._scan.minimal(pools[-1], jitter)])
        return {"pool": self._json(pools[-1]), "end": self._json(end)}

    def _grow(self, name: str, down: Sequence[str]) -> dict[str, Any]:
        """One way up, out of what a way down had left."""
        number = int(name.partition("-")[2])
        pool = self._complete(from_json(self._memory[down[(number - 1) % len(down)]]["pool"], self._problem))
        grown = self._scan.minimal(self._scan.grown(pool, self._generator(name)), None)
        return {"end": self._json(self._end([pool, grown]))}

    def _end(self, stages: Sequence[Rows]) -> Rows | None:
        """The circuit for the last of `stages`: minimal on the confirming sequences, every row in its form.

        Where the last does not hold the bar there, the search goes back to the last that does, and on from there on the
        confirming sequences. None if not even the first does.
        """
        signature = self._rows(stages[-1])
        if signature not in self._ends:
            end = next((stage for stage in reversed(stages) if self._confirm.passes(stage)), None)
            if end is not None:
                if end is not stages[-1]:
                    end = self._confirm.trimmed(end, None)
                end = self._formed(self._confirm.minimal(end, None))
            self._ends[signature] = end
        return self._ends[signature]

    def _formed(self, program: Rows) -> Rows:
        """Every row in its simplest form, as the scan sees it, or, if that does not hold, as the confirmation does."""
        formed = self._scan.formed(program)
        return formed if self._confirm.passes(formed) else self._confirm.formed(program)

    def _distinct(self, ends: Sequence[tuple[str, Rows]]) -> list[Found]:
        by_paths: dict[tuple[AttentionPath, ...], tuple[Rows, list[str]]] = {}
        for name, program in ends:
            by_paths.setdefault(tuple(self.paths(program)), (program, []))[1].append(name)
        found = [self._found(program, tuple(names)) for program, names in by_paths.values()]
        return sorted(found, key=lambda one: (one.paths, one.heads, one.mse))

    def _found(self, program: Rows, orders: tuple[str, ...]) -> Found:
        paths = self.paths(program)
        heads = len({(path.layer, path.head) for path in paths})
        return Found(program, len(paths), heads, self.wide.mse([program])[0], orders)

    def paths(self, program: Rows) -> list[AttentionPath]:
        """The attention paths of a program."""
        return [
            AttentionPath(*row, key)
            for row in self._scan.live_rows()
            for key, _ in self.hypotheses.keys(row, form_of(program, row))
        ]

    def _smallest(self, found: list[Found]) -> tuple[list[Found], str]:
        """See whether a part of the first circuit holds the bar; if so that part comes first."""
        program = self._scan.natural(found[0].program)
        rows = [row for row, _ in self._scan.on(program)]
        if len(rows) > self.settings.every_subset:
            sizes: Sequence[int] = range(max(len(rows) - 2, 0), len(rows))
            kind = "pairs"
        else:
            sizes, kind = range(len(rows)), "every subset"
        for size in sizes:
            passing = self._first_passing(program, [self._scan.only(program, k) for k in combinations(rows, size)])
            if passing is not None:
                end = self._formed(self._confirm.minimal(passing, None))
                return self._smallest([self._found(end, (f"part of {found[0].orders[0]}",)), *found])
        return found, kind

    def _first_passing(self, program: Rows, parts: Sequence[Rows]) -> Rows | None:
        """The first of some parts of a program that holds the bar.

        A few sequences rule out what is hopeless, five standard errors above the bar; the rest are confirmed.
        """
        few = Evaluator(self.evaluator.transformer, self._problem, self.evaluator.batch[:8])
        few.depart_from(program)
        for first in range(0, len(parts), 256):
            chosen = parts[first : first + 256]
            errors = few.errors(chosen).double().mean(dim=2)
            least = errors.mean(dim=1) - 5 * errors.std(dim=1) / errors.shape[1] ** 0.5
            for part, low in zip(chosen, least.tolist(), strict=True):
                if low <= self.settings.bar and self._confirm.passes(part):
                    return part
        return None

    def _gradient_order(self) -> tuple[int, ...]:
        """Heads by rising gradient score, if the pre-filter is on and agrees with exact scores."""
        shape, wanted = self.evaluator.shape, self.settings.prefilter
        if wanted is None:
            wanted = shape.heads >= 8 and shape.layers * shape.heads >= 32
        if not wanted:
            return ()
        if self._prefilter is None:
            self._prefilter = prefilter(self.evaluator, self._generator("prefilter"))
        return self._prefilter.order if self._prefilter.agrees else ()

    def natural(self, program: Rows) -> Rows:
        """The same rows in use, each with the model's own pattern."""
        return self._scan.natural(program)

    def _complete(self, program: Rows) -> Rows:
        """A program with every row that it does not name switched off."""
        return complete(program, self.evaluator)

    def _rows(self, program: Rows) -> tuple[Row, ...]:
        return tuple(row for row, _ in self._scan.on(program))

    def _json(self, program: Rows | None) -> list[dict[str, Any]] | None:
        if program is None:
            return None
        return to_json({row: form_of(program, row) for row in self._scan.live_rows()}, self._problem)

    def _generator(self, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(self.settings.seed, "circuit search", purpose))

    def _evaluations(self) -> int:
        return self.evaluator.evaluations + self.wide.evaluations


def complete(program: Rows, evaluator: Evaluator) -> Rows:
    """A program with every row that it does not name switched off."""
    return {row: program.get(row, UNIFORM) for row in every_row(evaluator)}
