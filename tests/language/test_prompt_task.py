"""Tasks of one's own: read and checked with one sentence each, and a planted circuit is found by prompts alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from planted_text import ROLES, as_prompt, equations, planted, planted_paths
from tokenizers_made import tokenizer

import hopscope as hs
from examples.text_model.text import make_tokenizer
from examples.text_model.training import publish
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import ALIKE, UNIFORM
from hopscope.cli import program
from hopscope.errors import InputError
from hopscope.language.hooked import HookedDecoder
from hopscope.language.language_model import text_circuit_path
from hopscope.language.text_batch import text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.prompts import Prompt, PromptTask
from hopscope.problem.roles import text_role_names
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import Question, question
from hopscope.problem.text.tokens import tokens


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Circuit, Path]:
    """What the verb finds in the planted model, with a file of prompts, and the folder that it wrote."""
    folder = tmp_path_factory.mktemp("own task")
    publish(planted(), folder / "model")
    equations().write(folder / "mine.jsonl")
    asked = ["circuit", str(folder / "model"), "--task", str(folder / "mine.jsonl"), "--out", str(folder / "c")]
    done = CliRunner().invoke(program, [*asked, "--effort", "quick"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(program, [*asked, "--show"], catch_exceptions=False)
    printed = [line for line in done.stdout.splitlines() if not line.startswith(("wrote", "next"))]
    assert shown.stdout.splitlines() == printed
    assert not (folder / "model" / "circuits").exists()
    return Circuit.load(folder / "c" / "mine.json"), folder / "c"


def test_a_part_that_does_by_absence_is_refused(found: tuple[Circuit, Path]) -> None:
    """Where the asked name and its line are cut off both, the line without a name is found by that. A check sees it."""
    circuit, folder = found
    assert {*circuit.parts} < {*planted_paths()}
    assert circuit.failed == ("outside",)
    assert circuit.checks["delivery"].outcome == "not asked"
    assert circuit.strategy == "not asked"
    assert (circuit.roles, circuit.hops, circuit.problem.named) == (
        (*list(ROLES.values())[:3], "text", "answer"),
        0,
        "mine",
    )
    assert {path.name for path in folder.glob("mine.*")} == {"mine.json", "mine.png", "mine.svg", "mine.pdf"}


def test_the_planted_circuit_does_all_of_it(found: tuple[Circuit, Path]) -> None:
    circuit = hs.LanguageModel(found[1].parent / "model").check(planted_paths(), equations())
    passed = {name for name, check in circuit.checks.items() if check.passed}
    assert {"sufficiency", "completeness", "outside", "right_keys"} <= passed
    feeds = {use for path in circuit.paths for use in path.uses(circuit.roles)}
    assert feeds == {"Q of layer 2 (answer -> value)", "K of layer 2 (answer -> value)", "the answer"}


def test_where_all_chains_have_roles_the_whole_planted_circuit_is_found(tmp_path: Path) -> None:
    """By absence no line is found: what cuts the asked name off its line leaves no other line with its name."""

    def in_chains(item: Question) -> Prompt:
        chains: dict[int | None, dict[str, tuple[int, int]]] = {}
        for mention in item.mentions():
            chains.setdefault(mention.chain, {})[ROLES[mention.role]] = mention.start + 1, mention.end + 1
        plain, asked = as_prompt(item), chains.pop(item.mentions()[-1].chain)
        return replace(plain, prompt=f"\n{plain.prompt}", roles=asked, other_chains=tuple(chains.values()))

    drawn = hs.questions("equations", hops=1, count=96, seed=3)
    PromptTask("chains", tuple(map(in_chains, drawn))).write(tmp_path / "chains.jsonl")
    publish(planted(), tmp_path / "model")
    task = PromptTask.read(tmp_path / "chains.jsonl")
    model = hs.LanguageModel(tmp_path / "model")
    circuit = model.find_circuit(task, effort="quick", faithfulness=0.9, progress=False)
    assert ({*circuit.parts}, circuit.certified, circuit.problem.chains) == ({*planted_paths()}, True, 4)
    again = model.check(circuit, task, progress=False)  # with the settings of the search
    assert (again.max_loss, again.losses) == (circuit.max_loss, circuit.losses)


def test_a_row_that_is_off_keeps_what_is_not_on_roles() -> None:
    """Off by hand: the model's own pattern, its weight on the roles gone, the rest scaled to sum to 1."""
    made, task = make_tokenizer(), equations(16)
    ours = TextEvaluator(HookedDecoder(planted()), made, task, text_batch(task, made, 8, 0))
    everything = dict.fromkeys(ours.rows, UNIFORM)
    own = next(iter(ours._patterns()))
    off = ours.edit(everything).pattern(0, own)
    text = ours.where.role == ours.names.index("text")
    kept = own[0, :, 0] * (text[:, None] | torch.eye(text.shape[1], dtype=torch.bool))
    left = kept.sum(dim=-1, keepdim=True)
    some = (text[..., None] & (left > 1e-3)).squeeze(-1)
    assert some.sum() > 20
    assert (off[0, :, 0][some] - (kept / left)[some]).abs().max() < 1e-5
    assert ours.mse([everything]) == ours.mse([dict.fromkeys(ours.rows, ALIKE)])
    assert ours.scores({}).accuracy == 1
    assert ours.scores(everything).accuracy < 0.7


