"""Circuits: find the attention paths that carry a model's answers (Appendix E), and check them with a certificate."""
