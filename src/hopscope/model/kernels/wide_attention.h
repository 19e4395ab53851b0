/* Attention with wide heads, whose scores and sums are products like all others. One head of one sequence at a time. */

#include "attention.c"
#include "panels.h"

#define PADDED 128 /* keys of a query, up to whole panels */

/* What one head of one sequence works with: patterns and what belongs to them, and panels. */
typedef struct {
    float scores[MOST * PADDED], changes[MOST * PADDED];
    bf16 pattern[MOST * PADDED], change[MOST * PADDED];
    Pair keys[PADDED * WIDEST / 2], values[PADDED * WIDEST / 2]; /* for sums along heads' numbers */
    Pair by_position[MOST / 2 * WIDEST], by_query[MOST / 2 * WIDEST], patterns[MOST / 2 * PADDED];
} Wide ALIGNED;

/* softmax of scores, zeros after what a query sees; rounded too, filled up to whole vectors. */
ALWAYS void soften_rows(Shape shape, float *scores, bf16 *pattern) {
    for (int i = 0; i < shape.asking; i++, scores += PADDED, pattern += PADDED) {
        const int keys = seen(shape, i);
        __m512 most = _mm512_set1_ps(-1e30f), sum = _mm512_setzero_ps();
        for (int j = 0; j < keys; j += VECTOR)
            most = _mm512_mask_max_ps(most, first_lanes(keys - j), most, _mm512_loadu_ps(scores + j));
        const float largest = _mm512_reduce_max_ps(most);
        for (int j = 0; j < shape.count; j += VECTOR) {
            const __m512 weight = power_of_two((_mm512_loadu_ps(scores + j) - largest) * LOG_2_E);
            const __m512 here = _mm512_maskz_mov_ps(first_lanes(keys - j), weight);
            _mm512_storeu_ps(scores + j, here);
            sum += here;
        }
        const float scale = 1.0f / _mm512_reduce_add_ps(sum);
        for (int j = 0; j < shape.count; j += VECTOR) {
            const __m512 weight = _mm512_loadu_ps(scores + j) * scale;
            _mm512_storeu_ps(scores + j, weight);
            write(pattern + j, weight);
        }
    }
}

ALWAYS void look(Shape shape, int width, const bf16 *query, const bf16 *made, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    pair_columns(shape.count, width, made, 2 * inner, wide->keys);
    multiply(shape.asking, shape.count, width / 2, (Left){query, inner, 1}, wide->keys,
             (Right){KEEP, wide->scores, PADDED, 0, 0});
    soften_rows(shape, wide->scores, wide->pattern);
}

static void wide_forward(Shape shape, int width, const bf16 *query, const bf16 *made, bf16 *brought, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    look(shape, width, query, made, wide);
    pair_rows(shape.count, width, made + inner, 2 * inner, pairs_of(shape.count), wide->by_position);
    multiply(shape.asking, width, pairs_of(shape.count), (Left){wide->pattern, PADDED, 1}, wide->by_position,
             (Right){ROUND, brought, inner, 0, 0});
}

static void wide_backward(
    Shape shape, int width, const bf16 *query, const bf16 *made, const bf16 *gradient, bf16 *query_gradient,
    bf16 *made_gradient, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    const int keys = pairs_of(shape.count), queries = pairs_of(shape.asking);
    look(shape, width, query, made, wide);
    pair_columns(shape.count, width, made + inner, 2 * inner, wide->values);
    multiply(shape.asking, shape.count, width / 2, (Left){gradient, inner, 1}, wide->values,
             (Right){KEEP, wide->changes, PADDED, 0, 0});
    for (int i = 0; i < shape.asking; i++) {
        const float *weight = wide->scores + i * PADDED, *change = wide->changes + i * PADDED;
        __m512 sum = _mm512_setzero_ps();
        for (int j = 0; j < shape.count; j += VECTOR) { /* what stands past the last key is not read */
            const __mmask16 there = first_lanes(shape.count - j);
            sum += _mm512_maskz_mul_ps(there, _mm512_loadu_ps(weight + j), _mm512_loadu_ps(change + j));
        }
        const float mean = _mm512_reduce_add_ps(sum);
        for (int j = 0; j < shape.count; j += VECTOR)
            write(wide->change + i * PADDED + j,
                  _mm512_maskz_mul_ps(first_lanes(shape.count - j), _mm512_loadu_ps(weight + j),
                                      _mm512_loadu_ps(change + j) - mean));
    }
    pair_rows(shape.count, width, made, 2 * inner, keys, wide->by_position);
    multiply(shape.asking, width, keys, (Left){wide->change, PADDED, 1}, wide->by_position,
             (Right){ROUND, query_gradient, inner, 0, 0});
    pair_rows(shape.asking, shape.count, wide->change, PADDED, queries, wide->patterns);
    pair_rows(shape.asking, width, query, inner, queries, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, 0}, wide->by_query,
             (Right){ROUND, made_gradient, 2 * inner, 0, 0});
    pair_rows(shape.asking, shape.count, wide->pattern, PADDED, queries, wide->patterns);
    pair_rows(shape.asking, width, gradient, inner, queries, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, 0}, wide->by_query,
             (Right){ROUND, made_gradient + inner, 2 * inner, 0, 0});
}
