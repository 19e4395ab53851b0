"""Wording of messages to people."""


def counted(number: int, what: str) -> str:
    """A number with its noun in the singular or plural: `1 head`, `3 heads`.

    >>> counted(1, "path"), counted(0, "path")
    ('1 path', '0 paths')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"
