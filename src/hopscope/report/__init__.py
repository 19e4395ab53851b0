"""Figures, the claims table and the report: how numbers are shown, never how they are made."""
