/* Causal or full softmax attention over short sequences, forward and backward, one head of one sequence at a time: all
   of it stays in the first cache. `fused.py` compiles it for the machine it runs on; tests pin it to the plain form.

   query:   [sequence][one of the last positions][head][width], already divided by sqrt(width)
   made:    [sequence][position][key, value][head][width]
   brought: [sequence][one of the last positions][head][width]

   All, and their gradients, in fp32 or in bf16; in between everything is fp32. Sixteen queries go side by side in the
   lanes of a vector, and keys one after the other: maxima, sums and products then need nothing from other lanes. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST 64 /* positions, and width of a head */
#define LANES 16
#define EIGHT 8

#define ALWAYS static inline __attribute__((always_inline))

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef float Eight __attribute__((vector_size(EIGHT * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(EIGHT * sizeof(uint32_t))));
typedef uint16_t Halves __attribute__((vector_size(EIGHT * sizeof(uint16_t))));
typedef float Row[MOST] __attribute__((aligned(64)));
typedef Lanes Columns[MOST / LANES];

/* What there is: positions, those of them (the last) that ask, heads, and numbers from one position to the next. */
typedef struct { int count, asking, heads, query_stride, made_stride, causal; } Shape;

static const Ints LANE = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

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

/* Rows of `width` numbers, `stride` apart, into rows of their own, with zeros up to the next eight. */
ALWAYS void load(int half, int count, int width, int stride, const void *from, int64_t at, Row *rows) {
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
            memcpy(rows[i] + d, &values, sizeof values);
        }
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

/* Sixteen rows turned over: number d of all of them in the lanes of columns[d]; zeros where there are none. */
ALWAYS void turn(int count, int first, int width, Row *rows, Lanes *columns) {
    const int there = count - first < LANES ? count - first : LANES;
    float turned[MOST][LANES] __attribute__((aligned(64)));
    for (int d = 0; d < width; d++)
        for (int i = 0; i < LANES; i++) turned[d][i] = i < there ? rows[first + i][d] : 0;
    memcpy(columns, turned, width * sizeof(Lanes));
}

ALWAYS void turn_back(int count, int first, int width, const Lanes *columns, Row *rows) {
    const int there = count - first < LANES ? count - first : LANES;
    for (int i = 0; i < there; i++)
        for (int d = 0; d < width; d++) rows[first + i][d] = columns[d][i];
}

ALWAYS Lanes product(int width, const Lanes *columns, const float *row) {
    Lanes sum = columns[0] * row[0];
    for (int d = 1; d < width; d++) sum += columns[d] * row[d];
    return sum;
}

/* exp(score - largest score) of the queries in `columns`, the first of which is `at`; gives one over their sums. */
ALWAYS Lanes weigh(int at, int keys, int width, int causal, const Lanes *columns, Row *key, Lanes *weights) {
    Lanes most = (Lanes){} - 1e30f, sum = {};
    for (int j = 0; j < keys; j++) {
        Lanes score = product(width, columns, key[j]);
        if (causal && j > at) score = chosen(LANE + at >= j, score, (Lanes){} - 1e30f);
        weights[j] = score;
        most = chosen(score > most, score, most);
    }
    for (int j = 0; j < keys; j++) {
        Lanes weight = exponential(weights[j] - most);
        if (causal && j > at) weight = chosen(LANE + at >= j, weight, (Lanes){});
        sum += weights[j] = weight;
    }
    return 1.0f / sum;
}

ALWAYS int keys_of(Shape shape, int at) {
    return shape.causal && at + LANES < shape.count ? at + LANES : shape.count;
}

ALWAYS void forward_one(
    int half, int width, Shape shape, const void *query_from, int64_t query_at, const void *made, int64_t made_at,
    void *brought, int64_t to) {
    Row query[MOST], key[MOST], value[MOST], out[MOST];
    Lanes columns[MOST], weights[MOST];
    const int inner = shape.heads * width, before = shape.count - shape.asking;
    load(half, shape.asking, width, shape.query_stride, query_from, query_at, query);
    load(half, shape.count, width, shape.made_stride, made, made_at, key);
    load(half, shape.count, width, shape.made_stride, made, made_at + inner, value);
    for (int first = 0; first < shape.asking; first += LANES) {
        const int at = before + first, keys = keys_of(shape, at);
        turn(shape.asking, first, width, query, columns);
        const Lanes scale = weigh(at, keys, width, shape.causal, columns, key, weights);
        Lanes sums[MOST];
        for (int d = 0; d < width; d++) sums[d] = (Lanes){};
        for (int j = 0; j < keys; j++)
            for (int d = 0; d < width; d++) sums[d] += weights[j] * value[j][d];
        for (int d = 0; d < width; d++) sums[d] *= scale;
        turn_back(shape.asking, first, width, sums, out);
    }
    for (int i = 0; i < shape.asking; i++) store(half, width, out[i], brought, to + (int64_t)i * inner);
}

ALWAYS void backward_one(
    int half, int width, Shape shape, const void *query_from, int64_t query_at, const void *made, int64_t made_at,
    const void *gradient, int64_t to, void *query_gradient, void *made_gradient) {
    const int inner = shape.heads * width, before = shape.count - shape.asking;
    Row query[MOST], key[MOST], value[MOST], given[MOST], out[MOST];
    Columns weights[MOST], scores[MOST]; /* by key: what queries give it, and the gradient of its scores */
    load(half, shape.asking, width, shape.query_stride, query_from, query_at, query);
    load(half, shape.count, width, shape.made_stride, made, made_at, key);
    load(half, shape.count, width, shape.made_stride, made, made_at + inner, value);
    load(half, shape.asking, width, inner, gradient, to, given);
    for (int first = 0; first < shape.asking; first += LANES) {
        const int at = before + first, keys = keys_of(shape, at), block = first / LANES;
        Lanes columns[MOST], weight[MOST], score[MOST], mean = {};
        turn(shape.asking, first, width, query, columns);
        const Lanes scale = weigh(at, keys, width, shape.causal, columns, key, weight);
        turn(shape.asking, first, width, given, columns);
        for (int j = 0; j < keys; j++) {
            weights[j][block] = weight[j] *= scale;
            score[j] = product(width, columns, value[j]);
            mean += weight[j] * score[j];
        }
        for (int d = 0; d < width; d++) columns[d] = (Lanes){};
        for (int j = 0; j < keys; j++) {
            const Lanes one = weight[j] * (score[j] - mean);
            scores[j][block] = one;
            for (int d = 0; d < width; d++) columns[d] += one * key[j][d];
        }
        turn_back(shape.asking, first, width, columns, out);
    }
    for (int i = 0; i < shape.asking; i++)
        store(half, width, out[i], query_gradient, query_at + (int64_t)i * shape.query_stride);
    for (int j = 0; j < shape.count; j++) {
        const float *weight = (const float *)weights[j], *score = (const float *)scores[j];
        const int first = shape.causal && j > before ? j - before : 0;
        Row key_gradient, value_gradient;
        for (int d = 0; d < width; d += EIGHT) {
            Eight to_key = {}, to_value = {};
            for (int i = first; i < shape.asking; i++) {
                to_key += score[i] * *(const Eight *)&query[i][d];
                to_value += weight[i] * *(const Eight *)&given[i][d];
            }
            *(Eight *)&key_gradient[d] = to_key;
            *(Eight *)&value_gradient[d] = to_value;
        }
        const int64_t at = made_at + (int64_t)j * shape.made_stride;
        store(half, width, key_gradient, made_gradient, at);
        store(half, width, value_gradient, made_gradient, at + inner);
    }
}

/* A width that the compiler knows lets it keep columns in registers: that of the heads for which this is quicker. */
#define OF_SIZE(H, W, call) { enum { half = H, width = W }; call; }
#define FOR_EACH_HEAD(call)                                                                         \
    const Shape shape = {count, asking, heads, query_stride, made_stride, causal};                  \
    for (int64_t n = 0; n < sequences; n++)                                                         \
        for (int h = 0; h < heads; h++) {                                                           \
            const int64_t query_at = n * asking * query_stride + h * head_width;                    \
            const int64_t made_at = n * count * made_stride + h * head_width;                       \
            const int64_t to = (n * asking * heads + h) * head_width;                               \
            if (head_width == 8 && is_half) OF_SIZE(1, 8, call)                                     \
            else if (head_width == 8) OF_SIZE(0, 8, call)                                           \
            else { const int half = is_half, width = head_width; call; }                            \
        }

void attention_forward(
    int64_t sequences, int count, int asking, int heads, int head_width, int query_stride, int made_stride, int causal,
    int is_half, const void *query, const void *made, void *brought) {
    FOR_EACH_HEAD(forward_one(half, width, shape, query, query_at, made, made_at, brought, to))
}

void attention_backward(
    int64_t sequences, int count, int asking, int heads, int head_width, int query_stride, int made_stride, int causal,
    int is_half, const void *query, const void *made, const void *gradient, void *query_gradient,
    void *made_gradient) {
    FOR_EACH_HEAD(backward_one(
        half, width, shape, query, query_at, made, made_at, gradient, to, query_gradient, made_gradient))
}
