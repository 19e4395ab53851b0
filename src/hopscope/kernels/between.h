/* What lies between the products of a block, row by row: norms, GELU, sums over rows; and the ways back. */

#pragma once

#define EPSILON 1e-5f

/* Rows of so many vectors to mean 0 and deviation 1, each read once and held in registers. */
ALWAYS void normalise_held(int vectors, int rows, const Number *x, Number *out, float *scales) {
    const int width = vectors * VECTOR;
    for (int i = 0; i < rows; i++, x += width, out += width) {
        Vector held[8], sum = (Vector){}, squares = (Vector){};
        for (int v = 0; v < vectors; v++) sum += held[v] = read(x + v * VECTOR);
        const float mean = sum_of(sum) / width;
        for (int v = 0; v < vectors; v++) held[v] -= mean, squares += held[v] * held[v];
        scales[i] = 1.0f / sqrtf(sum_of(squares) / width + EPSILON);
        for (int v = 0; v < vectors; v++) write(out + v * VECTOR, held[v] * scales[i]);
    }
}

/* Rows to mean 0 and deviation 1, and what each was divided by, inverted. */
static void normalise(int rows, int width, const Number *x, Number *out, float *scales) {
    if (width == 8 * VECTOR) return normalise_held(8, rows, x, out, scales);
    if (width == 4 * VECTOR) return normalise_held(4, rows, x, out, scales);
    for (int i = 0; i < rows; i++, x += width, out += width) {
        Vector sum = (Vector){}, squares = (Vector){};
        for (int d = 0; d < width; d += VECTOR) sum += read(x + d);
        const float mean = sum_of(sum) / width;
        for (int d = 0; d < width; d += VECTOR) {
            const Vector centred = read(x + d) - mean;
            squares += centred * centred;
        }
        scales[i] = 1.0f / sqrtf(sum_of(squares) / width + EPSILON);
        for (int d = 0; d < width; d += VECTOR) write(out + d, (read(x + d) - mean) * scales[i]);
    }
}

/* The gradient of the rows from that of the normalised ones, and what else they get. */
static void unnormalise(
    int normed, int rows, int width, const float *gradient, const Number *normalised, const float *scales,
    const Number *beside, Number *out) {
    for (int i = 0; i < rows; i++) {
        const int64_t at = (int64_t)i * width;
        float mean = 0, along = 0, scale = 1;
        if (normed) {
            Vector sum = (Vector){}, products = (Vector){};
            for (int d = 0; d < width; d += VECTOR) {
                const Vector one = load_floats(gradient + at + d);
                sum += one;
                products += one * read(normalised + at + d);
            }
            mean = sum_of(sum) / width, along = sum_of(products) / width;
            scale = scales[i];
        }
        for (int d = 0; d < width; d += VECTOR) {
            Vector one = load_floats(gradient + at + d);
            if (normed) one = (one - mean - read(normalised + at + d) * along) * scale;
            if (beside) one += read(beside + at + d);
            write(out + at + d, one);
        }
    }
}

static void gelu(int64_t count, const Number *x, Number *out) {
    for (int64_t i = 0; i < count; i += VECTOR) {
        const Vector one = read(x + i);
        write(out + i, one * gelu_share(one, one * one));
    }
}

/* The same, and its derivative times a gradient in the place of the gradient. */
static void gelu_and_back(int64_t count, const Number *x, Number *out, Number *gradient) {
    for (int64_t i = 0; i < count; i += VECTOR) {
        const Vector one = read(x + i), square = one * one, share = gelu_share(one, square);
        write(out + i, one * share);
        const Vector slope = share + one * share * (1.0f - share) * (square * (3 * GELU_CUBIC) + GELU_LINEAR);
        write(gradient + i, read(gradient + i) * slope);
    }
}

/* Sums over rows that are in panels, added to what is there. */
static void add_words(int words, int columns, const Word *panels, float *sums) {
    for (int first = 0; first < columns; first += PANEL, panels += (int64_t)words * PANEL) {
        Vector sum[PANEL / VECTOR] = {};
        for (int p = 0; p < words; p++)
            for (int v = 0; v < PANEL / VECTOR; v++)
                sum[v] = summed(sum[v], repeated(ONES), words_at(panels + p * PANEL + v * VECTOR));
        for (int v = 0; v < PANEL / VECTOR; v++) {
            const int at = first + v * VECTOR, there = columns - at;
            if (there > 0) store_first(there, sums + at, load_first(there, sums + at) + sum[v]);
        }
    }
}
