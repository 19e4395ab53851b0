"""Circuits of language models: planted ones are found and certified, and what cannot be is said."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from planted_text import CIRCUIT, planted
from tokenizers_made import tokenizer
from unchecked import unchecked

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.text import make_tokenizer
from examples.text_model.training import make_model, publish
from hopscope.circuits.checks import CertificateConfig, Evidence, certify
from hopscope.circuits.checks.harness import _by_hand
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import IDENTITY, KEEP, UNIFORM, Ablation, Interventions, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.rewired import errors_alike
from hopscope.circuits.resume import Journal
from hopscope.cli import program
from hopscope.errors import InputError
from hopscope.language.find_text import Named, find_text_circuit
from hopscope.language.hooked import LanguageModel
from hopscope.language.text_batch import TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import text_role_names

pytestmark = pytest.mark.xdist_group("language circuits")  # or each worker would search `folder`

TASK = TextTask("equations", 1)
PATHS = [AttentionPath.parse(path, text_role_names(1)) for path in CIRCUIT]


@cache
def evaluator(questions: int = 64) -> TextEvaluator:
    """The planted model on some questions."""
    made = make_tokenizer()
    return TextEvaluator(LanguageModel(planted()), made, TASK, text_batch(TASK, made, questions, seed=5))


def test_words_of_no_chain_attend_to_themselves_where_they_are_put_at_themselves() -> None:
    asked = evaluator()
    text = asked.names.index("text")
    rows: dict[HeadRow, Ablation] = {row: IDENTITY for row in asked.rows if row.query == text}
    assert rows
    pattern = asked.transformer.patterns(asked.batch.inputs[None], asked.edit(rows))[0][0, :, 0]
    there = asked.where.role == text
    assert there.any()
    assert bool((torch.diagonal(pattern, dim1=-2, dim2=-1)[there] == 1).all())
    assert bool((pattern.sum(dim=-1)[there] == 1).all())
    of_first_layer = {row: form for row, form in rows.items() if row.layer == 0}
    torch.testing.assert_close(asked.errors([of_first_layer])[0], _by_hand(asked, of_first_layer), atol=1e-5, rtol=0)


def test_the_planted_circuit_and_nothing_else_is_found_and_certified(found: Circuit) -> None:
    circuit = found
    assert sorted(one.path for one in circuit.paths) == sorted(PATHS)
    assert circuit.certified == ("natural",)
    assert circuit.certificate.number("deliverability", "layers_needed") == 2
    assert circuit.text is not None
    scores = circuit.text.scores
    assert scores["full"].accuracy == scores["imposed"].accuracy == scores["natural"].accuracy == 1
    assert scores["nothing"].accuracy < 0.5
    assert circuit.text.floor == 0.25


def test_what_each_path_feeds_is_known_of_language_models_too(found: Circuit) -> None:
    uses = {found_path.path.describe(found.roles): found_path.uses(found.roles) for found_path in found.paths}
    assert uses == {
        "layer 1 head 1: >x1 -> x0>": ("K of layer 2 (answer -> >x1)",),
        "layer 1 head 1: answer -> x0?": ("Q of layer 2 (answer -> >x1)",),
        "layer 2 head 2: answer -> >x1": ("the answer",),
    }
    (last,) = (one for one in found.paths if one.path.layer == 1)
    assert last.feeds[0].change == pytest.approx(last.natural_mse - found.losses["natural"], abs=0.05)
    fallen = [one.feeds[0].attention for one in found.paths if one is not last]
    assert all(0.2 < fall < 0.9 for fall in fallen), fallen  # what is left is the share of a guess


def test_the_record_is_kept_shown_drawn_and_read_again(folder: Path, found: Circuit) -> None:
    assert (folder / "circuits" / "equations-1-hops.svg").stat().st_size > 1000
    asked = ["circuit", str(folder), "--formulation", "equations", "--hops", "1", "--show"]
    assert "answer -> >x1" in CliRunner().invoke(program, asked, catch_exceptions=False).stdout
    model = hs.TextModel(folder)
    assert model.find_circuit("equations", 1, effort="quick") == found  # in no time: nothing is searched again
    (question,) = hs.questions("equations", 1, count=1)
    assert [role for _, role, chain in model.roles(question) if chain < 0] == ["text"]


def test_an_interrupted_search_goes_on_where_it_was(
    folder: Path, found: Circuit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished is not done again, unless something else is asked for; the record ends it."""
    model, done = hs.TextModel(shutil.copytree(folder, tmp_path / "model")), []
    stop = True

    def search(*_: object, journal: Journal, **asked: object) -> Circuit:
        for name in ("first", "second"):
            before = len(done)
            journal.once(name, lambda name=name: done.append(name), evaluator(8))
            if stop and len(done) > before:
                raise KeyboardInterrupt
        return found

    monkeypatch.setattr("hopscope.language.text_model.find_text_circuit", search)
    left = model.path / "circuits" / ".equations-1-hops-search.json"
    left.with_name("equations-1-hops.json").unlink()  # which is certified, and would not be replaced
    for seed, wanted in ((5, ["first"]), (5, ["first", "second"]), (6, ["first", "second", "first"])):
        with pytest.raises(KeyboardInterrupt):
            model.find_circuit("equations", 1, seed=seed)
        assert done == wanted
        assert left.exists()
    stop = False
    model.find_circuit("equations", 1, seed=6)
    assert done == ["first", "second", "first", "second"]
    assert not left.exists()


