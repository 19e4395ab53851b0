/* Attention with wide heads, whose scores and sums are products like all others. One head of one sequence at a time. */

#pragma once

#include "attention.h"
#include "panels.h"

#define PADDED 128 /* keys of a query, up to whole panels */

/* What one head of one sequence works with: patterns and what belongs to them, and panels. */
typedef struct {
    float scores[MOST * PADDED], changes[MOST * PADDED];
    Number pattern[MOST * PADDED], change[MOST * PADDED];
    Word keys[PADDED * WIDEST / TOGETHER], values[PADDED * WIDEST / TOGETHER]; /* for sums along heads' numbers */
    Word by_position[MOST / TOGETHER * WIDEST], by_query[MOST / TOGETHER * WIDEST], patterns[MOST / TOGETHER * PADDED];
} Wide ALIGNED;

/* softmax of scores, zeros after what a query sees; rounded too, filled up to whole vectors. */
ALWAYS void soften_rows(Shape shape, float *scores, Number *pattern) {
    for (int i = 0; i < shape.asking; i++, scores += PADDED, pattern += PADDED) {
        const int keys = seen(shape, i);
        Vector most = (Vector){} - INFINITY, sum = {};
        for (int j = 0; j < keys; j += VECTOR)
            most = larger(most, first_or(keys - j, load_floats(scores + j), (Vector){} - INFINITY));
        const float largest = largest_of(most);
        for (int j = 0; j < shape.count; j += VECTOR) {
            const Vector weight = exponential_of(load_floats(scores + j) - largest);
            const Vector here = first_or(keys - j, weight, (Vector){});
            store_floats(scores + j, here);
            sum += here;
        }
        const float scale = 1.0f / sum_of(sum);
        for (int j = 0; j < shape.count; j += VECTOR) {
            const Vector weight = load_floats(scores + j) * scale;
            store_floats(scores + j, weight);
            write(pattern + j, weight);
        }
    }
}

ALWAYS void look(Shape shape, int width, const Number *query, const Number *made, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    panel_columns(shape.count, width, made, 2 * inner, wide->keys);
    multiply(shape.asking, shape.count, words_of(width), (Left){query, inner, 1}, wide->keys,
             (Right){KEEP, wide->scores, PADDED, 0, 0});
    soften_rows(shape, wide->scores, wide->pattern);
}

static void wide_forward(Shape shape, int width, const Number *query, const Number *made, Number *brought, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    look(shape, width, query, made, wide);
    panel_rows(shape.count, width, made + inner, 2 * inner, words_of(shape.count), wide->by_position);
    multiply(shape.asking, width, words_of(shape.count), (Left){wide->pattern, PADDED, 1}, wide->by_position,
             (Right){ROUND, brought, inner, 0, 0});
}

static void wide_backward(
    Shape shape, int width, const Number *query, const Number *made, const Number *gradient, Number *query_gradient,
    Number *made_gradient, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    const int keys = words_of(shape.count), queries = words_of(shape.asking);
    look(shape, width, query, made, wide);
    panel_columns(shape.count, width, made + inner, 2 * inner, wide->values);
    multiply(shape.asking, shape.count, words_of(width), (Left){gradient, inner, 1}, wide->values,
             (Right){KEEP, wide->changes, PADDED, 0, 0});
    for (int i = 0; i < shape.asking; i++) {
        const float *weight = wide->scores + i * PADDED, *change = wide->changes + i * PADDED;
        Vector sum = {};
        for (int j = 0; j < shape.count; j += VECTOR) { /* what stands past the last key is not read */
            const Vector both = load_floats(weight + j) * load_floats(change + j);
            sum += first_or(shape.count - j, both, (Vector){});
        }
        const float mean = sum_of(sum);
        for (int j = 0; j < shape.count; j += VECTOR)
            write(wide->change + i * PADDED + j,
                  first_or(shape.count - j, load_floats(weight + j) * (load_floats(change + j) - mean), (Vector){}));
    }
    panel_rows(shape.count, width, made, 2 * inner, keys, wide->by_position);
    multiply(shape.asking, width, keys, (Left){wide->change, PADDED, 1}, wide->by_position,
             (Right){ROUND, query_gradient, inner, 0, 0});
    lay_left(shape.asking, shape.count, wide->change, PADDED, wide->patterns);
    panel_rows(shape.asking, width, query, inner, queries, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, 0}, wide->by_query,
             (Right){ROUND, made_gradient, 2 * inner, 0, 0});
    lay_left(shape.asking, shape.count, wide->pattern, PADDED, wide->patterns);
    panel_rows(shape.asking, width, gradient, inner, queries, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, 0}, wide->by_query,
             (Right){ROUND, made_gradient + inner, 2 * inner, 0, 0});
}
