"""Training: recipes, the trainer of M models at once, and the run folder it leaves."""
