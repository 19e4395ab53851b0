"""A language model from a folder: `hs.LanguageModel(folder).find_circuit(hs.text("equations", hops=2))`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from hopscope.checks import check_choice, check_path, check_type
from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit
from hopscope.circuits.resume import Search, SearchProgress, run_search
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import find_stored
from hopscope.display import reporting, stages_display
from hopscope.kernels import DTYPES, Precision
from hopscope.language.find_text import Named, search_text_circuit, settings_for
from hopscope.language.hooked import HookedDecoder
from hopscope.language.journal import Journal
from hopscope.language.limits import check_words
from hopscope.language.model_folder import open_model_folder
from hopscope.language.text_batch import LanguageTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator, TextModel
from hopscope.model.torch_module import Parts, TokenModule, weights_hash
from hopscope.problem.roles import text_role_names
from hopscope.problem.text.questions import Question
from hopscope.problem.text.tokens import tokens
from hopscope.records import content_hash, plain


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
        folder: a folder as `save_pretrained` writes it, a GGUF file, or a name `org/model` of the hub. A model that is
            not in the hub's cache is downloaded, and its circuits are stored in `org--model/circuits/`.
        trust_remote_code: whether code in the folder may run, with all the rights of the user.
        device: the name of the torch device that computes.
        precision: precision of the weights; with `bf16`, the read-out stays in `fp32`.

    Raises:
        InputError: the folder holds no decoder, the attention of the decoder cannot be computed explicitly, or the
            decoder does not know all tokens of its tokenizer.
    """

    def __init__(
        self, folder: Path | str, *, trust_remote_code: bool = False, device: str = "cpu", precision: Precision = "fp32"
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
        """Make a language model of your own causal torch module; `find_circuit` stores its circuits only with `out`.

        Args:
            module: the module, which maps tokens [sequence, position] to logits [sequence, position, token], in single
                precision on the CPU; if its weights change later, make a new language model.
            task: a task that the module solves; a few of its prompts are used to check the parts.
            tokenizer: the tokenizer of the prompts. Like a fast tokenizer of Hugging Face, it is called with a text and
                returns `input_ids`, `offset_mapping` and `special_tokens_mask`.
            parts: a function that returns the parts of a module; see `hs.Parts`.
            untrain: a function that resets a head to initial weights; see `hs.Model.from_torch`.

        Raises:
            InputError: `module` is not such a module; the parts, run one by one, do not give the module's answers; or
                the pattern modules do not see one attention pattern per block.
        """
        made = cls.__new__(cls)
        tokens = text_batch(task, tokenizer, 8, 0).inputs
        made.path, made.tokenizer, made.device, made.precision = None, tokenizer, "cpu", "fp32"
        made.model = TokenModule.of(module, parts, untrain, tokens, None, tokens.shape[1], True)
        made.named = Named(type(module).__name__, content_hash([weights_hash(module), plain(made.model.shape)]))
        return made

    @cached_property
    def model(self) -> TextModel:
        """The model with hooks; when it is made, the hooks are checked in single precision."""
        return HookedDecoder(self._model.float()).moved(self.device, self.precision)

    def roles(self, question: Question) -> list[tuple[str, str, int]]:
        """Return every token of a question, with its role and its chain (-1 for no chain).

        Raises:
            InputError: two roles share a token, or the question has no chains.
        """
        check_type("question", question, Question, "a question, as hs.questions gives it")
        read, names = tokens(question, self.tokenizer), text_role_names(question.hops)
        return [
            (self.tokenizer.decode([token]), names[role], chain)
            for token, role, chain in zip(read.ids, read.role, read.chain, strict=True)
        ]

    def evaluator(self, task: LanguageTask, questions: int = 256, seed: int = 0) -> TextEvaluator:
        """Return an evaluator of the model on questions; it gives losses, scores and role maps under interventions."""
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
        """Find, check and store the circuit of the model for a task; a second call reads the stored circuit.

        The record is in `FOLDER/circuits/`. An interrupted search continues. The record of another search is replaced,
        but a certified circuit only with `overwrite`.

        Args:
            task: the questions, as `hs.text` makes them, or an `hs.PromptTask` of your own.
            effort: effort of the search: `quick` or `thorough` (the default).
            faithfulness: the share of the gap in Brier score between guessing and the model that the circuit must
                close. By default 0.95; 0.8 for tasks for pretrained models.
            seed: seed of the search; 0 by default.
            proof: the numbers of prompts and random draws for the checks and the card.
            out: the folder of the record, instead of `FOLDER/circuits/`.
            overwrite: search again even if a record exists.
            progress: whether to show progress, or a function of the stage, the stages done and the number of stages.

        Raises:
            InputError: the task, the tokenizer or a value cannot be used, the record is damaged, or the record is a
                certified circuit of another model or search.
        """
        wanted = settings_for(task, self.precision, effort or "thorough", faithfulness, seed or 0, proof)
        stored, version = self.path is not None or out is not None, content_hash([self.named.content, self.precision])
        path = text_circuit_path(self.path or Path(), task, out)
        kept = path.with_name(f".{path.stem}-losses-{version[:8]}.jsonl")

        def search() -> Search[Circuit]:
            # The first step installs the hooks and opens the journal, which reading a record does not need.
            journal = Journal(kept, version) if stored and task.thrifty else None
            return (yield from search_text_circuit(self.model, self.tokenizer, task, self.named, wanted, None, journal))

        with reporting(progress, stages_display()) as shown, self._counted(shown) as report:
            if not stored:
                return run_search(search(), report)
            circuit = find_stored(path, search(), self.named.content, wanted, progress=report, overwrite=overwrite)
            kept.unlink(missing_ok=True)
            return circuit

    @contextmanager
    def _counted(self, progress: SearchProgress) -> Iterator[SearchProgress]:
        """Give a function that reports the stages to `progress`, with the number of prompts read in each stage."""

        def begin(stage: str, done: int, stages: int) -> None:
            prompts = 0

            def more(read: int) -> None:
                nonlocal prompts
                prompts += read
                progress(f"{stage}, {prompts} prompts read", done, stages)

            progress(stage, done, stages)
            self.model.answered = more

        try:
            yield begin
        finally:
            if "model" in vars(self):  # opened by now
                vars(self.model).pop("answered", None)

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
        """Check a circuit of your own, or a stored circuit, in this model; returns it with its checks and its card.

        Nothing is searched for or stored; call `save` on the result.

            >>> from examples.text_model.training import TextModelRecipe, make_model, publish
            >>> publish(make_model(TextModelRecipe()), folder / "mine")  # untrained
            >>> hs.LanguageModel(folder / "mine").check(["L1.H1 answer -> >x1"], hs.text("equations", hops=1)).certified
            False

        Args:
            circuit: a circuit, or a list of its paths, as in `hs.Model.ablate`. A head or a row instead of a path is
                active with all that it attends to. Every other row of the model is ablated.
            task: the task; see `find_circuit` for the rest. A stored circuit keeps its settings, except for the seed.

        Raises:
            InputError: the model lacks a path, or the task, the tokenizer or a value cannot be used.
        """
        given = circuit.search if isinstance(circuit, Circuit) else SearchRecord()
        faithfulness = given.faithfulness if faithfulness is None else faithfulness
        wanted = settings_for(task, self.precision, None, faithfulness, seed, proof or given.proof)
        search = search_text_circuit(self.model, self.tokenizer, task, self.named, wanted, circuit)
        with reporting(progress, stages_display()) as shown, self._counted(shown) as report:
            return run_search(search, report)


def text_circuit_path(model: Path, task: LanguageTask, out: Path | str | None = None) -> Path:
    """Return the path of a model's circuit for a task, in the folder `out` or, by default, the model's `circuits/`."""
    folder = model if model.is_dir() else model.parent if model.is_file() else Path(str(model).replace("/", "--"))
    return (folder / "circuits" if out is None else check_path("a folder for circuits", out)) / f"{task.name}.json"
