/* What lies between the products of a block, row by row: norms, GELU, sums over rows; and the ways back. */

#include "panels.h"

#define EPSILON 1e-5f

/* Rows to mean 0 and deviation 1, and what each was divided by, inverted. */
static void normalise(int rows, int width, const bf16 *x, bf16 *out, float *scales) {
    for (int i = 0; i < rows; i++, x += width, out += width) {
        __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
        for (int d = 0; d < width; d += VECTOR) sum += read(x + d);
        const float mean = _mm512_reduce_add_ps(sum) / width;
        for (int d = 0; d < width; d += VECTOR) {
            const __m512 centred = read(x + d) - mean;
            squares += centred * centred;
        }
        scales[i] = 1.0f / sqrtf(_mm512_reduce_add_ps(squares) / width + EPSILON);
        for (int d = 0; d < width; d += VECTOR) write(out + d, (read(x + d) - mean) * scales[i]);
    }
}

/* The gradient of the rows from that of the normalised ones, and what else they get. */
static void unnormalise(
    int normed, int rows, int width, const float *gradient, const bf16 *normalised, const float *scales,
    const bf16 *beside, bf16 *out) {
    for (int i = 0; i < rows; i++) {
        const int64_t at = (int64_t)i * width;
        float mean = 0, along = 0, scale = 1;
        if (normed) {
            __m512 sum = _mm512_setzero_ps(), products = _mm512_setzero_ps();
            for (int d = 0; d < width; d += VECTOR) {
                const __m512 one = _mm512_loadu_ps(gradient + at + d);
                sum += one;
                products += one * read(normalised + at + d);
            }
            mean = _mm512_reduce_add_ps(sum) / width, along = _mm512_reduce_add_ps(products) / width;
            scale = scales[i];
        }
        for (int d = 0; d < width; d += VECTOR) {
            __m512 one = _mm512_loadu_ps(gradient + at + d);
            if (normed) one = (one - mean - read(normalised + at + d) * along) * scale;
            if (beside) one += read(beside + at + d);
            write(out + at + d, one);
        }
    }
}

/* GELU is x times this. */
ALWAYS __m512 gelu_share(__m512 x, __m512 square) {
    return _mm512_rcp14_ps(power_of_two(x * (square * (-LOG_2_E * GELU_CUBIC) - LOG_2_E * GELU_LINEAR)) + 1.0f);
}

static void gelu(int64_t count, const bf16 *x, bf16 *out) {
    for (int64_t i = 0; i < count; i += VECTOR) {
        const __m512 one = read(x + i);
        write(out + i, one * gelu_share(one, one * one));
    }
}

/* The same, and its derivative times a gradient in the place of the gradient. */
static void gelu_and_back(int64_t count, const bf16 *x, bf16 *out, bf16 *gradient) {
    for (int64_t i = 0; i < count; i += VECTOR) {
        const __m512 one = read(x + i), square = one * one, share = gelu_share(one, square);
        write(out + i, one * share);
        const __m512 slope = share + one * share * (1.0f - share) * (square * (3 * GELU_CUBIC) + GELU_LINEAR);
        write(gradient + i, read(gradient + i) * slope);
    }
}

static void add_rows(int rows, int columns, const bf16 *from, float *sums) {
    for (int d = 0; d < columns; d += VECTOR) {
        const __mmask16 there = first_lanes(columns - d);
        __m512 sum = _mm512_maskz_loadu_ps(there, sums + d);
        for (int i = 0; i < rows; i++) sum += widened(_mm256_maskz_loadu_epi16(there, from + (int64_t)i * columns + d));
        _mm512_mask_storeu_ps(sums + d, there, sum);
    }
}
