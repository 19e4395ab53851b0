/* Attention with wide heads, whose scores and sums are products like all others. One head of one sequence at a time.

   What products meet is filled up with zeros, in rooms of its own, to what they are quickest with; past the rows of
   queries and gradients there is room that may be read. */

#pragma once

#include "attention.h"
#include "panels.h"

#define PADDED 128 /* keys of a query, up to whole panels */

/* What one head of one sequence works with: patterns and what belongs to them, and panels. */
typedef struct {
    float scores[MOST * PADDED], changes[MOST * PADDED];
    Number pattern[MOST * PADDED], change[MOST * PADDED];
    Word keys[PADDED * WIDEST / TOGETHER], values[PADDED * WIDEST / TOGETHER]; /* for sums along heads' numbers */
    Word by_position[MOST * WIDEST], by_query[MOST * WIDEST], patterns[MOST * PADDED];
} Wide ALIGNED;

/* Words that sums over so many positions take. */
ALWAYS int summed_words(int count) { return filled(words_of(count)); }

/* softmax of scores, zeros after what a query sees; rounded too, and zeros up to the words of a sum over keys. */
ALWAYS void soften_rows(Shape shape, float *scores, Number *pattern) {
    const int end = summed_words(shape.count) * TOGETHER;
    for (int i = 0; i < shape.asking; i++, scores += PADDED, pattern += PADDED) {
        const int keys = seen(shape, i);
        Vector most = (Vector){} - INFINITY, sum = {};
        for (int j = 0; j < keys; j += VECTOR)
            most = larger(most, first_or(keys - j, load_floats(scores + j), (Vector){} - INFINITY));
        const float largest = largest_of(most);
        for (int j = 0; j < end; j += VECTOR) {
            const Vector weight = j < keys ? exponential_of(load_floats(scores + j) - largest) : (Vector){};
            const Vector here = first_or(keys - j, weight, (Vector){});
            store_floats(scores + j, here);
            sum += here;
        }
        const float scale = 1.0f / sum_of(sum);
        for (int j = 0; j < end; j += VECTOR) {
            const Vector weight = load_floats(scores + j) * scale;
            store_floats(scores + j, weight);
            write(pattern + j, weight);
        }
    }
}

/* Rows into panels that sums over them go through, with zeros where they end. */
ALWAYS void lay_right(int rows, int width, const Number *from, int64_t stride, Word *to) {
    const int words = summed_words(rows), there = words_of(rows);
    panel_rows(rows, width, from, stride, words, to);
    for (int first = 0; first < width && there < words; first += PANEL, to += (int64_t)words * PANEL)
        memset(to + there * PANEL, 0, (words - there) * PANEL * sizeof(Word));
}

ALWAYS void look(Shape shape, int width, const Number *query, const Number *made, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    panel_columns(shape.count, width, made, 2 * inner, wide->keys);
    multiply(filled(shape.asking), filled(shape.count), words_of(width), (Left){query, inner, AND_MORE}, wide->keys,
             (Right){KEEP, wide->scores, PADDED, 0, 0});
    soften_rows(shape, wide->scores, wide->pattern);
}

static void wide_forward(Shape shape, int width, const Number *query, const Number *made, Number *weighted, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    look(shape, width, query, made, wide);
    lay_right(shape.count, width, made + inner, 2 * inner, wide->by_position);
    multiply(shape.asking, width, summed_words(shape.count), (Left){wide->pattern, PADDED, AND_MORE},
             wide->by_position, (Right){ROUND, weighted, inner, 0, 0});
}

/* The gradient of scores from that of patterns, rounded; zeros up to the words of a sum over keys. */
ALWAYS void soften_rows_back(Shape shape, const float *patterns, const float *changes, Number *change) {
    const int end = summed_words(shape.count) * TOGETHER;
    for (int i = 0; i < shape.asking; i++, patterns += PADDED, changes += PADDED, change += PADDED) {
        Vector sum = {};
        for (int j = 0; j < shape.count; j += VECTOR) /* what stands past the last key is not read */
            sum += first_or(shape.count - j, load_floats(patterns + j) * load_floats(changes + j), (Vector){});
        const float mean = sum_of(sum);
        for (int j = 0; j < end; j += VECTOR)
            write(change + j, first_or(shape.count - j, load_floats(patterns + j) * (load_floats(changes + j) - mean),
                                       (Vector){}));
    }
}

static void wide_backward(
    Shape shape, int width, const Number *query, const Number *made, const Number *gradient, Number *query_gradient,
    Number *made_gradient, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    const int keys = summed_words(shape.count), queries = summed_words(shape.asking);
    look(shape, width, query, made, wide);
    panel_columns(shape.count, width, made + inner, 2 * inner, wide->values);
    multiply(filled(shape.asking), filled(shape.count), words_of(width), (Left){gradient, inner, AND_MORE},
             wide->values, (Right){KEEP, wide->changes, PADDED, 0, 0});
    soften_rows_back(shape, wide->scores, wide->changes, wide->change);
    lay_right(shape.count, width, made, 2 * inner, wide->by_position);
    multiply(shape.asking, width, keys, (Left){wide->change, PADDED, AND_MORE}, wide->by_position,
             (Right){ROUND, query_gradient, inner, 0, 0});
    lay_left(shape.asking, shape.count, wide->change, PADDED, wide->patterns);
    lay_right(shape.asking, width, query, inner, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, LAID}, wide->by_query,
             (Right){ROUND, made_gradient, 2 * inner, 0, 0});
    lay_left(shape.asking, shape.count, wide->pattern, PADDED, wide->patterns);
    lay_right(shape.asking, width, gradient, inner, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, LAID}, wide->by_query,
             (Right){ROUND, made_gradient + inner, 2 * inner, 0, 0});
}