def test_search_and_checks_have_other_prompts() -> None:
    """Also of one hop, of which there are so few that most are drawn again; in doubt, a task's last are read first."""
    made, purposes = make_tokenizer(), ("circuit search", "circuit certificate", "circuit search, in doubt")
    for task, count, left in ((equations(20), 99, 10), (hs.text("equations", 1), 64, 64)):
        searched, checked, doubted = ([read.ids for read in task.tokens(made, count, 0, what)] for what in purposes)
        assert (len(searched), len(checked), {*searched, *doubted} & {*checked}) == (left, left, set())
        assert (doubted == searched[::-1]) is (left == 10)
    assert len({prompt.prompt for prompt in hs.prompts.code(512).prompts}) == 512


def test_shipped_tasks_ask_what_they_say() -> None:
    """By the words of the roles: the name that is not repeated; the word behind the earlier one of the same."""
    for prompt in hs.prompts.ioi(count=40).prompts:
        word = {role: prompt.prompt[slice(*span)].strip() for role, span in prompt.roles.items()}
        assert word["S1"] == word["S2"] != word["IO"] == prompt.answers[prompt.right]
        assert prompt.prompt.endswith(word["end"])
        assert prompt.prompt[prompt.roles["S1"][1] :].startswith(f" {word['S1+1']}")
        assert prompt.counterfactual is not None
        assert prompt.counterfactual.count(word["S1"]) == 1
    with pytest.raises(InputError, match="words of one token, and induction needs"):
        hs.prompts.induction(make_tokenizer())


def test_code_chains_has_the_roles_of_the_same_questions_as_text() -> None:
    """But for the sign of each line, which is `text` there; the chain asked for comes first."""
    made = tokenizer("characters")
    for hops, lines in ((1, "blocks"), (2, "blocks"), (2, "shuffled")):
        task, names = hs.prompts.code_chains(made, count=8, hops=hops, lines=lines), text_role_names(hops)
        for number, item in enumerate(hs.questions("equations", hops, 8, extensions=Extensions("code", lines=lines))):
            read, text = task._tokens(number, made), tokens(item, made)
            order = [-1, text.chain[-1], *sorted({*range(4)} - {text.chain[-1]})]
            assert read.ids[9:] == text.ids
            for at, (role, chain) in enumerate(zip(text.role, text.chain, strict=True), start=9):
                name, sign = task.problem.names[read.role[at]], made.decode([read.ids[at]]) == "="
                assert (name[-1] == "=") == sign
                if not sign:
                    own = re.sub(r"x(\d)-1", lambda gap: f"x{int(gap[1]) - 1}=", name)
                    assert (own, read.chain[at]) == (names[role], order.index(chain) - 1)


class Words:
    """A tokenizer of words, each a token: the numbers from 1000 are six letters after a space."""

    is_fast, chat_template, unk_token_id = True, None, None

    def __len__(self) -> int:
        return 1400

    def decode(self, ids: list[int]) -> str:
        return "".join(f" wo{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}rd" if n >= 1000 else "?" for n in ids)

    def __call__(self, text: str, **asked: Any) -> dict[str, Any]:
        ends = [0, *(n for n in range(1, len(text)) if text[n] == " "), len(text)]
        spans = [*pairwise(ends)]
        ids = [hash(text[start:end]) for start, end in spans]
        return {"input_ids": ids, "offset_mapping": spans, "special_tokens_mask": [0] * len(ids)}


def test_induction_asks_for_what_came_behind() -> None:
    made = Words()
    task = hs.prompts.induction(made, count=20)
    for prompt, read in zip(
        task.prompts[1::2], sorted(task.tokens(made, 20, 0, ""), key=lambda read: read.ids), strict=True
    ):
        word = {role: prompt.prompt[slice(*span)] for role, span in prompt.roles.items()}
        assert word["A1"] == word["A2"]
        assert word["before"] == word["before2"]
        assert word["B1"] == prompt.answers[prompt.right]
        assert read.role[-1] == task.problem.names.index("A2") == len(task.problem.names) - 1


def test_answers_are_told_apart_by_the_first_token_that_differs() -> None:
    """Where ` 3` is a space and a digit, the space belongs to the prompt, and its token is answered at."""
    item, made = question("equations", 2, index=3, extensions=Extensions(form="code")), tokenizer("characters")
    read = tokens(item, made)
    assert (made.decode(read.ids[-1:]), len(read.ids)) == (" ", len(made(item.prompt)["input_ids"]) + 1)
    assert [made.decode([token]) for token in read.candidates] == [*item.acceptable]
    assert text_role_names(2)[read.role[-1]] == "answer"
    assert [text_role_names(2)[role] for role in read.role].count("answer") == 1
    own = PromptTask("own", (Prompt("the value is the", {"end": (13, 16)}, ("lamb", "lives")),) * 8)
    (first, *_) = own.tokens(made, 1, 0)
    assert [made.decode([token]) for token in first.candidates] == ["a", "i"]
    assert [made.decode([token]) for token in first.ids[-3:]] == ["e", " ", "l"]


