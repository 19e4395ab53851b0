/* Narrow heads in bf16, sixteen of them side by side, of one sequence or of several: nothing needs anything from another
   lane. How they come from memory and go back. A word is two neighbours of a head's numbers. */

#pragma once

#include "attention.h"
#include "bf16.h"

typedef __m512i Pairs; /* a word of each head */
typedef Pairs Rows[MOST * NARROW / 2]; /* [position][two numbers] */

/* Two vectors, rounded, side by side in every word. */
ALWAYS Pairs paired(Vector first, Vector second) {
    const Pairs halves = (Pairs)_mm512_cvtne2ps_pbh(second, first);
    const Pairs by_turns = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
        16, 0);
    return _mm512_permutexvar_epi16(by_turns, halves);
}

/* Four words of sixteen heads, four heads a vector, into a vector a word; and back. Lanes end in another order than
   heads, in the same one everywhere. */
ALWAYS void turn_fours(Pairs v[4]) {
    Pairs w[4];
    for (int i = 0; i < 4; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int k = 0; k < 2; k++) {
        v[2 * k] = _mm512_unpacklo_epi64(w[k], w[2 + k]);
        v[2 * k + 1] = _mm512_unpackhi_epi64(w[k], w[2 + k]);
    }
}

/* Up to four words of four heads. */
ALWAYS Pairs read_fours(int there, const Number *from, const int64_t *at) {
    const __mmask8 words = there >= 4 ? 15 : (1 << there) - 1;
    const Pairs one = _mm512_castsi128_si512(_mm_maskz_loadu_epi32(words, from + at[0]));
    const Pairs two = _mm512_inserti32x4(one, _mm_maskz_loadu_epi32(words, from + at[1]), 1);
    const Pairs three = _mm512_inserti32x4(two, _mm_maskz_loadu_epi32(words, from + at[2]), 2);
    return _mm512_inserti32x4(three, _mm_maskz_loadu_epi32(words, from + at[3]), 3);
}

/* The mask is of numbers: of one of words and the extraction gcc makes one instruction, which faults where it may not
   write even if it would not. */
ALWAYS void write_fours(int there, Number *to, const int64_t *at, Pairs fours) {
    const __mmask8 numbers = there >= 4 ? 255 : (1 << 2 * there) - 1;
    _mm_mask_storeu_epi16(to + at[0], numbers, _mm512_castsi512_si128(fours));
    _mm_mask_storeu_epi16(to + at[1], numbers, _mm512_extracti32x4_epi32(fours, 1));
    _mm_mask_storeu_epi16(to + at[2], numbers, _mm512_extracti32x4_epi32(fours, 2));
    _mm_mask_storeu_epi16(to + at[3], numbers, _mm512_extracti32x4_epi32(fours, 3));
}

/* Rows of so many positions, `stride` apart and `more` from where each head begins. */
ALWAYS void gather_rows(
    int count, int width, int stride, const Number *from, const int64_t *at, int64_t more, Pairs *rows) {
    const int words = width / 2;
    for (int i = 0; i < count; i++, more += stride, rows += words)
        for (int first = 0; first < words; first += 4) {
            Pairs v[4];
            for (int k = 0; k < 4; k++) v[k] = read_fours(words - first, from + more + 2 * first, at + 4 * k);
            turn_fours(v);
            for (int k = 0; k < 4 && first + k < words; k++) rows[first + k] = v[k];
        }
}

ALWAYS void scatter_rows(
    int count, int width, int stride, const Pairs *rows, Number *to, const int64_t *at, int64_t more) {
    const int words = width / 2;
    for (int i = 0; i < count; i++, more += stride, rows += words)
        for (int first = 0; first < words; first += 4) {
            Pairs v[4] = {};
            for (int k = 0; k < 4 && first + k < words; k++) v[k] = rows[first + k];
            turn_fours(v);
            for (int k = 0; k < 4; k++) write_fours(words - first, to + more + 2 * first, at + 4 * k, v[k]);
        }
}
