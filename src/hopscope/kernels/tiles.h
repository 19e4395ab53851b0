/* Products by tiles (AMX): sixteen rows of sixteen words times as many words of as many columns, in one instruction.
   Panels are laid as it reads them, and rows too; what is not whole is copied and filled up with zeros. */

#pragma once

#include "panels.h"

#define SIDE 16 /* of a tile: rows, and words or sums of a row */
#define ROW_BYTES 64
#define PALETTE 1 /* eight tiles of up to so many rows and bytes */
#define WRITTEN __asm__ volatile("" ::: "memory") /* by now: the compiler does not know that a tile reads it */

#define PRODUCTS_ARE_KEPT 0 /* they are made again on the way back: memory takes longer */

typedef Word Square[SIDE * SIDE] ALIGNED;

/* How a thread's tiles are laid out. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} Before ALIGNED;

/* The compilers' own functions for these say of the first eight bytes alone that they are read, or written. */
ALWAYS void lay_out_as(const Before *layout) { __asm__ volatile("ldtilecfg %0" : : "m"(*layout)); }
ALWAYS void read_layout(Before *layout) { __asm__ volatile("sttilecfg %0" : "=m"(*layout)); }

/* Lay out this thread's tiles; gives how they were, which others may count on. */
static Before begin_products(void) {
    Before before, mine = {.palette = PALETTE};
    for (int i = 0; i < 8; i++) mine.bytes[i] = ROW_BYTES, mine.rows[i] = SIDE;
    read_layout(&before);
    lay_out_as(&mine);
    return before;
}

static void end_products(Before before) {
    if (before.palette) lay_out_as(&before);
    else _tile_release();
}

/* As many as fill whole tiles, with which products are quicker. */
ALWAYS int filled(int count) { return (count + SIDE - 1) / SIDE * SIDE; }

ALWAYS int squares_of(int words) { return (words + SIDE - 1) / SIDE; }

/* Rows made ready to be the left side of sums over rows: of sixteen columns sixteen words each, one such tile after the
   other, then of the next columns. */
ALWAYS int64_t left_of(int words, int columns) {
    return (int64_t)squares_of(words) * squares_of(columns) * SIDE * SIDE;
}
static void lay_left(int rows, int columns, const Number *from, int64_t stride, Word *to) {
    for (int c = 0; c < columns; c += SIDE)
        for (int r = 0; r < rows; r += TOGETHER * SIDE, to += SIDE * SIDE) {
            __m512i block[SIDE];
            for (int i = 0; i < SIDE; i++) block[i] = row_pair(rows, r + 2 * i, columns - c, from + c, stride);
            turn_words(block);
            for (int i = 0; i < SIDE; i++) _mm512_store_si512(to + i * SIDE, block[i]);
        }
}

/* Where a tile's rows begin, and the bytes from one to the next. */
typedef struct { void *at; int64_t bytes; } Tile;

/* Sixteen rows of a left side from `row` on, sixteen words of each from `word` on. */
ALWAYS Tile left_tile(int rows, int words, Left left, int row, int word, Word *filled) {
    if (left.kind == LAID) {
        const int64_t before = (int64_t)(row / SIDE) * squares_of(words) + word / SIDE;
        return (Tile){(Word *)left.from + before * SIDE * SIDE, ROW_BYTES};
    }
    const Number *from = (const Number *)left.from + row * left.stride + (int64_t)word * TOGETHER;
    if ((left.kind == AND_MORE || row + SIDE <= rows) && word + SIDE <= words)
        return (Tile){(Number *)from, left.stride * sizeof(Number)};
    for (int i = 0; i < SIDE; i++) {
        const __mmask16 there = row + i < rows ? first_lanes(words - word) : 0;
        _mm512_store_si512(filled + i * SIDE, _mm512_maskz_loadu_epi32(there, from + i * left.stride));
    }
    WRITTEN;
    return (Tile){filled, ROW_BYTES};
}

/* Sixteen words from `word` on of sixteen columns of a panel. */
ALWAYS Tile right_tile(int words, const Word *panel, int word, Word *filled) {
    panel += (int64_t)word * PANEL;
    if (word + SIDE <= words) return (Tile){(Word *)panel, PANEL * sizeof(Word)};
    for (int i = 0; i < SIDE; i++)
        _mm512_store_si512(filled + i * SIDE, word + i < words ? _mm512_load_si512(panel + i * PANEL)
                                                               : _mm512_setzero_si512());
    WRITTEN;
    return (Tile){filled, ROW_BYTES};
}

#define READ_TILE(number, tile)                                                                     \
    {                                                                                               \
        const Tile there = tile;                                                                    \
        _tile_loadd(number, there.at, there.bytes);                                                 \
    }

/* Whether sixteen rows and columns of sums are where they belong as they are, so that tiles go there by themselves. */
ALWAYS int goes_whole(Right right, int row, int rows, int column, int columns) {
    return right.kind != ROUND && row + SIDE <= rows && column + SIDE <= columns;
}
ALWAYS Tile place(Right right, int row, int column) {
    return (Tile){(float *)right.to + row * right.stride + column, right.stride * sizeof(float)};
}
#define FROM_SUMS(number, row, column)                                                              \
    {                                                                                               \
        if (right.kind == ADD && goes_whole(right, row, rows, column, columns))                     \
            READ_TILE(number, place(right, row, column))                                            \
        else _tile_zero(number);                                                                    \
    }
