"""The record of a circuit: what was found in one model, on disk and in words."""
