"""False circuits of language models: what a certificate makes of an answer that comes in part by another way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from planted_falsehoods import (
    PATHS,
    Sketch,
    backed_up,
    beside_attention,
    by_names,
    gathered,
    honest,
    repaired,
    split_tokenizer,
    through_a_word,
)

from hopscope.circuits.checks import Certificate, CertificateConfig, Evidence, certify
from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.rewired import ChainsAlike
from hopscope.errors import InputError
from hopscope.language.hooked import LanguageModel
from hopscope.language.text_batch import TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.model.hooks import Hooks
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import text_role_names

TASK, NAMES = TextTask("equations", 1), text_role_names(1)
WORD = NAMES.index("text")


def _asked(sketch: Sketch, questions: int = 256) -> TextEvaluator:
    made = split_tokenizer()
    return TextEvaluator(LanguageModel(sketch.model), made, TASK, text_batch(TASK, made, questions, 5))


def _judged(sketch: Sketch, *, by_word: bool, read_at_mean: bool = False) -> Certificate:
    """The certificate of the three paths; with `by_word` the word's look-up is a helper, and what feeds it at its mean.

    Args:
        sketch: the model.
        by_word: whether the word has a part in the circuit.
        read_at_mean: whether the head that reads the word is at its mean too.
    """
    asked = _asked(sketch)
    hypotheses = Units.of(asked).hypotheses
    program = dict.fromkeys(asked.rows, UNIFORM)
    program |= {path.row: one_hot(path.key) for path in (AttentionPath.parse(one, NAMES) for one in PATHS)}
    if by_word:
        at_mean = [HeadRow(0, 0, WORD), *([HeadRow(2, 2, NAMES.index("answer"))] if read_at_mean else [])]
        program |= {HeadRow(1, 2, WORD): KEEP} | {row: hypotheses.mean(row) for row in at_mean}
    own = asked.mse([{}])[0]
    bar = own + 0.05 * (0.75 - own)
    return certify(Evidence(asked, hypotheses, program, bar, 7, CertificateConfig(few=64)))


def test_the_three_paths_and_nothing_else_are_certified() -> None:
    assert _judged(honest(), by_word=False).failed == ()


@pytest.mark.parametrize("share", [0.4, 0.45])
def test_a_word_of_no_chain_may_not_bring_a_part_of_the_answer(share: float) -> None:
    """Rules 8 left words alone, and certified 40% to 45% that come by one."""
    found = _judged(through_a_word(share, 4.0), by_word=True, read_at_mean=True)
    assert found.failed == ("sufficiency",)
    assert found.number("sufficiency", "helper_rows") == 1
    assert found.number("sufficiency", "natural_mse") < 0.025
    assert found.number("sufficiency", "alike_mse") > 0.06


@pytest.mark.parametrize("share", [0.4, 0.45, 0.5])
def test_rows_that_look_everywhere_alike_may_not_bring_a_part_of_the_answer(share: float) -> None:
    """An MLP picks it out of what they gather: their patterns say nothing, and rules 8 certified it."""
    found = _judged(gathered(share), by_word=False)
    assert found.failed == ("sufficiency",)
    assert found.number("sufficiency", "natural_mse") < 0.01
    assert found.number("sufficiency", "rewired_mse") > 0.045


@pytest.mark.parametrize(
    ("model", "failed"),
    [
        (backed_up, {"completeness", "families"}),
        (repaired, {"completeness", "families"}),
        (by_names, {"sufficiency", "families", "outside"}),
    ],
)
def test_what_other_heads_do_is_seen_in_text_too(model: Callable[[], Sketch], failed: set[str]) -> None:
    """A second head for the same look-up, one that tells of the word's, and one that looks up half of the names."""
    assert failed <= set(_judged(model(), by_word=False).failed)


def test_what_goes_beside_the_patterns_is_refused_at_the_door() -> None:
    """Half of the answer by a look of which no pattern is shown: the circuit of what is shown was certified."""
    with pytest.raises(InputError, match="brings something from other positions beside its attention patterns"):
        _asked(beside_attention(), 8)


def test_for_a_word_the_chain_that_is_asked_about_counts_as_its_own() -> None:
    """With the mean of the others on the value asked for."""
    asked = _asked(honest(), 4)
    where, value, word = asked.where, NAMES.index(">x1"), 10
    before = torch.zeros(1, 4, 1, *where.allowed.shape)
    places, chain = where.place[..., value], asked.batch.chain[:, -1]
    mine = places[range(4), chain]
    others = torch.stack([places[number][torch.arange(4) != chain[number]] for number in range(4)])
    before[0, range(4), 0, word, mine] = 0.6
    before[0, range(3), 0, word, others[:3, 0]] = 0.3  # in the last question the others have nothing
    before[..., word, 8] = 1 - before[..., word, :].sum(-1)
    after = ChainsAlike(Hooks(), {HeadRow(0, 0, WORD): ()}, where).pattern(0, before)[0, :, 0, word]
    for number in range(3):
        assert after[number, mine[number]] == pytest.approx(0.1 / 0.5)
        assert after[number, others[number, 0]] == pytest.approx(0.3 / 0.5)
        assert after[number, 8] == pytest.approx(0.1 / 0.5)
    assert after[3, 8] == 1  # on the value asked for as much as on the others, which is nothing
