/* Attention over short sequences, forward and backward: all of it stays in a core's own caches. `fused_attention.py`
   calls it, tests pin it to the plain form.

   As many heads as a vector has lanes go side by side, of one sequence or of several: nothing needs anything from another
   lane, and a query meets the keys that it sees and no others. */

#include "attention.h"

#define SQUARE (MOST * (MOST + 1)) /* of queries and keys, with an odd number of keys for a query */

typedef uint32_t Four __attribute__((vector_size(4 * sizeof(uint32_t))));

/* Number d of position i of all of them is columns[i * pitch + d]. */
typedef Lanes Columns[NUMBERS];

static _Thread_local struct { Columns query, key, value, given, made; Lanes weights[SQUARE], scores[SQUARE]; } work;

ALWAYS void transpose_four(Four v[4]) {
    Four pairs[4];
    for (int i = 0; i < 4; i += 2) {
        pairs[i] = MIXED(Four, v[i], v[i + 1], 0, 4, 1, 5);
        pairs[i + 1] = MIXED(Four, v[i], v[i + 1], 2, 6, 3, 7);
    }
    for (int k = 0; k < 2; k++) {
        v[2 * k] = MIXED(Four, pairs[k], pairs[2 + k], 0, 1, 4, 5);
        v[2 * k + 1] = MIXED(Four, pairs[k], pairs[2 + k], 2, 3, 6, 7);
    }
}

/* To the nearest bf16, ties to even, in the upper half of every word; what is not a number stays so. */
ALWAYS Words rounded(Eight values) {
    const Words bits = (Words)values, nearest = bits + 0x7fff + ((bits >> 16) & 1);
    const Words number = (Words)(values == values);
    return ((number & nearest) | (~number & 0x7fc00000u)) & 0xffff0000u;
}

/* Eight numbers, of which `there` are there, of eight heads, into eight lanes of eight columns. */
ALWAYS void gather_eight(int half, int there, const void *from, const int64_t *at, int64_t more, float *columns) {
    if (!half) {
        Eight block[EIGHT] = {};
        for (int i = 0; i < EIGHT; i++) memcpy(block + i, (const float *)from + at[i] + more, there * sizeof(float));
        transpose(block);
        for (int i = 0; i < EIGHT; i++) memcpy(columns + i * LANES, block + i, sizeof(Eight));
    }
    for (int part = 0; half && part < EIGHT; part += 4) {
        Four pairs[4] = {}; /* two numbers a word */
        for (int i = 0; i < 4; i++)
            memcpy(pairs + i, (const uint16_t *)from + at[part + i] + more, there * sizeof(uint16_t));
        transpose_four(pairs);
        for (int i = 0; i < 4; i++) {
            const Four one = pairs[i] << 16, other = pairs[i] & 0xffff0000u;
            memcpy(columns + 2 * i * LANES + part, &one, sizeof one);
            memcpy(columns + (2 * i + 1) * LANES + part, &other, sizeof other);
        }
    }
}

/* The inverse. */
ALWAYS void scatter_eight(int half, int there, const float *columns, void *to, const int64_t *at, int64_t more) {
    Eight block[EIGHT];
    for (int i = 0; i < EIGHT; i++) memcpy(block + i, columns + i * LANES, sizeof(Eight));
    if (!half) {
        transpose(block);
        for (int i = 0; i < EIGHT; i++) memcpy((float *)to + at[i] + more, block + i, there * sizeof(float));
    }
    Words words[4];
    for (int i = 0; half && i < 4; i++) words[i] = rounded(block[2 * i]) >> 16 | rounded(block[2 * i + 1]);
    for (int part = 0; half && part < EIGHT; part += 4) {
        Four pairs[4];
        for (int i = 0; i < 4; i++) memcpy(pairs + i, (const uint32_t *)(words + i) + part, sizeof(Four));
        transpose_four(pairs);
        for (int i = 0; i < 4; i++)
            memcpy((uint16_t *)to + at[part + i] + more, pairs + i, there * sizeof(uint16_t));
    }
}

