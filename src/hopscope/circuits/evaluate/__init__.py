"""Measure how the loss of a model rises when rows of its attention are replaced: ablations and evaluators."""
