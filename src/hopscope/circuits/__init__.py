"""Circuits: which attention paths carry a model's answers, found by search and proved by certificate (Appendix E)."""
