"""Code that is here for speed and changes no result: tests compare each kernel with its plain form, which machines that
lack what a kernel needs use instead.

`fused_attention.py`, `fused_block.py` and `gelu.py` call C, compiled for the machine at hand (`compiled.py`). Blocks
are written once (`block.h`) and compiled in bf16 and in fp32 (`bf16.h` and `fp32.h` define the number type).
`attention.py` goes through `fused_attention.py` or, on a GPU, through Triton kernels (`gpu_attention.py`).
`products.py` chooses the library that multiplies on a CPU, `gpu_products.py` is for compiled blocks on a GPU,
`after_norm.py` saves operations, and `modules.py` is for models from other libraries.
"""