GOOD = Prompt("When Mary met Tom", {"IO": (5, 9), "end": (14, 17)}, ("Mary", "Anna"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"answers": ("Mary",)}, "prompt 3 needs at least two different answers, got"),
        ({"answers": ("Mary", "Mary")}, "prompt 3 needs at least two different answers"),
        ({"answers": ("Mary", "Anna", "Tom")}, "prompts 1 and 3 need the same number of answers, got 2 and 3"),
        ({"right": 2}, "right in prompt 3 must be at most 1, got 2"),
        ({"roles": {}}, "prompt 3 has no roles"),
        ({"roles": {"IO": (5, 9)}}, "prompts 1 and 3 need the same roles; role 'end' is only in one"),
        ({"roles": {"IO": (5, 90), "end": (14, 17)}}, r"role 'IO' of prompt 3 .* from 0 to 17, got \[5, 90\]"),
        ({"roles": {"text": (5, 9), "end": (14, 17)}}, "'text' in prompt 3 is not a role name"),
        ({"roles": {"or": (5, 9), "end": (14, 17)}}, "'or' in prompt 3 is not a role name"),
        ({"roles": {"IO": (5, 9), "end": (14, 17), "a b": (5, 9)}}, "'a b' in prompt 3 is not a role name"),
        ({"other_chains": ({"IO": (10, 13)},)}, "prompts 1 and 3 need the same number of other chains"),
        ({"other_chains": ({"IO": (10, 13)}, {})}, "role 'IO' of prompt 3 must be in all other chains or in none"),
        ({"other_chains": ({"S": (10, 13)},)}, "role 'S' of prompt 3 must be in .* the chain asked for"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        PromptTask("own", (GOOD, GOOD, replace(GOOD, **changes), *[GOOD] * 5))


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        (replace(GOOD, roles=GOOD.roles | {"S": (5, 8)}), "roles 'IO' and 'S' share the token ' Mary' in prompt 1"),
        (replace(GOOD, roles=GOOD.roles | {"S": (0, 4)}), "share the token 'When' in prompt 1 of own; heads rest at"),
        (replace(GOOD, other_chains=({"IO": (5, 8)},)), "roles 'IO' and 'IO' share the token ' Mary' in prompt 1"),
        (replace(GOOD, other_chains=({"end": (10, 13)},)), "role 'end' ends the prompts, so no other"),
        (replace(GOOD, answers=("Mary Ann", "Mary Lou", "Mary Ann")[:2]), None),
        (replace(GOOD, answers=("Mary", "Mary Ann")), "the answers 'Mary Ann' and 'Mary' of prompt 1 of own"),
        (replace(GOOD, answers=("y", "z"), prompt="When Mary met Tom-"), "joins the end of prompt 1 of own with the"),
    ],
)
def test_prompts_that_the_tokenizer_does_not_tell_apart_are_refused(prompt: Prompt, why: str | None) -> None:
    if why is None:
        assert len(PromptTask("own", (prompt,) * 8).tokens(Words(), 4, 0)[0].ids) == 5
    else:
        with pytest.raises(InputError, match=why):
            PromptTask("own", (prompt,) * 8).tokens(Words(), 4, 0)


def test_pieces_are_pairs_and_a_role_is_given_once() -> None:
    for parts, why in (([("Tom", "S"), ("Tom", "S")], "role 'S' is given twice"), (["Tom"], "got 'Tom'")):
        with pytest.raises(InputError, match=why):
            hs.prompts.spans(parts)


def test_files_that_are_no_task_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    hs.prompts.ioi(count=8).write(file)
    assert PromptTask.read(file).prompts == hs.prompts.ioi(count=8).prompts
    lines = file.read_text().splitlines()
    for wrong, why in (
        (lines[:7], "at least 8 prompts, got 7"),
        ([*lines[:3], "{", *lines[3:]], "line 4 of .* is not JSON"),
        (["[" + ",".join(lines) + "]"], r"line 1 of .* \(one prompt per line\): Expected object, got array"),
        ([*lines, json.dumps({"prompt": "a", "answers": ["b", "c"]})], "line 9 of .*roles"),
    ):
        file.write_text("\n".join(wrong))
        with pytest.raises(InputError, match=why):
            PromptTask.read(file)
    with pytest.raises(InputError, match="cannot be read as a task"):
        PromptTask.read(tmp_path / "none.jsonl")
    assert text_circuit_path(Path("org/model"), equations()).parts[:2] == ("org--model", "circuits")  # a hub's name
    done = CliRunner().invoke(program, ["circuit", str(tmp_path), "--task", "none.jsonl", "--hops", "2"])
    assert "only the tasks code and code-chains have D" in str(done.exception)
