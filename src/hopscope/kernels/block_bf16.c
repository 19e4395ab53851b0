/* Blocks in bf16, where the processor multiplies pairs of them. */

#ifdef __AVX512BF16__
#include "bf16.h"
#include "narrow_bf16.h"
#include "vectors.h"
#define KIND(name) name##_bf16
#include "block.h"
#endif
