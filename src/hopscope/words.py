"""Wording of messages to people."""


def counted(number: int, what: str) -> str:
    """A number with its noun in the singular or plural: `1 head`, `3 heads`.

    >>> counted(1, "path"), counted(0, "path")
    ('1 path', '0 paths')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time, as roughly as people would tell it.

    >>> duration(89), duration(90), duration(5400)
    ('89 s', '2 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
