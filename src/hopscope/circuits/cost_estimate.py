"""What a search of a language model takes: the memory, checked before it begins, and the time left.

Times are reported but kept in no record: the same model and settings give the same record.
"""

from __future__ import annotations

from math import log2

from hopscope.circuits.checks.certificate import CertificateConfig
from hopscope.circuits.evaluate.evaluator import ACTIVATIONS, BYTES_A_POSITION, STREAMS, Evaluator
from hopscope.circuits.resume import SearchProgress
from hopscope.circuits.search.attribution import BLOCKS, CHECKED, SAVED, SEQUENCES
from hopscope.circuits.search.config import FEW, SearchConfig
from hopscope.errors import InputError
from hopscope.machine import free_memory, in_words

_ROWS, _HEADS = 8, 4
"""How many rows and heads a circuit is expected to have."""

_BATCHES = 8
"""How many batches streams are kept for at once: parts of the questions of the search and of the certificate."""

_WORTH_TELLING = 60.0
"""The time left is told if it is at least so many seconds."""


def check_memory(evaluator: Evaluator, weights: int, proof: CertificateConfig) -> None:
    """Check that a search fits into the free memory, beside the model's weights, which are loaded already.

    Args:
        evaluator: the model, on the questions that the search decides on.
        weights: how many bytes the model's weights take.
        proof: how many questions and random draws stand behind the certificate.

    Raises:
        InputError: the search does not fit.
    """
    needed, free = memory_needed(evaluator, weights, proof), free_memory()
    if needed > free:
        shape = evaluator.shape
        raise InputError(
            f"a search among {shape.layers} x {shape.heads} heads, on questions of {evaluator.where.role.shape[1]} "
            f"tokens, takes {in_words(needed)} of memory beside the weights and {in_words(free)} are free; free some, "
            "or take a machine with more"
        )


def memory_needed(evaluator: Evaluator, weights: int, proof: CertificateConfig) -> int:
    """The most bytes that a search takes beside the weights.

    They are for one pass, forwards or backwards; the streams and patterns of all questions; and a second model, from
    which heads with initial weights are taken.
    """
    shape, positions = evaluator.shape, evaluator.where.role.shape[1]
    asked = max(evaluator.sequences, proof.sequences)
    stream, pattern = 4 * positions * shape.d_model, 4 * shape.heads * positions**2
    kept = _BATCHES * min(STREAMS, asked * stream * shape.layers)
    mixed = asked * positions * BYTES_A_POSITION * shape.d_model
    patterns = 4 * asked * pattern + 2 * proof.rough * shape.layers * pattern
    return max(ACTIVATIONS, SAVED, mixed) + kept + patterns + weights + weights // shape.layers


class Forecast:
    """How long a search takes, from what one question takes and how many are passed through the model.

    This is for a circuit of up to eight rows in four heads; a larger one takes longer.

    Args:
        evaluator: the model.
        config: what the search may spend.
        proof: how many questions and random draws stand behind the certificate.
        seconds: how many seconds a question takes through all layers.
    """

    def __init__(self, evaluator: Evaluator, config: SearchConfig, proof: CertificateConfig, seconds: float) -> None:
        self._stages, self._seconds = _stages(evaluator, config, proof), seconds

    def left(self, stage: str) -> float:
        """Seconds left from the beginning of the first stage whose name begins with `stage`; 0 if there is none."""
        names = [*self._stages]
        at = next((number for number, name in enumerate(names) if name.startswith(stage)), len(names))
        return self._seconds * sum(self._stages[name] for name in names[at:])

    def told(self, progress: SearchProgress) -> SearchProgress:
        """A function that passes everything on to `progress`, with the time left where that is worth telling."""

        def also(stage: str, done: int, stages: int) -> None:
            left = self.left(stage)
            progress(f"{stage}, some {left / 60:.0f} min left" if left >= _WORTH_TELLING else stage, done, stages)

        return also


def _stages(evaluator: Evaluator, config: SearchConfig, proof: CertificateConfig) -> dict[str, float]:
    """How many questions go through all layers in each stage, in order."""
    heads, roles, layers = evaluator.shape.layers * evaluator.shape.heads, evaluator.where.roles, evaluator.shape.layers
    scan, all_of_them, rough = config.sequences, config.confirming, config.rough
    estimated = min(SEQUENCES, SEQUENCES * BLOCKS / layers)
    ranking = estimated * (8 * min(BLOCKS, layers) / 2 + CHECKED / 2)
    stages = {}
    for number in range(config.orders):
        name = f"random-{number}" if number else "least-cost"
        halving = 2 * _HEADS * log2(max(2.0, heads / _HEADS))
        stages[f"{name}: heads"] = ranking + halving * rough + 8 * scan
        stages[f"{name}: rows"] = 3 * _HEADS * roles * rough + 12 * scan
        stages[f"{name}: one by one"] = _ROWS * (12 * rough + 2 * scan) + 4 * all_of_them
    for number in range(1, config.growing + 1):
        stages[f"growing-{number}"] = 6 * scan + 4 * _ROWS * rough
    stages["subsets"] = 2 * all_of_them + 2**_ROWS * FEW
    few, many = proof.few, proof.sequences
    certificate = {
        "harness": 4 * (layers + 4) * proof.rough,
        "sufficiency": 4 * many,
        "necessity": (4 + _ROWS) * few + 2 * _ROWS * proof.rough,
        "minimality": 2**_ROWS * proof.rough,
        "random_keys": _ROWS * (few + roles * proof.rough),
        "places": evaluator.problem.hops * (2 + min(_HEADS, layers)) * proof.rough,
        "recovery": 3 * proof.draws * proof.rough,
        "families": heads * proof.rough / 2 + 4 * few,
        "outside": proof.halves * proof.rough + many,
        "completeness": (proof.halves / 2 + 2 * _ROWS) * few,
        "deliverability": _ROWS * proof.rough,
        "untrained": (_HEADS + 1) * few + (_ROWS + 4) * many,
    }
    # After the last stages of the search and of the certificate comes work without a name: forms, scores, the record.
    return stages | {f"certificate: {name}": questions for name, questions in certificate.items()}
