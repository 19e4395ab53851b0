/* Causal or full softmax attention over short sequences, forward and backward, one head of one sequence at a time: all
   of it stays in the first cache. `fused.py` compiles it for the machine it runs on; tests pin it to the plain form.

   query:   [sequence][one of the last positions][head][width], already divided by sqrt(width)
   made:    [sequence][position][key, value][head][width]
   brought: [sequence][one of the last positions][head][width]

   All, and their gradients, in fp32 or in bf16; in between everything is fp32. As many queries as a vector has lanes
   go side by side, and keys one after the other: maxima, sums and products then need nothing from other lanes. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST 64 /* positions */
#define WIDEST 128 /* numbers a head */
#define NUMBERS 4096 /* of all positions of a head, with what fills them up to whole vectors */
#define EIGHT 8
#ifndef LANES
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8 /* wider than the machine's own vectors, much would be taken apart into single numbers */
#endif
#endif

#define ALWAYS static inline __attribute__((always_inline))
#define ALIGNED __attribute__((aligned(64)))

#ifdef __clang__
#define MIXED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIXED(a, b, ...) __builtin_shuffle(a, b, (Words){__VA_ARGS__})
#endif

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef float Eight __attribute__((vector_size(EIGHT * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(EIGHT * sizeof(uint32_t))));
typedef uint16_t Halves __attribute__((vector_size(EIGHT * sizeof(uint16_t))));
typedef float Rows[NUMBERS] ALIGNED; /* close together, `pitch` apart: a head's must share the first cache */

/* What there is: positions, those of them (the last) that ask, heads, and numbers from one position to the next. */
typedef struct { int count, asking, heads, query_stride, made_stride, causal; } Shape;

static const float LANE_NUMBERS[16] ALIGNED = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The number of every lane, and `at` on top. */
ALWAYS Ints lanes_from(int at) {
    Lanes number;
    memcpy(&number, LANE_NUMBERS, sizeof number);
    return __builtin_convertvector(number, Ints) + at;
}

/* From one row to the next: a whole number of vectors. */
ALWAYS int pitch_of(int width) { return (width + EIGHT - 1) / EIGHT * EIGHT; }

/* Lane by lane; C has no ?: for vectors. */
ALWAYS Lanes chosen(Ints mask, Lanes yes, Lanes no) { return (Lanes)((mask & (Ints)yes) | (~mask & (Ints)no)); }

/* exp(x) for x <= 0, to 2e-7 relative: 2^whole times a polynomial in the rest. */
ALWAYS Lanes exponential(Lanes x) {
    x = chosen(x < -87.0f, (Lanes){} - 87.0f, x);
    const Lanes shifted = x * 1.44269504f - 0.5f;
    const Ints down = __builtin_convertvector(shifted, Ints); /* towards zero, which is up: the rest is within half */
    const Lanes whole = __builtin_convertvector(down, Lanes);
    const Lanes rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    Lanes sum = (Lanes){} + 1.9875691500e-4f;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    return sum * (Lanes)((down + 127) << 23);
}

/* Eight of them to the nearest bf16, ties to even; what is not a number stays so. */
ALWAYS Halves narrowed(Eight values) {
    const Words bits = (Words)values, nearest = bits + 0x7fff + ((bits >> 16) & 1);
    const Words number = (Words)(values == values), rounded = (number & nearest) | (~number & 0x7fc00000u);
    return __builtin_convertvector(rounded >> 16, Halves);
}

/* Rows of `width` numbers, `stride` apart, into rows of their own; zeros up to the next vector, of rows as of lanes. */
ALWAYS void load(int half, int count, int width, int stride, const void *from, int64_t at, float *rows) {
    const int pitch = pitch_of(width), full = (count + LANES - 1) / LANES * LANES;
    for (int i = 0; i < count; i++, at += stride)
        for (int d = 0; d < width; d += EIGHT) {
            const int there = width - d < EIGHT ? width - d : EIGHT;
            Halves halves = {};
            Eight values = {};
            if (half) {
                memcpy(&halves, (const uint16_t *)from + at + d, there * sizeof(uint16_t));
                values = (Eight)(__builtin_convertvector(halves, Words) << 16);
            } else
                memcpy(&values, (const float *)from + at + d, there * sizeof(float));
            memcpy(rows + i * pitch + d, &values, sizeof values);
        }
    memset(rows + count * pitch, 0, (full - count) * pitch * sizeof(float));
}

ALWAYS void store(int half, int width, const float *row, void *to, int64_t at) {
    for (int d = 0; d < width; d += EIGHT) {
        const int there = width - d < EIGHT ? width - d : EIGHT;
        if (half) {
            const Halves halves = narrowed(*(const Eight *)(row + d));
            memcpy((uint16_t *)to + at + d, &halves, there * sizeof(uint16_t));
        } else
            memcpy((float *)to + at + d, row + d, there * sizeof(float));
    }
}

/* Eight vectors of eight, rows for columns. */
ALWAYS void transpose(Eight v[EIGHT]) {
    Eight pairs[EIGHT], fours[EIGHT];
    for (int i = 0; i < EIGHT; i += 2) {
        pairs[i] = MIXED(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = MIXED(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < EIGHT; i += 4)
        for (int k = 0; k < 2; k++) {
            fours[i + 2 * k] = MIXED(pairs[i + k], pairs[i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * k + 1] = MIXED(pairs[i + k], pairs[i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = MIXED(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[i + 4] = MIXED(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
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
    Lanes most = (Lanes){} - 1e30f, sum = {};
    for (int j = 0; j < keys; j++) {
        Lanes score = product(width, columns, key + j * pitch);
        if (j >= hidden) score = chosen(lane >= j, score, (Lanes){} - 1e30f);
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
ALWAYS void forward_one(
    int half, int width, Shape shape, const void *query_from, int64_t query_at, const void *made, int64_t made_at,
    void *brought, int64_t to, const uint8_t *fixed, const float *patterns) {
    Rows query, key, value, out;
    Lanes columns[WIDEST], weights[MOST];
    const int inner = shape.heads * width, before = shape.count - shape.asking, pitch = pitch_of(width);
    int own = !fixed;
    for (int i = before; !own && i < shape.count; i++) own = !fixed[i];
    load(half, shape.count, width, shape.made_stride, made, made_at + inner, value);
    if (own) {
        load(half, shape.asking, width, shape.query_stride, query_from, query_at, query);
        load(half, shape.count, width, shape.made_stride, made, made_at, key);
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
        store(half, width, out + i * pitch, brought, to + (int64_t)i * inner);
    }
}

/* What as many queries as lanes, in `rows`, add to the gradients of keys or of values: each row times its lane's number. */
ALWAYS void add_rows(int keys, int width, const Lanes *lanes, const float *rows, float *sums) {
    const int pitch = pitch_of(width);
    for (int d = 0; d < width; d += EIGHT) {
        Eight row[LANES];
        for (int i = 0; i < LANES; i++) memcpy(row + i, rows + i * pitch + d, sizeof(Eight));
        for (int j = 0; j < keys; j++) {
            const float *numbers = (const float *)(lanes + j);
            Eight *sum = (Eight *)(sums + j * pitch + d), total = *sum;
            for (int i = 0; i < LANES; i++) total += row[i] * numbers[i];
            *sum = total;
        }
    }
}

ALWAYS void backward_one(
    int half, int width, Shape shape, const void *query_from, int64_t query_at, const void *made, int64_t made_at,
    const void *gradient, int64_t to, void *query_gradient, void *made_gradient) {
    const int inner = shape.heads * width, before = shape.count - shape.asking, pitch = pitch_of(width);
    Rows query, key, value, given, to_query, to_key, to_value;
    load(half, shape.asking, width, shape.query_stride, query_from, query_at, query);
    load(half, shape.count, width, shape.made_stride, made, made_at, key);
    load(half, shape.count, width, shape.made_stride, made, made_at + inner, value);
    load(half, shape.asking, width, inner, gradient, to, given);
    memset(to_key, 0, shape.count * pitch * sizeof(float));
    memset(to_value, 0, shape.count * pitch * sizeof(float));
    for (int first = 0; first < shape.asking; first += LANES) {
        const int at = before + first, keys = keys_of(shape, at);
        Lanes columns[WIDEST], weights[MOST], scores[MOST], mean = {};
        turn(first, width, query, columns);
        const Lanes scale = weigh(at, keys, width, shape.causal, columns, key, weights);
        turn(first, width, given, columns);
        for (int j = 0; j < keys; j++) {
            weights[j] *= scale;
            scores[j] = product(width, columns, value + j * pitch);
            mean += weights[j] * scores[j];
        }
        for (int d = 0; d < pitch; d++) columns[d] = (Lanes){};
        for (int j = 0; j < keys; j++) {
            scores[j] = weights[j] * (scores[j] - mean); /* its gradient */
            for (int d = 0; d < width; d++) columns[d] += scores[j] * key[j * pitch + d];
        }
        add_rows(keys, width, scores, query + first * pitch, to_key);
        add_rows(keys, width, weights, given + first * pitch, to_value);
        turn_back(first, width, columns, to_query);
    }
    for (int i = 0; i < shape.asking; i++)
        store(half, width, to_query + i * pitch, query_gradient, query_at + (int64_t)i * shape.query_stride);
    for (int j = 0; j < shape.count; j++) {
        const int64_t at = made_at + (int64_t)j * shape.made_stride;
        store(half, width, to_key + j * pitch, made_gradient, at);
        store(half, width, to_value + j * pitch, made_gradient, at + inner);
    }
}

/* A width that the compiler knows lets it keep columns in registers: those of `fused.QUICK`. */
#define OF_SIZE(H, W, call) { enum { half = H, width = W }; call; }
#define IN_ITS_SIZE(call)                                                                           \
    if (head_width == 8 && is_half) OF_SIZE(1, 8, call)                                             \
    else if (head_width == 8) OF_SIZE(0, 8, call)                                                   \
    else if (head_width == 16 && is_half) OF_SIZE(1, 16, call)                                      \
    else if (head_width == 16) OF_SIZE(0, 16, call)                                                 \
    else { const int half = is_half, width = head_width; call; }
#define FOR_EACH_HEAD(body)                                                                         \
    const Shape shape = {count, asking, heads, query_stride, made_stride, causal};                  \
    for (int64_t n = first; n < first + sequences; n++)                                             \
        for (int h = 0; h < heads; h++) {                                                           \
            const int64_t query_at = n * asking * query_stride + h * head_width;                    \
            const int64_t made_at = n * count * made_stride + h * head_width;                       \
            const int64_t to = (n * asking * heads + h) * head_width;                               \
            body                                                                                    \
        }

void attention_forward(
    int64_t first, int64_t sequences, int count, int asking, int heads, int head_width, int query_stride,
    int made_stride, int causal, int is_half, const void *query, const void *made, void *brought) {
    FOR_EACH_HEAD(
        IN_ITS_SIZE(forward_one(half, width, shape, query, query_at, made, made_at, brought, to, 0, 0)))
}

void attention_backward(
    int64_t first, int64_t sequences, int count, int asking, int heads, int head_width, int query_stride,
    int made_stride, int causal, int is_half, const void *query, const void *made, const void *gradient,
    void *query_gradient, void *made_gradient) {
    FOR_EACH_HEAD(IN_ITS_SIZE(backward_one(
        half, width, shape, query, query_at, made, made_at, gradient, to, query_gradient, made_gradient)))
}

/* The same `batch` of sequences under one program after the other, forward, in fp32.

   fixed: [program][head], null or [sequence of the batch][position]
   patterns: [program][head], null or [sequence of the batch][position][key] */
void attention_edited(
    int64_t first, int64_t sequences, int count, int asking, int heads, int head_width, int query_stride,
    int made_stride, int causal, int is_half, const void *query, const void *made, void *brought, int64_t batch,
    const uint8_t *const *fixed, const float *const *patterns) {
    FOR_EACH_HEAD(
        const int64_t head = n / batch * heads + h;
        const uint8_t *of_head = fixed[head] ? fixed[head] + n % batch * count : 0;
        const float *its_patterns = fixed[head] ? patterns[head] + n % batch * count * count : 0;
        IN_ITS_SIZE(
            forward_one(half, width, shape, query, query_at, made, made_at, brought, to, of_head, its_patterns)))
}
