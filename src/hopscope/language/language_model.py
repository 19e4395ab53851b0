"""A language model from a folder: `hs.LanguageModel(folder).find_circuit(hs.text("equations", hops=2))`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from hopscope.checks import check_choice, check_path
from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit
from hopscope.circuits.resume import Search, SearchProgress, run_search
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import find_stored
from hopscope.display import reporting, stages_display
from hopscope.kernels import DTYPES, Precision
from hopscope.language.find_text import Named, faithfulness_for, proof_for, search_text_circuit
from hopscope.language.hooked import HookedDecoder
from hopscope.language.limits import check_words
from hopscope.language.model_folder import open_model_folder
from hopscope.language.text_batch import LanguageTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator, TextModel
from hopscope.model.torch_module import Parts, TokenModule, weights_hash
from hopscope.problem.roles import text_role_names
from hopscope.problem.text.questions import Question
from hopscope.problem.text.tokens import tokens


class LanguageModel:
    """A Hugging Face decoder on disk, in which circuits can be found.

        >>> from examples.text_model.training import TextModelRecipe, make_model, publish
        >>> publish(make_model(TextModelRecipe()), folder / "own")  # untrained
        >>> model = hs.LanguageModel(folder / "own")
        >>> (question,) = hs.questions("equations", hops=1, count=1)
        >>> [role for _, role, _ in model.roles(question)][-5:]
        ['x0>', '>x1', 'text', 'x0?', 'answer']
        >>> model.find_circuit(hs.text("equations", hops=1), effort="quick").found
        False

    Args:
        folder: a folder as `save_pretrained` writes it; nothing is downloaded.
        trust_remote_code: whether code in the folder may run, with all the rights of the user who runs this.
        device: the device that computes, by its name in torch.
        precision: of the weights; in `bf16` the read-out stays in `fp32`.

    Raises:
        InputError: the folder holds no such model, one whose attention cannot be computed explicitly, or one that
            does not know its tokenizer's words.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        trust_remote_code: bool = False,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        check_choice("precision", precision, DTYPES)
        self.device, self.precision = device, precision
        self.path: Path | None = check_path("a language model", folder)
        opened = open_model_folder(self.path, trust_remote_code=trust_remote_code)
        check_words(opened.model, opened.tokenizer)
        self.tokenizer: Any = opened.tokenizer
        self.named = Named(opened.name, opened.content)
        self._model = opened.model

    @classmethod
    def from_torch(
        cls,
        module: nn.Module,
        task: LanguageTask,
        tokenizer: Any,
        parts: Callable[[Any], Parts],
        untrain: Callable[[Any, int, int], None] | None = None,
    ) -> LanguageModel:
        """A causal torch module of your own that takes tokens; its circuits are stored where `out` says, or nowhere.

        Args:
            module: given tokens [sequence, position], it answers with logits [sequence, position, token], in single
                precision on the CPU.
            task: a task that it answers, on some of whose prompts it is tried.
            tokenizer: what makes tokens of prompts, as a fast tokenizer of Hugging Face does: called with a text, it
                gives `input_ids`, `offset_mapping` and `special_tokens_mask`.
            parts: a function that finds the parts of such a module; see `hs.Parts`.
            untrain: as for `hs.Model.from_torch`.

        Raises:
            InputError: it is not such a module, the parts do not make it up, or patterns do not pass where they are
                said to.
        """
        made = cls.__new__(cls)
        tokens = text_batch(task, tokenizer, 8, 0).inputs
        made.path, made.tokenizer, made.device, made.precision = None, tokenizer, "cpu", "fp32"
        made.model = TokenModule.of(module, parts, untrain, tokens, None, tokens.shape[1], True)
        made.named = Named(type(module).__name__, weights_hash(module))
        return made

    @cached_property
    def model(self) -> TextModel:
        """The model with hooks, which are checked in single precision."""
        return HookedDecoder(self._model.float()).moved(self.device, self.precision)

    def roles(self, question: Question) -> list[tuple[str, str, int]]:
        """A question as the model reads it: every token, its role, and its chain (-1 for none).

        Raises:
            InputError: the tokenizer does not let roles be told apart, or the question is not one of chains.
        """
        read, names = tokens(question, self.tokenizer), text_role_names(question.hops)
        return [
            (self.tokenizer.decode([token]), names[role], chain)
            for token, role, chain in zip(read.ids, read.role, read.chain, strict=True)
        ]

    def evaluator(self, task: LanguageTask, questions: int = 256, seed: int = 0) -> TextEvaluator:
        """An evaluator of the model on questions: it gives losses, scores and role maps under any interventions."""
        return TextEvaluator(self.model, self.tokenizer, task, text_batch(task, self.tokenizer, questions, seed))

    def find_circuit(
        self,
        task: LanguageTask,
        *,
        effort: Effort | None = None,
        faithfulness: float | None = None,
        seed: int | None = None,
        proof: CertificateConfig | None = None,
        out: Path | str | None = None,
        overwrite: bool = False,
        progress: SearchProgress | bool = True,
    ) -> Circuit:
        """Its circuit for a task, found and certified; stored in `FOLDER/circuits/` and read from there later.

        An interrupted search continues. A stored certified circuit of another search is replaced by `overwrite` alone,
        another record without it.

        Args:
            task: the questions, as `hs.text` makes them, or an `hs.PromptTask` of your own.
            effort: `quick` or `thorough`, if nothing is said.
            faithfulness: see `search_text_circuit`; if nothing is said 0.95, of pretrained models' tasks 0.8.
            seed: seed of the search; 0 if nothing is said.
            proof: see `search_text_circuit`.
            out: the folder of the record, in the place of `FOLDER/circuits/`.
            overwrite: search again even if there is a record.
            progress: whether it is shown; or a function, called with what is done now, stages finished, stages in all.

        Raises:
            InputError: the task, tokenizer or a value cannot be used, the record is damaged, or it is of a
                certified circuit of another model or search.
        """
        share = faithfulness_for(task) if faithfulness is None else faithfulness
        wanted = SearchRecord(
            effort or "thorough", seed or 0, share, proof=proof or proof_for(task), precision=self.precision
        )

        def search() -> Search[Circuit]:  # whose first step installs the hooks: not needed where a record is read
            return (yield from search_text_circuit(self.model, self.tokenizer, task, self.named, wanted))

        with reporting(progress, stages_display()) as shown:
            report = self._counted(shown)
            if self.path is None and out is None:
                return run_search(search(), report)
            path, model = text_circuit_path(self.path or Path(), task, out), self.named.content
            return find_stored(path, search(), model, wanted, progress=report, overwrite=overwrite)

    def _counted(self, progress: SearchProgress) -> SearchProgress:
        """Progress that is also told, within a stage, how many prompts were read in it."""

        def begin(stage: str, done: int, stages: int) -> None:
            prompts = 0

            def more(read: int) -> None:
                nonlocal prompts
                prompts += read
                progress(f"{stage}, {prompts} prompts read", done, stages)

            progress(stage, done, stages)
            self.model.answered = more

        return begin

    def check(
        self,
        circuit: CustomCircuit,
        task: LanguageTask,
        *,
        faithfulness: float | None = None,
        seed: int = 0,
        proof: CertificateConfig | None = None,
        progress: SearchProgress | bool = True,
    ) -> Circuit:
        """The certificate of a circuit that you give: your own idea of the model, or a record.

        Nothing is searched for, and nothing stored; `save` the result.

            >>> from examples.text_model.training import TextModelRecipe, make_model, publish
            >>> publish(make_model(TextModelRecipe()), folder / "mine")  # untrained
            >>> hs.LanguageModel(folder / "mine").check(["L1.H1 answer -> >x1"], hs.text("equations", hops=1)).certified
            False

        Args:
            circuit: a circuit, or its paths as in `hs.Model.ablate`; a head or a row instead of a path is in use with
                all that it attends to. Every other row of the model is off.
            task: this and what follows as in `find_circuit`.

        Raises:
            InputError: there is no such path in the model, or the task, tokenizer or a value cannot be used.
        """
        share = faithfulness_for(task) if faithfulness is None else faithfulness
        wanted = SearchRecord(None, seed, share, proof=proof or proof_for(task), precision=self.precision)
        search = search_text_circuit(self.model, self.tokenizer, task, self.named, wanted, circuit)
        with reporting(progress, stages_display()) as report:
            return run_search(search, self._counted(report))


def text_circuit_path(model: Path, task: LanguageTask, out: Path | str | None = None) -> Path:
    """The path of the file of a model's circuit for a task: in `out`, else beside the model."""
    folder = model if model.is_dir() else model.parent
    return (folder / "circuits" if out is None else check_path("a folder for circuits", out)) / f"{task.name}.json"
