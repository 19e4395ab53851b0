"""The transformer: M of them at once, and nothing about the task."""
