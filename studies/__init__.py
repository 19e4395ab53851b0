"""Questions that the paper left open: each file a study, its rule and its answer; `tools` is what they are made of."""
