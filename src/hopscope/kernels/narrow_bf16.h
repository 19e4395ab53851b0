/* Attention with narrow heads in bf16, for processors that multiply pairs as quickly as single numbers (AMD): a word is
   two neighbours, of a head's numbers or of positions, so that a sum of products goes two by two; patterns and gradients
   of scores are rounded where they are summed over positions. */

#pragma once

#include "heads_bf16.h"

#define POSITION_PAIRS ((MOST + 1) / 2)

typedef Pairs RowPairs[POSITION_PAIRS * NARROW]; /* [two positions][number] */

static _Thread_local struct {
    Rows query, key, value, given, made;
    RowPairs queries, keys, values, givens;
    Vector weights[2][MOST + 1], changes[2][MOST + 1]; /* [query of two][key] */
    Pairs patterns[MOST * POSITION_PAIRS], moves[MOST * POSITION_PAIRS]; /* [key][two queries] */
} work ALIGNED;

/* Rows, two positions a word; after the last one comes a zero. */
ALWAYS void pair_rows(int count, int width, const Pairs *rows, Pairs *pairs) {
    const int words = width / 2;
    for (int i = 0; i < count; i += 2, rows += 2 * words, pairs += width)
        for (int w = 0; w < words; w++) {
            const Pairs one = rows[w], other = i + 1 < count ? rows[words + w] : _mm512_setzero_si512();
            pairs[2 * w] = _mm512_mask_blend_epi16(0xaaaaaaaa, one, _mm512_slli_epi32(other, 16));
            pairs[2 * w + 1] = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(one, 16), other);
        }
}

ALWAYS Vector times(int width, const Pairs *one, const Pairs *other) {
    Vector sum = {};
    for (int w = 0; w < width / 2; w++) sum = summed(sum, (Packed)one[w], (Packed)other[w]);
    return sum;
}

/* exp(score - largest score) of one query and so many keys, and a zero after them; gives one over their sum. */
ALWAYS Vector weigh(int keys, int width, const Pairs *query, const Pairs *key, Vector *weights) {
    Vector most = (Vector){} - INFINITY, sum = {};
    for (int j = 0; j < keys; j++) {
        weights[j] = times(width, query, key + j * (width / 2));
        most = larger(weights[j], most);
    }
    for (int j = 0; j < keys; j++) sum += weights[j] = exponential_of(weights[j] - most);
    weights[keys] = (Vector){};
    return 1.0f / sum;
}

/* Rows, two positions a word, each times the weight of its position; an odd number of weights has a zero after it. */
ALWAYS void weighted(int keys, int width, const Vector *weights, const Pairs *pairs, Vector *sums) {
    for (int d = 0; d < width; d++) sums[d] = (Vector){};
    for (int j = 0; j < keys; j += 2, pairs += width) {
        const Packed two = (Packed)paired(weights[j], weights[j + 1]);
        for (int d = 0; d < width; d++) sums[d] = summed(sums[d], two, (Packed)pairs[d]);
    }
}

ALWAYS void put_row(int width, const Vector *sums, Pairs *row) {
    for (int w = 0; w < width / 2; w++) row[w] = paired(sums[2 * w], sums[2 * w + 1]);
}

ALWAYS void some_narrow(
    int width, Shape shape, const Heads *at, const Number *query, const Number *made, Number *weighted) {
    const int inner = shape.heads * width, words = width / 2;
    gather_rows(shape.asking, width, shape.query_stride, query, at->query, 0, work.query);
    gather_rows(shape.count, width, shape.made_stride, made, at->made, 0, work.key);
    gather_rows(shape.count, width, shape.made_stride, made, at->made, inner, work.value);
    pair_rows(shape.count, width, work.value, work.values);
    for (int i = 0; i < shape.asking; i++) {
        const int keys = seen(shape, i);
        Vector *weights = work.weights[0], sums[NARROW];
        const Vector scale = weigh(keys, width, work.query + i * words, work.key, weights);
        weighted(keys, width, weights, work.values, sums);
        for (int d = 0; d < width; d++) sums[d] *= scale;
        put_row(width, sums, work.made + i * words);
    }
    scatter_rows(shape.asking, width, inner, work.made, weighted, at->weighted, 0);
}

