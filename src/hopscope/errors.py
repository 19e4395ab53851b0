"""The one exception for bad input, whatever the door it came through."""


class InputError(ValueError):
    """Bad input: a value, the rule it breaks, and the mend, in one sentence.

        >>> hs.RetrievalProblem(hops=0)
        Traceback (most recent call last):
        hopscope.errors.InputError: hops must be a whole number of at least 1, got 0

    The command line prints the sentence and exits with status 2; Python callers can catch it as a `ValueError`.
    Anything else that escapes the package is a bug, but for `OSError`, which is the machine's.
    """


class MachineError(OSError):
    """Trouble of the machine and not of the input: a disk that is full, a worker that was killed; status 1."""
