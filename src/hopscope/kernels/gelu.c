/* GELU in its tanh form, in fp32: x times the logistic function of 2 sqrt(2 / pi) (x + 0.044715 x^3), and its slope. */

#include "lanes.h"

ALWAYS Lanes share_of(Lanes x) { return logistic(x * (x * x * GELU_CUBIC + GELU_LINEAR)); }

ALWAYS Lanes gelu_of(Lanes x) { return x * share_of(x); }

ALWAYS Lanes slope_of(Lanes x) {
    const Lanes share = share_of(x), rise = x * x * (3 * GELU_CUBIC) + GELU_LINEAR;
    const Lanes near = share + x * share * (1.0f - share) * rise;
    return chosen(x > 10.0f, (Lanes){} + 1.0f, chosen(x < -10.0f, (Lanes){}, near)); /* as it is there, to 1e-20 */
}

/* As many numbers as there are, up to a vector. */
ALWAYS Lanes read_some(int64_t there, const float *from) {
    Lanes values = {};
    if (there >= LANES) memcpy(&values, from, sizeof values);
    else memcpy(&values, from, there * sizeof(float));
    return values;
}

ALWAYS void write_some(int64_t there, Lanes values, float *to) {
    if (there >= LANES) memcpy(to, &values, sizeof values);
    else memcpy(to, &values, there * sizeof(float));
}

void gelu_forward(int64_t first, int64_t end, int threads, const float *x, float *out) {
    FOR_SHARES(for (int64_t i = from; i < to; i += LANES)
        write_some(to - i, gelu_of(read_some(to - i, x + i)), out + i);)
}

void gelu_backward(int64_t first, int64_t end, int threads, const float *x, const float *gradient, float *out) {
    FOR_SHARES(for (int64_t i = from; i < to; i += LANES)
        write_some(to - i, read_some(to - i, gradient + i) * slope_of(read_some(to - i, x + i)), out + i);)
}
