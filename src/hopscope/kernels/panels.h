/* Products. *Panels* are a matrix made ready to be the right side of one: 64 columns, word after word, then the next. */

#pragma once

ALWAYS int64_t panels_of(int words, int columns) { return (int64_t)(columns + PANEL - 1) / PANEL * words * PANEL; }

/* The left side of a product.

   LAID:     columns, as `lay_left` lays them, each of `stride` words, so that a product sums over what were rows
   ROWS:     rows as they are, `stride` numbers apart
   AND_MORE: the same, and past the last one there is what may be read, whatever it is */
enum { LAID, ROWS, AND_MORE };
typedef struct { const void *from; int64_t stride; int kind; } Left;

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