/* The weights of a query, and the gradients of its scores. */
ALWAYS void change(int keys, int width, int i, Vector *weights, Vector *changes) {
    const int words = width / 2;
    const Vector scale = weigh(keys, width, work.query + i * words, work.key, weights);
    Vector mean = {};
    for (int j = 0; j < keys; j++) {
        weights[j] *= scale;
        changes[j] = times(width, work.given + i * words, work.value + j * words);
        mean += weights[j] * changes[j];
    }
    for (int j = 0; j < keys; j++) changes[j] = weights[j] * (changes[j] - mean);
    changes[keys] = (Vector){};
}

/* Rows, two queries a word, each times what a key is to its query. */
ALWAYS void from_queries(int from, int end, int width, const Pairs *of_key, const Pairs *pairs, Pairs *row) {
    Vector sums[NARROW];
    for (int d = 0; d < width; d++) sums[d] = (Vector){};
    for (int p = from; p < end; p++)
        for (int d = 0; d < width; d++)
            sums[d] = summed(sums[d], (Packed)of_key[p], (Packed)pairs[p * width + d]);
    put_row(width, sums, row);
}

ALWAYS void some_narrow_back(
    int width, Shape shape, const Heads *at, const Number *query, const Number *made, const Number *gradient,
    Number *query_gradient, Number *made_gradient) {
    const int inner = shape.heads * width, words = width / 2, two_queries = (shape.asking + 1) / 2;
    gather_rows(shape.asking, width, shape.query_stride, query, at->query, 0, work.query);
    gather_rows(shape.count, width, shape.made_stride, made, at->made, 0, work.key);
    gather_rows(shape.count, width, shape.made_stride, made, at->made, inner, work.value);
    gather_rows(shape.asking, width, inner, gradient, at->weighted, 0, work.given);
    pair_rows(shape.asking, width, work.query, work.queries);
    pair_rows(shape.count, width, work.key, work.keys);
    pair_rows(shape.asking, width, work.given, work.givens);
    for (int i = 0; i < shape.asking; i += 2) {
        const int two = i + 1 < shape.asking, keys = seen(shape, i + two);
        for (int k = 0; k <= two; k++) { /* the first one may see one key less, and has a zero there */
            Vector sums[NARROW];
            change(seen(shape, i + k), width, i + k, work.weights[k], work.changes[k]);
            weighted(seen(shape, i + k), width, work.changes[k], work.keys, sums);
            put_row(width, sums, work.made + (i + k) * words);
        }
        for (int j = 0; !two && j < keys; j++) work.weights[1][j] = work.changes[1][j] = (Vector){};
        for (int j = 0; j < keys; j++) {
            work.patterns[j * two_queries + i / 2] = paired(work.weights[0][j], work.weights[1][j]);
            work.moves[j * two_queries + i / 2] = paired(work.changes[0][j], work.changes[1][j]);
        }
    }
    scatter_rows(shape.asking, width, shape.query_stride, work.made, query_gradient, at->query, 0);
    for (int j = 0; j < shape.count; j++) {
        const int from = first_to_see(shape, j) / 2;
        from_queries(from, two_queries, width, work.moves + j * two_queries, work.queries, work.key + j * words);
        from_queries(
            from, two_queries, width, work.patterns + j * two_queries, work.givens, work.value + j * words);
    }
    scatter_rows(shape.count, width, shape.made_stride, work.key, made_gradient, at->made, 0);
    scatter_rows(shape.count, width, shape.made_stride, work.value, made_gradient, at->made, inner);
}

#include "narrow.h"
