"""The retrieval problem as text: the five formulations of Section 4 and Appendix A, one file each. No dependency.

`hopscope.questions` draws them; `blind.py` has solvers that follow no chain.
"""
