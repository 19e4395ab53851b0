"""Numbers of Inspect AI and lm-evaluation-harness beside those of exact mode, on two questions worked out by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")
from studies.tools.other_ways import sampled, weighed

EXACT = [{"answer": "a", "weights": {"a": 0.6, "b": 0.3}}, {"answer": "b", "weights": {"a": 0.3, "b": 0.1}}]


def test_sampled_replies_are_compared_with_what_exact_mode_expects() -> None:
    """Of 4 replies 90% are acceptable, of 1 reply 40%; of those accepted, two thirds are right."""
    replies = [{"attempts": 4, "correct": True, "accepted": "a"}, {"attempts": 1, "correct": False, "accepted": None}]
    assert sampled(replies, EXACT) == ["5", "1", "4.0 ± 0.8", "1", "0.7 ± 0.5"]


def test_the_harness_is_compared_question_by_question() -> None:
    scores = [{"accuracy": 2 / 3 + 0.1, "likeliest": 1}, {"accuracy": 0.13, "likeliest": 0}]
    assert weighed(scores, EXACT) == ["0.448", "0.458", "-0.010 ± 1.398", "0.50, 0.50"]
