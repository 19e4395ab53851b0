"""`hopscope sample FORMULATION`: the contract other programs build on."""

from __future__ import annotations

import json

import pytest
from text_reader import solve

from hopscope.cli import main
from hopscope.problem.text.questions import FORMULATIONS, questions


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["sample", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize("name", FORMULATIONS)
def test_json_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    hops = str(FORMULATIONS[name].paper_hops)
    assert run(name, "--hops", hops, "--count", "7", "--seed", "9") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["id"] for r in records] == [q.id for q in questions(name, count=7, seed=9)]
    for record in records:
        assert record["formulation"] == name
        assert record["hops"] == int(hops)
        assert record["guess"] == 1 / len(record["acceptable"])
        assert solve(record["prompt"]) == record["answer"]


def test_places_and_roles_are_those_of_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("equations", "--count", "3", "--roles", "--names", "random", "--json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["extensions"] for record in records] == [{"names": "random"}] * 3
    first = records[0]["mentions"][0]
    assert records[0]["prompt"][first["start"] : first["end"]] == records[0]["prompt"].split(" ")[0]