def test_scores_are_those_of_the_models_own_logits() -> None:
    """An oracle that reads the answer from the library's logits, question by question."""
    ours, model, made = evaluator(), planted(), make_tokenizer()
    total = 0.0
    for question in TASK.questions(64, 5):
        with torch.no_grad():
            logits = model(**made(question.prompt + "\n", return_tensors="pt")).logits[0, -1]
        among = torch.stack([logits[made.convert_tokens_to_ids(one)] for one in question.acceptable]).softmax(-1)
        wanted = torch.tensor([one == question.answer for one in question.acceptable])
        total += float((among - wanted.float()).square().sum())
    assert ours.mse([{}])[0] == pytest.approx(total / 64, abs=1e-6)
    assert ours.scores({}).brier == pytest.approx(total / 64, abs=1e-6)


def test_each_row_of_the_circuit_is_needed_and_programs_may_depart_from_one_another() -> None:
    ours = evaluator()
    natural: Interventions = dict.fromkeys(ours.rows, UNIFORM) | {path.row: KEEP for path in PATHS}
    whole, *without = ours.mse([natural, *({**natural, path.row: UNIFORM} for path in PATHS)])
    assert whole < 0.02
    assert min(without) > 0.1
    ours.depart_from(natural)
    again = ours.mse([natural, {**natural, PATHS[2].row: IDENTITY}, {**natural, PATHS[0].row: UNIFORM}])
    assert [again[0], again[2]] == pytest.approx([whole, without[0]], abs=1e-6)
    assert again[1] > 0.5


def test_a_wrong_key_does_not_pass() -> None:
    ours = evaluator()
    circuit: Interventions = {path.row: one_hot(path.key) for path in PATHS}
    wrong = AttentionPath.parse("L2.H2 answer -> x0>", text_role_names(1))
    imposed = {**dict.fromkeys(ours.rows, UNIFORM), **circuit, wrong.row: one_hot(wrong.key)}
    assert ours.mse([imposed])[0] > 0.5


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
        ("row left out", {"sufficiency", "deliverability"}),
        ("wrong key", {"random_keys", "deliverability"}),
        ("decoy", {"necessity"}),
        ("twin", {"sufficiency", "necessity"}),
    ],
)
def test_a_circuit_that_is_planted_falsely_is_not_certified(kind: str, failed: set[str]) -> None:
    ours = evaluator()
    planted_one = dict.fromkeys(ours.rows, UNIFORM) | {path.row: one_hot(path.key) for path in _planted_falsely(kind)}
    own = ours.mse([{}])[0]
    bar = own + 0.05 * (0.75 - own)
    evidence = Evidence(ours, Units.of(ours).hypotheses, planted_one, bar, 7, CertificateConfig(sequences=128, few=64))
    certificate = certify(evidence, Journal())
    assert certificate.passed == (kind == "true")
    assert failed <= set(certificate.failed)


def test_rows_that_look_at_their_keys_alone_may_be_as_they_are_in_text_too() -> None:
    """With as much on the own chain as on others, but for the keys that are named, the answers stay; without names the
    planted look-ups are lost. Words of no chain are left alone."""
    ours = evaluator().part(16)
    kept = dict.fromkeys(ours.rows, UNIFORM) | {path.row: KEEP for path in PATHS}
    own = float(ours.errors([kept]).mean())
    named, unnamed = ({path.row: keys(path) for path in PATHS} for keys in (lambda path: (path.key,), lambda path: ()))
    assert float(errors_alike(ours, kept, named).mean()) == pytest.approx(own, abs=0.02)
    assert float(errors_alike(ours, kept, unnamed).mean()) > own + 0.2


def test_questions_of_different_lengths_are_filled_up_where_nobody_looks() -> None:
    """Letters of several characters make prompts of several lengths; filling up changes no answer."""
    made, task = tokenizer("short"), TextTask.of("equations", 5)
    one = text_batch(task, made, 12, 3)
    lengths = {int(end) + 1 for end in one.answer}
    model = LanguageModel(_random(len(made)))
    ours = TextEvaluator(model, made, task, one)
    alone = [TextEvaluator(model, made, task, text_batch(task, made, 12, 3)[n : n + 1]) for n in range(12)]
    assert ours.own.tolist() == pytest.approx([float(single.own) for single in alone], abs=1e-5)
    assert ours.where.role.shape[1] == max(lengths)


