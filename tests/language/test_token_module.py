"""Torch modules that take tokens: they answer as alone, and circuits of compiled programs (Tracr) are found."""

from __future__ import annotations

import random
import string
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

import hopscope as hs
from hopscope.errors import InputError

LOW, UP, DIGITS = string.ascii_lowercase[:8], string.ascii_uppercase[:8], "12345678"
LENGTH = 14


class Attention(nn.Module):
    """Causal attention of one layer."""

    def __init__(self, weights: dict[str, nn.Linear], heads: int) -> None:
        super().__init__()
        self.projections, self.heads, self.pattern = nn.ModuleDict(weights), heads, nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            self.projections[name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:]).triu(1).bool()
        pattern = self.pattern(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1))
        out: Tensor = self.projections["linear"]((pattern @ v).transpose(1, 2).flatten(2))
        return out


class Compiled(nn.Module):
    """A compiled program, with the values of its output as logits of the tokens of these names."""

    def __init__(self, program: Any, words: str) -> None:
        from tracr.compiler import compiling

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = compiling.compile_rasp_to_model(
                program, vocab={*words}, max_seq_len=LENGTH, causal=True, compiler_bos="bos"
            )
        super().__init__()
        weights = {name: {k: torch.tensor(v.tolist()) for k, v in part.items()} for name, part in made.params.items()}
        self.words = {str(word): number for word, number in made.input_encoder.encoding_map.items()}
        self.token = nn.Embedding.from_pretrained(weights["token_embed"]["embeddings"])
        self.position = nn.Embedding.from_pretrained(weights["pos_embed"]["embeddings"])

        def linear(name: str) -> nn.Linear:
            w, b = weights[f"transformer/{name}"]["w"], weights[f"transformer/{name}"]["b"]
            layer = nn.Linear(*w.shape)
            layer.weight.data, layer.bias.data = w.mT.contiguous(), b
            return layer

        self.blocks = nn.ModuleList()
        for number in range(made.model_config.num_layers):
            at = f"layer_{number}"
            names = ("query", "key", "value", "linear")
            attention = Attention({name: linear(f"{at}/attn/{name}") for name in names}, made.model_config.num_heads)
            mlp = nn.Sequential(linear(f"{at}/mlp/linear_1"), nn.ReLU(), linear(f"{at}/mlp/linear_2"))
            self.blocks.append(nn.ModuleDict({"attention": attention, "mlp": mlp}))
        self.out = nn.Linear(len(made.residual_labels), len(self.words), bias=False)
        self.out.weight.data.zero_()
        for place, label in enumerate(made.residual_labels):
            name, _, value = label.partition(":")
            if name == program.label and value in self.words:
                self.out.weight.data[self.words[value], place] = 12.0

    def embed(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return out

    @staticmethod
    def block(parts: Any) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            x = x + parts["attention"](x)
            return x + parts["mlp"](x)  # type: ignore[no-any-return]

        return run

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for parts in self.blocks:
            x = self.block(parts)(x)
        out: Tensor = self.out(x)
        return out


def opened(module: Any, task: hs.PromptTask) -> hs.LanguageModel:
    """A module that reads words."""
    inner = Tokenizer(WordLevel(module.words, unk_token="compiler_pad"))
    inner.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="compiler_pad")
    return hs.LanguageModel.from_torch(module, task, tokenizer, parts)


def parts(it: Any) -> hs.Parts:
    blocks = [it.block(block) for block in it.blocks]
    return hs.Parts(it.embed, blocks, it.out, [block["attention"].pattern for block in it.blocks])


def prompt(words: list[str], roles: dict[str, int], answers: tuple[str, ...]) -> hs.prompts.Prompt:
    """A prompt of words, the roles by the number of the word."""
    text, taken = hs.prompts.spans(
        piece
        for number, word in enumerate(["bos", *words])
        for piece in ((" " if number else "", ""), (word, next((r for r, n in roles.items() if n + 1 == number), "")))
    )
    return hs.prompts.Prompt(text, taken, answers)


def two_hops() -> Any:
    """The value of the name that is the value of the name asked for: `a B c D b C a` says C."""
    from tracr.rasp import rasp

    before = rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == q - 1), rasp.tokens)
    first = rasp.Aggregate(rasp.Select(before, rasp.tokens, rasp.Comparison.EQ), rasp.tokens)
    name = rasp.Map(lambda value: str(value).lower(), first)
    return rasp.Aggregate(rasp.Select(before, name, rasp.Comparison.EQ), rasp.tokens).named("out")


def two_hop_prompts(draw: random.Random) -> Iterator[hs.prompts.Prompt]:
    while True:
        a, b, c, d, e, f = draw.sample(range(8), 6)
        facts = [("1", a, b), ("2", b, c), ("", d, e), ("", e, f)]
        draw.shuffle(facts)
        words = [word for _, name, value in facts for word in (LOW[name], UP[value])]
        roles = {f"{kind}{of}": 2 * n + (kind == "v") for n, (of, _, _) in enumerate(facts) if of for kind in "nv"}
        yield prompt([*words, LOW[a]], roles | {"asked": 8}, (UP[c], UP[b], UP[e], UP[f]))


