"""A Hugging Face model folder on disk, asked in this process and in batches; nothing is fetched from anywhere.

A model with a chat template is asked through it. A plain language model is given the prompt and a line break; its
answer ends with the line or with the text, and where it is to think first with the text alone. Every reply has random
numbers of its own, addressed by question and attempt, so that neither the batch nor a restart changes it (to rounding).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.benchmark.answers import Keep, Reply, Trial, weighed
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.benchmark.weighing import Speller, TokenIds, weigh
from hopscope.errors import InputError, in_a_line
from hopscope.language.limits import check_tokens, check_words, places
from hopscope.language.model_folder import open_model_folder
from hopscope.problem.text.formulation import Draw
from hopscope.problem.text.questions import Question
from hopscope.problem.text.tokens import check_read, encode, written


class LocalModel:
    """A causal language model and its tokenizer, from a folder, as `save_pretrained` writes it, in safetensors only.

    Args:
        device: the device it runs on; the first GPU, if there is one, by default.
        batch: how many sequences run at a time.
        trust_remote_code: whether code that the folder brings may run, with all rights of whoever runs this.

    Raises:
        InputError: the folder holds no such model, one that does not know its tokenizer's words, that cannot be run or
            that looks ahead, or one that needs code of its own and is not trusted with it.
    """

    def __init__(
        self, folder: Path, device: str | None = None, batch: int = 64, trust_remote_code: bool = False
    ) -> None:
        opened = open_model_folder(folder, trust_remote_code=trust_remote_code)
        check_words(opened.model, opened.tokenizer)
        self.name = f"local/{opened.name}"
        self.identity = {"weights": opened.content}
        self.batch = batch
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenizer = opened.tokenizer
        try:
            self._model = opened.model.to(self.device).eval()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise InputError(f"device {self.device!r} cannot be used here ({in_a_line(error)}); pass cpu") from None
        stops = self._model.generation_config.eos_token_id
        self._stops = {*(stops if isinstance(stops, list) else [stops]), self._tokenizer.eos_token_id} - {None}
        self._chat = self._tokenizer.chat_template is not None
        self._places = places(self._model)
        self._last_only = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        self._texts = set(self._tokenizer.get_vocab().values())
        self._caches, self._size = True, 0
        try:
            self._try()
        except InputError:
            raise
        except Exception as error:  # whatever a family raises that is not built as its configuration says
            raise InputError(f"{self.name} cannot be run: {in_a_line(error)}") from error

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Ask each question until it is settled; `keep` gets each record as it comes."""
        prompts = self._prompts(questions, settings)
        trials = [Trial(question, settings.rule, settings.attempts) for question in reversed(questions)]
        waiting = sorted(trials, key=lambda trial: -len(prompts[trial.question.id]))  # those of one length together
        running: list[Trial] = []
        while waiting or running:
            while waiting and len(running) < self.batch:
                running.append(waiting.pop())
            rows = [prompts[trial.question.id] for trial in running]
            draws = [Draw(trial.question.id, "reply", len(trial.replies)) for trial in running]
            for group in _by_length(rows):
                replies = self._write([rows[n] for n in group], [draws[n] for n in group], settings)
                for n, reply in zip(group, replies, strict=True):
                    running[n].replies.append(reply)
            for trial in running:
                if trial.settled:
                    keep(trial.record(self.name))
            running = [trial for trial in running if not trial.settled]

    def weigh(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Exact mode: the probability that a reply is taken for each acceptable answer, as `ask` would take it."""
        prompts = self._prompts(questions, settings)
        anchor = tuple(self._tokenizer("0", add_special_tokens=False)["input_ids"])
        speller = Speller(self._decode, self._size, self._stops, not self._chat, settings.rule, anchor)
        for start in range(0, len(questions), self.batch):
            part = questions[start : start + self.batch]

            def following(branches: Sequence[tuple[int, TokenIds]], part: Sequence[Question] = part) -> Tensor:
                rows = [[*prompts[part[number].id], *tokens] for number, tokens in branches]
                return self._next(rows, settings.temperature)

            found = weigh([q.acceptable for q in part], following, speller, settings.longest, self.batch)
            for question, (weights, left) in zip(part, found, strict=True):
                keep(weighed(question, self.name, settings.rule, weights, left))

    def _prompts(self, questions: Sequence[Question], settings: BenchmarkSettings) -> dict[str, list[int]]:
        """The tokens that the model is given for each question, by its id; there is room for the longest reply."""
        found = {}
        for question in questions:
            check_read(question, self._tokenizer)
            text, _ = written(question.prompt, self._tokenizer)
            found[question.id] = ids = encode(text, self._tokenizer)[0]
            check_tokens(self._model, self._tokenizer, ids)
        longest = max(map(len, found.values()), default=0)
        if self._places is not None and longest + settings.longest > self._places:
            raise InputError(
                f"a question has {longest} tokens here, its reply up to {settings.longest}, and {self.name} places "
                f"for {self._places}; pass a lower max_tokens, or ask for fewer hops"
            )
        return found

    def _decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens; special tokens stay visible, so that "3<pad>" is not the answer "3", and so do the
        rows of an embedding that are no token of the tokenizer's, which it would leave out."""
        if all(token in self._texts for token in tokens):
            return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))
        return "".join(
            self._decode([token]) if token in self._texts else "\N{REPLACEMENT CHARACTER}" for token in tokens
        )

    @torch.no_grad()
    def _forward(self, ids: Int[Tensor, "row pos"], past: Any = None) -> tuple[Float[Tensor, "row token"], Any]:
        """The logits behind rows of one length, and what the model keeps of them; `past` is what it kept before."""
        extra = {} if past is None else {"past_key_values": past}
        if self._last_only:
            extra["logits_to_keep"] = 1
        out = self._model(input_ids=ids.to(self.device), use_cache=self._caches, **extra)
        return out.logits[:, -1].double().cpu(), getattr(out, "past_key_values", None) if self._caches else None

    def _next(self, rows: Sequence[Sequence[int]], temperature: float) -> Float[Tensor, "row token"]:
        """The distribution over the token that follows each row."""
        groups = _by_length(rows)
        logits = torch.cat([self._forward(torch.tensor([rows[n] for n in group]))[0] for group in groups])
        order = torch.tensor([n for group in groups for n in group]).argsort()
        chances: Float[Tensor, "row token"] = (logits[order] / temperature).softmax(-1)
        return chances

    def _write(
        self, prompts: Sequence[Sequence[int]], draws: Sequence[Draw], settings: BenchmarkSettings
    ) -> list[Reply]:
        """One reply to each of the prompts, which are of one length."""
        lines = not self._chat and not settings.extensions.think
        rows: list[list[int]] = [[] for _ in prompts]
        whole, past, ended = torch.tensor(prompts), None, set[int]()
        ids = whole
        for _ in range(settings.longest):
            logits, past = self._forward(ids, past)
            if settings.temperature:
                chosen = _chosen((logits / settings.temperature).softmax(-1), draws)
            else:
                chosen = logits.argmax(-1, keepdim=True)
            for n, token in enumerate(chosen[:, 0].tolist()):
                rows[n].append(token)
                if token in self._stops or (lines and n not in ended and "\n" in self._decode(rows[n])):
                    ended.add(n)
            if len(ended) == len(rows):
                break
            whole = torch.cat([whole, chosen], dim=1)
            ids = whole if past is None else chosen
        return [self._read(row, len(prompt), lines) for row, prompt in zip(rows, prompts, strict=True)]

    def _read(self, tokens: list[int], prompt_tokens: int, lines: bool) -> Reply:
        """The reply in these tokens: the text before the end, and whether it ended; with `lines` a line ends it."""
        end = next((i for i, token in enumerate(tokens) if token in self._stops), None)
        written = tokens if end is None else tokens[:end]
        text = self._decode(written)
        finished = end is not None
        used = len(written) + finished
        if lines and "\n" in text:
            text, finished = text[: text.index("\n")], True
            used = next(n for n in range(1, used + 1) if "\n" in self._decode(written[:n]))
        return Reply(text, finished, prompt_tokens, used)

    def _try(self) -> None:
        """Try the model on some tokens: does what it says go only by what stands before; and with what it keeps of a
        text, does it say the same as of the whole text? If not, nothing is kept.
        """
        vocabulary = range(self._model.config.get_text_config().vocab_size)
        some = [token for token in vocabulary if token not in self._stops] or [0]
        begun, goes_on = ([some[(start + place) % len(some)] for place in range(5)] for start in (0, 5))
        rows = torch.tensor([begun + goes_on, begun[::-1] + goes_on, begun + begun])
        with torch.no_grad():
            logits = self._model(input_ids=rows.to(self.device), use_cache=False).logits
        plain = logits.double().softmax(-1).cpu()
        self._size = plain.shape[-1]

        def same(found: Float[Tensor, "*place token"], wanted: Float[Tensor, "*place token"]) -> bool:
            rounding: float = torch.finfo(self._model.dtype).eps ** 0.5
            return float((found - wanted).abs().max()) <= rounding * float(wanted.max())

        if not same(plain[2, :5], plain[0, :5]):
            raise InputError(f"{self.name} looks ahead in a text, so it does not go on from one; give a causal model")
        seen, past, ids = [], None, rows[:2, :5]
        for place in range(5, 10):
            logits, past = self._forward(ids, past)
            seen.append(logits.softmax(-1))
            if past is None:
                break
            ids = rows[:2, place : place + 1]
        self._caches = past is not None and same(torch.stack(seen, dim=1), plain[:2, 4:9])


def _by_length(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of rows, those of one length together: nothing is padded, which not every family bears."""
    groups: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(len(row), []).append(number)
    return list(groups.values())


def _chosen(chances: Float[Tensor, "row token"], draws: Sequence[Draw]) -> Int[Tensor, "row 1"]:
    """The token of each row that the row's next random number picks."""
    cumulative = chances.cumsum(-1)
    uniform = torch.tensor([[draw.uniform()] for draw in draws], dtype=torch.float64)
    chosen = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    return chosen.clamp(max=chances.shape[-1] - 1)
