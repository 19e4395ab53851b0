"""Training: recipes, the trainer, which trains M models at once, and run folders."""
