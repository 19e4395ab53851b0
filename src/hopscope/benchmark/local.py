"""A Hugging Face model folder on disk, asked in this process and in batches; nothing is fetched from anywhere.

A model with a chat template is asked through it. A plain language model is given the prompt and a line break; its
answer ends with the line or with the text, and where it is to think first with the text alone. Every reply has random
numbers of its own, addressed by question and attempt, so that neither the batch nor a restart changes it (to rounding).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.benchmark.trial import Keep, Reply, Trial, weighed
from hopscope.benchmark.weighing import Speller, TokenIds, weigh
from hopscope.errors import InputError, in_a_line
from hopscope.language.limits import check_tokens, check_words, known_tokens, places
from hopscope.language.model_folder import open_model_folder
from hopscope.problem.text.formulation import Draw
from hopscope.problem.text.questions import Question
from hopscope.problem.text.tokens import check_read, encode, written


class LocalModel:
    """A causal language model and its tokenizer, from a folder.

    Args:
        folder: the model folder, as `save_pretrained` writes it; weights in safetensors only.
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
        import transformers as library

        transformers: Any = library
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
        pad = self._tokenizer.pad_token_id
        known = known_tokens(self._model)
        self._pad = min(self._stops, default=0) if pad is None else pad
        self._pad = self._pad if self._pad < known else 0  # it is hidden behind the mask, whatever it is
        # What the folder says about sampling (top-p, penalties) must not shape a benchmark's distribution.
        self._model.generation_config = transformers.GenerationConfig(
            do_sample=False, pad_token_id=self._pad, eos_token_id=sorted(self._stops) or None
        )
        self._chat = self._tokenizer.chat_template is not None
        self._places = places(self._model)
        self._takes = set(inspect.signature(self._model.forward).parameters)
        self._texts = set(self._tokenizer.get_vocab().values())
        self._pads, self._size = True, 0
        self._caches = self._try()

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Ask each question until it is settled; `keep` gets each record as it comes.

        Raises:
            InputError: a question and its reply are longer than the model has places for.
        """
        self._check_questions(questions, settings)
        waiting = [Trial(question, settings.rule, settings.attempts) for question in reversed(questions)]
        running: list[Trial] = []
        while waiting or running:
            while waiting and len(running) < self.batch:
                running.append(waiting.pop())
            prompts = [self._encode(trial.question.prompt) for trial in running]
            draws = [Draw(trial.question.id, "reply", len(trial.replies)) for trial in running]
            for trial, reply in zip(running, self._reply(prompts, draws, settings), strict=True):
                trial.replies.append(reply)
                if trial.settled:
                    keep(trial.record(self.name))
            running = [trial for trial in running if not trial.settled]

    def weigh(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Exact mode: the probability that a reply is taken for each acceptable answer, as `ask` would take it.

        Raises:
            InputError: see `ask`.
        """
        self._check_questions(questions, settings)
        anchor = tuple(self._tokenizer("0", add_special_tokens=False)["input_ids"])
        speller = Speller(self._decode, self._size, self._stops, not self._chat, settings.rule, anchor)
        for start in range(0, len(questions), self.batch):
            part = questions[start : start + self.batch]
            prompts = [self._encode(question.prompt) for question in part]
            following = partial(self._following, prompts, settings.temperature)
            found = weigh([q.acceptable for q in part], following, speller, settings.longest, self.batch)
            for question, (weights, left) in zip(part, found, strict=True):
                keep(weighed(question, self.name, settings.rule, weights, left))

    def _check_questions(self, questions: Sequence[Question], settings: BenchmarkSettings) -> None:
        """Check that the tokenizer reads all of the questions, that the model knows their tokens, and that it has
        places for the longest question and the longest reply."""
        longest = 0
        for question in questions:
            check_read(question, self._tokenizer)
            ids = self._encode(question.prompt)
            check_tokens(self._model, self._tokenizer, ids)
            longest = max(longest, len(ids))
        if self._places is not None and longest + settings.longest > self._places:
            raise InputError(
                f"a question has {longest} tokens here, its reply up to {settings.longest}, and {self.name} places "
                f"for {self._places}; pass a lower max_tokens, or ask for fewer hops"
            )

    def _decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens; special tokens stay visible, so that "3<pad>" is not the answer "3", and so do the
        rows of an embedding that are no token of the tokenizer's, which it would leave out."""
        if all(token in self._texts for token in tokens):
            return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))
        return "".join(
            self._decode([token]) if token in self._texts else "\N{REPLACEMENT CHARACTER}" for token in tokens
        )

    def _encode(self, prompt: str) -> list[int]:
        """The tokens that the model is given for a prompt."""
        text, _ = written(prompt, self._tokenizer)
        return encode(text, self._tokenizer)[0]

    def _pad_left(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "row pos"], Int[Tensor, "row pos"]]:
        """Token ids and mask, the rows padded on the left so that they end together."""
        longest = max(len(row) for row in rows)
        ids = [[self._pad] * (longest - len(row)) + list(row) for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)

    def _together(self, rows: Sequence[Sequence[int]]) -> list[list[int]]:
        """Which rows may come in one batch: all, or those of one length where padding would change what follows."""
        by_length: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            by_length.setdefault(0 if self._pads else len(row), []).append(number)
        return list(by_length.values())

    def _try(self) -> bool:
        """Try the model on some tokens: whether padding is idle, and whether the library's way of writing, which keeps
        what was computed before, comes to what the model says of the whole text.

        Raises:
            InputError: the model cannot be run, or its positions look ahead.
        """
        try:
            return self._tried()
        except InputError:
            raise
        except Exception as error:  # whatever a family raises that is not built as its configuration says
            raise InputError(f"{self.name} cannot be run: {in_a_line(error)}") from error

    @torch.no_grad()
    def _tried(self) -> bool:
        known = range(self._model.config.get_text_config().vocab_size)
        some = [token for token in known if token != self._pad and token not in self._stops] or [0]
        begun, goes_on = ([some[(start + place) % len(some)] for place in range(5)] for start in (0, 5))
        others = begun[::-1]
        rows = [begun + goes_on, others + goes_on, begun + others]
        together = self._model(input_ids=torch.tensor(rows, device=self.device), use_cache=False).logits
        plain = together.double().softmax(-1).cpu()
        self._size = plain.shape[-1]

        def same(found: Float[Tensor, "*place token"], wanted: Float[Tensor, "*place token"]) -> bool:
            rounding: float = torch.finfo(self._model.dtype).eps ** 0.5
            return float((found - wanted).abs().max()) <= rounding * float(wanted.max())

        if not same(plain[2, :5], plain[0, :5]):
            raise InputError(f"{self.name} looks ahead in a text, so it does not go on from one; give a causal model")
        if not same(self._next(rows, 1.0), plain[:, -1]):  # RoBERTa's places do not begin at 0
            self._takes -= {"position_ids"}
        self._pads = same(self._next([begun, rows[1]], 1.0), torch.stack([plain[0, 4], plain[1, -1]]))
        written = _Write(goes_on)
        ids, mask = self._pad_left([begun, others, *([rows[0]] if self._pads else [])])
        self._model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=6, logits_processor=[written])
        return same(torch.stack(written.seen, dim=1)[:2], plain[:2, 4:])

    def _reply(
        self, prompts: Sequence[Sequence[int]], draws: Sequence[Draw], settings: BenchmarkSettings
    ) -> list[Reply]:
        """One reply to each prompt."""
        replies: dict[int, Reply] = {}
        for part in self._together(prompts):
            found = self._generated([prompts[n] for n in part], [draws[n] for n in part], settings)
            replies |= zip(part, found, strict=True)
        return [replies[number] for number in range(len(prompts))]

    @torch.no_grad()
    def _generated(
        self, prompts: Sequence[Sequence[int]], draws: Sequence[Draw], settings: BenchmarkSettings
    ) -> list[Reply]:
        """One reply to each prompt of a batch."""
        lines = not self._chat and not settings.extensions.think
        if not self._caches:
            rows = self._anew(prompts, draws, settings, lines)
            return [self._read(row, len(prompt), lines) for row, prompt in zip(rows, prompts, strict=True)]
        ids, mask = self._pad_left(prompts)
        width = ids.shape[1]
        processors = [] if settings.temperature == 0 else [_Choose(draws, settings.temperature)]
        stopping = [_LineEnd(self._tokenizer, width)] if lines else []
        out = self._model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=settings.longest, logits_processor=processors,
            stopping_criteria=stopping,
        )  # fmt: skip
        return [
            self._read(row, len(prompt), lines) for row, prompt in zip(out[:, width:].tolist(), prompts, strict=True)
        ]

    def _anew(
        self, prompts: Sequence[Sequence[int]], draws: Sequence[Draw], settings: BenchmarkSettings, lines: bool
    ) -> list[list[int]]:
        """The tokens of one reply to each prompt of a batch, each from the whole text before it."""
        rows: list[list[int]] = [[] for _ in prompts]

        def open_rows() -> list[int]:
            return [
                number
                for number, row in enumerate(rows)
                if not (row and row[-1] in self._stops) and not (lines and "\n" in self._decode(row))
            ]

        for _ in range(settings.longest):
            if not (those := open_rows()):
                break
            chances = self._next([[*prompts[n], *rows[n]] for n in those], settings.temperature or 1.0)
            chosen = (
                _chosen(chances, [draws[n] for n in those]) if settings.temperature else chances.argmax(-1)[:, None]
            )
            for number, token in zip(those, chosen[:, 0].tolist(), strict=True):
                rows[number].append(token)
        return rows

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

    def _following(
        self, prompts: Sequence[list[int]], temperature: float, branches: Sequence[tuple[int, TokenIds]]
    ) -> Float[Tensor, "branch token"]:
        """For each branch, the distribution over the token after a prompt, given by number, and what was written so
        far."""
        rows = [prompts[number] + list(tokens) for number, tokens in branches]
        parts = self._together(rows)
        chances = torch.cat([self._next([rows[n] for n in part], temperature) for part in parts])
        return chances[torch.tensor([n for part in parts for n in part]).argsort()]

    @torch.no_grad()
    def _next(self, rows: Sequence[Sequence[int]], temperature: float) -> Float[Tensor, "row token"]:
        """The distribution over the token that follows each row of a batch."""
        ids, mask = self._pad_left(rows)
        extra = {"position_ids": (mask.cumsum(1) - 1).clamp(min=0), "logits_to_keep": 1}
        taken = {name: value for name, value in extra.items() if name in self._takes}
        logits = self._model(input_ids=ids, attention_mask=mask, use_cache=False, **taken).logits
        chances: Float[Tensor, "row token"] = (logits[:, -1].double() / temperature).softmax(-1).cpu()
        return chances


