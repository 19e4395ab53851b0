"""Measure stored circuits of pretrained models on prompts that their searches and checks never read.

A circuit goes some share of the way from nothing (all rows off) to the model, alone or if it is removed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

import hopscope as hs
from studies.tools import records

R = TypeVar("R", bound=tuple[int, ...])

FRESH_SEED, FRESH_PROMPTS = 77, 96
"""The seed and the number of the prompts; the prompts of searches and checks have seed 0."""


@dataclass(frozen=True)
class Share:
    """A share of the way in mean loss, from 0 (all rows off) to 1 (the model), with its 95% bootstrap interval."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return "{:.2f} ({:.2f} to {:.2f})".format(self.value, *self.interval)


def shares(losses: Float[np.ndarray, "candidate prompt"]) -> list[Share]:
    """Return the shares of the way of all candidates after the first two, which are all rows off, and the model."""
    drawn = np.random.default_rng(0).integers(losses.shape[1], size=(2000, losses.shape[1]))
    (nothing, full, *means), (no_rows, model, *resampled) = losses.mean(axis=1), losses[:, drawn].mean(axis=-1)
    found = []
    for mean, others in zip(means, resampled, strict=True):
        low, high = np.quantile((no_rows - others) / (no_rows - model), (0.025, 0.975)).tolist()
        found.append(Share(round(float((nothing - mean) / (nothing - full)), 4), (round(low, 4), round(high, 4))))
    return found


@dataclass(frozen=True)
class Fresh:
    """How far a circuit goes with its own patterns, on prompts that its search and its checks never read.

    Attributes:
        circuit, model: the names of their folders.
        precision: the precision of the weights, as in the search.
        prompts: the number of prompts.
        alone: the share of the circuit alone.
        without_rows, without_heads: the shares of the model without the circuit's active rows, and without all rows of
            its heads.
        without_random: the shares without random sets of as many other rows in every layer.
    """

    circuit: str
    model: str
    precision: str
    prompts: int
    alone: Share
    without_rows: Share
    without_heads: Share
    without_random: tuple[Share, ...] = ()


def without_read(task: hs.PromptTask, read: hs.PromptTask) -> hs.PromptTask:
    """Return a task without the prompts that are in another."""
    known = {prompt.prompt for prompt in read.prompts}
    return hs.PromptTask(task.name, tuple(prompt for prompt in task.prompts if prompt.prompt not in known))


def measure(circuit: hs.Circuit, name: str, model: hs.LanguageModel, sets: int = 8) -> Fresh:
    """Measure how far a stored circuit goes in its model on prompts that it never met."""
    assert circuit.text is not None
    makers: dict[str, Callable[[int], hs.PromptTask]] = {
        "induction": lambda seed: hs.prompts.induction(model.tokenizer, seed=seed),
        "ioi": lambda seed: hs.prompts.ioi(seed=seed),
        "code-1-hops": lambda seed: hs.prompts.code(seed=seed),
        "code-chains-1-hops": lambda seed: hs.prompts.code_chains(model.tokenizer, seed=seed),
        "code-chains-2-hops": lambda seed: hs.prompts.code_chains(model.tokenizer, seed=seed, hops=2),
    }
    if (make := makers.get(circuit.text.formulation)) is None:
        raise hs.InputError(f"the study knows the tasks {', '.join(makers)}; got {circuit.text.formulation!r}")
    evaluator = model.evaluator(without_read(make(FRESH_SEED), make(0)), FRESH_PROMPTS)
    off = dict.fromkeys(evaluator.rows, hs.Ablation(hs.AblationKind.UNIFORM))
    own = off | circuit.interventions | dict.fromkeys(circuit.rows, hs.Ablation(hs.AblationKind.KEEP))
    heads = {(layer - 1, head - 1) for layer, head in circuit.used_heads}
    without = [{row: off[row] for row in circuit.rows}, {row: off[row] for row in off if row[:2] in heads}]
    drawn = random.Random(0)
    without += [{row: off[row] for row in random_others(circuit.rows, tuple(off), drawn)} for _ in range(sets)]
    first, second, third, *more = shares(evaluator.errors([off, {}, own, *without])[..., 0].double().numpy())
    return Fresh(name, circuit.text.name, model.precision, evaluator.sequences, first, second, third, tuple(more))


def random_others(chosen: Collection[R], every: Sequence[R], drawn: random.Random) -> list[R]:
    """Return random rows or heads that are not chosen, as many in every layer, their first number, as are chosen."""
    found = []
    for layer, wanted in sorted(Counter(each[0] for each in chosen).items()):
        others = [each for each in every if each[0] == layer and each not in chosen]
        found += drawn.sample(others, min(wanted, len(others)))
    return found


def measure_all(results: Path, models: Path) -> None:
    """Measure the circuits of pretrained models that `pretrained/fresh.json` lacks, and add each of them to it."""
    file = results / "pretrained" / "fresh.json"
    done = {each.circuit: each for each in records.read(file, list[Fresh])} if file.exists() else {}
    opened: dict[tuple[str, Any], hs.LanguageModel] = {}
    for path in sorted((results / "pretrained").glob("*/circuit.json")):
        if path.parent.name in done:
            continue
        circuit = hs.Circuit.load(path)
        which = circuit.text.name if circuit.text else "", circuit.search.precision
        if which not in opened:
            opened = {which: hs.LanguageModel(models / which[0], precision=which[1])}
        done[path.parent.name] = measure(circuit, path.parent.name, opened[which])
        records.write(file, [*done.values()])
        print(done[path.parent.name], flush=True)
