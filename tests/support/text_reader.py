"""A second reader of the prompts, from their text alone: regular expressions, nothing shared with the package."""

from __future__ import annotations

import re
from fractions import Fraction


def solve(prompt: str) -> str | None:
    """The answer, or None where the text does not say."""
    *facts, question = [line for line in prompt.split("\n") if not set(line) <= {".", " "}]
    text = "\n".join(facts)
    if re.search(r"works as an? ", text):
        return _relatives(text, question)
    if found := re.match(r"What is the value of (\w+)\((\w+)\)\?", question):
        alias = re.search(rf"^{found[1]} = (\w+)$", text, re.M)
        argument = re.search(rf"^{found[2]} = (\w+)$", text, re.M)
        value = alias and argument and re.search(rf"^{alias[1]}\({argument[1]}\) = (\w+)$", text, re.M)
        return value[1] if value else None
    if found := re.match(r"What is the value of (\w+)\?", question):
        return _follow(found[1], dict(re.findall(r"^(\w+) = (\w+)$", text, re.M)), r"\d+$")
    if found := re.match(r"Where does (\w+) live\?", question):
        return _follow(found[1], dict(re.findall(r"^(\w+) lives (?:with|in) (\w+)$", text, re.M)), None)
    found = re.match(r"Who has (\w+)\?", question)
    assert found, question
    return _kingdoms(text, found[1])


def _follow(symbol: str, links: dict[str, str], end: str | None) -> str | None:
    if symbol not in links:
        return None
    while symbol in links:
        symbol = links[symbol]
    return symbol if end is None or re.match(end, symbol) else None


def _kingdoms(text: str, condition: str) -> str | None:
    mineral = re.search(rf"^(\w+) causes {condition}\.$", text, re.M)
    food = mineral and re.search(rf"^(\w+) contains {mineral[1]}\.$", text, re.M)
    believer = food and re.search(rf"^(\w+)ists eat {food[1].lower()}\.$", text, re.M)
    people = believer and re.search(rf"^(\w+)ns believe in {believer[1].lower()}ism\.$", text, re.M)
    person = people and re.search(rf"^(\w+) lives in {people[1]}\.$", text, re.M)
    return person[1] if person else None


def _relatives(text: str, question: str) -> str | None:
    found = re.match(r"Where does (\w+) live\?", question)
    assert found
    job = re.search(rf"^{found[1]} works as an? (\w+)\.$", text, re.M)
    relation = job and re.search(rf"^{job[1].capitalize()}s live with their (\w+)s\.$", text, re.M)
    relative = relation and re.search(rf"^{found[1]}s {relation[1]} is (\w+)\.$", text, re.M)
    home = relative and re.search(rf"^{relative[1]} lives in (\w+)\.$", text, re.M)
    return home[1] if home else None


def candidates(prompt: str, completions: list[str]) -> Fraction:
    """The weight of a prompt's true answer for a guesser who completes an ablated prompt in every way."""
    truth = solve(prompt)
    answers = [solve(text) for text in completions]
    assert truth is not None
    assert None not in answers
    return Fraction(answers.count(truth), len(answers))
