/* What blocks in bf16 are written in, where a processor multiplies pairs of them into fp32 (AVX512-BF16). Products sum
   two by two: a word is two neighbours of a row, or of a column. */

#pragma once

#include "lanes.h"

#include <immintrin.h>

#define VECTOR 16
#define TOGETHER 2 /* numbers in a word */
#define PANEL 64 /* columns that are made ready together, word after word */
#define LOG_2_E 1.44269504089f
#define ONES 0x3f803f80u /* a word of them */

typedef uint16_t Number;
typedef uint32_t Word;
typedef __m512 Vector; /* of fp32, in which everything is summed */
typedef __m512bh Packed;

ALWAYS int words_of(int count) { return (count + 1) / 2; }
ALWAYS __mmask16 first_lanes(int count) { return count >= VECTOR ? 0xffff : count > 0 ? (1u << count) - 1 : 0; }
ALWAYS __m512 widened(__m256i x) { return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }
ALWAYS __m256i narrowed(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

/* Numbers and floats, a whole vector or as many as there are; what is not there is 0, and is left as it is. */
ALWAYS Vector read(const Number *from) { return widened(_mm256_loadu_si256((const __m256i *)from)); }
ALWAYS void write(Number *to, Vector x) { _mm256_storeu_si256((__m256i *)to, narrowed(x)); }
ALWAYS Vector read_first(int there, const Number *from) {
    return widened(_mm256_maskz_loadu_epi16(first_lanes(there), from));
}
ALWAYS void write_first(int there, Number *to, Vector x) {
    _mm256_mask_storeu_epi16(to, first_lanes(there), narrowed(x));
}
ALWAYS Vector load_floats(const float *from) { return _mm512_loadu_ps(from); }
ALWAYS void store_floats(float *to, Vector x) { _mm512_storeu_ps(to, x); }
ALWAYS Vector load_first(int there, const float *from) { return _mm512_maskz_loadu_ps(first_lanes(there), from); }
ALWAYS void store_first(int there, float *to, Vector x) { _mm512_mask_storeu_ps(to, first_lanes(there), x); }

ALWAYS Vector first_or(int there, Vector x, Vector other) { return _mm512_mask_mov_ps(other, first_lanes(there), x); }
ALWAYS Vector larger(Vector x, Vector y) { return _mm512_max_ps(x, y); }
ALWAYS float largest_of(Vector x) { return _mm512_reduce_max_ps(x); }
ALWAYS float sum_of(Vector x) { return _mm512_reduce_add_ps(x); }

/* 2^x to 8e-5 of itself: of its whole part by scaling, of the rest by a polynomial that is nowhere further off. */
ALWAYS Vector power_of_two(Vector x) {
    const __m512 rest = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 sum = _mm512_set1_ps(0.0780245289f);
    sum = sum * rest + 0.226067141f;
    sum = sum * rest + 0.695833564f;
    return _mm512_scalef_ps(sum * rest + 0.999925196f, x);
}

/* exp(x) of what is at most 0, as near as bf16 can tell; and what GELU multiplies x by. */
ALWAYS Vector exponential_of(Vector x) { return power_of_two(x * LOG_2_E); }
ALWAYS Vector gelu_share(Vector x, Vector square) {
    return _mm512_rcp14_ps(power_of_two(x * (square * (-LOG_2_E * GELU_CUBIC) - LOG_2_E * GELU_LINEAR)) + 1.0f);
}

/* Words of a panel, one word in every place, and a sum of products with what their products add. */
ALWAYS Packed words_at(const Word *from) { return (Packed)_mm512_load_si512(from); }
ALWAYS Packed repeated(Word one) { return (Packed)_mm512_set1_epi32(one); }
ALWAYS Vector summed(Vector sum, Packed one, Packed other) { return _mm512_dpbf16_ps(sum, one, other); }

/* Pairs of neighbours in columns: of two rows, the first of which is `row`, what there is of them. */
ALWAYS __m512i row_pair(int rows, int row, int columns, const Number *from, int64_t stride) {
    const __mmask16 there = first_lanes(columns);
    const __mmask16 first = row < rows ? there : 0, second = row + 1 < rows ? there : 0;
    from += row * stride;
    const __m512i one = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, from));
    const __m512i two = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(second, from + stride));
    return _mm512_or_si512(one, _mm512_slli_epi32(two, 16));
}

/* Into panels, for sums over rows. They may be some rows of panels that have more. */
static void panel_rows(int rows, int columns, const Number *from, int64_t stride, int words, Word *panels) {
    for (int at = 0; at < columns; at += PANEL, panels += (int64_t)words * PANEL)
        for (int p = 0; p < words_of(rows); p++)
            for (int c = 0; c < PANEL; c += VECTOR) {
                const __m512i pair = row_pair(rows, 2 * p, columns - at - c, from + at + c, stride);
                _mm512_store_si512(panels + p * PANEL + c, pair);
            }
}

/* Sixteen rows of sixteen words turned over. */
ALWAYS void turn_words(__m512i v[VECTOR]) {
    __m512i w[VECTOR];
    for (int i = 0; i < VECTOR; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < VECTOR; i += 4)
        for (int k = 0; k < 2; k++) {
            v[i + 2 * k] = _mm512_unpacklo_epi64(w[i + k], w[i + 2 + k]);
            v[i + 2 * k + 1] = _mm512_unpackhi_epi64(w[i + k], w[i + 2 + k]);
        }
    for (int i = 0; i < VECTOR; i += 8)
        for (int k = 0; k < 4; k++) {
            w[i + k] = _mm512_shuffle_i32x4(v[i + k], v[i + 4 + k], 0x88);
            w[i + 4 + k] = _mm512_shuffle_i32x4(v[i + k], v[i + 4 + k], 0xdd);
        }
    for (int k = 0; k < 8; k++) {
        v[k] = _mm512_shuffle_i32x4(w[k], w[8 + k], 0x88);
        v[8 + k] = _mm512_shuffle_i32x4(w[k], w[8 + k], 0xdd);
    }
}

/* For sums along rows, whose number is even: each row becomes a column. */
static void panel_columns(int rows, int columns, const Number *from, int64_t stride, Word *panels) {
    const int pairs = columns / 2;
    for (int at = 0; at < rows; at += PANEL, panels += (int64_t)pairs * PANEL)
        for (int r = 0; r < PANEL && at + r < rows; r += VECTOR)
            for (int p = 0; p < pairs; p += VECTOR) {
                __m512i block[VECTOR];
                const __mmask16 there = first_lanes(pairs - p);
                for (int i = 0; i < VECTOR; i++)
                    block[i] = at + r + i < rows
                        ? _mm512_maskz_loadu_epi32(there, from + (at + r + i) * stride + 2 * p) : _mm512_setzero_si512();
                turn_words(block);
                for (int i = 0; i < VECTOR && p + i < pairs; i++)
                    _mm512_store_si512(panels + (int64_t)(p + i) * PANEL + r, block[i]);
            }
}