class _Choose:
    """A logits processor that leaves one token: the one which the row's own random number picks."""

    def __init__(self, draws: Sequence[Draw], temperature: float) -> None:
        self._draws, self._temperature = draws, temperature

    def __call__(self, ids: Int[Tensor, "row pos"], scores: Float[Tensor, "row token"]) -> Float[Tensor, "row token"]:
        chosen = _chosen((scores.double() / self._temperature).softmax(-1), self._draws)
        return torch.full_like(scores, -float("inf")).scatter(1, chosen, 0.0)


def _chosen(chances: Float[Tensor, "row token"], draws: Sequence[Draw]) -> Int[Tensor, "row 1"]:
    """The token of each row that the row's next random number picks."""
    cumulative = chances.cumsum(-1)
    uniform = torch.tensor([[draw.uniform()] for draw in draws], dtype=torch.float64, device=chances.device)
    chosen = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    return chosen.clamp(max=chances.shape[-1] - 1)


class _Write:
    """A logits processor that notes each distribution and has some tokens written, whatever it says."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.seen: list[Float[Tensor, "row token"]] = []
        self._tokens = [*tokens, tokens[-1]]

    def __call__(self, ids: Int[Tensor, "row pos"], scores: Float[Tensor, "row token"]) -> Float[Tensor, "row token"]:
        token = torch.tensor([self._tokens[len(self.seen)]], device=scores.device)
        self.seen.append(scores.double().softmax(-1).cpu())
        return torch.full_like(scores, -float("inf")).index_fill(1, token, 0.0)


class _LineEnd:
    """A stopping criterion: a row is done when it has begun a new line."""

    def __init__(self, tokenizer: Any, start: int) -> None:
        self._tokenizer, self._start = tokenizer, start

    def __call__(self, ids: Int[Tensor, "row pos"], scores: Any, **_: Any) -> Tensor:
        texts = self._tokenizer.batch_decode(ids[:, self._start :], skip_special_tokens=False)
        return torch.tensor(["\n" in text for text in texts], device=ids.device)
