/* Blocks in fp32, anywhere. */

#include "fp32.h"
#include "narrow_fp32.h"
#include "vectors.h"
#define KIND(name) name##_fp32
#include "block.h"
