"""What is there for speed, and changes nothing: each is pinned to the plain form by tests, and each machine that lacks
what it needs goes the plain way.

`fused_attention.py`, `fused_block.py` and `gelu.py` are C, compiled for the machine at hand (`compiled.py`): blocks are
written once (`block.h`) and compiled in bf16 and in fp32 (`bf16.h` and `fp32.h` say what a number is);
`products.py` chooses the library that multiplies, `after_norm.py` saves operations, and `modules.py` is for models of
somebody else's.
"""
