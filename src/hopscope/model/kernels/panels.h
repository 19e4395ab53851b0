/* Products. *Panels* are a matrix made ready to be the right side of one: 64 columns, word after word, then the next. */

#pragma once

#define TILE 6 /* rows of a product that are summed side by side */
#define ACROSS (VECTOR == 16 ? 4 : 2) /* vectors of a row, likewise: as many as registers hold */

ALWAYS int64_t panels_of(int words, int columns) { return (int64_t)(columns + PANEL - 1) / PANEL * words * PANEL; }

/* The left side of a product: where its rows begin and how far it is from one word of a row to the next.

   along_rows: rows as they are, `stride` numbers apart
   else:       the columns of panels of that many words, so that a product sums over what were rows */
typedef struct { const void *from; int64_t stride; int along_rows; } Left;

ALWAYS const Word *row_of(Left left, int64_t row) {
    if (left.along_rows) return (const Word *)((const Number *)left.from + row * left.stride);
    return (const Word *)left.from + row / PANEL * left.stride * PANEL + row % PANEL;
}

/* What becomes of a product: numbers, with a bias and rows that are added; fp32 rows; or added to fp32 rows. */
enum { ROUND, KEEP, ADD };
typedef struct { int kind; void *to; int64_t stride; const float *bias; const Number *beside; } Right;

ALWAYS void finish(Right right, int row, int column, int columns, Vector sum) {
    const int there = columns - column;
    const int64_t at = row * right.stride + column;
    if (right.kind == ROUND) {
        if (right.bias) sum += load_first(there, right.bias + column);
        if (right.beside) sum += read_first(there, right.beside + at);
        write_first(there, (Number *)right.to + at, sum);
    } else {
        float *to = (float *)right.to + at;
        if (right.kind == ADD) sum += load_first(there, to);
        store_first(there, to, sum);
    }
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
                if (left.along_rows) IN_ROWS(1);
                else IN_ROWS(64);
            }
        }
}
