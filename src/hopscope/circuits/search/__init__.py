"""Algorithms that search for circuits, and what they may spend."""
