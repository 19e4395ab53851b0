"""The inverse of `hopscope.explorer.arrays.pack`, which in the page is written in JavaScript."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np

from hopscope.explorer.arrays import _TYPES, Chunk


def unpack(chunk: Chunk) -> np.ndarray[Any, Any]:
    """The array that was packed."""
    kind = np.dtype(_TYPES[chunk.dtype])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(chunk.text)), np.uint8)
    values = np.ascontiguousarray(planes.reshape(kind.itemsize, math.prod(chunk.shape)).T).reshape(-1).view(kind)
    values = values.reshape(chunk.shape)
    return np.cumsum(values, axis=0, dtype=np.uint8) if chunk.delta else values
