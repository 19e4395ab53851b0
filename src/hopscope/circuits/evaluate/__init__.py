"""Ablations and evaluators: replace rows of a model's attention and measure how much the loss rises."""
