/* All our kernels, compiled together for the machine at hand by `compiled.py`. */

#include "attention.c"
#include "block.c"
#include "gelu.c"
