/* What blocks in fp32 are written in, on any processor. A word is a number. */

#pragma once

#include "lanes.h"

#define VECTOR LANES
#define TOGETHER 1 /* numbers in a word */
#define PANEL 64 /* columns that are made ready together, word after word */
#define ONES 1.0f /* a word of them */

typedef float Number;
typedef float Word;
typedef Lanes Vector;
typedef Lanes Packed;

ALWAYS int words_of(int count) { return count; }

/* Numbers, a whole vector or as many as there are; what is not there is 0, and is left as it is. */
ALWAYS Vector load_floats(const float *from) {
    Vector x;
    memcpy(&x, from, sizeof x);
    return x;
}
ALWAYS void store_floats(float *to, Vector x) { memcpy(to, &x, sizeof x); }
ALWAYS Vector load_first(int there, const float *from) {
    if (there >= VECTOR) return load_floats(from);
    Vector x = {};
    if (there >= EIGHT) memcpy(&x, from, sizeof(Eight)); /* of a size that is known, as most tails are */
    for (int i = there >= EIGHT ? EIGHT : 0; i < there; i++) x[i] = from[i];
    return x;
}
ALWAYS void store_first(int there, float *to, Vector x) {
    if (there >= VECTOR) store_floats(to, x);
    else if (there >= EIGHT) memcpy(to, &x, sizeof(Eight));
    for (int i = there >= EIGHT ? EIGHT : 0; i < there && there < VECTOR; i++) to[i] = x[i];
}
ALWAYS Vector read(const Number *from) { return load_floats(from); }
ALWAYS void write(Number *to, Vector x) { store_floats(to, x); }
ALWAYS Vector read_first(int there, const Number *from) { return load_first(there, from); }
ALWAYS void write_first(int there, Number *to, Vector x) { store_first(there, to, x); }

ALWAYS Vector first_or(int there, Vector x, Vector other) { return chosen(lanes_from(0) < there, x, other); }
ALWAYS Vector larger(Vector x, Vector y) { return chosen(x > y, x, y); } /* y where one is no number, as elsewhere */
ALWAYS float largest_of(Vector x) {
    float most = x[0];
    for (int i = 1; i < VECTOR; i++) most = x[i] > most ? x[i] : most;
    return most;
}
ALWAYS float sum_of(Vector x) {
    float sum = 0;
    for (int i = 0; i < VECTOR; i++) sum += x[i];
    return sum;
}

/* exp(x) of what is at most 0; and what GELU multiplies x by. */
ALWAYS Vector exponential_of(Vector x) { return exponential(x); }
ALWAYS Vector gelu_share(Vector x, Vector square) { return logistic(x * (square * GELU_CUBIC + GELU_LINEAR)); }

/* Words of a panel, one word in every place, and a sum of products with what their products add. */
ALWAYS Packed words_at(const Word *from) { return load_floats(from); }
ALWAYS Packed repeated(Word one) { return (Packed){} + one; }
ALWAYS Vector summed(Vector sum, Packed one, Packed other) { return sum + one * other; }

/* Into panels, for sums over rows. They may be some rows of panels that have more. */
static void panel_rows(int rows, int columns, const Number *from, int64_t stride, int words, Word *panels) {
    for (int at = 0; at < columns; at += PANEL, panels += (int64_t)words * PANEL)
        for (int p = 0; p < rows; p++)
            for (int c = 0; c < PANEL; c += VECTOR)
                store_floats(panels + (int64_t)p * PANEL + c, load_first(columns - at - c, from + p * stride + at + c));
}

/* For sums along rows: each row becomes a column. */
static void panel_columns(int rows, int columns, const Number *from, int64_t stride, Word *panels) {
    for (int at = 0; at < rows; at += PANEL, panels += (int64_t)columns * PANEL)
        for (int r = 0; r < PANEL && at + r < rows; r += EIGHT)
            for (int p = 0; p < columns; p += EIGHT) {
                Eight block[EIGHT] = {};
                const int there = columns - p < EIGHT ? columns - p : EIGHT;
                for (int i = 0; i < EIGHT && at + r + i < rows; i++) {
                    const Number *row = from + (at + r + i) * stride + p;
                    if (there == EIGHT) memcpy(block + i, row, sizeof(Eight));
                    else for (int k = 0; k < there; k++) block[i][k] = row[k];
                }
                transpose(block);
                for (int i = 0; i < there; i++)
                    memcpy(panels + (int64_t)(p + i) * PANEL + r, block + i, sizeof(Eight));
            }
}