def _random(words: int) -> object:
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2LMHeadModel(GPT2Config(vocab_size=words, n_positions=600, n_embd=16, n_layer=2, n_head=2))


def test_questions_longer_than_a_model_has_places_for_are_refused() -> None:
    made, task = make_tokenizer(), TextTask.of("equations", 2)
    with pytest.raises(InputError, match=r"a question has \d+ tokens here and GPT2LMHeadModel places for 16"):
        TextEvaluator(LanguageModel(planted()), made, task, text_batch(task, made, 2, 0))


def test_tokens_that_a_model_does_not_know_are_refused(tmp_path: Path) -> None:
    """A chat's mark that was added to the tokenizer alone; a tokenizer of more words; words that are no token's."""
    made, told = make_tokenizer(), "the tokenizer has 79 tokens and GPT2LMHeadModel knows 78; save the model again"
    made.add_tokens(["[model]"], special_tokens=True)
    made.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}[model]"
    with pytest.raises(InputError, match=told):
        TextEvaluator(LanguageModel(planted()), made, TASK, text_batch(TASK, made, 2, 0))
    publish(planted(), tmp_path)
    make_tokenizer("word").save_pretrained(tmp_path)
    with pytest.raises(InputError, match=told):
        hs.TextModel(tmp_path)
    with pytest.raises(InputError, match=r"no token for some characters .* in a question of lives-with"):
        text_batch(TextTask.of("lives-with", 1), make_tokenizer(), 2, 0)


def test_questions_longer_than_a_window_are_refused() -> None:
    """An ablation would let its heads look where they cannot; where no layer has the window its size is idle."""
    from transformers import MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

    made = make_tokenizer()
    batch, length = text_batch(TASK, made, 2, 0), text_batch(TASK, made, 2, 0).inputs.shape[1]
    small: dict[str, Any] = {
        "vocab_size": len(made), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4,
    }  # fmt: skip

    def all_layers(window: int) -> Any:
        return MistralForCausalLM(MistralConfig(**small, sliding_window=window))

    def layers(window: int, *kinds: str) -> Any:
        how = {
            "use_sliding_window": True,
            "sliding_window": window,
            "layer_types": [f"{kind}_attention" for kind in kinds],
        }
        return Qwen2ForCausalLM(Qwen2Config(**small, **how))

    def opened(model: Any) -> TextEvaluator:
        return TextEvaluator(LanguageModel(model), made, TASK, batch)

    for model in (all_layers(length - 1), layers(length - 1, "full", "sliding")):
        with pytest.raises(InputError, match=rf"{length} tokens here and layers of \w+ look back {length - 1} at most"):
            opened(model)
    for model in (all_layers(length), layers(length, "full", "sliding"), layers(4, "full", "full")):
        assert opened(model).sequences == 2


def test_a_model_that_guesses_has_no_circuit_and_says_so() -> None:
    untrained = LanguageModel(make_model(TextModelRecipe(layers=2, d_model=32, heads=2)))
    circuit = find_text_circuit(untrained, make_tokenizer(), TASK, Named("new", "y"), effort="quick")
    assert not circuit.found
    assert circuit.certified == ()
    assert "does not solve the problem" in circuit.certificate.parts["sufficiency"].says
    assert "25% needs no retrieval" in circuit.certificate.parts["sufficiency"].says


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--formulation", "functions"], "functions has no chains"),
        (["--formulation", "equations", "--hops", "9"], "hops must be 1..6"),
        (["--formulation", "equations", "--faithfulness", "1"], "faithfulness must be above 0 and below 1"),
        (["--formulation", "equations", "--checkpoint", "3"], "are for runs"),
        (["--hops", "2"], "pass --formulation"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(folder: Path, asked: list[str], why: str) -> None:
    done = CliRunner().invoke(program, ["circuit", str(folder), *asked])
    assert isinstance(done.exception, InputError)
    assert why in str(done.exception)


@pytest.mark.parametrize("seed", [1.5, -1, True, "a"])
def test_a_search_has_a_seed(seed: Any, tmp_path: Path) -> None:
    untrained = make_model(TextModelRecipe(layers=2, d_model=32, heads=2))
    publish(untrained, tmp_path)
    for asked in (
        lambda: find_text_circuit(LanguageModel(untrained), make_tokenizer(), TASK, Named("new", "y"), seed=seed),
        lambda: hs.TextModel(tmp_path).find_circuit("equations", 1, seed=seed),
    ):
        with unchecked(), pytest.raises(InputError, match=r"seed must be a whole number from 0 to 2\^63 - 1, got"):
            asked()
    assert not (tmp_path / "circuits").exists()


def test_extensions_of_a_task_are_such() -> None:
    for extensions in ({}, {"shots": 1}):
        with unchecked(), pytest.raises(InputError, match="extensions must be Extensions, as"):
            TextTask.of("equations", 1, extensions)  # type: ignore[arg-type]
