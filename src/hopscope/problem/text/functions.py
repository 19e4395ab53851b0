"""Functions (Appendix A.4): tables of a..d, aliases e..h of these, arguments i..l; the question asks for `f(i)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations

from hopscope.problem.text.formulation import Draw, Extensions, Form, Formulation, Latent, Line, Wording

_SIZE = 4
_FUNCTIONS, _ALIASES, _VARIABLES = "abcd", "efgh", "ijkl"


@dataclass(frozen=True)
class Applications(Latent):
    """Functions, aliases of functions, and named numbers.

    Attributes:
        tables: the values of a..d at 0..3, each a permutation.
        aliases: the function that each of e..h names.
        arguments: the number that each of i..l names.
        alias: the alias asked about.
        variable: the variable it is applied to.
    """

    tables: tuple[tuple[int, ...], ...]
    aliases: tuple[int, ...]
    arguments: tuple[int, ...]
    alias: int
    variable: int


class Functions(Formulation[Applications]):
    """Three retrieval steps: the alias, the argument, and the table at both."""

    name = "functions"
    paper_hops = 3
    instruction = "Say directly only the numeric value, without any other words."
    allowed = frozenset({"form", "latin", "lines", "repeat", "filler", "shots", "think"})

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Applications:
        """Four independent tables, or a uniform Latin square, and uniform aliases, arguments and question."""
        if extensions.latin:
            squares = latin_squares()
            tables = squares[draw.below(len(squares))]
        else:
            tables = tuple(draw.permutation(_SIZE) for _ in range(_SIZE))
        aliases, arguments = draw.permutation(_SIZE), draw.permutation(_SIZE)
        alias, variable = draw.below(_SIZE), draw.below(_SIZE)
        order = draw.order([_SIZE * _SIZE, _SIZE, _SIZE], [False] * 3, extensions.lines)
        return Applications(order, tables, aliases, arguments, alias, variable)

    def write(self, latent: Applications, form: Form = "instruction") -> Wording:
        """The lines of tables (`a(0) = 3`, as code `a[0] = 3`), aliases (`e = b`), arguments (`i = 0`), question."""
        left, right = "[]" if form == "code" else "()"
        tables = [
            Line((f, left, str(x), f"{right} = ", str(y)), ("function>", None, "number>", None, ">value"), 3, None)
            for f, table in zip(_FUNCTIONS, latent.tables, strict=True)
            for x, y in enumerate(table)
        ]
        aliases = [
            Line((name, " = ", _FUNCTIONS[f]), ("alias>", None, ">function"), 1, None)
            for name, f in zip(_ALIASES, latent.aliases, strict=True)
        ]
        arguments = [
            Line((name, " = ", str(x)), ("variable>", None, ">number"), 2, None)
            for name, x in zip(_VARIABLES, latent.arguments, strict=True)
        ]
        words = {
            "instruction": ("What is the value of ", "?"),
            "completion": ("", " ="),
            "code": ("print(", ")  # Output:"),
        }
        before, after = words[form]
        pieces = (before, _ALIASES[latent.alias], left, _VARIABLES[latent.variable], right + after)
        question = Line(pieces, (None, "alias?", None, "variable?", None), 0, None)
        f, x = latent.aliases[latent.alias], latent.arguments[latent.variable]
        asked = _SIZE * _SIZE + latent.alias, _SIZE * (_SIZE + 1) + latent.variable, f * _SIZE + x
        acceptable = tuple(str(i) for i in range(_SIZE))
        return Wording([*tables, *aliases, *arguments], question, str(latent.tables[f][x]), acceptable, asked)

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Values of independent tables repeat: the commonest one at the argument is right in 17/32 of cases."""
        others = {"arguments unread": 1 / 4, "tables unread": 1 / 4}
        if extensions.latin:
            return {"aliases unread": 1 / 4, **others}
        aliases = {"aliases unread, a random function": 7 / 16, "aliases unread, the commonest value": 17 / 32}
        return aliases | others


@cache
def latin_squares() -> list[tuple[tuple[int, ...], ...]]:
    """All 576 Latin squares of order 4, as rows."""
    squares: list[tuple[tuple[int, ...], ...]] = [()]
    for _ in range(_SIZE):
        squares = [
            (*square, row)
            for square in squares
            for row in permutations(range(_SIZE))
            if all(row[x] != above[x] for above in square for x in range(_SIZE))
        ]
    return squares