#define TO_SUMS(number, row, column)                                                                \
    {                                                                                               \
        const int whole = goes_whole(right, row, rows, column, columns);                            \
        const Tile there = whole ? place(right, row, column) : (Tile){sums[number], ROW_BYTES};     \
        _tile_stored(number, there.at, there.bytes);                                                \
    }

/* A tile of sums that did not go by itself. */
ALWAYS void finish_tile(Right right, int row, int rows, int column, int columns, const float *sums) {
    if (goes_whole(right, row, rows, column, columns)) return;
    for (int i = 0; i < SIDE && row + i < rows; i++)
        finish(right, row + i, column, columns, load_floats(sums + i * SIDE));
}

/* Two tiles side by side, all of whose columns are there, rounded: a line of memory a row. */
ALWAYS void finish_lines(Right right, int row, int rows, int column, const float *sums, const float *more) {
    const Vector none = {};
    const Vector bias = right.bias ? load_floats(right.bias + column) : none;
    const Vector other = right.bias ? load_floats(right.bias + column + SIDE) : none;
    for (int i = 0; i < SIDE && row + i < rows; i++, sums += SIDE, more += SIDE) {
        const int64_t at = (row + i) * right.stride + column;
        Vector first = load_floats(sums) + bias, second = load_floats(more) + other;
        if (right.beside) first += read(right.beside + at), second += read(right.beside + at + SIDE);
        _mm512_storeu_si512((Number *)right.to + at, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    }
}

/* Sums of up to twice sixteen rows and columns, which are put where they belong while the next ones are made: products
   and what comes after them do not wait for one another. */
typedef struct { int tall, wide, row, column; float sums[4][SIDE * SIDE] ALIGNED; } Made;

ALWAYS void finish_made(int rows, int columns, Right right, const Made *made) {
    for (int low = 0; low <= made->tall; low++) {
        const int from = made->row + low * SIDE;
        if (made->wide && right.kind == ROUND && made->column + 2 * SIDE <= columns)
            finish_lines(right, from, rows, made->column, made->sums[2 * low], made->sums[2 * low + 1]);
        else
            for (int aside = 0; aside <= made->wide; aside++)
                finish_tile(right, from, rows, made->column + aside * SIDE, columns, made->sums[2 * low + aside]);
    }
}

/* Up to twice sixteen rows and columns of a product; and the sums made before are finished. */
ALWAYS void some_tiles(
    int tall, int wide, int rows, int columns, int words, Left left, const Word *panel, Right right, int row,
    int column, const Made *before, Made *made) {
    Square one, two, three, four;
    float (*sums)[SIDE * SIDE] = made->sums;
    WRITTEN;
    FROM_SUMS(0, row, column)
    if (wide) FROM_SUMS(1, row, column + SIDE)
    if (tall) FROM_SUMS(2, row + SIDE, column)
    if (tall && wide) FROM_SUMS(3, row + SIDE, column + SIDE)
    for (int word = 0; word < words; word += SIDE) {
        READ_TILE(4, left_tile(rows, words, left, row, word, one))
        READ_TILE(6, right_tile(words, panel, word, three))
        _tile_dpbf16ps(0, 4, 6);
        if (wide) READ_TILE(7, right_tile(words, panel + SIDE, word, four))
        if (wide) _tile_dpbf16ps(1, 4, 7);
        if (tall) READ_TILE(5, left_tile(rows, words, left, row + SIDE, word, two))
        if (tall) _tile_dpbf16ps(2, 5, 6);
        if (tall && wide) _tile_dpbf16ps(3, 5, 7);
    }
    if (before) finish_made(rows, columns, right, before);
    TO_SUMS(0, row, column)
    if (wide) TO_SUMS(1, row, column + SIDE)
    if (tall) TO_SUMS(2, row + SIDE, column)
    if (tall && wide) TO_SUMS(3, row + SIDE, column + SIDE)
    made->tall = tall, made->wide = wide, made->row = row, made->column = column;
}

/* left times panels: so many rows and columns, sums of so many words. */
static void multiply(int rows, int columns, int words, Left left, const Word *panels, Right right) {
    Made turns[2], *before = 0, *made = turns;
    for (int row = 0; row < rows; row += 2 * SIDE)
        for (int column = 0; column < columns; column += 2 * SIDE) {
            const Word *panel = panels + (int64_t)(column / PANEL) * words * PANEL + column % PANEL;
            const int tall = row + SIDE < rows, wide = column + SIDE < columns;
            if (tall && wide) some_tiles(1, 1, rows, columns, words, left, panel, right, row, column, before, made);
            else if (tall) some_tiles(1, 0, rows, columns, words, left, panel, right, row, column, before, made);
            else if (wide) some_tiles(0, 1, rows, columns, words, left, panel, right, row, column, before, made);
            else some_tiles(0, 0, rows, columns, words, left, panel, right, row, column, before, made);
            before = made, made = made == turns ? turns + 1 : turns;
        }
    if (before) finish_made(rows, columns, right, before);
}
