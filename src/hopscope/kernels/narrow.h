/* Attention with narrow heads, of all heads of so many sequences, sixteen at a time: by `some_narrow` and
   `some_narrow_back` of the header that includes this one. */

#pragma once

/* A width that the compiler knows lets it keep sums in registers. */
#define IN_ITS_WIDTH(call)                                                                          \
    if (head_width == 8) { enum { width = 8 }; call; }                                              \
    else if (head_width == 16) { enum { width = 16 }; call; }                                       \
    else { const int width = head_width; call; }

/* All heads of so many sequences. */
static void narrow_forward(
    int sequences, int head_width, Shape shape, const Number *query, const Number *made, Number *weighted) {
    for (int64_t first = 0; first < sequences * shape.heads; first += VECTOR) {
        const Heads at = heads_from(first, sequences * shape.heads, head_width, shape);
        IN_ITS_WIDTH(some_narrow(width, shape, &at, query, made, weighted))
    }
}

static void narrow_backward(
    int sequences, int head_width, Shape shape, const Number *query, const Number *made, const Number *gradient,
    Number *query_gradient, Number *made_gradient) {
    for (int64_t first = 0; first < sequences * shape.heads; first += VECTOR) {
        const Heads at = heads_from(first, sequences * shape.heads, head_width, shape);
        IN_ITS_WIDTH(some_narrow_back(width, shape, &at, query, made, gradient, query_gradient, made_gradient))
    }
}
