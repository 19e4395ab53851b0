"""What the verbs about one circuit share: how it is looked up, followed and told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit
    from hopscope.language.text_batch import TextTask


_ASKED = (
    click.option(
        "--model", "number", type=click.IntRange(min=0), default=0, show_default=True, help="Which model of the run."
    ),
    click.option(
        "--checkpoint",
        "step",
        type=click.IntRange(min=0),
        help="Step of the checkpoint to look at [default: the last].",
    ),
    click.option("--formulation", help="Formulation of the questions that a language model is asked: equations, ..."),
    click.option("--hops", type=click.IntRange(min=1), help="D of those questions [default: the paper's]."),
    click.option(
        "--faithfulness",
        type=float,
        help="Share of the way from guessing to the language model that its circuit must go [0.95].",
    ),
    click.option(
        "--trust-remote-code", is_flag=True, help="Let a model folder run code that it brings, with your rights."
    ),
)


@dataclass(frozen=True)
class AskedModel:
    """Whose circuit is asked for: that of a model of a run, or of a language model on questions in a formulation."""

    number: int
    step: int | None
    formulation: str | None
    hops: int | None
    faithfulness: float | None
    trust_remote_code: bool

    def of_text(self, folder: Path, max_loss: object) -> bool:
        """Whether it is a language model's.

        Raises:
            InputError: an option is there that is for the other kind, or the folder is a language model and it is not
                said how it is asked.
        """
        if self.formulation is not None:
            if self.number or self.step is not None or max_loss is not None:
                raise InputError(
                    "--model, --checkpoint and --max-loss are of runs; a language model has --faithfulness"
                )
            return True
        from hopscope.language.model_folder import is_model_folder

        if is_model_folder(folder) and not (folder / "run.json").exists():
            raise InputError(f"{folder} is a language model; pass --formulation equations")
        if self.hops is not None or self.faithfulness is not None or self.trust_remote_code:
            raise InputError(
                "--hops, --faithfulness and --trust-remote-code are for language models; pass --formulation"
            )
        return False

    @property
    def task(self) -> TextTask:
        """The task that a language model is asked.

        Raises:
            InputError: there is no such formulation, or the paper's format, the only one here, lacks so many hops.
        """
        from hopscope.language.text_batch import TextTask

        try:
            return TextTask.of(self.formulation or "", self.hops)
        except InputError as error:
            raise InputError(str(error).partition("; pass names=")[0]) from None


def asks_a_model(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say whose circuit is asked for; the verb gets them as `asked`."""

    @wraps(verb)
    def gathered(**given: Any) -> None:
        asked = AskedModel(**{one.name: given.pop(one.name) for one in fields(AskedModel)})
        verb(asked=asked, **given)

    return reduce(lambda so_far, option: option(so_far), reversed(_ASKED), gathered)


def tell(circuit: Circuit, written: list[Path], as_json: bool) -> None:
    """Print the circuit, for people or as JSON."""
    if as_json:
        click.echo(json.dumps(circuit.to_json()))
        return
    click.echo(circuit)
    for path in written:
        click.echo(f"wrote {path}")


def shown_circuit(path: Path, number: int, step: int | None) -> Circuit:
    """The circuit in a run's own record, and no other's; or a record that stands by itself, as under `results/`."""
    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.store import CircuitStore, circuit_path
    from hopscope.training.run import RunFolder

    if path.is_file():
        if number or step is not None:
            raise InputError(f"{path} is one record; --model and --checkpoint choose among those of a run")
        return Circuit.load(path)
    if not (path / "run.json").exists():
        return Circuit.load(circuit_path(path, number, step))
    return CircuitStore(RunFolder(path)).load(number, step)
