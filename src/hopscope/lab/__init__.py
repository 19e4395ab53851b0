"""The interface for notebooks: a model, and a run of models."""
