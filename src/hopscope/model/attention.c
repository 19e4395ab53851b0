/* Causal or full softmax attention over short sequences, forward and backward, one head of one sequence at a time: all
   of it stays in the first cache. `fused.py` compiles it for the machine it runs on; tests pin it to the plain form.

   made:    [sequence][position][query, key, value][head][width], queries already divided by sqrt(width)
   brought: [sequence][position][head][width] */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST 64 /* positions, and width of a head */

#define ALWAYS static inline __attribute__((always_inline))

typedef float Row[MOST] __attribute__((aligned(64)));

/* exp(x) for x <= 0, to 2e-7 relative: 2^whole times a polynomial in the rest. */
ALWAYS float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float scaled = x * 1.44269504f, whole = nearbyintf(scaled);
    const float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float sum = 1.9875691500e-4f;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    union { int32_t bits; float value; } power = {((int32_t)whole + 127) << 23};
    return sum * power.value;
}

/* weights[query][key] = softmax over keys of query . key; `padded` is count rounded up to whole vectors. */
ALWAYS void pattern_of(int count, int padded, int width, int causal, Row *query, Row *key_columns, Row *weights) {
    for (int i = 0; i < count; i++) {
        float *row = weights[i];
        const int keys = causal ? i + 1 : count;
        float most = -1e30f, sum = 0;
        for (int j = 0; j < padded; j++) row[j] = 0;
        for (int d = 0; d < width; d++)
            for (int j = 0; j < padded; j++) row[j] += query[i][d] * key_columns[d][j];
        for (int j = 0; j < padded; j++) row[j] = j < keys ? row[j] : -1e30f;
        for (int j = 0; j < padded; j++) most = row[j] > most ? row[j] : most;
        for (int j = 0; j < padded; j++) row[j] = j < keys ? exponential(row[j] - most) : 0;
        for (int j = 0; j < padded; j++) sum += row[j];
        for (int j = 0; j < padded; j++) row[j] /= sum;
    }
}

ALWAYS void load(int count, int width, int stride, const float *from, Row *rows) {
    for (int i = 0; i < count; i++) memcpy(rows[i], from + (int64_t)i * stride, width * sizeof(float));
}

/* The same turned over, [width][position], with zeros up to whole vectors. */
ALWAYS void load_columns(int count, int padded, int width, int stride, const float *from, Row *columns) {
    for (int d = 0; d < width; d++)
        for (int i = 0; i < padded; i++) columns[d][i] = i < count ? from[(int64_t)i * stride + d] : 0;
}

/* A head of a sequence, and where it looks. */
ALWAYS void load_head(
    int count, int padded, int heads, int width, int causal, const float *made, Row *query, Row *key_columns,
    Row *value_columns, Row *weights) {
    const int inner = heads * width;
    load(count, width, 3 * inner, made, query);
    load_columns(count, padded, width, 3 * inner, made + inner, key_columns);
    load_columns(count, padded, width, 3 * inner, made + 2 * inner, value_columns);
    pattern_of(count, padded, width, causal, query, key_columns, weights);
}

ALWAYS void forward_one(
    int count, int padded, int heads, int width, int causal, const float *made, float *brought) {
    Row query[MOST], key_columns[MOST], value_columns[MOST], weights[MOST];
    const int inner = heads * width;
    load_head(count, padded, heads, width, causal, made, query, key_columns, value_columns, weights);
    for (int i = 0; i < count; i++)
        for (int d = 0; d < width; d++) {
            float sum = 0;
            for (int j = 0; j < padded; j++) sum += weights[i][j] * value_columns[d][j];
            brought[(int64_t)i * inner + d] = sum;
        }
}

ALWAYS void backward_one(
    int count, int padded, int heads, int width, int causal, const float *made, const float *gradient,
    float *made_gradient) {
    Row query[MOST], key_columns[MOST], value_columns[MOST], weights[MOST], given[MOST];
    Row key_gradient[MOST], value_gradient[MOST], scores; /* gradients by [width][position], as the columns */
    const int inner = heads * width;
    load_head(count, padded, heads, width, causal, made, query, key_columns, value_columns, weights);
    load(count, width, inner, gradient, given);
    for (int d = 0; d < width; d++)
        for (int j = 0; j < padded; j++) key_gradient[d][j] = value_gradient[d][j] = 0;
    for (int i = 0; i < count; i++) {
        float mean = 0, *query_gradient = made_gradient + (int64_t)i * 3 * inner;
        for (int j = 0; j < padded; j++) scores[j] = 0;
        for (int d = 0; d < width; d++)
            for (int j = 0; j < padded; j++) scores[j] += given[i][d] * value_columns[d][j];
        for (int j = 0; j < padded; j++) mean += weights[i][j] * scores[j];
        for (int j = 0; j < padded; j++) scores[j] = weights[i][j] * (scores[j] - mean);
        for (int d = 0; d < width; d++) {
            float sum = 0;
            for (int j = 0; j < padded; j++) sum += scores[j] * key_columns[d][j];
            query_gradient[d] = sum;
        }
        for (int d = 0; d < width; d++)
            for (int j = 0; j < padded; j++) value_gradient[d][j] += given[i][d] * weights[i][j];
        for (int d = 0; d < width; d++)
            for (int j = 0; j < padded; j++) key_gradient[d][j] += query[i][d] * scores[j];
    }
    for (int j = 0; j < count; j++)
        for (int d = 0; d < width; d++) {
            made_gradient[inner + (int64_t)j * 3 * inner + d] = key_gradient[d][j];
            made_gradient[2 * inner + (int64_t)j * 3 * inner + d] = value_gradient[d][j];
        }
}

/* Sizes that the compiler knows let it keep rows in registers. */
#define OF_SIZE(W, P, call) { enum { width = W, padded = P }; call; }
#define FOR_EACH_HEAD(call)                                                      \
    const int inner = heads * head_width, whole = (count + 15) / 16 * 16;        \
    for (int64_t n = 0; n < sequences; n++)                                      \
        for (int h = 0; h < heads; h++) {                                        \
            const int64_t from = n * count * 3 * inner + h * head_width;         \
            const int64_t to = n * count * inner + h * head_width;               \
            if (head_width == 8 && whole == 32) OF_SIZE(8, 32, call)             \
            else if (head_width == 16 && whole == 32) OF_SIZE(16, 32, call)      \
            else if (head_width == 8 && whole == 48) OF_SIZE(8, 48, call)        \
            else if (head_width == 16 && whole == 48) OF_SIZE(16, 48, call)      \
            else { const int width = head_width, padded = whole; call; }         \
        }

void attention_forward(
    int64_t sequences, int count, int heads, int head_width, int causal, const float *made, float *brought) {
    FOR_EACH_HEAD(forward_one(count, padded, heads, width, causal, made + from, brought + to))
}

void attention_backward(
    int64_t sequences, int count, int heads, int head_width, int causal, const float *made, const float *gradient,
    float *made_gradient) {
    FOR_EACH_HEAD(backward_one(count, padded, heads, width, causal, made + from, gradient + to, made_gradient + from))
}
