/* Attention over short sequences in which patterns are put in place, forward and in fp32. Each head goes alone, as many
   queries as a vector has lanes side by side. `fused_attention.py` calls it, tests pin it to the plain form. */

#include "attention.h"

typedef float Rows[NUMBERS] ALIGNED; /* close together, `pitch` apart: a head's must share the first cache */

/* Rows of `width` numbers, `stride` apart, into rows of their own; zeros up to the next vector, of rows as of lanes. */
ALWAYS void load(int count, int width, int stride, const float *from, int64_t at, float *rows) {
    const int pitch = pitch_of(width), full = (count + LANES - 1) / LANES * LANES;
    for (int i = 0; i < count; i++, at += stride)
        for (int d = 0; d < width; d += EIGHT) {
            Eight values = {};
            if (width - d >= EIGHT) memcpy(&values, from + at + d, sizeof values); /* of a size that is known */
            else memcpy(&values, from + at + d, (width - d) * sizeof(float));
            memcpy(rows + i * pitch + d, &values, sizeof values);
        }
    memset(rows + count * pitch, 0, (full - count) * pitch * sizeof(float));
}

/* As many rows as lanes turned over: number d of all of them in the lanes of columns[d]. */
ALWAYS void turn(int first, int width, const float *rows, Lanes *columns) {
    const int pitch = pitch_of(width);
    for (int part = 0; part < LANES; part += EIGHT)
        for (int d = 0; d < width; d += EIGHT) {
            Eight block[EIGHT];
            for (int i = 0; i < EIGHT; i++) memcpy(block + i, rows + (first + part + i) * pitch + d, sizeof(Eight));
            transpose(block);
            for (int i = 0; i < EIGHT; i++) memcpy((float *)(columns + d + i) + part, block + i, sizeof(Eight));
        }
}

ALWAYS void turn_back(int first, int width, const Lanes *columns, float *rows) {
    const int pitch = pitch_of(width);
    for (int part = 0; part < LANES; part += EIGHT)
        for (int d = 0; d < width; d += EIGHT) {
            Eight block[EIGHT];
            for (int i = 0; i < EIGHT; i++) memcpy(block + i, (const float *)(columns + d + i) + part, sizeof(Eight));
            transpose(block);
            for (int i = 0; i < EIGHT; i++) memcpy(rows + (first + part + i) * pitch + d, block + i, sizeof(Eight));
        }
}

ALWAYS Lanes product(int width, const Lanes *columns, const float *row) {
    Lanes sum = columns[0] * row[0];
    for (int d = 1; d < width; d++) sum += columns[d] * row[d];
    return sum;
}

/* exp(score - largest score) of the queries in `columns`, the first of which is `at`; gives one over their sums. */
ALWAYS Lanes weigh(int at, int keys, int width, int causal, const Lanes *columns, const float *key, Lanes *weights) {
    const int pitch = pitch_of(width), hidden = causal && at < keys ? at + 1 : keys;
    const Ints lane = lanes_from(at);
    Lanes most = (Lanes){} - INFINITY, sum = {};
    for (int j = 0; j < keys; j++) {
        Lanes score = product(width, columns, key + j * pitch);
        if (j >= hidden) score = chosen(lane >= j, score, (Lanes){} - INFINITY);
        weights[j] = score;
        most = chosen(score > most, score, most);
    }
    for (int j = 0; j < keys; j++) {
        Lanes weight = exponential(weights[j] - most);
        if (j >= hidden) weight = chosen(lane >= j, weight, (Lanes){});
        sum += weights[j] = weight;
    }
    return 1.0f / sum;
}

ALWAYS int keys_of(Shape shape, int at) {
    return shape.causal && at + LANES < shape.count ? at + LANES : shape.count;
}

/* What a pattern of its own or one that is put in its place brings to every query.

   fixed: for every position whether its pattern is put in place; may be null, if none is
   patterns: [position][key], read where it is */
ALWAYS void forward_edited(
    int width, Shape shape, const float *query_from, int64_t query_at, const float *made, int64_t made_at,
    float *weighted, int64_t to, const uint8_t *fixed, const float *patterns) {
    Rows query, key, value, out;
    Lanes columns[WIDEST], weights[MOST];
    const int inner = shape.heads * width, before = shape.count - shape.asking, pitch = pitch_of(width);
    int own = !fixed;
    for (int i = before; !own && i < shape.count; i++) own = !fixed[i];
    load(shape.count, width, shape.made_stride, made, made_at + inner, value);
    if (own) {
        load(shape.asking, width, shape.query_stride, query_from, query_at, query);
        load(shape.count, width, shape.made_stride, made, made_at, key);
    }
    for (int first = 0; own && first < shape.asking; first += LANES) {
        const int at = before + first, keys = keys_of(shape, at);
        turn(first, width, query, columns);
        const Lanes scale = weigh(at, keys, width, shape.causal, columns, key, weights);
        Lanes sums[WIDEST];
        for (int d = 0; d < pitch; d++) sums[d] = (Lanes){};
        for (int j = 0; j < keys; j++)
            for (int d = 0; d < width; d++) sums[d] += weights[j] * value[j * pitch + d];
        for (int d = 0; d < width; d++) sums[d] *= scale;
        turn_back(first, width, sums, out);
    }
    for (int i = 0; i < shape.asking; i++) {
        if (fixed && fixed[before + i]) {
            const float *pattern = patterns + (before + i) * shape.count;
            const int keys = shape.causal ? before + i + 1 : shape.count;
            for (int d = 0; d < width; d += EIGHT) {
                Eight sum = {};
                for (int j = 0; j < keys; j++) sum += pattern[j] * *(const Eight *)(value + j * pitch + d);
                *(Eight *)(out + i * pitch + d) = sum;
            }
        }
        memcpy(weighted + to + (int64_t)i * inner, out + i * pitch, width * sizeof(float));
    }
}

static void edited_some(
    int64_t first, int64_t end, int is_half, int head_width, Shape shape, const float *query, const float *made,
    float *weighted, int64_t batch, const uint8_t *const *fixed, const float *const *patterns) {
    const int64_t count = shape.count, inner = shape.heads * head_width;
    for (int64_t n = first; n < end; n++)
        for (int h = 0; h < shape.heads; h++) {
            const int64_t query_at = n * shape.asking * shape.query_stride + h * head_width;
            const int64_t made_at = n * count * shape.made_stride + h * head_width;
            const int64_t head = n / batch * shape.heads + h, to = n * shape.asking * inner + h * head_width;
            const uint8_t *of_head = fixed[head] ? fixed[head] + n % batch * count : 0;
            const float *its_patterns = fixed[head] ? patterns[head] + n % batch * count * count : 0;
            IN_ITS_SIZE(
                forward_edited(width, shape, query, query_at, made, made_at, weighted, to, of_head, its_patterns))
        }
}

/* The same `batch` of sequences under one program after the other, forward, in fp32.

   fixed: [program][head], null or [sequence of the batch][position]
   patterns: [program][head], null or [sequence of the batch][position][key] */
void attention_edited(
    int64_t first, int64_t end, int threads, int count, int asking, int heads, int head_width, int query_stride,
    int made_stride, int causal, int is_half, const float *query, const float *made, float *weighted, int64_t batch,
    const uint8_t *const *fixed, const float *const *patterns) {
    const Shape shape = {count, asking, heads, query_stride, made_stride, causal};
    FOR_SHARES(edited_some(from, to, is_half, head_width, shape, query, made, weighted, batch, fixed, patterns);)
}