#define FOR_EIGHTS(eight)                                                                           \
    for (int i = 0; i < count; i++)                                                                 \
        for (int d = 0; d < width; d += EIGHT)                                                      \
            for (int lane = 0; lane < LANES; lane += EIGHT) {                                       \
                const int there = width - d < EIGHT ? width - d : EIGHT;                            \
                const int64_t ahead = more + (int64_t)i * stride + d;                               \
                eight;                                                                              \
            }

/* Numbers of so many positions, `stride` apart and `more` from where each head begins, as columns. */
ALWAYS void gather(
    int half, int count, int width, int stride, const void *from, const int64_t *at, int64_t more, Lanes *columns) {
    const int pitch = pitch_of(width);
    FOR_EIGHTS(gather_eight(half, there, from, at + lane, ahead, (float *)(columns + i * pitch + d) + lane))
}

ALWAYS void scatter(
    int half, int count, int width, int stride, const Lanes *columns, void *to, const int64_t *at, int64_t more) {
    const int pitch = pitch_of(width);
    FOR_EIGHTS(scatter_eight(half, there, (const float *)(columns + i * pitch + d) + lane, to, at + lane, ahead))
}

ALWAYS Lanes dot(int width, const Lanes *one, const Lanes *other) {
    Lanes sum = one[0] * other[0];
    for (int d = 1; d < width; d++) sum += one[d] * other[d];
    return sum;
}

/* exp(score - largest score) of one query and so many keys; gives one over their sum. */
ALWAYS Lanes soften(int keys, int width, const Lanes *query, const Lanes *key, Lanes *weights) {
    const int pitch = pitch_of(width);
    Lanes most = (Lanes){} - INFINITY, sum = {};
    for (int j = 0; j < keys; j++) {
        const Lanes score = weights[j] = dot(width, query, key + j * pitch);
        most = chosen(score > most, score, most);
    }
    for (int j = 0; j < keys; j++) sum += weights[j] = exponential(weights[j] - most);
    return 1.0f / sum;
}

ALWAYS void forward_heads(
    int half, int width, Shape shape, const Heads *at, const void *query_from, const void *made_from, void *weighted) {
    const int inner = shape.heads * width, pitch = pitch_of(width);
    Lanes *restrict query = work.query, *restrict key = work.key, *restrict value = work.value;
    Lanes *restrict made = work.made, *restrict weights = work.weights;
    gather(half, shape.asking, width, shape.query_stride, query_from, at->query, 0, query);
    gather(half, shape.count, width, shape.made_stride, made_from, at->made, 0, key);
    gather(half, shape.count, width, shape.made_stride, made_from, at->made, inner, value);
    for (int i = 0; i < shape.asking; i++) {
        const int keys = seen(shape, i);
        const Lanes scale = soften(keys, width, query + i * pitch, key, weights);
        Lanes sums[WIDEST];
        for (int d = 0; d < width; d++) sums[d] = (Lanes){};
        for (int j = 0; j < keys; j++)
            for (int d = 0; d < width; d++) sums[d] += weights[j] * value[j * pitch + d];
        for (int d = 0; d < width; d++) made[i * pitch + d] = sums[d] * scale;
    }
    scatter(half, shape.asking, width, inner, made, weighted, at->weighted, 0);
}

