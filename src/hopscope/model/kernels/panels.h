/* Products of bf16 whose sums go two by two: a *pair* is two neighbours of a row, or of a column, in one word; *panels*
   are a matrix made ready to be the right side of a product: 64 columns, pair after pair, then the next 64. For
   processors that multiply pairs of bf16 into fp32 (AVX512-BF16). */

#pragma once

#include "lanes.h"

#include <immintrin.h>

#define PANEL 64 /* columns */
#define VECTOR 16
#define LOG_2_E 1.44269504089f
#define TILE 6 /* rows of a product that are summed side by side */

typedef uint16_t bf16;
typedef uint32_t Pair;

ALWAYS int pairs_of(int count) { return (count + 1) / 2; }
ALWAYS int64_t panels_of(int pairs, int columns) { return (int64_t)(columns + PANEL - 1) / PANEL * pairs * PANEL; }
ALWAYS __mmask16 first_lanes(int count) { return count >= VECTOR ? 0xffff : count > 0 ? (1u << count) - 1 : 0; }
ALWAYS __m512 widened(__m256i x) { return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }
ALWAYS __m256i narrowed(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
ALWAYS __m512 read(const bf16 *from) { return widened(_mm256_loadu_si256((const __m256i *)from)); }
ALWAYS void write(bf16 *to, __m512 x) { _mm256_storeu_si256((__m256i *)to, narrowed(x)); }

/* 2^x to 5e-5 of itself, between 2^-126 and 2^126; of two numbers, one of which is none, min and max give the second. */
ALWAYS __m512 power_of_two(__m512 x) {
    x = _mm512_min_ps(_mm512_set1_ps(126.0f), _mm512_max_ps(_mm512_set1_ps(-126.0f), x));
    const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), rest = x - whole;
    __m512 sum = _mm512_set1_ps(9.6181291e-3f);
    sum = sum * rest + 5.5504109e-2f;
    sum = sum * rest + 2.4022651e-1f;
    sum = sum * rest + 6.9314718e-1f;
    return _mm512_scalef_ps(sum * rest + 1.0f, whole);
}

/* Into panels ---------------------------------------------------------------------------------------------------- */

/* For sums over rows: pairs of neighbours in a column. They may be some rows of panels that have more pairs. */
static void pair_rows(int rows, int columns, const bf16 *from, int64_t stride, int pairs, Pair *panels) {
    for (int at = 0; at < columns; at += PANEL, panels += (int64_t)pairs * PANEL)
        for (int p = 0; p < pairs_of(rows); p++)
            for (int c = 0; c < PANEL; c += VECTOR) {
                const __mmask16 there = first_lanes(columns - at - c);
                const bf16 *row = from + 2 * p * stride + at + c;
                const __m512i one = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, row));
                const __mmask16 second = 2 * p + 1 < rows ? there : 0;
                const __m512i two = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(second, row + stride));
                _mm512_store_si512(panels + p * PANEL + c, _mm512_or_si512(one, _mm512_slli_epi32(two, 16)));
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
static void pair_columns(int rows, int columns, const bf16 *from, int64_t stride, Pair *panels) {
    const int pairs = columns / 2;
    for (int at = 0; at < rows; at += PANEL, panels += (int64_t)pairs * PANEL)
        for (int r = 0; r < PANEL; r += VECTOR)
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

/* Products ------------------------------------------------------------------------------------------------------- */

/* The left side of a product: where its rows begin and how far it is from one pair of a row to the next.

   along_rows: rows as they are, `stride` numbers apart
   else:       the columns of panels of that many pairs, so that a product sums over what were rows */
typedef struct { const void *from; int64_t stride; int along_rows; } Left;

ALWAYS const Pair *row_of(Left left, int64_t row) {
    if (left.along_rows) return (const Pair *)((const bf16 *)left.from + row * left.stride);
    return (const Pair *)left.from + row / PANEL * left.stride * PANEL + row % PANEL;
}

/* What becomes of a product: bf16 rows, with a bias and rows that are added; fp32 rows; or added to fp32 rows. */
enum { ROUND, KEEP, ADD };
typedef struct { int kind; void *to; int64_t stride; const float *bias; const bf16 *beside; } Right;

ALWAYS void finish(Right right, int row, int column, int columns, __m512 sum) {
    const __mmask16 there = first_lanes(columns - column);
    const int64_t at = row * right.stride + column;
    if (right.kind == ROUND) {
        if (right.bias) sum += _mm512_maskz_loadu_ps(there, right.bias + column);
        if (right.beside) sum += widened(_mm256_maskz_loadu_epi16(there, right.beside + at));
        _mm256_mask_storeu_epi16((bf16 *)right.to + at, there, narrowed(sum));
    } else {
        float *to = (float *)right.to + at;
        if (right.kind == ADD) sum += _mm512_maskz_loadu_ps(there, to);
        _mm512_mask_storeu_ps(to, there, sum);
    }
}

/* Ask for where it will go, so that it is there by then. */
ALWAYS void fetch(Right right, int row, int column, int vectors) {
    const int64_t number = right.kind == ROUND ? sizeof(bf16) : sizeof(float);
    const char *at = (const char *)right.to + (row * right.stride + column) * number;
    for (int64_t ahead = 0; ahead < vectors * VECTOR * number; ahead += 64) __builtin_prefetch(at + ahead, 1);
}

ALWAYS void tile(
    int rows, int vectors, int step, int pairs, const Pair *const *left, const Pair *panel, Right right, int row,
    int column, int columns) {
    __m512 sums[TILE][4];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < vectors; v++) sums[i][v] = _mm512_setzero_ps();
        fetch(right, row + i, column, vectors);
    }
    for (int p = 0; p < pairs; p++) {
        __m512bh there[4];
        for (int v = 0; v < vectors; v++) there[v] = (__m512bh)_mm512_load_si512(panel + p * PANEL + v * VECTOR);
        for (int i = 0; i < rows; i++) {
            const __m512bh one = (__m512bh)_mm512_set1_epi32(left[i][p * step]);
            for (int v = 0; v < vectors; v++) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], one, there[v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) finish(right, row + i, column + v * VECTOR, columns, sums[i][v]);
}

