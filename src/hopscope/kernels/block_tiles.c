/* Blocks in bf16, where the processor multiplies tiles of them (AMX). */

#if defined(__AVX512BF16__) && defined(__AMX_BF16__)
#include "bf16.h"
#include "narrow_widened.h"
#include "tiles.h"
#define KIND(name) name##_tiles
#include "block.h"
#endif
