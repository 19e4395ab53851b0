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

#define EIGHT 8 /* numbers that are turned over with as many others */
#ifdef __clang__
#define MIXED(numbers, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIXED(numbers, a, b, ...) __builtin_shuffle(a, b, (numbers){__VA_ARGS__})
#endif

#define ALWAYS static inline __attribute__((always_inline))
#define ALIGNED __attribute__((aligned(64)))

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef float Eight __attribute__((vector_size(EIGHT * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(EIGHT * sizeof(uint32_t))));

/* GELU in its tanh form is x times the logistic function of these times x and x^3: 2 sqrt(2 / pi), 0.044715 of it. */
#define GELU_LINEAR 1.5957691216f
#define GELU_CUBIC 0.0713548162726f

static const float LANE_NUMBERS[16] ALIGNED = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The number of every lane, and `at` on top. */
ALWAYS Ints lanes_from(int at) {
    Lanes number;
    memcpy(&number, LANE_NUMBERS, sizeof number);
    return __builtin_convertvector(number, Ints) + at;
}

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

/* 1 / (1 + exp(-z)). */
ALWAYS Lanes logistic(Lanes z) {
    const Lanes small = exponential(chosen(z < 0.0f, z, -z));
    return chosen(z < 0.0f, small, (Lanes){} + 1.0f) / (1.0f + small);
}

/* Eight vectors of eight, rows for columns. */
ALWAYS void transpose(Eight v[EIGHT]) {
    Eight pairs[EIGHT], fours[EIGHT];
    for (int i = 0; i < EIGHT; i += 2) {
        pairs[i] = MIXED(Words, v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = MIXED(Words, v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < EIGHT; i += 4)
        for (int k = 0; k < 2; k++) {
            fours[i + 2 * k] = MIXED(Words, pairs[i + k], pairs[i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * k + 1] = MIXED(Words, pairs[i + k], pairs[i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = MIXED(Words, fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[i + 4] = MIXED(Words, fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
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
