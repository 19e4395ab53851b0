"""Descent: what replaces its circuit does not descend from it, and no spikes show nothing about spikes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from planted_studies import DOUBLING, SERIAL, summary

from studies import descent
from studies.descent import DescentResult
from studies.tools.circuits import NamedPath
from studies.tools.followed import Followed, _spikes
from studies.tools.inference import fewer

pytestmark = pytest.mark.slow

Paths = tuple[NamedPath, ...]


def moved(paths: Paths, seed: int) -> Paths:
    """The same circuit in other heads."""
    return tuple((layer, head + 2 * seed, query, key) for layer, head, query, key in paths)


def followed(
    seed: int, circuits: Sequence[Paths], rate: str = "constant", spikes: tuple[int, ...] = (), late: bool = False
) -> Followed:
    """A model with these circuits at steps 1000, 2000, ..."""
    every = tuple(summary(paths, seed, step=1000 * place) for place, paths in enumerate(circuits, start=1))
    crossed = (5000.0 if late else 500.0,) * len(circuits[-1]) if circuits else ()
    steps = tuple(circuit.step or 0 for circuit in every)
    return Followed(rate, seed, 5000, every, spikes, crossed, steps)


def verdicts(models: Sequence[Followed]) -> list[str]:
    return [judgement.verdict for judgement in descent.judge(DescentResult(tuple(models)))]


def steady(n: int, rate: str = "constant", spikes: tuple[int, ...] = ()) -> list[Followed]:
    """Each keeps its own circuit, in heads of its own."""
    return [followed(seed, [moved(DOUBLING, seed)] * 4, rate, spikes) for seed in range(n)]


def test_a_circuit_that_stays_descends():
    assert verdicts(steady(12))[:2] == ["confirmed", "not run"]


def test_a_circuit_that_is_replaced_does_not():
    replaced = [followed(s, [moved(DOUBLING, s), moved(DOUBLING, s + 20)]) for s in range(12)]
    assert verdicts(replaced)[0] == "refuted"


def test_the_same_circuit_in_other_heads_decides_nothing():
    """Every seed has the same circuit in heads of its own: they share no path, and all once heads are renamed."""
    models = steady(12)
    (found, *_) = descent.judge(DescentResult(tuple(models)))
    assert "0% those of the most similar other seed (100% with its heads renamed to fit)" in found.observed
    other = followed(99, [moved(SERIAL, 5)])
    assert models[0].kept_renamed(other.circuits) == models[0].kept_renamed(followed(98, [SERIAL]).circuits) < 1


def test_what_every_seed_has_is_no_descent():
    """All models end in one circuit: that the first is alike says nothing of where the last comes from."""
    assert verdicts([followed(seed, [DOUBLING] * 4) for seed in range(12)])[0] == "refuted"


def test_few_models_or_none():
    assert verdicts(steady(3))[0] == "inconclusive"
    assert verdicts(steady(1))[0] == "inconclusive"
    assert "most similar" not in descent.judge(DescentResult(tuple(steady(1))))[0].observed  # there is no other seed
    assert verdicts([followed(0, [])]) == ["not run"] * 4
    assert verdicts([]) == ["not run"] * 4


def rebuilding(seed: int, at_spike: bool) -> Followed:
    """One change of circuit, from step 3000 to 4000, and a spike there or elsewhere."""
    one, other = moved(DOUBLING, seed), moved(SERIAL, seed + 20)
    return followed(seed, [one, one, one, other, other], spikes=(3500,) if at_spike else (2500,))


def test_spikes():
    assert verdicts([rebuilding(seed, True) for seed in range(12)])[2] == "confirmed"
    assert verdicts([rebuilding(seed, False) for seed in range(12)])[2] == "refuted"
    assert verdicts(steady(12, spikes=(2500,)))[2] == "refuted"
    assert verdicts(steady(12))[2] == "inconclusive"  # no spikes
    assert verdicts([rebuilding(seed, True) for seed in range(4)])[2] == "inconclusive"


def drifting(seed: int, checkpoints: tuple[int, ...] = ()) -> Followed:
    """One path of ten is another at every checkpoint; the one at 4000 is in a spike, so it has no circuit."""
    heads = {1000 * place: range(1000 * seed + place, 1000 * seed + place + 10) for place in (1, 2, 3, 5, 6, 7)}
    every = [summary([(1, head, ">x1", "x0>") for head in some], seed, step=step) for step, some in heads.items()]
    return Followed("constant", seed, 8000, tuple(every), (3900,), (500.0,) * 10, checkpoints=checkpoints)


def test_a_spike_that_only_hides_a_checkpoint_rebuilds_nothing():
    """Before and after it lie two intervals of drift, between other checkpoints one."""
    one = drifting(0, tuple(range(1000, 8000, 1000)))
    assert one.changes == [(pytest.approx(9 / 11), False)] * 4
    assert verdicts([drifting(seed, tuple(range(1000, 8000, 1000))) for seed in range(12)])[2] == "inconclusive"


def test_a_decaying_rate():
    restless = steady(12, spikes=(1200, 2500, 3500))
    assert verdicts([*restless, *steady(12, "falling")])[3] == "confirmed"
    assert verdicts([*restless, *steady(12, "falling", (1200, 2500, 3500))])[3] == "refuted"
    assert verdicts([*steady(12), *steady(12, "falling")])[3] == "inconclusive"
    assert verdicts([*restless[:3], *steady(3, "falling", (1200, 2500, 3500))])[3] == "inconclusive"
    assert fewer([1, 1], [1, 1]) == 1


def test_counts_by_hand():
    one = followed(0, [SERIAL, DOUBLING], spikes=(1500, 4000))
    assert one.kept(one.circuits) == pytest.approx(4 / 6)
    assert one.changes == [(pytest.approx(4 / 8), True)]
    assert one.spike_rate == pytest.approx(2 / 4)
    assert one.there_at_first == 1
    assert followed(0, [SERIAL], late=True).there_at_first == 0


def test_spikes_count_from_the_first_circuit_on_even_if_nothing_comes_after_it():
    """A spike is a step above twice the threshold after one below it; the first step counted has none before it."""
    losses = torch.tensor([[0.01], [0.2], [0.3], [0.01], [torch.nan], [0.01]])

    class Planted:
        steps, validation_loss = torch.arange(6), losses

        def after(self, step: int) -> Planted:
            self.steps, self.validation_loss = torch.arange(6)[step:], losses[step:]
            return self

    run: Any = SimpleNamespace(regular_metrics=Planted())
    assert [_spikes(run, since) for since in (0, 2, 6)] == [(1, 4), (2, 4), ()]
