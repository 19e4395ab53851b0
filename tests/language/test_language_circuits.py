"""Circuits of language models, found and of your own: planted ones are certified, and what cannot be is said."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from planted_models import run_checks
from planted_text import CIRCUIT, planted
from tokenizers_made import tokenizer
from unchecked import unchecked

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.text import make_tokenizer
from examples.text_model.training import make_model, publish
from hopscope.circuits.checks.card import CertificateConfig, all_passed
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.custom_circuit import of_parts
from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, AblationKind, one_hot
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.resume import run_search
from hopscope.cli import program
from hopscope.errors import InputError
from hopscope.language.find_text import Named, search_text_circuit, settings_for
from hopscope.language.hooked import HookedDecoder
from hopscope.language.text_batch import TextTask, text, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.paths import AttentionPath
from hopscope.problem.roles import text_role_names

pytestmark = pytest.mark.xdist_group("language circuits")  # or each worker would search `folder`

TASK = TextTask("equations", 1)
PATHS = [AttentionPath.parse(path, text_role_names(1)) for path in CIRCUIT]


@cache
def evaluator(questions: int = 64) -> TextEvaluator:
    """The planted model on some questions."""
    made = make_tokenizer()
    return TextEvaluator(HookedDecoder(planted()), made, TASK, text_batch(TASK, made, questions, seed=5))


@pytest.mark.slow
def test_exactly_the_planted_circuit_is_found_and_certified(found: Circuit) -> None:
    circuit = found
    assert sorted(path.path for path in circuit.paths) == sorted(PATHS)
    assert circuit.certified
    assert circuit.checks["delivery"].numbers["layers_needed"] == 2
    assert circuit.text is not None
    scores = circuit.text.scores
    assert scores["full"].accuracy == scores["imposed"].accuracy == scores["own"].accuracy == 1
    assert scores["nothing"].accuracy < 0.5
    assert circuit.text.floor == 0.25


@pytest.mark.slow
def test_feeds_of_a_language_models_paths(found: Circuit) -> None:
    uses = {found_path.path.describe(found.roles): found_path.uses(found.roles) for found_path in found.paths}
    assert uses == {
        "layer 1 head 1: >x1 -> x0>": ("K of layer 2 (answer -> >x1)",),
        "layer 1 head 1: answer -> x0?": ("Q of layer 2 (answer -> >x1)",),
        "layer 2 head 2: answer -> >x1": ("the answer",),
    }
    (last,) = (path for path in found.paths if path.path.layer == 1)
    assert last.feeds[0].change == pytest.approx(last.without.mean - found.losses["own"], abs=0.05)
    fallen = [path.feeds[0].attention for path in found.paths if path is not last]
    assert all(0.2 < fall < 0.9 for fall in fallen), fallen  # what is left is the share of a guess


def test_scores_are_those_of_the_models_own_logits() -> None:
    """An oracle that reads the answer from the library's logits, question by question."""
    ours, model, made = evaluator(), planted(), make_tokenizer()
    total = 0.0
    for question in TASK.questions(64, 5):
        with torch.no_grad():
            logits = model(**made(question.prompt + "\n", return_tensors="pt")).logits[0, -1]
        among = torch.stack([logits[made.convert_tokens_to_ids(answer)] for answer in question.acceptable]).softmax(-1)
        wanted = torch.tensor([answer == question.answer for answer in question.acceptable])
        total += float((among - wanted.float()).square().sum())
    assert ours.mse([{}])[0] == pytest.approx(total / 64, abs=1e-6)
    assert ours.scores({}).brier == pytest.approx(total / 64, abs=1e-6)


