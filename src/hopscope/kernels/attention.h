/* Causal or full softmax attention over short sequences: what attention.c and attention_edited.c share.

   query:   [sequence][one of the last positions][head][width], already divided by sqrt(width)
   made:    [sequence][position][key, value][head][width]
   weighted: [sequence][one of the last positions][head][width]

   All, and their gradients, in fp32 or in bf16; in between everything is fp32. */

#pragma once

#include "lanes.h"

#define MOST 80 /* positions */
#define WIDEST 128 /* numbers a head */
#define NARROW 16 /* numbers a head up to which heads side by side are quicker than products */

/* What there is: positions, those of them (the last) that ask, heads, and numbers from one position to the next. */
typedef struct { int count, asking, heads, query_stride, made_stride, causal; } Shape;

/* Keys that the i-th of the asking positions sees. */
ALWAYS int seen(Shape shape, int i) { return shape.causal ? shape.count - shape.asking + i + 1 : shape.count; }

/* The first of these that sees a key. */
ALWAYS int first_to_see(Shape shape, int key) {
    const int before = shape.count - shape.asking;
    return shape.causal && key > before ? key - before : 0;
}

/* As many heads as lanes: where each one's numbers begin. */
typedef struct { int64_t query[LANES], made[LANES], weighted[LANES]; } Heads;

/* Where heads begin, from that one of all sequences' on; where there are no more, the last one goes along again. */
ALWAYS Heads heads_from(int64_t number, int64_t end, int width, Shape shape) {
    Heads at;
    for (int i = 0; i < LANES; i++) {
        const int64_t one = number + i < end ? number + i : end - 1, n = one / shape.heads, h = one % shape.heads;
        at.query[i] = n * shape.asking * shape.query_stride + h * width;
        at.made[i] = n * shape.count * shape.made_stride + h * width;
        at.weighted[i] = (n * shape.asking * shape.heads + h) * width;
    }
    return at;
}

/* Sequences from `first` to before `end`, on one thread; in bf16 if `is_half`, else in fp32. */
void heads_forward(
    int64_t first, int64_t end, int is_half, int head_width, Shape shape, const void *query, const void *made,
    void *weighted);
void heads_backward(
    int64_t first, int64_t end, int is_half, int head_width, Shape shape, const void *query, const void *made,
    const void *gradient, void *query_gradient, void *made_gradient);

#define NUMBERS 4096 /* of all positions of a head, with what fills them up to whole vectors */

/* From one row to the next: a whole number of vectors. */
ALWAYS int pitch_of(int width) { return (width + EIGHT - 1) / EIGHT * EIGHT; }

/* A width that the compiler knows lets it keep sums in registers: those of `fused_attention.QUICK`. */
#define OF_SIZE(H, W, call) { enum { half = H, width = W }; call; }
#define IN_ITS_SIZE(call)                                                                           \
    if (head_width == 8 && is_half) OF_SIZE(1, 8, call)                                             \
    else if (head_width == 8) OF_SIZE(0, 8, call)                                                   \
    else if (head_width == 16 && is_half) OF_SIZE(1, 16, call)                                      \
    else if (head_width == 16) OF_SIZE(0, 16, call)                                                 \
    else { const int half = is_half, width = head_width; (void)half; call; }
