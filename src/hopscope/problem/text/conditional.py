"""The two formulations in which retrieval steps meet: functions (Appendix A.4) and relatives (Appendix A.5)."""

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
    """The values of functions a..d at 0..3, the functions that aliases e..h name, and the numbers of variables i..l.

    The question applies alias number `alias` to variable number `variable`, both counted from 0.
    """

    tables: tuple[tuple[int, ...], ...]
    aliases: tuple[int, ...]
    arguments: tuple[int, ...]
    alias: int
    variable: int


class Functions(Formulation[Applications]):
    """Tables of functions a..d, aliases e..h, variables i..l; three retrieval steps: alias, variable, table entry."""

    name = "functions"
    paper_hops = 3
    instruction = "Say directly only the numeric value, without any other words."
    allowed = Formulation.allowed | {"latin"}

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Applications:
        """Draw four independent tables or a uniform Latin square, and uniform aliases, arguments and question."""
        if extensions.latin:
            tables = _latin_squares()[draw.below(len(_latin_squares()))]
        else:
            tables = tuple(draw.permutation(_SIZE) for _ in range(_SIZE))
        aliases, arguments = draw.permutation(_SIZE), draw.permutation(_SIZE)
        alias, variable = draw.below(_SIZE), draw.below(_SIZE)
        order = draw.order([_SIZE * _SIZE, _SIZE, _SIZE], [False] * 3, extensions.lines)
        return Applications(order, tables, aliases, arguments, alias, variable)

    def write(self, latent: Applications, form: Form = "instruction") -> Wording:
        """Write the tables (`a(0) = 3`, as code `a[0] = 3`), aliases (`e = b`), arguments (`i = 0`) and question."""
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
        before, after = self.asks[form]
        pieces = (before, _ALIASES[latent.alias], left, _VARIABLES[latent.variable], right + after)
        question = Line(pieces, (None, "alias?", None, "variable?", None), 0, None)
        f, x = latent.aliases[latent.alias], latent.arguments[latent.variable]
        asked = _SIZE * _SIZE + latent.alias, _SIZE * (_SIZE + 1) + latent.variable, f * _SIZE + x
        acceptable = tuple(str(i) for i in range(_SIZE))
        return Wording([*tables, *aliases, *arguments], question, str(latent.tables[f][x]), acceptable, asked)

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Independent tables repeat values: the commonest value at an argument is right in 17/32 of cases."""
        others = {"arguments unread": 1 / 4, "tables unread": 1 / 4}
        if extensions.latin:
            return {"aliases unread": 1 / 4, **others}
        return {"aliases unread, a random function": 7 / 16, "aliases unread, the commonest value": 17 / 32, **others}


@cache
def _latin_squares() -> list[tuple[tuple[int, ...], ...]]:
    """Return all 576 Latin squares of order 4, as tuples of rows."""
    squares: list[tuple[tuple[int, ...], ...]] = [()]
    for _ in range(_SIZE):
        squares = [
            (*square, row)
            for square in squares
            for row in permutations(range(_SIZE))
            if all(row[x] != above[x] for above in square for x in range(_SIZE))
        ]
    return squares


_PERSONS = ("John", "Chris", "Diana", "Eve")
_RELATIONS = ("mother", "sister", "father", "brother")
_JOBS = {"doctor": "a", "lawyer": "a", "teacher": "a", "engineer": "an"}
"""The jobs, and the article of each."""
_WOMEN = ("Cathy", "Dana", "Isabelle", "Jane", "Lily", "Nancy", "Olivia", "Penny")
_MEN = ("Adam", "Bob", "Ed", "Fred", "George", "Hank", "Kevin", "Mike")
_RELATIVES = tuple(sorted(_WOMEN + _MEN))
_NAMES = (
    "Argentina Brazil Canada Denmark England France Germany Hungary Italy Japan Kenya Laos Mexico Norway Peru Qatar"
)
_COUNTRIES = tuple(_NAMES.split())


@dataclass(frozen=True)
class Families(Latent):
    """The country of each relative, in alphabetical order; each person's mother, sister, father and brother; the
    relation that the holders of each job live with; the job of each person; and the person asked about."""

    homes: tuple[int, ...]
    kin: tuple[tuple[int, ...], ...]
    rules: tuple[int, ...]
    jobs: tuple[int, ...]
    asked: int


class Relatives(Formulation[Families]):
    """Four retrieval steps: the person's job, the job's relation, the relative, the relative's country."""

    name = "relatives"
    paper_hops = 4
    instruction = "Say directly only the name, without any other words."
    asks = Formulation.asks | {"instruction": ("Where does ", " live?"), "completion": ("", " lives in")}

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Families:
        """Draw uniform bijections; women are mothers and sisters, men are fathers and brothers."""
        homes = draw.permutation(len(_RELATIVES))
        women, men = draw.some(_WOMEN, len(_WOMEN)), draw.some(_MEN, len(_MEN))
        families = ((women[i], women[i + 1], men[i], men[i + 1]) for i in range(0, len(_WOMEN), 2))
        kin = tuple(tuple(_RELATIVES.index(name) for name in family) for family in families)
        rules, jobs = draw.permutation(len(_JOBS)), draw.permutation(len(_PERSONS))
        asked = draw.below(len(_PERSONS))
        order = draw.order([16, 16, 4, 4], [True, False, False, False], extensions.lines)
        return Families(order, homes, kin, rules, jobs, asked)

    def write(self, latent: Families, form: Form = "instruction") -> Wording:
        """Write the lines of homes, kin, rules and jobs, and the question where a person lives."""
        code = form == "code"
        lives, dot = ('.home = "', '"') if code else (" lives in ", ".")
        of, equals, end = (".", " = ", "") if code else ("s ", " is ", ".")
        owner = {latent.kin[p][latent.rules[job]]: p for p, job in enumerate(latent.jobs)}
        homes = [
            Line((_RELATIVES[i], lives, _COUNTRIES[home], dot), ("relative>", None, ">place", None), 4, owner.get(i))
            for i, home in enumerate(latent.homes)
        ]
        kin = [
            Line(
                (person, of, relation, equals, _RELATIVES[relative], end),
                ("person>", None, "relation>", None, ">relative", None),
                3,
                owner.get(relative),
            )
            for person, family in zip(_PERSONS, latent.kin, strict=True)
            for relation, relative in zip(_RELATIONS, family, strict=True)
        ]
        rules, jobs = [], []
        for number, (job, relation) in enumerate(zip(_JOBS, map(_RELATIONS.__getitem__, latent.rules), strict=True)):
            words = ('lives_with["', job, '"] = "', relation, '"')
            if not code:
                words = ("", f"{job.capitalize()}s", " live with their ", f"{relation}s", ".")
            rules.append(Line(words, (None, "job>", None, ">relation", None), 2, latent.jobs.index(number)))
        for p, job in enumerate(map([*_JOBS].__getitem__, latent.jobs)):
            works = '.job = "' if code else f" works as {_JOBS[job]} "
            jobs.append(Line((_PERSONS[p], works, job, dot), ("person>", None, ">job", None), 1, p))
        asked = latent.asked
        before, after = self.asks[form]
        if code:
            before, after = "print(getattr(", f", lives_with[{_PERSONS[asked]}.job]).home)  # Output:"
        question = Line((before, _PERSONS[asked], after), (None, "person?", None), 0, asked)
        holds = latent.jobs[asked]
        relation_asked = latent.rules[holds]
        relative = latent.kin[asked][relation_asked]
        lines = 36 + asked, 32 + holds, 16 + 4 * asked + relation_asked, relative
        answer = _COUNTRIES[latent.homes[relative]]
        return Wording([*homes, *kin, *rules, *jobs], question, answer, _COUNTRIES, lines)

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """Without jobs or rules, a guess is one of four relatives; without families, one of the eight women or men."""
        return {"jobs unread": 1 / 4, "rules unread": 1 / 4, "families unread": 1 / 8, "homes unread": 1 / 16}
