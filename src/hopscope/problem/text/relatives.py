"""Relatives (Appendix A.5, conditional): who lives where, four families, whom people of each job live with, who has
which job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import Draw, Formulation, Latent, Line, draw_order

PERSONS = ("John", "Chris", "Diana", "Eve")
RELATIONS = ("mother", "sister", "father", "brother")
JOBS = ("doctor", "lawyer", "teacher", "engineer")
WOMEN = ("Cathy", "Dana", "Isabelle", "Jane", "Lily", "Nancy", "Olivia", "Penny")
MEN = ("Adam", "Bob", "Ed", "Fred", "George", "Hank", "Kevin", "Mike")
RELATIVES = tuple(sorted(WOMEN + MEN))
_COUNTRIES = (
    "Argentina Brazil Canada Denmark England France Germany Hungary Italy Japan Kenya Laos Mexico Norway Peru Qatar"
)
COUNTRIES = tuple(_COUNTRIES.split())


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
    """Four lookups: the person's job, the job's relation, that relative of the person, the relative's country."""

    name = "relatives"
    paper_hops = 4
    instruction = "Say directly only the name, without any other words."
    allowed = frozenset({"lines", "repeat", "filler", "shots", "think"})

    def draw(self, draw: Draw, hops: int, chains: int, extensions: Extensions) -> Families:
        """Draw uniform bijections; women are mothers and sisters, men fathers and brothers."""
        homes = draw.permutation(len(RELATIVES))
        women, men = draw.some(WOMEN, len(WOMEN)), draw.some(MEN, len(MEN))
        families = ((women[i], women[i + 1], men[i], men[i + 1]) for i in range(0, len(WOMEN), 2))
        kin = tuple(tuple(RELATIVES.index(name) for name in family) for family in families)
        rules, jobs = draw.permutation(len(JOBS)), draw.permutation(len(PERSONS))
        asked = draw.below(len(PERSONS))
        order = draw_order(draw, [16, 16, 4, 4], [True, False, False, False], extensions.lines)
        return Families(order, homes, kin, rules, jobs, asked)

    def facts(self, latent: Families) -> list[Line]:
        """The lines of homes, kin, rules and jobs, in this order."""
        owner = {latent.kin[p][latent.rules[job]]: p for p, job in enumerate(latent.jobs)}
        homes = [
            Line((name, " lives in ", COUNTRIES[home], "."), ("relative>", None, ">place", None), 4, owner.get(i))
            for i, (name, home) in enumerate(zip(RELATIVES, latent.homes, strict=True))
        ]
        kin = [
            Line(
                (person, "s ", relation, " is ", RELATIVES[relative], "."),
                ("person>", None, "relation>", None, ">relative", None),
                3,
                owner.get(relative),
            )
            for person, family in zip(PERSONS, latent.kin, strict=True)
            for relation, relative in zip(RELATIONS, family, strict=True)
        ]
        rules = [
            Line(
                (f"{job.capitalize()}s", " live with their ", f"{RELATIONS[relation]}s", "."),
                ("job>", None, ">relation", None),
                2,
                latent.jobs.index(j),
            )
            for j, (job, relation) in enumerate(zip(JOBS, latent.rules, strict=True))
        ]
        jobs = [
            Line((person, f" works as {_article(JOBS[job])} ", JOBS[job], "."), ("person>", None, ">job", None), 1, p)
            for p, (person, job) in enumerate(zip(PERSONS, latent.jobs, strict=True))
        ]
        return [*homes, *kin, *rules, *jobs]

    def question(self, latent: Families) -> Line:
        """A question such as `Where does Eve live?`."""
        return Line(("Where does ", PERSONS[latent.asked], " live?"), (None, "person?", None), 0, latent.asked)

    def _steps(self, latent: Families) -> tuple[int, int, int]:
        """The asked person's job, the job's relation, and the person's relative of that relation."""
        job = latent.jobs[latent.asked]
        relation = latent.rules[job]
        return job, relation, latent.kin[latent.asked][relation]

    def answer(self, latent: Families) -> str:
        """The relative's country."""
        return COUNTRIES[latent.homes[self._steps(latent)[2]]]

    def acceptable(self, latent: Families) -> tuple[str, ...]:
        """The sixteen countries."""
        return COUNTRIES

    def asked(self, latent: Families) -> tuple[int, ...]:
        """The lines of the job, the rule, the relative and the home, in this order."""
        job, relation, relative = self._steps(latent)
        return 36 + latent.asked, 32 + job, 16 + 4 * latent.asked + relation, relative

    def floors(self, chains: int, extensions: Extensions) -> Mapping[str, float]:
        """A person has four relatives; with families unread, a relation still tells women from men."""
        return {"jobs unread": 1 / 4, "rules unread": 1 / 4, "families unread": 1 / 8, "homes unread": 1 / 16}


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"