ALWAYS void backward_heads(
    int half, int width, Shape shape, const Heads *at, const void *query_from, const void *made_from,
    const void *gradient, void *query_gradient, void *made_gradient) {
    const int inner = shape.heads * width, pitch = pitch_of(width), across = shape.count | 1;
    Lanes *restrict query = work.query, *restrict key = work.key, *restrict value = work.value;
    Lanes *restrict given = work.given, *restrict made = work.made;
    Lanes *restrict weights = work.weights, *restrict scores = work.scores;
    gather(half, shape.asking, width, shape.query_stride, query_from, at->query, 0, query);
    gather(half, shape.count, width, shape.made_stride, made_from, at->made, 0, key);
    gather(half, shape.count, width, shape.made_stride, made_from, at->made, inner, value);
    gather(half, shape.asking, width, inner, gradient, at->weighted, 0, given);
    for (int i = 0; i < shape.asking; i++) { /* its weights, the gradients of its scores and of itself */
        const int keys = seen(shape, i);
        Lanes *restrict weight = weights + i * across, *restrict score = scores + i * across;
        const Lanes scale = soften(keys, width, query + i * pitch, key, weight);
        Lanes mean = {}, sums[WIDEST];
        for (int j = 0; j < keys; j++) {
            weight[j] *= scale;
            score[j] = dot(width, given + i * pitch, value + j * pitch);
            mean += weight[j] * score[j];
        }
        for (int d = 0; d < width; d++) sums[d] = (Lanes){};
        for (int j = 0; j < keys; j++) {
            score[j] = weight[j] * (score[j] - mean);
            for (int d = 0; d < width; d++) sums[d] += score[j] * key[j * pitch + d];
        }
        for (int d = 0; d < width; d++) made[i * pitch + d] = sums[d];
    }
    scatter(half, shape.asking, width, shape.query_stride, made, query_gradient, at->query, 0);
    for (int j = 0; j < shape.count; j++) { /* the gradients of key and value, in their place */
        Lanes keys[WIDEST], values[WIDEST];
        for (int d = 0; d < width; d++) keys[d] = values[d] = (Lanes){};
        for (int i = first_to_see(shape, j); i < shape.asking; i++)
            for (int d = 0; d < width; d++) {
                keys[d] += scores[i * across + j] * query[i * pitch + d];
                values[d] += weights[i * across + j] * given[i * pitch + d];
            }
        for (int d = 0; d < width; d++) {
            key[j * pitch + d] = keys[d];
            value[j * pitch + d] = values[d];
        }
    }
    scatter(half, shape.count, width, shape.made_stride, key, made_gradient, at->made, 0);
    scatter(half, shape.count, width, shape.made_stride, value, made_gradient, at->made, inner);
}

#define FOR_HEADS(body)                                                                             \
    const int head_width = its_width;                                                               \
    for (int64_t number = first * shape.heads; number < end * shape.heads; number += LANES) {       \
        const Heads at = heads_from(number, end * shape.heads, head_width, shape);                  \
        body                                                                                        \
    }

void heads_forward(
    int64_t first, int64_t end, int is_half, int its_width, Shape shape, const void *query, const void *made,
    void *weighted) {
    FOR_HEADS(IN_ITS_SIZE(forward_heads(half, width, shape, &at, query, made, weighted)))
}

void heads_backward(
    int64_t first, int64_t end, int is_half, int its_width, Shape shape, const void *query, const void *made,
    const void *gradient, void *query_gradient, void *made_gradient) {
    FOR_HEADS(IN_ITS_SIZE(
        backward_heads(half, width, shape, &at, query, made, gradient, query_gradient, made_gradient)))
}

/* Whether they go side by side. */
int threads_here(void) {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

void attention_forward(
    int64_t first, int64_t end, int threads, int count, int asking, int heads, int head_width, int query_stride,
    int made_stride, int causal, int is_half, const void *query, const void *made, void *weighted) {
    const Shape shape = {count, asking, heads, query_stride, made_stride, causal};
    FOR_SHARES(heads_forward(from, to, is_half, head_width, shape, query, made, weighted);)
}

void attention_backward(
    int64_t first, int64_t end, int threads, int count, int asking, int heads, int head_width, int query_stride,
    int made_stride, int causal, int is_half, const void *query, const void *made, const void *gradient,
    void *query_gradient, void *made_gradient) {
    const Shape shape = {count, asking, heads, query_stride, made_stride, causal};
    FOR_SHARES(heads_backward(
        from, to, is_half, head_width, shape, query, made, gradient, query_gradient, made_gradient);)
}