def induction() -> Any:
    """What came behind the last token before."""
    from tracr.rasp import rasp

    before = rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == q - 1), rasp.tokens)
    return rasp.Aggregate(rasp.Select(before, rasp.tokens, rasp.Comparison.EQ), rasp.tokens).named("out")


def induction_prompts(draw: random.Random) -> Iterator[hs.prompts.Prompt]:
    while True:
        words, at = draw.sample(LOW, 7), draw.randrange(1, 6)
        others = draw.sample([word for word in words if word not in words[at : at + 2]], 3)
        yield prompt([*words, words[at]], {"A1": at, "B1": at + 1, "A2": 7}, (words[at + 1], *others))


def pointer() -> Any:
    """The word at the place that the last token names."""
    from tracr.rasp import rasp

    pointed = rasp.Select(rasp.indices, rasp.tokens, lambda k, q: str(k) == str(q))
    return rasp.Aggregate(pointed, rasp.tokens).named("out")


def pointer_prompts(draw: random.Random) -> Iterator[hs.prompts.Prompt]:
    while True:
        words, at = draw.sample(LOW, 8), draw.randrange(1, 8)
        others = draw.sample([word for word in words if word != words[at]], 3)
        yield prompt([*words, str(at)], {"there": at, "number": 8}, (words[at], *others))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "words", "prompts", "paths"),
    [
        (two_hops, LOW + UP, two_hop_prompts,
         ["L1.H1 v1 -> n1", "L1.H1 v2 -> n2", "L2.H1 asked -> v1", "L3.H1 asked -> v2"]),
        (induction, LOW, induction_prompts, ["L1.H1 B1 -> A1", "L2.H1 A2 -> B1"]),
        (pointer, LOW + DIGITS, pointer_prompts, ["L1.H1 number -> there"]),
    ],
)  # fmt: skip
def test_the_circuit_of_a_program_is_found(
    program: Callable[[], Any], words: str, prompts: Callable[[random.Random], Any], paths: list[str]
) -> None:
    pytest.importorskip("tracr", reason="tracr-pypi is not installed: make test-tracr")
    drawn = prompts(random.Random(0))
    task = hs.PromptTask(program.__name__, tuple(next(drawn) for _ in range(256)))
    model = opened(Compiled(program(), words), task)
    assert model.evaluator(task).scores({}).accuracy == 1
    circuit = model.find_circuit(task, effort="quick")
    assert sorted(circuit.parts) == paths, str(circuit)
    assert circuit.certified, str(circuit)


class Small(Compiled):
    """The same, of random weights and two heads."""

    def __init__(self, words: int = 20, positions: int = LENGTH) -> None:
        nn.Module.__init__(self)
        torch.manual_seed(0)
        names = ("query", "key", "value", "linear")
        attention = Attention({name: nn.Linear(8, 8) for name in names}, 2)
        self.words = {word: number for number, word in enumerate(["compiler_pad", "bos", *LOW, *UP])}
        self.token, self.position, self.out = nn.Embedding(words, 8), nn.Embedding(positions, 8), nn.Linear(8, words)
        self.blocks = nn.ModuleList([nn.ModuleDict({"attention": attention, "mlp": nn.Linear(8, 8)})])


def test_a_module_of_tokens_answers_as_it_does_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = induction_prompts(random.Random(1))
    task, module = hs.PromptTask("own", tuple(next(drawn) for _ in range(16))), Small().requires_grad_(False)
    model = opened(module, task)
    evaluator = model.evaluator(task)
    batch = evaluator.batch
    alone = module(batch.inputs)[torch.arange(8), batch.answer].gather(1, batch.candidates).softmax(-1)
    wanted = (alone - nn.functional.one_hot(batch.right, 4)).square().sum(-1).mean()
    assert evaluator.scores({}).brier == pytest.approx(float(wanted), abs=1e-5)
    assert not model.find_circuit(task, effort="quick").found
    with pytest.raises(InputError, match=r"the module must take inputs .* which are whole numbers, .* RuntimeError"):
        opened(Small(positions=6), task)
    narrow = Small()
    narrow.out = nn.Linear(8, 8)
    with pytest.raises(InputError, match=r"the tokenizer gives token \d+, but the module has only 8 logits"):
        opened(narrow, task).evaluator(task)
    monkeypatch.setattr(Small, "embed", lambda self, tokens: self.token(tokens).cumsum(1))
    with pytest.raises(InputError, match="positions affect each other outside the patterns"):
        opened(Small(), task)


def test_edited_prompts_of_the_same_name_are_searched_again(tmp_path: Path) -> None:
    drawn = induction_prompts(random.Random(1))
    first, edited = (hs.PromptTask("own", tuple(next(drawn) for _ in range(16))) for _ in range(2))
    model = opened(Small().requires_grad_(False), first)
    once = model.find_circuit(first, effort="quick", out=tmp_path)
    assert model.find_circuit(first, effort="quick", out=tmp_path) == once
    again = model.find_circuit(edited, effort="quick", out=tmp_path)
    assert again.losses != once.losses
    assert again == model.find_circuit(edited, effort="quick", out=tmp_path)
