"""The formulations as tasks of lm-evaluation-harness: a file of values each, and `questions.py`, which they call."""
