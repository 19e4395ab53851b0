"""The five formulations as Inspect AI tasks.

inspect eval hopscope/equations -T hops=1,2,3 -T count=100 --model openai/gpt-4o
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample

from hopscope.benchmark.asking import Keep, Price, answer, resample
from hopscope.benchmark.settings import EQUATION_HOPS, Cell, Settings
from hopscope.errors import InputError
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question


def build(
    name: str,
    questions: Sequence[Question],
    settings: Settings,
    keep: Keep | None = None,
    price: Price | None = None,
    cache: bool = False,
    model: str | None = None,
) -> Task:
    """A task that puts these questions. A question whose calls fail is counted, and stops no other."""
    samples = [Sample(input=q.prompt, target=q.answer, id=q.id, metadata={"hops": q.hops}) for q in questions]
    return Task(
        name=name,
        dataset=MemoryDataset(samples, name=name),
        solver=resample({q.id: q for q in questions}, settings, keep, price, cache, model),
        scorer=answer(),
        metadata={"settings": settings.record()},
    )


def _task(
    name: str,
    hops: Any,
    count: Any,
    seed: Any,
    rule: str,
    attempts: Any,
    temperature: Any,
    max_tokens: Any,
    cache: Any,
    **extensions: Any,
) -> Task:
    """A task from the command line's arguments, which may arrive as text."""
    settings = Settings(
        seed=_whole("seed", seed),
        rule=rule,
        attempts=_whole("attempts", attempts),
        temperature=float(temperature),
        max_tokens=_whole("max_tokens", max_tokens),
        extensions=Extensions(**extensions),
    )
    wanted = [Cell(name, d) for d in _hops(name, hops)]
    questions = [q for cell in wanted for q in settings.questions(cell, _whole("count", count))]
    return build(FORMULATIONS[name].task, questions, settings, cache=str(cache).lower() in {"true", "1", "yes"})


def _hops(name: str, hops: Any) -> list[int]:
    """`None`, 3, "3", "1,2,3" or a list of those."""
    if hops is None:
        return list(EQUATION_HOPS) if name == "equations" else [FORMULATIONS[name].paper_hops]
    parts = hops.split(",") if isinstance(hops, str) else hops if isinstance(hops, list | tuple) else [hops]
    return [_whole("hops", part) for part in parts]


def _whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a whole number, got {value!r}") from None


@task
def equations(
    hops: Any = None,
    count: Any = 500,
    seed: Any = 0,
    rule: str = "exact",
    attempts: Any = 20,
    temperature: Any = 1.0,
    max_tokens: Any = 32,
    cache: Any = False,
    names: str = "paper",
    lines: str = "blocks",
) -> Task:
    """F1, over D = 1 ... 6."""
    return _task(
        "equations", hops, count, seed, rule, attempts, temperature, max_tokens, cache, names=names, lines=lines
    )


@task
def lives_with(
    hops: Any = None,
    count: Any = 500,
    seed: Any = 0,
    rule: str = "exact",
    attempts: Any = 20,
    temperature: Any = 1.0,
    max_tokens: Any = 32,
    cache: Any = False,
    names: str = "paper",
    lines: str = "blocks",
) -> Task:
    """F2, at D = 5."""
    return _task(
        "lives-with", hops, count, seed, rule, attempts, temperature, max_tokens, cache, names=names, lines=lines
    )


@task
def kingdoms(
    count: Any = 500,
    seed: Any = 0,
    rule: str = "exact",
    attempts: Any = 20,
    temperature: Any = 1.0,
    max_tokens: Any = 32,
    cache: Any = False,
    lines: str = "blocks",
) -> Task:
    """F3."""
    return _task("kingdoms", None, count, seed, rule, attempts, temperature, max_tokens, cache, lines=lines)


@task
def functions(
    count: Any = 500,
    seed: Any = 0,
    rule: str = "exact",
    attempts: Any = 20,
    temperature: Any = 1.0,
    max_tokens: Any = 32,
    cache: Any = False,
    lines: str = "blocks",
    latin: bool = False,
) -> Task:
    """F4, conditional."""
    return _task(
        "functions", None, count, seed, rule, attempts, temperature, max_tokens, cache, lines=lines, latin=latin
    )


@task
def relatives(
    count: Any = 500,
    seed: Any = 0,
    rule: str = "exact",
    attempts: Any = 20,
    temperature: Any = 1.0,
    max_tokens: Any = 32,
    cache: Any = False,
    lines: str = "blocks",
) -> Task:
    """F5, conditional."""
    return _task("relatives", None, count, seed, rule, attempts, temperature, max_tokens, cache, lines=lines)
