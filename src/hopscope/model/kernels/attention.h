/* Causal or full softmax attention over short sequences: what attention.c does, and how its arguments are laid out.

   query:   [sequence][one of the last positions][head][width], already divided by sqrt(width)
   made:    [sequence][position][key, value][head][width]
   brought: [sequence][one of the last positions][head][width]

   All, and their gradients, in fp32 or in bf16; in between everything is fp32. */

#pragma once

#include "lanes.h"

#define MOST 80 /* positions */
#define WIDEST 128 /* numbers a head */

/* What there is: positions, those of them (the last) that ask, heads, and numbers from one position to the next. */
typedef struct { int count, asking, heads, query_stride, made_stride, causal; } Shape;

/* Keys that the i-th of the asking positions sees. */
ALWAYS int seen(Shape shape, int i) { return shape.causal ? shape.count - shape.asking + i + 1 : shape.count; }

/* Sequences from `first` to before `end`, on one thread; in bf16 if `is_half`, else in fp32. */
void heads_forward(
    int64_t first, int64_t end, int is_half, int head_width, Shape shape, const void *query, const void *made,
    void *brought);
void heads_backward(
    int64_t first, int64_t end, int is_half, int head_width, Shape shape, const void *query, const void *made,
    const void *gradient, void *query_gradient, void *made_gradient);
