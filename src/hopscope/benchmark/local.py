"""A Hugging Face model folder on disk, asked in this process and in batches; nothing is fetched from anywhere.

A model with a chat template is asked through it. A plain language model is given the prompt and a line break; its
answer ends with the line or with the text. Every reply has random numbers of its own, addressed by question and
attempt, so that neither the batch nor a restart changes it (to rounding).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.benchmark.settings import Settings
from hopscope.benchmark.trial import Reply, Trial, weighed
from hopscope.errors import InputError
from hopscope.problem.text.draw import Draw
from hopscope.problem.text.questions import Question

Keep = Callable[[dict[str, Any]], None]


class LocalModel:
    """A causal language model and its tokenizer, from a folder.

    Args:
        folder: as `save_pretrained` writes it; weights in safetensors only.
        device: where it runs; the first GPU if there is one.
        batch: sequences at a time.

    Raises:
        InputError: the folder holds no such model.
    """

    def __init__(self, folder: Path, device: str | None = None, batch: int = 64) -> None:
        try:
            import transformers as library
        except ImportError:
            raise InputError("model folders need transformers; pip install 'hopscope[llm]'") from None
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder} is no model folder: it has no config.json; give what save_pretrained wrote")
        transformers: Any = library
        self.name = f"local/{folder.resolve().name}"
        self.identity = {"weights": _content_hash(folder)}
        self.batch = batch
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        shows_progress = transformers.utils.logging.is_progress_bar_enabled()
        transformers.utils.logging.disable_progress_bar()
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, use_safetensors=True
            )
        except Exception as error:  # damaged files raise whatever their readers like
            raise InputError(f"{folder} cannot be opened as a causal language model: {_first_line(error)}") from None
        finally:
            if shows_progress:
                transformers.utils.logging.enable_progress_bar()
        self._model = self._model.to(self.device).eval()
        stops = self._model.generation_config.eos_token_id
        self._stops = {*(stops if isinstance(stops, list) else [stops]), self._tokenizer.eos_token_id} - {None}
        self._pad = self._tokenizer.pad_token_id
        if self._pad is None:
            self._pad = min(self._stops, default=0)
        # What the folder says about sampling (top-p, penalties) must not shape a benchmark's distribution.
        self._model.generation_config = transformers.GenerationConfig(
            do_sample=False, pad_token_id=self._pad, eos_token_id=sorted(self._stops) or None
        )
        self.chat = self._tokenizer.chat_template is not None
        self._takes = set(inspect.signature(self._model.forward).parameters)

    def ask(self, questions: Sequence[Question], settings: Settings, keep: Keep) -> None:
        """Put questions until each is settled; `keep` gets each record as it comes."""
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

    def weigh(self, questions: Sequence[Question], settings: Settings, keep: Keep) -> None:
        """Exact mode: the probability of every acceptable answer, whole, with its end."""
        size = max(1, self.batch // 4)
        for start in range(0, len(questions), size):
            for question, weights in zip(
                questions[start : start + size],
                self._weights(questions[start : start + size], settings.temperature),
                strict=True,
            ):
                keep(weighed(question, self.name, weights))

    def _encode(self, prompt: str) -> list[int]:
        """The tokens a model is given."""
        if self.chat:
            message = [{"role": "user", "content": prompt}]
            text = self._tokenizer.apply_chat_template(
                message, add_generation_prompt=True, tokenize=False, enable_thinking=False
            )
            return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        return list(self._tokenizer(prompt + "\n")["input_ids"])

    def _pad_left(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "row pos"], Int[Tensor, "row pos"]]:
        """Token ids and mask, the rows ending together."""
        longest = max(len(row) for row in rows)
        ids = [[self._pad] * (longest - len(row)) + list(row) for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)

    @torch.no_grad()
    def _reply(self, prompts: Sequence[Sequence[int]], draws: Sequence[Draw], settings: Settings) -> list[Reply]:
        """One reply to each prompt."""
        ids, mask = self._pad_left(prompts)
        width = ids.shape[1]
        processors = [] if settings.temperature == 0 else [_Choose(draws, settings.temperature)]
        stopping = [] if self.chat else [_LineEnd(self._tokenizer, width)]
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=settings.max_tokens,
            logits_processor=processors,
            stopping_criteria=stopping,
        )
        return [self._read(row, len(prompt)) for row, prompt in zip(out[:, width:].tolist(), prompts, strict=True)]

    def _read(self, tokens: list[int], prompt_tokens: int) -> Reply:
        """The text before the end, and whether there was one."""
        end = next((i for i, token in enumerate(tokens) if token in self._stops), None)
        written = tokens if end is None else tokens[:end]
        # Special tokens stay visible: "3<pad>" is not the answer "3".
        text = self._tokenizer.decode(written, skip_special_tokens=False)
        finished = end is not None
        used = len(written) + finished
        if not self.chat and "\n" in text:
            text, finished = text[: text.index("\n")], True
            used = next(n for n in range(1, used + 1) if "\n" in self._tokenizer.decode(written[:n]))
        return Reply(text, finished, prompt_tokens, used)

    @torch.no_grad()
    def _weights(self, questions: Sequence[Question], temperature: float) -> list[dict[str, float]]:
        """For each question the probability of each acceptable answer in its usual spelling, followed by an end."""
        rows, answers = [], []
        for question in questions:
            prompt = self._encode(question.prompt)
            for answer in question.acceptable:
                tokens = self._answer_tokens(answer)
                rows.append(prompt + tokens)
                answers.append(tokens)
        found: list[float] = []
        for start in range(0, len(rows), self.batch):
            part = slice(start, start + self.batch)
            found += self._probabilities(rows[part], answers[part], temperature)
        values = iter(found)
        return [{answer: next(values) for answer in question.acceptable} for question in questions]

    def _answer_tokens(self, answer: str) -> list[int]:
        return list(self._tokenizer(answer, add_special_tokens=False)["input_ids"])

    def _probabilities(
        self, rows: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], temperature: float
    ) -> list[float]:
        ids, mask = self._pad_left(rows)
        keep = max(len(answer) for answer in answers) + 1
        extra: dict[str, Any] = {}
        if "position_ids" in self._takes:
            extra["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        if "logits_to_keep" in self._takes:
            extra["logits_to_keep"] = keep
        logits = self._model(input_ids=ids, attention_mask=mask, use_cache=False, **extra).logits
        logs: Float[Tensor, "row step token"] = (logits[:, -keep:].double() / temperature).log_softmax(-1).cpu()
        ends = self._end_tokens(logs.shape[-1])
        found = []
        for row, answer in zip(logs, answers, strict=True):
            steps = row[-len(answer) - 1 :]
            written = steps[range(len(answer)), list(answer)].sum()
            found.append(float((written + steps[-1][ends].logsumexp(0)).exp()))
        return found

    def _end_tokens(self, vocabulary: int) -> Int[Tensor, " end"]:
        """The tokens that end an answer: the end of text or turn and, for a plain model, whatever starts a new line."""
        if not hasattr(self, "_ends"):
            ends = set(self._stops)
            if not self.chat:
                pieces = self._tokenizer.batch_decode(
                    [[token] for token in range(min(vocabulary, len(self._tokenizer)))]
                )
                ends |= {token for token, piece in enumerate(pieces) if piece.startswith("\n")}
            self._ends = torch.tensor(sorted(ends), dtype=torch.int64)
        return self._ends


class _Choose:
    """A logits processor that leaves one token: the one which the row's own random number picks."""

    def __init__(self, draws: Sequence[Draw], temperature: float) -> None:
        self._draws, self._temperature = draws, temperature

    def __call__(self, ids: Int[Tensor, "row pos"], scores: Float[Tensor, "row token"]) -> Float[Tensor, "row token"]:
        cumulative = (scores.double() / self._temperature).softmax(-1).cumsum(-1)
        uniform = torch.tensor([[draw.uniform()] for draw in self._draws], dtype=torch.float64, device=scores.device)
        chosen = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
        chosen = chosen.clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -float("inf")).scatter(1, chosen, 0.0)


class _LineEnd:
    """A stopping criterion: a row is done when it has begun a new line."""

    def __init__(self, tokenizer: Any, start: int) -> None:
        self._tokenizer, self._start = tokenizer, start

    def __call__(self, ids: Int[Tensor, "row pos"], scores: Any, **_: Any) -> Tensor:
        texts = self._tokenizer.batch_decode(ids[:, self._start :], skip_special_tokens=False)
        return torch.tensor(["\n" in text for text in texts], device=ids.device)


def _content_hash(folder: Path) -> str:
    """A hash of the files that make the model what it is."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in {".json", ".safetensors", ".txt", ".model", ".jinja"} and path.is_file():
            total.update(path.name.encode() + b"\0")
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