def _planted_falsely(kind: str) -> list[AttentionPath]:
    """The planted circuit, or one that is false: a row left out, a wrong key, a decoy beside it, a decoy's work."""
    names = text_role_names(1)
    read = {"wrong key": "L1.H1 answer -> >x1", "decoy": "L1.H2 >x1 -> x0>", "twin": "L2.H1 answer -> >x1"}
    other = [AttentionPath.parse(path, names) for one, path in read.items() if one == kind]
    taken = {"row left out": PATHS[0], "wrong key": PATHS[1], "twin": PATHS[2]}.get(kind)
    return [path for path in PATHS if path != taken] + other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "failed"),
    [
        ("true", set()),
        ("row left out", {"sufficiency", "delivery"}),
        ("wrong key", {"right_keys", "delivery"}),
        ("decoy", {"necessity"}),
        ("twin", {"sufficiency", "necessity"}),
    ],
)
def test_a_false_circuit_is_not_certified(kind: str, failed: set[str]) -> None:
    ours = evaluator()
    planted_one = dict.fromkeys(ours.rows, UNIFORM) | {path.row: one_hot(path.key) for path in _planted_falsely(kind)}
    own = ours.mse([{}])[0]
    max_loss = own + 0.05 * (0.75 - own)
    evidence = Evidence(ours, Units.of(ours), planted_one, max_loss, 7, CertificateConfig(sequences=128, few=64))
    checks = run_checks(evidence)
    assert all_passed(checks) == (kind == "true")
    assert failed <= {name for name, check in checks.items() if not check.passed}


def test_padding_changes_no_answer() -> None:
    """Letters of several characters make prompts of several lengths; filling up changes no answer."""
    made, task = tokenizer("short"), text("equations", 5)
    one = text_batch(task, made, 12, 3)
    lengths = {int(end) + 1 for end in one.answer}
    model = HookedDecoder(_random(len(made)))
    ours = TextEvaluator(model, made, task, one)
    alone = [TextEvaluator(model, made, task, one[n : n + 1]) for n in range(12)]
    assert ours.own.tolist() == pytest.approx([float(single.own) for single in alone], abs=1e-5)
    assert ours.where.role.shape[1] == max(lengths)


def _random(words: int) -> object:
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2LMHeadModel(GPT2Config(vocab_size=words, n_positions=600, n_embd=16, n_layer=2, n_head=2))


def test_questions_longer_than_the_model_are_refused() -> None:
    made, task = make_tokenizer(), text("equations", 2)
    with pytest.raises(InputError, match=r"a question has \d+ tokens, but GPT2LMHeadModel takes at most 16"):
        TextEvaluator(HookedDecoder(planted()), made, task, text_batch(task, made, 2, 0))


def test_unknown_tokens_are_refused(tmp_path: Path) -> None:
    """A chat's mark that was added to the tokenizer alone; a tokenizer of more words; words that are no token's."""
    made, sentence = make_tokenizer(), "the tokenizer has 79 tokens, but GPT2LMHeadModel knows 78; save the model again"
    made.add_tokens(["[model]"], special_tokens=True)
    made.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}[model]"
    with pytest.raises(InputError, match=sentence):
        TextEvaluator(HookedDecoder(planted()), made, TASK, text_batch(TASK, made, 2, 0))
    publish(planted(), tmp_path)
    make_tokenizer("word").save_pretrained(tmp_path)
    with pytest.raises(InputError, match=sentence):
        hs.LanguageModel(tmp_path)
    with pytest.raises(InputError, match=r"no token for some characters .* in a question of lives-with"):
        text_batch(text("lives-with", 1), make_tokenizer(), 2, 0)
    unknown = hs.prompts.Prompt("a = b\n", {"x": (4, 5)}, ("a", "Zoë"))
    with pytest.raises(InputError, match=r"no token for some characters .* in prompt 1 of own"):
        hs.PromptTask("own", (unknown,) * 8).tokens(make_tokenizer(), 2, 0)


