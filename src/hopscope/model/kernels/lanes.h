/* What all our kernels are written in: vectors as wide as the machine's, what C lacks for them, and shares of work. */

#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef LANES
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8 /* wider than the machine's own vectors, much would be taken apart into single numbers */
#endif
#endif

#define ALWAYS static inline __attribute__((always_inline))
#define ALIGNED __attribute__((aligned(64)))

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(LANES * sizeof(int32_t))));

/* GELU in its tanh form is x times the logistic function of these times x and x^3: 2 sqrt(2 / pi), 0.044715 of it. */
#define GELU_LINEAR 1.5957691216f
#define GELU_CUBIC 0.0713548162726f

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

/* Equal shares of what is from `first` to before `end`, one after the other or, where the compiler has OpenMP, side by
   side, on the threads that torch computes with. `from` and `to` bound one. */
#define PRAGMA(words) _Pragma(#words)
#define FOR_SHARES(body)                                                                            \
    const int64_t share_size = (end - first + threads - 1) / threads;                               \
    PRAGMA(omp parallel for schedule(static, 1) num_threads(threads))                               \
    for (int share = 0; share < threads; share++) {                                                 \
        const int64_t from = first + share * share_size < end ? first + share * share_size : end;   \
        const int64_t to = from + share_size < end ? from + share_size : end;                       \
        body                                                                                        \
    }

/* Whether they go side by side. */
int threads_here(void) {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}
