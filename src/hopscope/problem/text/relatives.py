"""Relatives (Appendix A.5): homes, families, whom people of each job live with, and who has which job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopscope.problem.text.formulation import Draw, Extensions, Form, Formulation, Latent, Line, Wording

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
    """Who lives where, who is whose relative, whom people of each job live with, and who has which job.

    Attributes:
        homes: the country of each relative, in alphabetical order of relatives.
        kin: for each person, the relatives who are mother, sister, father and brother.
        rules: for each job, the relation that its holders live with.
        jobs: the job of each person.
        asked: the person asked about.
    """

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
    allowed = frozenset({"form", "lines", "repeat", "filler", "shots", "think"})

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Families:
        """Uniform bijections; women are mothers and sisters, men fathers and brothers."""
        homes = draw.permutation(len(_RELATIVES))
        women, men = draw.some(_WOMEN, len(_WOMEN)), draw.some(_MEN, len(_MEN))
        families = ((women[i], women[i + 1], men[i], men[i + 1]) for i in range(0, len(_WOMEN), 2))
        kin = tuple(tuple(_RELATIVES.index(name) for name in family) for family in families)
        rules, jobs = draw.permutation(len(_JOBS)), draw.permutation(len(_PERSONS))
        asked = draw.below(len(_PERSONS))
        order = draw.order([16, 16, 4, 4], [True, False, False, False], extensions.lines)
        return Families(order, homes, kin, rules, jobs, asked)

    def write(self, latent: Families, form: Form = "instruction") -> Wording:
        """The lines of homes, kin, rules and jobs, and the question where a person lives."""
        code = form == "code"
        lives, dot = ('.home = "', '"') if code else (" lives in ", ".")
        of, equals, end = (".", " = ", "") if code else ("s ", " is ", ".")
        job_names = list(_JOBS)
        owner = {latent.kin[p][latent.rules[job]]: p for p, job in enumerate(latent.jobs)}
        homes = [
            Line((name, lives, _COUNTRIES[home], dot), ("relative>", None, ">place", None), 4, owner.get(i))
            for i, (name, home) in enumerate(zip(_RELATIVES, latent.homes, strict=True))
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
        rules = [
            Line(
                ('lives_with["', job, '"] = "', _RELATIONS[relation], '"')
                if code
                else ("", f"{job.capitalize()}s", " live with their ", f"{_RELATIONS[relation]}s", "."),
                (None, "job>", None, ">relation", None),
                2,
                latent.jobs.index(j),
            )
            for j, (job, relation) in enumerate(zip(job_names, latent.rules, strict=True))
        ]
        jobs = [
            Line(
                (person, '.job = "' if code else f" works as {_JOBS[job]} ", job, dot),
                ("person>", None, ">job", None),
                1,
                p,
            )
            for p, (person, job) in enumerate(zip(_PERSONS, map(job_names.__getitem__, latent.jobs), strict=True))
        ]
        asked = latent.asked
        before, after = {
            "instruction": ("Where does ", " live?"),
            "completion": ("", " lives in"),
            "code": ("print(getattr(", f", lives_with[{_PERSONS[asked]}.job]).home)  # Output:"),
        }[form]
        question = Line((before, _PERSONS[asked], after), (None, "person?", None), 0, asked)
        job = latent.jobs[asked]
        relation = latent.rules[job]
        relative = latent.kin[asked][relation]
        lines = 36 + asked, 32 + job, 16 + 4 * asked + relation, relative
        answer = _COUNTRIES[latent.homes[relative]]
        return Wording([*homes, *kin, *rules, *jobs], question, answer, _COUNTRIES, lines)

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """A person has four relatives; with families unread, a relation still separates women from men."""
        return {"jobs unread": 1 / 4, "rules unread": 1 / 4, "families unread": 1 / 8, "homes unread": 1 / 16}
