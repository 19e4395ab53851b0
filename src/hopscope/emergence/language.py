"""Follow a circuit of a language model through checkpoints, which are model folders in the order given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Scores
from hopscope.circuits.evaluate.ablations import knock_out
from hopscope.circuits.resume import SearchProgress
from hopscope.errors import InputError
from hopscope.language.find_text import alone
from hopscope.language.language_model import LanguageModel
from hopscope.language.text_batch import LanguageTask
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.records import RecordFormat


@dataclass(frozen=True)
class TextCheckpoint:
    """The measurements of a circuit at one checkpoint.

    Attributes:
        folder: the name of the checkpoint's folder.
        model: the hash of the folder's files.
        same_as: the name of an earlier folder with the same files, whose numbers are repeated here; None otherwise.
        full: scores of the whole model.
        alone: scores of the circuit alone, whose active rows have this checkpoint's own patterns.
        attention: mean weight along each path, in the order of the circuit.
        change: rise of the model's loss when the path's key is masked, for each path.
    """

    folder: str
    model: str
    same_as: str | None
    full: Scores
    alone: Scores
    attention: tuple[float, ...]
    change: tuple[float, ...]


@dataclass(frozen=True)
class TextEmergence:
    """A circuit over checkpoints of a language model.

    Attributes:
        circuit: the hash of the model that the circuit was found in.
        task: the name of the task.
        questions: number of questions, which are the same at every checkpoint.
        paths: the circuit's paths, as text.
        checkpoints: the checkpoints, in the order in which they were given.
    """

    circuit: str
    task: str
    questions: int
    paths: tuple[str, ...]
    checkpoints: tuple[TextCheckpoint, ...]

    def __str__(self) -> str:
        lines = ["right   loss   the circuit's  attention along each path"]
        for point in self.checkpoints:
            losses = f"{point.full.accuracy:.2f}   {point.full.brier:.3f}  {point.alone.brier:.3f}"
            weights = " ".join(f"{weight:.2f}" for weight in point.attention)
            same = f" (the same files as {point.same_as})" if point.same_as else ""
            lines.append(f"{losses:<23} {weights}  {point.folder}{same}")
        return "\n".join([*lines, *self.paths])


TEXT_EMERGENCE = RecordFormat(
    TextEmergence, "hopscope emergence of a language model", "an emergence (`hopscope emergence A B --circuit C --out`)"
)


def follow_checkpoints(
    folders: Sequence[Path],
    circuit: Circuit,
    task: LanguageTask,
    questions: int = 256,
    progress: SearchProgress = lambda stage, done, stages: None,
) -> TextEmergence:
    """Follow a circuit through checkpoints; checkpoints with the same files are measured once.

    Raises:
        InputError: the record has no circuit, the roles of circuit and task differ, or a checkpoint cannot be opened or
            has another number of layers or heads.
    """
    if not circuit.found or circuit.roles != task.problem.all_roles:
        raise InputError(f"the record holds no circuit with the roles of {task.name}; give one that was found for it")
    known: dict[str, TextCheckpoint] = {}
    followed: list[TextCheckpoint] = []
    for number, folder in enumerate(folders):
        progress(f"checkpoint {folder}", number, len(folders))
        model = LanguageModel(folder)
        content = model.named.content
        if content in known:
            followed.append(replace(known[content], folder=str(folder), same_as=known[content].folder))
            continue
        evaluator = model.evaluator(task, questions)
        questions = evaluator.sequences  # a task of prompts may have fewer
        known[content] = _measured(model, str(folder), circuit, evaluator)
        followed.append(known[content])
    paths = tuple(path.path.describe(circuit.roles) for path in circuit.paths)
    return TextEmergence(circuit.model, task.name, questions, paths, tuple(followed))


def _measured(model: LanguageModel, folder: str, circuit: Circuit, evaluator: TextEvaluator) -> TextCheckpoint:
    shape = evaluator.shape
    if (shape.layers, shape.heads) != (circuit.layers, circuit.heads):
        raise InputError(
            f"{folder} has {shape.layers} layers x {shape.heads} heads, and the circuit is of a model of "
            f"{circuit.layers} x {circuit.heads}; give checkpoints of that model"
        )
    maps, paths = evaluator.role_maps().same[0], [path.path for path in circuit.paths]
    whole, *without = evaluator.mse([{}, *({path.row: knock_out(path.key)} for path in paths)])
    return TextCheckpoint(
        folder, model.named.content, None, evaluator.scores({}), evaluator.scores(alone(evaluator, circuit)["own"]),
        tuple(float(maps[path]) for path in paths), tuple(loss - whole for loss in without),
    )  # fmt: skip
