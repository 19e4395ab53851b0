"""What pretrained models need: weights in bf16, bounded numbers of candidates, and a search that loses no prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from planted_text import equations, planted, planted_paths
from small_decoders import decoder
from tokenizers_made import tokenizer

import hopscope as hs
from examples.text_model.text import make_tokenizer
from examples.text_model.training import publish
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.checks.losses import FreshLosses
from hopscope.circuits.checks.measure_card import _falling
from hopscope.circuits.checks.necessity import _best_pair
from hopscope.circuits.evaluate.ablations import ALIKE, UNIFORM, Interventions, changed
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.circuits.search.elimination import put_back
from hopscope.circuits.search.gauge import Gauge
from hopscope.cli import program
from hopscope.errors import InputError
from hopscope.language import find_text
from hopscope.language.find_text import THRIFTY_PROOF
from hopscope.language.hooked import HookedDecoder
from hopscope.language.journal import Journal
from hopscope.language.text_batch import text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.paths import HeadRow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("planted")
    publish(planted(), made)
    return made


def evaluator(prompts: int = 32) -> TextEvaluator:
    made, task = make_tokenizer(), equations()
    return TextEvaluator(HookedDecoder(planted()), made, task, text_batch(task, made, prompts, 0, "circuit search"))


@pytest.mark.parametrize("family", ["llama", "gemma 3", "gpt neox"])
def test_in_bf16_rotary_codes_and_read_out_stay_precise(family: str) -> None:
    exact = HookedDecoder(decoder(family))
    rough = HookedDecoder(decoder(family)).moved("cpu", "bf16")
    head = rough._model.get_output_embeddings()
    kinds = {weight.dtype for weight in rough._model.parameters() if weight is not head.weight}
    assert (kinds, head.weight.dtype) == ({torch.bfloat16}, torch.float32)
    assert rough.size < 0.75 * exact.size
    for (_, one), (_, other) in zip(exact._model.named_buffers(), rough._model.named_buffers(), strict=True):
        assert torch.equal(one, other)
    inputs = torch.arange(24).remainder(40).view(1, 2, 12)
    logits, near = (model.answers(model.run(model.embed(inputs))) for model in (exact, rough))
    assert near.dtype == torch.float32
    assert 0 < float((logits - near).abs().max()) < 0.05 * float(logits.abs().max())
    (pattern, *_) = rough.patterns(inputs)  # what ablations work on sums to 1 as exactly as ever
    assert float((pattern.sum(dim=-1) - 1).abs().max()) < 1e-6
    mixed = rough.with_untrained([(1, 0)], seed=0)
    assert {weight.dtype for weight in mixed._model.parameters()} == {torch.bfloat16, torch.float32}


@pytest.mark.slow  # on a processor without hardware for bf16
def test_a_circuit_checked_in_bf16_has_the_same_card(folder: Path) -> None:
    notes: list[str] = []

    def checked(precision: Any) -> hs.Circuit:
        model = hs.LanguageModel(folder, precision=precision)
        return model.check(planted_paths(), equations(), progress=lambda note, done, stages: notes.append(note))

    exact, rough = map(checked, ("fp32", "bf16"))
    read = [int(note.split()[-3]) for note in notes if note.startswith("own patterns, card, ")]
    assert read[0] > 0
    assert max(read) > 100  # said within the stage, not only when it begins
    assert rough.search.precision == "bf16"
    assert [check.outcome for check in exact.checks.values()] == [check.outcome for check in rough.checks.values()]
    assert rough.losses == pytest.approx(exact.losses, abs=0.02)
    assert rough.losses != exact.losses
    assert rough.card is not None
    assert exact.card is not None
    assert rough.card.size == exact.card.size


def test_places_and_precisions_that_there_are_not(folder: Path) -> None:
    with pytest.raises(InputError, match="precision must be one of fp32, bf16, got 'fp8'"):
        hs.LanguageModel(folder, precision="fp8")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="device 'nowhere' cannot be used here"):
        hs.LanguageModel(folder, device="nowhere").evaluator(equations())
    done = CliRunner().invoke(program, ["circuit", str(folder / "none"), "--precision", "bf16"])
    assert "it is no language model" in str(done.exception)


def test_as_few_rows_are_put_back_as_will_do() -> None:
    """A row that matters is the fifth of the last that went: five come back, and what went before stays off."""
    ours = evaluator()
    units = Units.of(ours)
    budget = SearchBudget(1, 0, sequences=16, confirming=32, deciding=32)
    gauge = Gauge.confirming(ours, SearchConfig(budget, max_loss=0.2))
    value, answer = map(ours.names.index, ("value", "answer"))
    needed = [HeadRow(0, 0, value), HeadRow(0, 0, answer), HeadRow(1, 1, answer)]
    idle = [row for row in units.rows if row not in needed]
    left = changed(units.base, dict.fromkeys([*idle[:-4], needed[-1], *idle[-4:]], UNIFORM))
    assert not gauge.passes(left, 0.2)
    back = put_back(gauge, units, left)
    assert {*units.on(back)} - {*units.on(left)} == {needed[-1], *idle[-4:]}


def test_pairs_of_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are missed least are tried; the rows of a circuit with more fall as they are missed alone."""
    ours = evaluator()
    units = Units.of(ours)
    proof = replace(THRIFTY_PROOF, sequences=32, deciding=64)
    asked: list[Any] = []
    screened = FreshLosses.screened
    monkeypatch.setattr(FreshLosses, "screened", lambda of, *given: asked.append(given[0]) or screened(of, *given))
    whole, few = (Evidence(ours, units, units.base, 0.2, 1, replace(proof, pairs=pairs)) for pairs in (None, 3))
    least = sorted(few.rows, key=lambda row: few.lost[row].loss.mean)
    tried = []
    for evidence in (whole, few):
        asked.clear()
        _best_pair(evidence)
        tried.append(asked[-1])
    rows = len(few.rows)
    assert [len(candidates) for candidates in tried] == [rows * (rows - 1) // 2, 3]
    assert all(candidate[least[0]] == UNIFORM for candidate in tried[1])
    assert _falling(few) == least


def test_large_models_decide_on_half_as_many_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = HookedDecoder(planted())
    whole = find_text._budgets(equations(), model)["quick"]
    monkeypatch.setattr(find_text, "_LARGE", model.size - 1)
    half = find_text._budgets(equations(), model)["quick"]
    assert (half.sequences, half.confirming, half.deciding) == (16, 48, 96)
    assert replace(half, sequences=32, confirming=96, deciding=192) == whole
    assert find_text._budgets(hs.text("equations", 1), model)["quick"].sequences == 128


def test_code_has_the_roles_of_the_chain_asked_for() -> None:
    for hops in (1, 2):
        task = hs.prompts.code(count=8, hops=hops)
        for prompt in task.prompts:
            word = {role: prompt.prompt[slice(*span)].strip(" (") for role, span in prompt.roles.items()}
            assert word["x0>"] == word["x0?"]
            assert f" {word[f'>x{hops}']}" == prompt.answers[prompt.right]
            assert hops == 1 or word[">x1"] == word["x1>"]
            assert word[f"x{hops}."] == "\n"
        read = task.tokens(tokenizer("characters"), 4, 0)
        assert all(task.problem.names[one.role[-1]] == "answer" and one.role[0] == one.role[1] for one in read)


def test_rows_that_are_off_keep_their_patterns_in_questions_for_pretrained_models() -> None:
    """By instruction a row that is off is uniform, as in vectors; as code it keeps its pattern, chain-agnostic."""
    from transformers import GPT2Config, GPT2LMHeadModel

    made = tokenizer("characters")
    small = GPT2Config(vocab_size=len(made), n_positions=600, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5)
    model = HookedDecoder(GPT2LMHeadModel(small))
    for form, alike in (("instruction", False), ("code", True)):
        task = hs.text("equations", 1, hs.Extensions(form=form))  # type: ignore[arg-type]
        ours = TextEvaluator(model, made, task, text_batch(task, made, 8, 0))
        uniform, agnostic = (dict.fromkeys(ours.rows, off) for off in (UNIFORM, ALIKE))
        assert (ours.mse([uniform]) == ours.mse([agnostic])) == alike
        assert Units.of(ours).off_is_alike == alike


def test_an_interrupted_search_measures_nothing_twice(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, last, plain = [0], [0], TextEvaluator.squared_errors

    def counted(self: TextEvaluator, x: torch.Tensor) -> torch.Tensor:
        if passes[0] == last[0] > 0:
            raise KeyboardInterrupt
        passes[0] += not torch.is_grad_enabled()  # gradients are computed again
        return plain(self, x)

    def found(out: str) -> hs.Circuit:
        passes[0] = 0
        return hs.LanguageModel(folder).find_circuit(equations(), effort="quick", out=tmp_path / out, progress=False)

    monkeypatch.setattr(TextEvaluator, "squared_errors", counted)
    whole, needed = found("whole"), passes[0]
    last[0] = needed // 2
    with pytest.raises(KeyboardInterrupt):
        found("stopped")
    assert len([*(tmp_path / "stopped").glob(".equations-losses-*.jsonl")]) == 1
    last[0] = 0
    assert found("stopped") == whole
    assert passes[0] == needed - needed // 2
    assert [path.name for path in (tmp_path / "stopped").iterdir()] == ["equations.json"]


def test_an_unfinished_line_is_measured_again_and_a_changed_one_refused(tmp_path: Path) -> None:
    path, ours, measured = tmp_path / "losses.jsonl", evaluator(8), list[Interventions]()
    given: list[Interventions] = [{}, {HeadRow(0, 0, 0): UNIFORM}, {HeadRow(1, 1, 0): UNIFORM}]

    def measure(candidates: list[Interventions]) -> torch.Tensor:
        measured.extend(candidates)
        return ours.errors(candidates)

    first = Journal(path, "model").errors(ours.batch, given, measure)
    path.write_bytes(data := path.read_bytes()[:-9])
    again = Journal(path, "model").errors(ours.batch, given, measure)
    assert (measured, again.tolist()) == ([*given, given[2]], first.tolist())
    Journal(path, "model").errors(ours.batch[:4], given[:1], measure)  # other prompts
    assert measured[4:] == given[:1]
    for damaged, model in ((data.replace(b"[", b"[1", 1), "model"), (data, "another")):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"line 1 .* is damaged, or of another run"):
            Journal(path, model)
        assert path.read_bytes() == damaged
