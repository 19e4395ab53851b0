"""What does a pretrained model pass on from line to line: a value, a name, or the place of a line? (patching)

Code of D hops has D lines in every chain; the last, such as `a = 3`, is the *value line*, and the line before it names
it (`c = a`). Two chains are edited so that one property of the value line that a name leads to changes at a time:

- `value`: the two values change places, so the same name at the same place has the other value;
- `place`: the two value lines change places, so the same name with the same value stands elsewhere;
- `name`: the names of the value lines change places, and so do their mentions, so the same value at the same place has
  the other name;
- `place and name`: both together, so the same value stands elsewhere under the other name (added after the results of
  one hop, where neither alone was passed on).

The stream at some tokens is then copied from the edited prompt into the original one, after one layer, and the model
goes on. If these tokens pass the property on, the answer becomes the value of the other chain: its value was copied, or
its name or its place leads there. The tokens are:

- `line 1`: the line that mentions the name of the value line, in the chain asked for (two hops only);
- `name`: the name in the question;
- `end`: all tokens after it, up to the last one, which gives the answer;
- `question`: the name and the end together (added with `place and name`);
- `another line 1`: the line 1 of a third chain (negative control).

A prompt is used if the loss (Brier score) of the original and of the first three edits is below `SURE`. `published` is
the order in which the value line comes first; in `value last`, all lines are shuffled, and the value lines of both
chains come after the lines that mention their names.

    python -m examples.models qwen
    python -m studies.addresses models/Qwen2.5-Coder-1.5B-Instruct results/pretrained/addresses
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

import hopscope as hs
from hopscope.plot import save
from hopscope.statistics import measured
from studies.figures.addresses import addresses
from studies.tools import records
from studies.tools.command import status

SURE, CHOSEN, DRAWN, BATCH = 0.1, 32, 512, 16
"""The largest loss of a prompt that is used, and the numbers of prompts used, drawn at most, and read at once."""

STRIDE = 2
"""The number of layers from one patched layer to the next."""

Property = Literal["value", "place", "name", "place and name"]
PROPERTIES: tuple[Property, ...] = ("value", "place", "name", "place and name")
PLANNED = PROPERTIES[:3]

TOKENS = "name", "end", "question"
LINE_TOKENS = "line 1", "another line 1"
"""The groups of tokens that are patched; those of a line 1 only if there is one."""

Lines = Literal["published", "value last"]


@dataclass(frozen=True)
class Patch:
    """The mean probability of the other chain's value, among the four, if tokens are patched after `layer` (from 1)."""

    tokens: str
    property: Property
    layer: int
    moved: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Addresses:
    """All patches of one model at one D, in one order of lines.

    Attributes:
        model: the name of the model's folder.
        layers: its number of layers.
        hops: D.
        lines: the order of lines.
        asked: the number of prompts that were read to find the chosen ones.
        chosen: the number of prompts used.
        own: the mean probability of the other chain's value without a patch.
        patches: what was patched, and the answers.
    """

    model: str
    layers: int
    hops: int
    lines: Lines
    asked: int
    chosen: int
    own: float
    patches: tuple[Patch, ...]


