"""Language models on the retrieval problem (Section 4): asking, judging, counting. Knows nothing of training."""
