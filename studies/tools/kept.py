"""What the small record of a study says of its models, so that the study can go on from it alone, on any machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from hopscope.records import RecordFormat, content_hash, plain
from hopscope.training.setup import Setup

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class Kept(DataclassInstance, Protocol):
        """What a study keeps of a model."""

        @property
        def made(self) -> str:
            """How the model was trained and examined, see `made_by`; empty if it is not known."""


@runtime_checkable
class Telling(Protocol):
    """A part of a study's result that itself says which runs, models or certificates it is about."""

    def tells_of(self, *, planned: bool) -> set[str]:
        """Names of what it is about; with `planned`, also of what it will be about once the study is finished."""


R = TypeVar("R")
OfModel = TypeVar("OfModel", bound="Kept")


def kept(study: str, folder: Path, kind: type[R]) -> R | None:
    """The result of the study when it was last written down; None if it never was.

    Raises:
        InputError: the record is damaged, or is another's.
    """
    path = folder / f"{study}.json"
    if not path.exists():
        return None
    return study_form(study, kind).read(path)


def study_form(study: str, kind: type[R]) -> RecordFormat[R]:
    """The form of the record of a study, given the type of its result."""
    return RecordFormat(kind, f"hopscope study {study}", "what a study came to")


def made_by(setup: Setup, *looked_at: Any) -> str:
    """A hash that identifies a model, whatever it is called: by how it is trained, and then examined."""
    return content_hash([plain(replace(setup, name="")), *map(plain, looked_at)])


def told(found: Any, *, planned: bool = False) -> set[str]:
    """Names of what a study's result is about: seeds of arms, models, certificates.

    Args:
        found: the result, or a part of it.
        planned: whether to include seeds that are not finished.
    """
    if isinstance(found, Telling):
        return found.tells_of(planned=planned)
    if isinstance(found, tuple):
        return {name for one in found for name in told(one, planned=planned)}
    if hasattr(found, "made"):
        return {found.made or content_hash(plain(found))}
    if is_dataclass(found):
        return {name for one in fields(found) for name in told(getattr(found, one.name), planned=planned)}
    return set()


class Models(Generic[OfModel]):
    """What is known of the models of a study, in the study's order.

    Args:
        setups: runs of one model each.
        before: what was seen of models before, perhaps on another machine.
        looked_at: how the models are examined, besides being trained.
    """

    def __init__(self, setups: Sequence[Setup], before: Iterable[OfModel], *looked_at: Any) -> None:
        self._made = {setup.name: made_by(setup, *looked_at) for setup in setups}
        self._known = {one.made: one for one in before if one.made}
        self.left = [setup for setup in setups if self._made[setup.name] not in self._known]
        """The setups of which nothing was known."""

    def add(self, name: str, one: OfModel) -> None:
        """Add what was now seen of the model of that name."""
        self._known[self._made[name]] = replace(one, made=self._made[name])

    @property
    def all(self) -> tuple[OfModel, ...]:
        """What is known so far."""
        return tuple(self._known[made] for made in self._made.values() if made in self._known)
