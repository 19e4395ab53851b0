"""Circuits of language models for the questions of a formulation, found by the same search and certificate."""
