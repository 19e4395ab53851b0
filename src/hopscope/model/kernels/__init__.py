"""What is there for speed, and changes nothing: each is pinned to the plain form by tests, and each machine that lacks
what it needs goes the plain way.

`fused_attention.py`, `fused_block.py` and `gelu.py` are C, compiled for the machine at hand (`compiled.py`);
`products.py` chooses the library that multiplies, `after_norm.py` saves operations, and `modules.py` is for models of
somebody else's.
"""