def test_a_guessing_model_has_no_circuit() -> None:
    untrained = HookedDecoder(make_model(TextModelRecipe(layers=2, d_model=32, heads=2)))
    wanted = settings_for(TASK, "fp32", "quick", None, 0, None)
    circuit = run_search(search_text_circuit(untrained, make_tokenizer(), TASK, Named("new", "y"), wanted))
    assert not circuit.found
    assert not circuit.certified
    assert "so nothing shows that it reads" in circuit.checks["sufficiency"].says
    assert "a guess without reading gets 25%" in circuit.checks["sufficiency"].says


def test_a_role_that_ends_with_an_equals_sign_is_typed_as_any_other() -> None:
    here = evaluator(8)
    names = tuple({"answer": "x0=", "x0=": "answer"}.get(name, name) for name in here.names)
    renamed: Any = SimpleNamespace(
        names=names, shape=here.shape, rows=here.rows, live_rows=here.live_rows, where=here.where
    )
    path, mean, kept = "L1.H1 x0= -> x0>", "L1.H2 x0==mean", "L2.H1 x0="
    found, _ = of_parts([path, mean, kept], renamed, Units.of(here))
    by_name = {row.describe(names): ablation for row, ablation in found.items()}
    assert by_name["L1.H1 x0="] == one_hot(names.index("x0>"))
    assert by_name["L1.H2 x0="].kind is AblationKind.MEAN
    assert [name for name, ablation in by_name.items() if ablation == KEEP] == [kept]


@pytest.mark.slow
def test_a_custom_circuit_is_checked_as_a_found_one(folder: Path, found: Circuit) -> None:
    few = CertificateConfig(sequences=64, deciding=128, few=32, draws=40, halves=8)
    model = hs.LanguageModel(folder)
    circuit = model.check(CIRCUIT, hs.text("equations", 1), proof=few)
    assert circuit.certified
    assert sorted(path.path for path in circuit.paths) == sorted(PATHS)
    assert circuit.text is not None
    assert circuit.text.scores["own"].accuracy == 1
    assert (circuit.max_loss, circuit.model, circuit.search.effort) == (found.max_loss, found.model, None)
    less = model.check([CIRCUIT[0], CIRCUIT[2]], hs.text("equations", 1), proof=few)
    assert not less.certified
    assert not less.checks["sufficiency"].passed
    with pytest.raises(InputError, match=r"proof must be an hs\.CertificateConfig"), unchecked():
        model.check(CIRCUIT, hs.text("equations", 1), proof=64)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="layer must be from 1 to 2, got 7"):
        model.check(["L7.H1 answer -> >x1"], hs.text("equations", 1), proof=few)


@pytest.mark.slow
def test_certify_verb_of_a_language_model_and_what_it_refuses(folder: Path, found: Circuit, tmp_path: Path) -> None:
    asked = ["circuit", "certify", str(folder)]
    how = ["--formulation", "equations", "--hops", "1"]
    done = CliRunner().invoke(program, [*asked, *how], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("certified circuit")
    assert f"{len(found.paths)} paths" in " ".join(done.stdout.split())
    of_own, searched = [*asked, CIRCUIT[0]], ["circuit", str(folder), *how, "--out", str(tmp_path)]
    for arguments, says in (
        ([*of_own, *how, "--max-loss", "0.1"], "for a language model, --faithfulness sets"),
        ([*of_own, "--hops", "1"], "is a language model; pass --formulation"),
        (of_own, "is a language model; pass --formulation"),
        ([*of_own, *how, "--faithfulness", "1"], "faithfulness must be above 0 and below 1, got 1.0"),
        ([*searched, "--faithfulness", "0"], "faithfulness must be above 0 and below 1, got 0.0"),
        ([*asked, *how, "--out", str(tmp_path / "elsewhere")], "elsewhere/equations-1-hops.json does not exist"),
        (["circuit", str(folder), "--task", "indction"], "induction, ioi, code or code-chains, got 'indction'"),
    ):
        refused = CliRunner().invoke(program, arguments)
        assert isinstance(refused.exception, InputError)
        assert says in str(refused.exception)
