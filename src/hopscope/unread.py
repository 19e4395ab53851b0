"""What of a text a tokenizer does not read."""

from __future__ import annotations

from typing import Any


def unread(text: str, tokenizer: Any) -> str:
    """The characters of a text for which a tokenizer has no token, and which a model therefore never sees.

    White space may be left out, as it is where words are tokens. A tokenizer that skips a character counts on as if it
    had not been there; then as many at the end of the piece are told in its place. A tokenizer that gives no offsets
    tells of its unknown token alone; then the text as a whole counts.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast)
    ids, unknown = found["input_ids"], tokenizer.unk_token_id
    if not fast:
        return text if unknown in ids else ""
    blank, read = set[int](), {at for at, char in enumerate(text) if char.isspace()}
    for token, (start, end) in zip(ids, found["offset_mapping"], strict=True):
        (blank if token == unknown else read).update(range(start, end))
    return "".join(char for at, char in enumerate(text) if at in blank or at not in read)
