"""Figures: typed values in, matplotlib figures out; nothing is measured here."""