def exchanged(text: str, spans: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> str:
    """Return a text in which the characters of each pair of spans have changed places; both spans are equally long."""
    for (start, end), (first, last) in spans:
        one, other = sorted([(start, end), (first, last)])
        text = text[: one[0]] + text[slice(*other)] + text[one[1] : other[0]] + text[slice(*one)] + text[other[1] :]
    return text


def edited(prompt: hs.prompts.Prompt, hops: int, other: int, changed: Property) -> hs.prompts.Prompt:
    """Return a prompt in which one property of the value line changes places with that of the `other` chain."""
    here, there = prompt.roles, prompt.other_chains[other]
    pairs = {role: (here[role], there[role]) for role in (f"x{hops - 1}>", f">x{hops}")}
    name, value = pairs
    roles = {"value": [value], "place": [name, value], "name": [name], "place and name": [value]}[changed]
    text, right = exchanged(prompt.prompt, [pairs[role] for role in roles]), prompt.right
    if "name" in changed and hops == 1:
        start, end = here["x0?"]
        text = text[:start] + prompt.prompt[slice(*there["x0>"])] + text[end:]
    elif "name" in changed:
        mention = f">x{hops - 1}"
        text = exchanged(text, [(here[mention], there[mention])])
    elif changed == "value":
        right = value_of(prompt, hops, other)
    return replace(prompt, prompt=text, right=right)


def value_of(prompt: hs.prompts.Prompt, hops: int, other: int) -> int:
    """Return the index of the other chain's value among the answers."""
    start, end = prompt.other_chains[other][f">x{hops}"]
    return [answer.strip() for answer in prompt.answers].index(prompt.prompt[start:end].strip())


def choose(prompt: hs.prompts.Prompt, hops: int, lines: Lines) -> tuple[int, int] | None:
    """Return the numbers of the other chain and of a third one; None if its lines are in another order."""
    if lines == "published":
        return 0, 1

    def late(roles: dict[str, tuple[int, int]], *mentions: dict[str, tuple[int, int]]) -> bool:
        return all(roles[f">x{hops}"] > each[f">x{hops - 1}"] for each in mentions)

    here, chains = prompt.roles, prompt.other_chains
    fit = [n for n, chain in enumerate(chains) if late(here, here, chain) and late(chain, here, chain)]
    return (fit[0], (fit[0] + 1) % len(chains)) if fit else None


@dataclass(frozen=True)
class Asked:
    """Evaluators of the prompts and of their edits, the index of the other chain's value, and the third chain."""

    original: Any
    changed: dict[Property, Any]
    other_value: Int[Tensor, " prompt"]
    third: Int[Tensor, " prompt"]


def questions(model: hs.LanguageModel, hops: int, lines: Lines) -> Asked:
    """Return the prompts of one D and order, in the same order in the original and in each edited version."""
    count = 2 * DRAWN if lines == "published" else 8 * DRAWN
    order: Any = "blocks" if lines == "published" else "shuffled"
    task = hs.prompts.code_chains(model.tokenizer, count, hops=hops, lines=order)
    fit = [(prompt, found) for prompt in task.prompts if (found := choose(prompt, hops, lines)) is not None]
    prompts, chains = [prompt for prompt, _ in fit], [found for _, found in fit]

    def evaluator(some: Sequence[hs.prompts.Prompt]) -> Any:
        return model.evaluator(replace(task, prompts=tuple(some)), DRAWN)

    changed = {
        each: evaluator([edited(p, hops, other, each) for p, (other, _) in zip(prompts, chains, strict=True)])
        for each in PROPERTIES
    }
    # The numbers of the other value and of the third chain go through the draw of prompts as the right answer.
    values = evaluator(
        [replace(p, right=value_of(p, hops, other)) for p, (other, _) in zip(prompts, chains, strict=True)]
    )
    thirds = evaluator([replace(p, right=third) for p, (_, third) in zip(prompts, chains, strict=True)])
    return Asked(evaluator(prompts), changed, values.batch.right, thirds.batch.right)


def sites(evaluator: Any, hops: int, third: Int[Tensor, " prompt"]) -> dict[str, Bool[Tensor, "prompt pos"]]:
    """Return the positions of every group of tokens."""
    batch, names = evaluator.batch, evaluator.names
    at = torch.arange(batch.inputs.shape[1])
    asked, last = batch.place[:, 0, names.index("x0?")][:, None], batch.answer[:, None]
    found = dict(zip(TOKENS, (at == asked, (at > asked) & (at <= last), (at >= asked) & (at <= last)), strict=True))
    line = [names.index(role) for role in ("x0>", "x0=", "x1-1", ">x1", "x1.") if role in names]
    if hops == 1:
        return found
    for name, chains in zip(LINE_TOKENS, (torch.zeros_like(third), 1 + third), strict=True):
        places = batch.place[torch.arange(len(third)), chains][:, line]
        found[name] = (at == places[..., None]).any(dim=1)
    return found


def sure_prompts(asked: Asked) -> tuple[list[int], int]:
    """Return the numbers of the chosen prompts, and how many were read to find them."""
    sure, read = list[int](), 0
    while len(sure) < CHOSEN and read < asked.original.sequences:
        left = list(range(read, min(read + BATCH, asked.original.sequences)))
        for evaluator in (asked.original, *(asked.changed[each] for each in PLANNED)):
            if left:
                losses = evaluator.on(evaluator.batch[left]).own.tolist()
                left = [number for number, loss in zip(left, losses, strict=True) if loss < SURE]
        sure, read = [*sure, *left], read + BATCH
    return sure[:CHOSEN], read


@torch.no_grad()
def ask(model: hs.LanguageModel, name: str, hops: int, lines: Lines, path: Path) -> None:
    """Measure the patches of one D and one order of lines that `path` does not have, and write them there."""
    before = records.read(path, Addresses) if path.exists() else None
    if before is not None and before.model != name:
        raise hs.InputError(f"{path} is of the model {before.model}, not of {name}; choose another folder")
    known = {(patch.tokens, patch.property) for patch in before.patches} if before else set()
    if known.issuperset(product(TOKENS if hops == 1 else TOKENS + LINE_TOKENS, PROPERTIES)):
        return
    asked = questions(model, hops, lines)
    sure, read = sure_prompts(asked)
    evaluator = asked.original.on(asked.original.batch[sure])
    changed = {each: edit.batch[sure].inputs for each, edit in asked.changed.items()}
    other_value, transformer = asked.other_value[sure], evaluator.transformer
    masks = sites(evaluator, hops, asked.third[sure])
    layers = evaluator.shape.layers

    def moved(x: Tensor) -> Float[Tensor, " prompt"]:
        rows = torch.arange(len(sure))
        logits = transformer.answers(x[:, rows, evaluator.batch.answer][:, :, None])[0, :, 0]
        chances = logits.gather(-1, evaluator.batch.candidates).double().softmax(-1)
        chance: Tensor = chances.gather(-1, other_value[:, None])[:, 0]
        return chance

    x = transformer.embed(evaluator.batch.inputs[None])
    edits = {each: transformer.embed(inputs[None]) for each, inputs in changed.items()}
    own = moved(transformer.run(x))
    patches = list(before.patches if before else ())
    for layer in range(layers):
        x, *those = (transformer.run(stream, start=layer, stop=layer + 1) for stream in (x, *edits.values()))
        edits = dict(zip(edits, those, strict=True))
        if layer % STRIDE == (layers - 1) % STRIDE:
            for tokens, mask in masks.items():
                for each, stream in edits.items():
                    if (tokens, each) in known:
                        continue
                    patched = torch.where(mask[None, :, :, None], stream, x)
                    chance = measured(moved(transformer.run(patched, start=layer + 1)), seed=0)
                    patches.append(Patch(tokens, each, layer + 1, chance.mean, chance.interval))
            print(
                f"{time.strftime('%H:%M:%S')}  {records.counted(hops, 'hop')}, {lines}: layer {layer + 1} of {layers}",
                flush=True,
            )
    found = Addresses(name, layers, hops, lines, read, len(sure), round(float(own.mean()), 6), tuple(patches))
    if before is not None and replace(before, patches=()) != replace(found, patches=()):
        raise hs.InputError(f"{path} is of other prompts or of another model; choose another folder")
    records.write(path, found)


def main() -> None:
    """Measure what is missing, and draw all that is there."""
    parser = argparse.ArgumentParser(prog="python -m studies.addresses", description=__doc__)
    parser.add_argument("model", help="the folder of a language model")
    parser.add_argument("folder", type=Path, help="where the numbers and the figure are written")
    asked = parser.parse_args()
    model, name = hs.LanguageModel(asked.model, precision="bf16"), Path(asked.model).name
    cases: tuple[tuple[int, Lines], ...] = ((1, "published"), (2, "published"), (2, "value last"))
    for hops, lines in cases:
        ask(model, name, hops, lines, asked.folder / f"{hops}-hops-{lines.replace(' ', '-')}.json")
    every = [records.read(path, Addresses) for path in sorted(asked.folder.glob("*.json"))]
    save(addresses(every), asked.folder / "addresses")


if __name__ == "__main__":
    sys.exit(status(main))
