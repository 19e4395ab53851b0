"""The transformer, M of them at once; nothing here knows the task."""
