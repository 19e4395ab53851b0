"""Measures what a model loses once rows of its attention are replaced: ablations, interventions, evaluators."""
