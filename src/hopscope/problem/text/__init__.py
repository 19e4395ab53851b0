"""The five text formulations of Section 4 and Appendix A."""
