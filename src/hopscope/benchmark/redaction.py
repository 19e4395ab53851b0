"""Make names and texts from outside harmless: names to show, names of files, and texts without secrets."""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from hashlib import sha256
from typing import Any

_SECRET_NAME = re.compile(r"KEY|TOKEN(?!IZER)|SECRET|PASSWORD|CREDENTIAL|AUTHORIZATION", re.IGNORECASE)
_SHORTEST_SECRET = 8


def shown(text: str) -> str:
    """Return text with every control character replaced by a visible, harmless one."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def file_name(model: str) -> str:
    """Return a unique file name for a model: the harmless characters of its name, and a hash of the whole name."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._")[:60]
    return f"{plain or 'model'}-{sha256(model.encode()).hexdigest()[:8]}"


@lru_cache(maxsize=4096)  # called again for every text, with the same names
def is_secret(name: str) -> bool:
    """Whether a variable or argument of this name holds a secret; a tokenizer or a number of tokens is no secret."""
    return _SECRET_NAME.search(re.sub("TOKENS", "", name, flags=re.IGNORECASE)) is not None


def redacted(text: str) -> str:
    """Return text without the secrets in environment variables, in plain form or as JSON writes them."""
    named = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}  # a count of tokens is short
    secrets = [value for value in named if len(value) >= _SHORTEST_SECRET]
    for secret in sorted(secrets, key=len, reverse=True):
        for spelled in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(spelled, "[secret]")
    return text


def all_redacted(value: Any, most: int | None = None) -> Any:
    """Return plain values with every text and field name redacted and cut to at most `most` characters."""
    if isinstance(value, str):
        return redacted(value)[:most]
    if isinstance(value, dict):
        return {all_redacted(name, most): all_redacted(part, most) for name, part in value.items()}
    return [all_redacted(part, most) for part in value] if isinstance(value, list | tuple) else value


def holds_secret(value: Any) -> bool:
    """Whether plain values, at any depth, have a field named like a secret or contain a secret of the environment.

    >>> holds_secret({"headers": [{"authorization": "x"}]}), holds_secret({"max_tokens": 5, "tokenizer": "t"})
    (True, False)
    """
    if isinstance(value, dict):
        return any(is_secret(str(name)) or holds_secret(str(name)) or holds_secret(one) for name, one in value.items())
    if isinstance(value, list | tuple):
        return any(map(holds_secret, value))
    return redacted(str(value)) != str(value)
