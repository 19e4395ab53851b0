"""What was measured is not measured again: a search comes back to the same programs, from other sides."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.apply import MIXING, HeadForms, LayerForms

KEPT = 1 << 26
"""Bytes of errors and programs that are kept, those asked for longest ago going first."""

_A_HEAD, _FORMS = 128, 1 << 14
"""Bytes by which a head lengthens a key; how many forms of heads keys share."""

Errors = Float[Tensor, "sequence hop"]
Key: TypeAlias = tuple[tuple[tuple[int, HeadForms], ...] | int, ...]


class KnownErrors:
    """Errors of one model on the first sequences of one batch, by program: on as many as each was measured on."""

    def __init__(self) -> None:
        self._errors: OrderedDict[Key, tuple[Errors, int]] = OrderedDict()
        self._bytes = 0
        self._same: dict[HeadForms, HeadForms] = {}

    def key(self, forms: Sequence[LayerForms], sequences: int) -> Key:
        """What a program, layer by layer, is kept under; one that mixes sequences depends on how many there are."""
        if len(self._same) > _FORMS:
            self._same.clear()
        same = self._same.setdefault
        layers = tuple(tuple((head, same(one, one)) for head, one in sorted(layer.items())) for layer in forms)
        mixes = any(form.kind in MIXING for layer in layers for _, rows in layer for _, form in rows)
        return (*layers, sequences if mixes else 0)

    def of(self, key: Key, sequences: int) -> Errors | None:
        """The errors on the first sequences; None if they were measured on fewer or not at all."""
        known, _ = self._errors.get(key, (None, 0))
        if known is None or len(known) < sequences:
            return None
        self._errors.move_to_end(key)
        return known[:sequences]

    def keep(self, key: Key, errors: Errors) -> None:
        """Keep the errors of a program."""
        size = errors.nbytes + _A_HEAD * sum(len(layer) for layer in key if isinstance(layer, tuple))
        _, before = self._errors.pop(key, (None, 0))
        self._bytes += size - before
        self._errors[key] = errors.clone(), size  # else it would hold what it is a part of
        while self._bytes > KEPT:
            _, (_, oldest) = self._errors.popitem(last=False)
            self._bytes -= oldest
