/* Attention with narrow heads in bf16, for processors that take four times as long to multiply pairs as single numbers
   (Intel): numbers are fp32 between where they are read and where they are written. */

#pragma once

#include "heads_bf16.h"

typedef Vector Columns[MOST * NARROW]; /* [position][number] */
typedef Vector QueriesByKeys[MOST * (MOST | 1)]; /* [query][key], with an odd number of keys for a query */

typedef struct {
    Rows rows;
    Columns query, key, value, given, made;
    QueriesByKeys weights, changes;
} Work;

static _Thread_local Work works ALIGNED; /* whose address is asked for once a call: in a shared library that is slow */

ALWAYS void gather_columns(
    Work *work, int count, int width, int stride, const Number *from, const int64_t *at, int64_t more,
    Vector *columns) {
    gather_rows(count, width, stride, from, at, more, work->rows);
    for (int w = 0; w < count * width / 2; w++) {
        columns[2 * w] = (Vector)_mm512_slli_epi32(work->rows[w], 16);
        columns[2 * w + 1] = (Vector)_mm512_and_si512(work->rows[w], _mm512_set1_epi32(0xffff0000));
    }
}

ALWAYS void scatter_columns(
    Work *work, int count, int width, int stride, const Vector *columns, Number *to, const int64_t *at, int64_t more) {
    for (int w = 0; w < count * width / 2; w++) work->rows[w] = paired(columns[2 * w], columns[2 * w + 1]);
    scatter_rows(count, width, stride, work->rows, to, at, more);
}

/* A row for registers: what is in memory the compiler reads again after each write there. */
#define HELD(row) Vector row[NARROW]; for (int d = 0; d < width; d++) row[d] = row##_at[d];

ALWAYS Vector times(int width, const Vector *one, const Vector *other) {
    Vector sum = one[0] * other[0];
    for (int d = 1; d < width; d++) sum += one[d] * other[d];
    return sum;
}

/* exp(score - largest score) of one query and so many keys; gives one over their sum. */
ALWAYS Vector weigh(int keys, int width, const Vector *query_at, const Vector *key, Vector *weights) {
    HELD(query)
    Vector most = (Vector){} - INFINITY, sum = {};
    for (int j = 0; j < keys; j++) {
        weights[j] = times(width, query, key + j * width);
        most = larger(weights[j], most);
    }
    for (int j = 0; j < keys; j++) sum += weights[j] = exponential_of(weights[j] - most);
    return 1.0f / sum;
}

/* Rows, each times its weight, which stand `stride` apart. */
ALWAYS void weighted(int rows, int width, int stride, const Vector *weights, const Vector *columns, Vector *to) {
    Vector sums[NARROW];
    for (int d = 0; d < width; d++) sums[d] = (Vector){};
    for (int j = 0; j < rows; j++)
        for (int d = 0; d < width; d++) sums[d] += weights[j * stride] * columns[j * width + d];
    for (int d = 0; d < width; d++) to[d] = sums[d];
}

ALWAYS void some_narrow(
    int width, Shape shape, const Heads *at, const Number *query, const Number *made, Number *weighted) {
    Work *work = &works;
    const int inner = shape.heads * width;
    gather_columns(work, shape.asking, width, shape.query_stride, query, at->query, 0, work->query);
    gather_columns(work, shape.count, width, shape.made_stride, made, at->made, 0, work->key);
    gather_columns(work, shape.count, width, shape.made_stride, made, at->made, inner, work->value);
    for (int i = 0; i < shape.asking; i++) {
        const int keys = seen(shape, i);
        Vector sums[NARROW];
        const Vector scale = weigh(keys, width, work->query + i * width, work->key, work->weights);
        weighted(keys, width, 1, work->weights, work->value, sums);
        for (int d = 0; d < width; d++) work->made[i * width + d] = sums[d] * scale;
    }
    scatter_columns(work, shape.asking, width, inner, work->made, weighted, at->weighted, 0);
}

/* The weights of a query, and the gradients of its scores. */
ALWAYS void change(
    const Work *work, int keys, int width, const Vector *query, const Vector *given_at, Vector *weights,
    Vector *changes) {
    HELD(given)
    const Vector scale = weigh(keys, width, query, work->key, weights);
    Vector mean = {};
    for (int j = 0; j < keys; j++) {
        weights[j] *= scale;
        changes[j] = times(width, given, work->value + j * width);
        mean += weights[j] * changes[j];
    }
    for (int j = 0; j < keys; j++) changes[j] = weights[j] * (changes[j] - mean);
}

ALWAYS void some_narrow_back(
    int width, Shape shape, const Heads *at, const Number *query, const Number *made, const Number *gradient,
    Number *query_gradient, Number *made_gradient) {
    Work *work = &works;
    const int inner = shape.heads * width, across = shape.count | 1;
    gather_columns(work, shape.asking, width, shape.query_stride, query, at->query, 0, work->query);
    gather_columns(work, shape.count, width, shape.made_stride, made, at->made, 0, work->key);
    gather_columns(work, shape.count, width, shape.made_stride, made, at->made, inner, work->value);
    gather_columns(work, shape.asking, width, inner, gradient, at->weighted, 0, work->given);
    for (int i = 0; i < shape.asking; i++) {
        const int keys = seen(shape, i);
        Vector *changes = work->changes + i * across;
        change(
            work, keys, width, work->query + i * width, work->given + i * width, work->weights + i * across, changes);
        weighted(keys, width, 1, changes, work->key, work->made + i * width);
    }
    scatter_columns(work, shape.asking, width, shape.query_stride, work->made, query_gradient, at->query, 0);
    for (int j = 0; j < shape.count; j++) { /* the gradients of key and value, in their place */
        const int first = first_to_see(shape, j), asking = shape.asking - first, from = first * across + j;
        weighted(asking, width, across, work->changes + from, work->query + first * width, work->key + j * width);
        weighted(asking, width, across, work->weights + from, work->given + first * width, work->value + j * width);
    }
    scatter_columns(work, shape.count, width, shape.made_stride, work->key, made_gradient, at->made, 0);
    scatter_columns(work, shape.count, width, shape.made_stride, work->value, made_gradient, at->made, inner);
}

#include "narrow.h"
