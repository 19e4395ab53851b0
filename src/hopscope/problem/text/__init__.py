"""The retrieval problem as text: the five formulations of Section 4 and Appendix A, one file each. No dependency.

>>> from hopscope.problem.text.questions import questions
>>> next(iter(questions("equations", hops=5, count=1, seed=0))).prompt
"""
