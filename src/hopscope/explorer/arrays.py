"""Arrays as text inside the page: bytes by plane, deltas where time runs, zlib, base64; decoded by `web/bytes.js`."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

_TYPES = {"uint8": np.uint8, "uint16": np.uint16, "float16": np.float16, "float32": np.float32}


@dataclass(frozen=True)
class Chunk:
    """An array, packed.

    Attributes:
        dtype: `uint8`, `uint16`, `float16` or `float32`, little endian.
        shape: the shape of the array.
        delta: whether every entry of the first axis after the first holds its difference to the one before, modulo 256.
        text: base64 of the zlib stream of all lowest bytes, then all second bytes, and so on.
    """

    dtype: str
    shape: tuple[int, ...]
    delta: bool
    text: str

    @property
    def head(self) -> dict[str, Any]:
        """What a reader must know to unpack it."""
        return {"dtype": self.dtype, "shape": list(self.shape), "delta": self.delta}


def pack(array: np.ndarray[Any, Any], *, delta: bool = False) -> Chunk:
    """Pack an array; `delta` is for bytes that change slowly along the first axis.

    Raises:
        ValueError: the array has another type of numbers, or differences are asked of anything but bytes.
    """
    if array.dtype.name not in _TYPES or (delta and array.dtype != np.uint8):
        raise ValueError(f"cannot pack {array.dtype} (delta={delta}); the types are {', '.join(_TYPES)}")
    values = np.ascontiguousarray(array)
    if delta:
        values = np.concatenate([values[:1], values[1:] - values[:-1]])  # modulo 256, as bytes do
    planes = values.reshape(-1).view(np.uint8).reshape(-1, values.dtype.itemsize).T
    packed = zlib.compress(np.ascontiguousarray(planes).tobytes(), 9)
    return Chunk(array.dtype.name, array.shape, delta, base64.b64encode(packed).decode())
