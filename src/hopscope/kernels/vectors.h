/* Products by vectors: one word of a row on the left times vectors of words on the right, several rows side by side. */

#pragma once

#include "panels.h"

#define TILE 6 /* rows of a product that are summed side by side */
#define ACROSS (VECTOR == 16 ? 4 : 2) /* vectors of a row, likewise: as many as registers hold */

#define PRODUCTS_ARE_KEPT 1 /* for the way back: to make them again takes longer than memory */

/* What products need to be begun and ended with: nothing. */
typedef struct { char none; } Before;
ALWAYS Before begin_products(void) { return (Before){0}; }
ALWAYS void end_products(Before before) { (void)before; }

/* As many as there are: with more, products would only take longer. */
ALWAYS int filled(int count) { return count; }

/* Rows made ready to be the left side of sums over rows: panels. */
ALWAYS int64_t left_of(int words, int columns) { return panels_of(words, columns); }
static void lay_left(int rows, int columns, const Number *from, int64_t stride, Word *to) {
    panel_rows(rows, columns, from, stride, words_of(rows), to);
}

ALWAYS const Word *row_of(Left left, int64_t row) {
    if (left.kind != LAID) return (const Word *)((const Number *)left.from + row * left.stride);
    return (const Word *)left.from + row / PANEL * left.stride * PANEL + row % PANEL;
}

/* Ask for where it will go, so that it is there by then. */
ALWAYS void fetch(Right right, int row, int column, int vectors) {
    const int64_t number = right.kind == ROUND ? sizeof(Number) : sizeof(float);
    const char *at = (const char *)right.to + (row * right.stride + column) * number;
    for (int64_t ahead = 0; ahead < vectors * VECTOR * number; ahead += 64) __builtin_prefetch(at + ahead, 1);
}

ALWAYS void tile(
    int rows, int vectors, int step, int words, const Word *const *left, const Word *panel, Right right, int row,
    int column, int columns) {
    Vector sums[TILE][4];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < vectors; v++) sums[i][v] = (Vector){};
        fetch(right, row + i, column, vectors);
    }
    for (int p = 0; p < words; p++) {
        Packed there[4];
        for (int v = 0; v < vectors; v++) there[v] = words_at(panel + p * PANEL + v * VECTOR);
        for (int i = 0; i < rows; i++) {
            const Packed one = repeated(left[i][p * step]);
            for (int v = 0; v < vectors; v++) sums[i][v] = summed(sums[i][v], one, there[v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) finish(right, row + i, column + v * VECTOR, columns, sums[i][v]);
}

#define TILE_OF(R, V, S)                                                                            \
    static __attribute__((noinline)) void tile_##R##_##V##_##S(                                     \
        int words, const Word *const *left, const Word *panel, Right right, int row, int column, int columns) { \
        tile(R, V, S, words, left, panel, right, row, column, columns);                             \
    }
#define TILES_OF(R, S) TILE_OF(R, 4, S) TILE_OF(R, 2, S) TILE_OF(R, 1, S)
TILES_OF(6, 1) TILES_OF(4, 1) TILES_OF(2, 1) TILES_OF(1, 1)
TILES_OF(6, 64) TILES_OF(4, 64) TILES_OF(2, 64) TILES_OF(1, 64)

#define IN_VECTORS(R, S)                                                                            \
    (vectors == 4 ? tile_##R##_4_##S : vectors == 2 ? tile_##R##_2_##S : tile_##R##_1_##S)          \
        (words, starts, from, right, row, column, columns)
#define IN_ROWS(S)                                                                                  \
    (some == 6 ? IN_VECTORS(6, S) : some == 4 ? IN_VECTORS(4, S) : some == 2 ? IN_VECTORS(2, S) : IN_VECTORS(1, S))

/* left times panels: so many rows and columns, sums of so many words. */
static void multiply(int rows, int columns, int words, Left left, const Word *panels, Right right) {
    for (int first = 0; first < columns; first += PANEL, panels += (int64_t)words * PANEL)
        for (int row = 0, some; row < rows; row += some) {
            const int rest = rows - row;
            some = rest >= 6 ? 6 : rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
            const Word *starts[TILE];
            for (int i = 0; i < some; i++) starts[i] = row_of(left, row + i);
            const int end = first + PANEL < columns ? first + PANEL : columns;
            for (int column = first, vectors; column < end; column += vectors * VECTOR) {
                const int whole = (end - column + VECTOR - 1) / VECTOR;
                vectors = whole >= ACROSS ? ACROSS : whole >= 2 ? 2 : 1;
                const Word *from = panels + column - first;
                if (left.kind == LAID) IN_ROWS(64);
                else IN_ROWS(1);
            }
        }
}
