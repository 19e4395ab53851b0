"""The retrieval problem as text: the five formulations of Section 4 and Appendix A."""
