"""How many layers a chain of lookups needs, and why: information flow, exact depth, transformers built by hand."""
