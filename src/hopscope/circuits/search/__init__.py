"""The algorithms that search for circuits, and the settings of a search."""
