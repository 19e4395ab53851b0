"""Circuits of language models, for the questions of a formulation, by the same search and certificate."""
