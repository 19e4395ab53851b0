/* GELU in its tanh form, in fp32: x times the logistic function of 2 sqrt(2 / pi) (x + 0.044715 x^3), and its slope. */

#include "lanes.h"

#define LINEAR 1.5957691216f
#define CUBIC 0.0713548162726f

ALWAYS Lanes logistic(Lanes z) {
    const Lanes small = exponential(chosen(z < 0.0f, z, -z));
    return chosen(z < 0.0f, small, (Lanes){} + 1.0f) / (1.0f + small);
}

ALWAYS Lanes share_of(Lanes x) { return logistic(x * (x * x * CUBIC + LINEAR)); }

ALWAYS Lanes gelu(Lanes x) { return x * share_of(x); }

ALWAYS Lanes slope(Lanes x) {
    const Lanes share = share_of(x), near = share + x * share * (1.0f - share) * (x * x * (3 * CUBIC) + LINEAR);
    return chosen(x > 10.0f, (Lanes){} + 1.0f, chosen(x < -10.0f, (Lanes){}, near)); /* as it is there, to 1e-20 */
}

/* As many numbers as there are, up to a vector. */
ALWAYS Lanes some(int64_t there, const float *from) {
    Lanes values = {};
    if (there >= LANES) memcpy(&values, from, sizeof values);
    else memcpy(&values, from, there * sizeof(float));
    return values;
}

ALWAYS void put(int64_t there, Lanes values, float *to) {
    if (there >= LANES) memcpy(to, &values, sizeof values);
    else memcpy(to, &values, there * sizeof(float));
}

void gelu_forward(int64_t first, int64_t end, int threads, const float *x, float *out) {
    FOR_SHARES(for (int64_t i = from; i < to; i += LANES) put(to - i, gelu(some(to - i, x + i)), out + i);)
}

void gelu_backward(int64_t first, int64_t end, int threads, const float *x, const float *gradient, float *out) {
    FOR_SHARES(for (int64_t i = from; i < to; i += LANES)
        put(to - i, some(to - i, gradient + i) * slope(some(to - i, x + i)), out + i);)
}
