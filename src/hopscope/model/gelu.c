/* GELU in its tanh form, in fp32, forward: x times the logistic function of 2 sqrt(2 / pi) (x + 0.044715 x^3). */

#include "lanes.h"

ALWAYS Lanes gelu(Lanes x) {
    const Lanes z = x * (x * x * 0.0713548162726f + 1.5957691216f);
    const Lanes small = exponential(chosen(z < 0.0f, z, -z));
    return x * chosen(z < 0.0f, small, (Lanes){} + 1.0f) / (1.0f + small);
}

void gelu_forward(int64_t first, int64_t end, int threads, const float *x, float *out) {
    FOR_SHARES(for (int64_t i = from; i < to; i += LANES) {
        const int64_t there = (to - i < LANES ? to - i : LANES) * sizeof(float);
        Lanes one = {};
        if (there == sizeof one) memcpy(&one, x + i, sizeof one);
        else memcpy(&one, x + i, there);
        one = gelu(one);
        if (there == sizeof one) memcpy(out + i, &one, sizeof one);
        else memcpy(out + i, &one, there);
    })
}