#define TILE_OF(R, V, S)                                                                            \
    static __attribute__((noinline)) void tile_##R##_##V##_##S(                                     \
        int pairs, const Pair *const *left, const Pair *panel, Right right, int row, int column, int columns) { \
        tile(R, V, S, pairs, left, panel, right, row, column, columns);                             \
    }
#define TILES_OF(R, S) TILE_OF(R, 4, S) TILE_OF(R, 2, S) TILE_OF(R, 1, S)
TILES_OF(6, 1) TILES_OF(4, 1) TILES_OF(2, 1) TILES_OF(1, 1)
TILES_OF(6, 64) TILES_OF(4, 64) TILES_OF(2, 64) TILES_OF(1, 64)

#define IN_VECTORS(R, S)                                                                            \
    (vectors == 4 ? tile_##R##_4_##S : vectors == 2 ? tile_##R##_2_##S : tile_##R##_1_##S)          \
        (pairs, starts, from, right, row, column, columns)
#define IN_ROWS(S)                                                                                  \
    (some == 6 ? IN_VECTORS(6, S) : some == 4 ? IN_VECTORS(4, S) : some == 2 ? IN_VECTORS(2, S) : IN_VECTORS(1, S))

/* left times panels: so many rows and columns, sums of so many pairs. */
static void multiply(int rows, int columns, int pairs, Left left, const Pair *panels, Right right) {
    for (int first = 0; first < columns; first += PANEL, panels += (int64_t)pairs * PANEL)
        for (int row = 0, some; row < rows; row += some) {
            const int rest = rows - row;
            some = rest >= 6 ? 6 : rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
            const Pair *starts[TILE];
            for (int i = 0; i < some; i++) starts[i] = row_of(left, row + i);
            const int end = first + PANEL < columns ? first + PANEL : columns;
            for (int column = first, vectors; column < end; column += vectors * VECTOR) {
                const int whole = (end - column + VECTOR - 1) / VECTOR;
                vectors = whole >= 4 ? 4 : whole >= 2 ? 2 : 1;
                const Pair *from = panels + column - first;
                if (left.along_rows) IN_ROWS(1);
                else IN_ROWS(64);
            }
        }
}
