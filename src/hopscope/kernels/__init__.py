"""Faster code for results that plain torch also computes. Other packages import only the names below.

Tests compare each kernel with plain torch, which computes the same on machines that cannot run the kernel.

`fused_attention.py`, `fused_block.py` and `gelu.py` call C, compiled for the machine at hand (`compiled.py`). Blocks
are written once (`block.h`) and compiled in bf16 and in fp32 (`bf16.h` and `fp32.h` define the number type).
`attention.py` calls `fused_attention.py` or, on a GPU, Triton kernels (`gpu_attention.py`). `products.py` chooses how
linear maps are multiplied, `after_norm.py` saves operations after a norm, `modules.py` speeds up models from other
libraries, and `precision.py` finds out what the processor supports.
"""

from hopscope.kernels import attention as attention
from hopscope.kernels import fused_attention as fused_attention
from hopscope.kernels import fused_block as fused_block
from hopscope.kernels import precision as precision
from hopscope.kernels import products as products
from hopscope.kernels.after_norm import EPSILON as EPSILON
from hopscope.kernels.after_norm import after_norm as after_norm
from hopscope.kernels.fused_attention import FixedRows as FixedRows
from hopscope.kernels.gelu import gelu as gelu
from hopscope.kernels.modules import quicken as quicken
from hopscope.kernels.precision import DTYPES as DTYPES
from hopscope.kernels.precision import Precision as Precision
from hopscope.kernels.precision import best_precision as best_precision
from hopscope.kernels.precision import bf16_unit as bf16_unit
from hopscope.kernels.products import Bias as Bias
from hopscope.kernels.products import Flat as Flat
from hopscope.kernels.products import Weight as Weight
