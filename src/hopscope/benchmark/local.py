"""A pretrained model in this process, from a folder, a GGUF file or a hub, which is asked in batches.

A question goes through the chat template, or is plain text whose answer ends with the line. The keys and values of a
prompt are kept for all replies to the prompt. Every sampled reply has its own random numbers, which depend only on the
question and the attempt, so that neither the batch nor a restart changes a reply (up to rounding).
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.benchmark.answers import Keep, Reply, Trial
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.benchmark.weighing import SPELLINGS, WHOLE_TREE, TokenIds, spelling, weigh
from hopscope.checks import check_choice
from hopscope.errors import InputError, in_a_line
from hopscope.kernels import best_precision
from hopscope.language.decoder_layers import set_precision
from hopscope.language.limits import check_tokens, check_words, places
from hopscope.language.model_folder import open_model_folder
from hopscope.problem.text.formulation import Draw
from hopscope.problem.text.questions import Question
from hopscope.problem.text.tokens import encode, in_a_chat, written

PREFIX = 8  # a common beginning of at least this many tokens is read once for all prompts of a batch


class ReadPrompts(NamedTuple):
    """Prompts of one length, the logits after each, and their keys and values (None if the model keeps none)."""

    ids: Int[Tensor, "prompt pos"]
    logits: Float[Tensor, "prompt token"]
    past: Any


class LocalModel:
    """A causal language model and its tokenizer, asked in this process.

    Args:
        source: a folder as `save_pretrained` writes it, a GGUF file or a folder with one, or a hub's name `org/model`.
        device: the device to run on; by default the first GPU, or the CPU if there is none.
        batch: number of sequences at a time; in exact mode, twice as many branches of replies are followed at a time.
        trust_remote_code: whether code in the folder may run, with all the rights of the user.
        precision: precision of the weights: `fp32`, `bf16`, or `auto`, which is bf16 if the weights are stored in bf16
            and the device multiplies bf16 faster. Logits are always in single precision.

    Raises:
        InputError: the model does not exist, does not know all tokens of its tokenizer, cannot be run, looks ahead in a
            text, or needs code that is not trusted.
    """

    def __init__(
        self,
        source: Path | str,
        device: str | None = None,
        batch: int = 64,
        trust_remote_code: bool = False,
        precision: Literal["auto", "fp32", "bf16"] = "auto",
    ) -> None:
        check_choice("precision", precision, ("auto", "fp32", "bf16"))
        opened = open_model_folder(source, trust_remote_code=trust_remote_code)
        check_words(opened.model, opened.tokenizer)
        self.name, self.batch = f"local/{opened.name}", batch
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenizer = opened.tokenizer
        stored = opened.model.dtype == torch.bfloat16
        try:
            bf16 = precision == "bf16" or (precision == "auto" and stored and best_precision(self.device) == "bf16")
            set_precision(opened.model, "bf16" if bf16 else "fp32")
            self._model = opened.model.to(self.device).eval()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise InputError(f"device {self.device!r} cannot be used here ({in_a_line(error)}); pass cpu") from None
        self.identity = {"weights": opened.content, "precision": "bfloat16" if bf16 else "float32"}
        stops = self._model.generation_config.eos_token_id
        self._stops = {*(stops if isinstance(stops, list) else [stops]), self._tokenizer.eos_token_id} - {None}
        self._places = places(self._model)
        self._last_only = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        self._texts = set(self._tokenizer.get_vocab().values())
        self._caches, self._size = True, 0
        try:
            self._try()
        except InputError:
            raise
        except Exception as error:  # a family with unusual code may raise any error
            raise InputError(f"{self.name} cannot be run: {in_a_line(error)}") from error

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Ask each question until it is settled, or weigh its answers in exact mode, and pass each record to `keep`."""
        if settings.mode == "exact":
            self._weigh(questions, settings, keep)
            return
        for group, prompts in self._read_all(questions, settings):
            trials = [Trial(question, settings.rule, settings.attempts) for question in group]
            while unsettled := [n for n, trial in enumerate(trials) if not trial.settled]:
                tries = max(1, self.batch // len(unsettled))  # replies after the first good one are dropped
                attempts = [(n, k) for n in unsettled for k in range(len(trials[n].replies), settings.attempts)[:tries]]
                draws = [Draw(group[n].id, "reply", attempt) for n, attempt in attempts]
                replies = self._write(prompts, [n for n, _ in attempts], draws, settings, self._by_line(group[0]))
                for (n, _), reply in zip(attempts, replies, strict=True):
                    if not trials[n].settled:
                        trials[n].replies.append(reply)
                for n in unsettled:
                    if trials[n].settled:
                        keep(trials[n].record(self.name))

    def _weigh(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Compute, in exact mode, the probability that a sampled reply gives each acceptable answer."""
        anchor = tuple(self._tokenizer("0", add_special_tokens=False)["input_ids"])
        by_line, until = self._by_line(questions[0]), WHOLE_TREE if settings.exact_tree else SPELLINGS
        turns = spelling(self._decode, self._size, self._stops, by_line, settings.rule, anchor, settings.longest)
        for group, prompts in self._read_all(questions, settings):

            def following(
                numbers: Sequence[int], tokens: Sequence[TokenIds], prompts: ReadPrompts = prompts
            ) -> Float[Tensor, "branch token"]:
                return (self._behind(prompts, numbers, torch.tensor(tokens)) / settings.temperature).softmax(-1)

            first = (prompts.logits / settings.temperature).softmax(-1)
            found = weigh([q.acceptable for q in group], first, following, turns, until, 2 * self.batch)
            for question, (weights, left) in zip(group, found, strict=True):
                keep(Trial(question, settings.rule, 1).record(self.name, "exact", weights=weights, unweighed=left))

    def _by_line(self, question: Question) -> bool:
        """Whether a line break ends a reply, as it does if the prompt is plain text and asks for no thoughts first."""
        return not in_a_chat(question, self._tokenizer) and not question.extensions.think

    def _read_all(
        self, questions: Sequence[Question], settings: BenchmarkSettings
    ) -> Iterator[tuple[list[Question], ReadPrompts]]:
        """Yield questions and read prompts in batches of equal prompt length, as padding would change some models."""
        groups = defaultdict[int, list[tuple[Question, list[int]]]](list)
        for question in questions:
            text, _ = written(question, self._tokenizer)
            ids = encode(text, self._tokenizer, in_a_chat(question, self._tokenizer))[0]
            check_tokens(self._model, self._tokenizer, ids)
            groups[len(ids)].append((question, ids))
        longest = max(groups, default=0)
        if self._places is not None and longest + settings.longest > self._places:
            raise InputError(
                f"a question has {longest} tokens and its reply up to {settings.longest}, but {self.name} takes at "
                f"most {self._places}; pass a lower max_tokens, or ask for fewer hops"
            )
        for _, group in sorted(groups.items()):
            for start in range(0, len(group), self.batch):
                part = group[start : start + self.batch]
                yield [question for question, _ in part], self._read(torch.tensor([ids for _, ids in part]))

    def _read(self, ids: Int[Tensor, "prompt pos"]) -> ReadPrompts:
        """Read prompts; a beginning that all prompts share is read once."""
        alike = int((ids[:, :-1] == ids[:1, :-1]).all(0).cumprod(0).sum())
        past = None
        if self._caches and len(ids) > 1 and alike >= PREFIX:
            past = _selected(self._forward(ids[:1, :alike], None)[1], [0] * len(ids))
        logits, past = self._forward(ids if past is None else ids[:, alike:], past)
        return ReadPrompts(ids, logits, past)

    def _behind(
        self, prompts: ReadPrompts, numbers: Sequence[int], tokens: Int[Tensor, "row pos"]
    ) -> Float[Tensor, "row token"]:
        """Return the logits after the prompts with these numbers, each followed by its row of `tokens`."""
        if prompts.past is None:
            return self._forward(torch.cat([prompts.ids[list(numbers)], tokens], dim=1), None)[0]
        return self._forward(tokens, _selected(prompts.past, numbers))[0]

    @torch.no_grad()
    def _forward(self, ids: Int[Tensor, "row pos"], past: Any) -> tuple[Float[Tensor, "row token"], Any]:
        """Return the logits after rows of one length, and all keys and values; `past` holds those of earlier tokens."""
        extra = {} if past is None else {"past_key_values": past}
        if self._last_only:
            extra["logits_to_keep"] = 1
        out = self._model(input_ids=ids.to(self.device), use_cache=self._caches, **extra)
        return out.logits[:, -1].float().cpu(), getattr(out, "past_key_values", None) if self._caches else None

    def _decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; special and unknown tokens stay visible, so "3<pad>" is not the answer "3"."""
        if self._texts.issuperset(tokens):
            return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))
        return "".join(self._decode([t]) if t in self._texts else "\N{REPLACEMENT CHARACTER}" for t in tokens)

    def _write(
        self,
        prompts: ReadPrompts,
        numbers: list[int],
        draws: Sequence[Draw],
        settings: BenchmarkSettings,
        by_line: bool,
    ) -> list[Reply]:
        """Write a reply to each of the prompts with these numbers."""
        rows: list[list[int]] = [[] for _ in numbers]
        whole, logits, ended = prompts.ids[numbers], prompts.logits[numbers], set[int]()
        past = None if prompts.past is None else _selected(prompts.past, numbers)
        while True:
            if settings.temperature:
                chosen = _chosen((logits / settings.temperature).softmax(-1), draws)
            else:
                chosen = logits.argmax(-1, keepdim=True)
            for n, token in enumerate(chosen[:, 0].tolist()):
                rows[n].append(token)
                if token in self._stops or (by_line and n not in ended and "\n" in self._decode(rows[n])):
                    ended.add(n)
            if len(ended) == len(rows) or len(rows[0]) == settings.longest:
                return [self._reply(row, by_line) for row in rows]
            whole = torch.cat([whole, chosen], dim=1)
            logits, past = self._forward(whole if past is None else chosen, past)

    def _reply(self, tokens: list[int], by_line: bool) -> Reply:
        """Return the reply in these tokens: the text before its end, and whether it ended."""
        end = next((i for i, token in enumerate(tokens) if token in self._stops), None)
        text = self._decode(tokens[:end])
        return Reply(text.split("\n")[0], True) if by_line and "\n" in text else Reply(text, end is not None)

    def _try(self) -> None:
        """Refuse a model that looks ahead in a text; keep keys and values only if they do not change its answers."""
        vocabulary = range(self._model.config.get_text_config().vocab_size)
        some = [token for token in vocabulary if token not in self._stops] or [0]
        begun, goes_on = ([some[(start + place) % len(some)] for place in range(5)] for start in (0, 5))
        rows = torch.tensor([begun + goes_on, begun[::-1] + goes_on, begun + begun])
        with torch.no_grad():
            logits = self._model(input_ids=rows.to(self.device), use_cache=False).logits
        plain = logits.float().softmax(-1).cpu()
        self._size = plain.shape[-1]

        def same(found: Float[Tensor, "*place token"], wanted: Float[Tensor, "*place token"]) -> bool:
            rounding: float = torch.finfo(self._model.dtype).eps ** 0.5
            return float((found - wanted).abs().max()) <= rounding * float(wanted.max())

        if not same(plain[2, :5], plain[0, :5]):
            raise InputError(f"{self.name} looks ahead in a text, so it cannot continue one; give a causal model")
        read = self._read(rows[:2, :5])
        self._caches = read.past is not None and hasattr(read.past, "batch_select_indices")
        if not self._caches:
            return
        turned = [1, 0, 1]
        past, seen = _selected(read.past, turned), [read.logits[turned].softmax(-1)]
        for place in range(5, 10):
            logits, past = self._forward(rows[turned, place : place + 1], past)
            seen.append(logits.softmax(-1))
        at_once = self._behind(read, turned, rows[turned, 5:8]).softmax(-1)
        self._caches = same(torch.stack(seen, dim=1), plain[turned, 4:]) and same(at_once, plain[turned, 7])


def _selected(past: Any, numbers: Sequence[int]) -> Any:
    """Return the keys and values of some rows, by number, in new tensors; `past` is not changed."""
    found = copy.copy(past)
    found.layers = [copy.copy(layer) for layer in past.layers]
    found.batch_select_indices(torch.tensor(numbers))
    return found


def _chosen(chances: Float[Tensor, "row token"], draws: Sequence[Draw]) -> Int[Tensor, "row 1"]:
    """Return one token for each row, drawn with the row's next random number."""
    cumulative = chances.double().cumsum(-1)
    uniform = torch.tensor([[draw.uniform()] for draw in draws], dtype=torch.float64)
    chosen = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    return chosen.clamp(max=chances.shape[-1] - 1)
