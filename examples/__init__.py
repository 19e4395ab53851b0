"""Examples: notebooks, and a small language model trained from scratch."""
