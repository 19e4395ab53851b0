/* What lies between the products of a block, row by row: norms, GELU, sums over rows; and the ways back. */

#pragma once

#define EPSILON 1e-5f

/* Rows to mean 0 and deviation 1, and what each was divided by, inverted. */
static void normalise(int rows, int width, const Number *x, Number *out, float *scales) {
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

static void add_rows(int rows, int columns, const Number *from, float *sums) {
    for (int d = 0; d < columns; d += VECTOR) {
        const int there = columns - d;
        Vector sum = load_first(there, sums + d);
        for (int i = 0; i < rows; i++) sum += read_first(there, from + (int64_t)i * columns + d);
        store_first(there, sums + d, sum);
    }
}
