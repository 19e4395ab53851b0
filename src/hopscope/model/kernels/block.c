/* A block of a transformer in bf16, forward and backward, a few sequences at a time: what lies between its products
   stays in a core's own cache. For processors that multiply pairs of bf16 into fp32 (AVX512-BF16); `fused_block.py`
   compiles it, tests pin it to the plain form.

   Rows are bf16 and stand one position after the other, sequence after sequence. What a product sums over goes two by
   two: a *pair* is two neighbours of a row, or of a column, in one word. *Panels* are a matrix made ready to be the
   right side of a product: 64 columns, pair after pair, then the next 64. All sums are fp32, as are weights and their
   gradients outside; a LayerNorm's gain and offset are folded into the map that follows. */

#include "attention.c"

#ifdef __AVX512BF16__
#include <immintrin.h>

#define PANEL 64 /* columns */
#define VECTOR 16
#define TILE 6 /* rows of a product that are summed side by side */
#define MATRICES 5
#define EPSILON 1e-5f
#define NARROW 16 /* numbers a head up to which sixteen heads side by side are quicker than products */

typedef uint16_t bf16;
typedef uint32_t Pair;

/* query; key and value; out; up; down */
enum { QUERY, KEY_VALUE, OUT, UP, DOWN };

/* What a block is. Of `count` positions the last `asking` ask, and only these go on. No MLP: hidden is 0. */
typedef struct { int32_t count, asking, heads, head_width, width, hidden, causal, normed; } Block;

ALWAYS int pairs_of(int count) { return (count + 1) / 2; }
ALWAYS int64_t panels_of(int pairs, int columns) { return (int64_t)(columns + PANEL - 1) / PANEL * pairs * PANEL; }
ALWAYS __mmask16 first_lanes(int count) { return count >= VECTOR ? 0xffff : count > 0 ? (1u << count) - 1 : 0; }
ALWAYS __m512 widened(__m256i x) { return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }
ALWAYS __m256i narrowed(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
ALWAYS __m512 read(const bf16 *from) { return widened(_mm256_loadu_si256((const __m256i *)from)); }
ALWAYS void write(bf16 *to, __m512 x) { _mm256_storeu_si256((__m256i *)to, narrowed(x)); }

/* 2^x to 1e-5 of itself, between 2^-126 and 2^126; of two numbers, one of which is none, min and max give the second. */
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

/* Between the products ------------------------------------------------------------------------------------------- */

/* Rows to mean 0 and deviation 1, and what each was divided by, inverted. */
static void normalise(int rows, int width, const bf16 *x, bf16 *out, float *scales) {
    for (int i = 0; i < rows; i++, x += width, out += width) {
        __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
        for (int d = 0; d < width; d += VECTOR) sum += read(x + d);
        const float mean = _mm512_reduce_add_ps(sum) / width;
        for (int d = 0; d < width; d += VECTOR) {
            const __m512 centred = read(x + d) - mean;
            squares += centred * centred;
        }
        scales[i] = 1.0f / sqrtf(_mm512_reduce_add_ps(squares) / width + EPSILON);
        for (int d = 0; d < width; d += VECTOR) write(out + d, (read(x + d) - mean) * scales[i]);
    }
}

/* The gradient of the rows from that of the normalised ones, and what else they get. */
static void unnormalise(
    int normed, int rows, int width, const float *gradient, const bf16 *normalised, const float *scales,
    const bf16 *beside, bf16 *out) {
    for (int i = 0; i < rows; i++) {
        const int64_t at = (int64_t)i * width;
        float mean = 0, along = 0, scale = 1;
        if (normed) {
            __m512 sum = _mm512_setzero_ps(), products = _mm512_setzero_ps();
            for (int d = 0; d < width; d += VECTOR) {
                const __m512 one = _mm512_loadu_ps(gradient + at + d);
                sum += one;
                products += one * read(normalised + at + d);
            }
            mean = _mm512_reduce_add_ps(sum) / width, along = _mm512_reduce_add_ps(products) / width;
            scale = scales[i];
        }
        for (int d = 0; d < width; d += VECTOR) {
            __m512 one = _mm512_loadu_ps(gradient + at + d);
            if (normed) one = (one - mean - read(normalised + at + d) * along) * scale;
            if (beside) one += read(beside + at + d);
            write(out + at + d, one);
        }
    }
}

/* x times the logistic function of 2 sqrt(2 / pi) (x + 0.044715 x^3): GELU in its tanh form. */
#define GELU_LINEAR 1.5957691216f
#define GELU_CUBIC 0.0713548162726f
#define LOG_2_E 1.44269504089f

ALWAYS __m512 gelu_share(__m512 x, __m512 square) {
    return _mm512_rcp14_ps(power_of_two(x * (square * (-LOG_2_E * GELU_CUBIC) - LOG_2_E * GELU_LINEAR)) + 1.0f);
}

static void gelu(int64_t count, const bf16 *x, bf16 *out) {
    for (int64_t i = 0; i < count; i += VECTOR) {
        const __m512 one = read(x + i);
        write(out + i, one * gelu_share(one, one * one));
    }
}

/* The same, and its derivative times a gradient in the place of the gradient. */
static void gelu_and_back(int64_t count, const bf16 *x, bf16 *out, bf16 *gradient) {
    for (int64_t i = 0; i < count; i += VECTOR) {
        const __m512 one = read(x + i), square = one * one, share = gelu_share(one, square);
        write(out + i, one * share);
        const __m512 slope = share + one * share * (1.0f - share) * (square * (3 * GELU_CUBIC) + GELU_LINEAR);
        write(gradient + i, read(gradient + i) * slope);
    }
}

static void add_rows(int rows, int columns, const bf16 *from, float *sums) {
    for (int d = 0; d < columns; d += VECTOR) {
        const __mmask16 there = first_lanes(columns - d);
        __m512 sum = _mm512_maskz_loadu_ps(there, sums + d);
        for (int i = 0; i < rows; i++) sum += widened(_mm256_maskz_loadu_epi16(there, from + (int64_t)i * columns + d));
        _mm512_mask_storeu_ps(sums + d, there, sum);
    }
}

/* Attention with wide heads -------------------------------------------------------------------------------------- */

#define PADDED 128 /* keys of a query, up to whole panels */

/* What one head of one sequence works with: patterns and what belongs to them, and panels. */
typedef struct {
    float scores[MOST * PADDED], changes[MOST * PADDED];
    bf16 pattern[MOST * PADDED], change[MOST * PADDED];
    Pair keys[PADDED * WIDEST / 2], values[PADDED * WIDEST / 2]; /* for sums along heads' numbers */
    Pair by_position[MOST / 2 * WIDEST], by_query[MOST / 2 * WIDEST], patterns[MOST / 2 * PADDED];
} Wide ALIGNED;

/* softmax of scores, zeros after what a query sees; rounded too, filled up to whole vectors. */
ALWAYS void soften_rows(Shape shape, float *scores, bf16 *pattern) {
    for (int i = 0; i < shape.asking; i++, scores += PADDED, pattern += PADDED) {
        const int keys = seen(shape, i);
        __m512 most = _mm512_set1_ps(-1e30f), sum = _mm512_setzero_ps();
        for (int j = 0; j < keys; j += VECTOR)
            most = _mm512_mask_max_ps(most, first_lanes(keys - j), most, _mm512_loadu_ps(scores + j));
        const float largest = _mm512_reduce_max_ps(most);
        for (int j = 0; j < shape.count; j += VECTOR) {
            const __m512 weight = power_of_two((_mm512_loadu_ps(scores + j) - largest) * LOG_2_E);
            const __m512 here = _mm512_maskz_mov_ps(first_lanes(keys - j), weight);
            _mm512_storeu_ps(scores + j, here);
            sum += here;
        }
        const float scale = 1.0f / _mm512_reduce_add_ps(sum);
        for (int j = 0; j < shape.count; j += VECTOR) {
            const __m512 weight = _mm512_loadu_ps(scores + j) * scale;
            _mm512_storeu_ps(scores + j, weight);
            write(pattern + j, weight);
        }
    }
}

ALWAYS void look(Shape shape, int width, const bf16 *query, const bf16 *made, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    pair_columns(shape.count, width, made, 2 * inner, wide->keys);
    multiply(shape.asking, shape.count, width / 2, (Left){query, inner, 1}, wide->keys,
             (Right){KEEP, wide->scores, PADDED, 0, 0});
    soften_rows(shape, wide->scores, wide->pattern);
}

static void wide_forward(Shape shape, int width, const bf16 *query, const bf16 *made, bf16 *brought, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    look(shape, width, query, made, wide);
    pair_rows(shape.count, width, made + inner, 2 * inner, pairs_of(shape.count), wide->by_position);
    multiply(shape.asking, width, pairs_of(shape.count), (Left){wide->pattern, PADDED, 1}, wide->by_position,
             (Right){ROUND, brought, inner, 0, 0});
}

static void wide_backward(
    Shape shape, int width, const bf16 *query, const bf16 *made, const bf16 *gradient, bf16 *query_gradient,
    bf16 *made_gradient, Wide *wide) {
    const int64_t inner = (int64_t)shape.heads * width;
    const int keys = pairs_of(shape.count), queries = pairs_of(shape.asking);
    look(shape, width, query, made, wide);
    pair_columns(shape.count, width, made + inner, 2 * inner, wide->values);
    multiply(shape.asking, shape.count, width / 2, (Left){gradient, inner, 1}, wide->values,
             (Right){KEEP, wide->changes, PADDED, 0, 0});
    for (int i = 0; i < shape.asking; i++) {
        const float *weight = wide->scores + i * PADDED, *change = wide->changes + i * PADDED;
        __m512 sum = _mm512_setzero_ps();
        for (int j = 0; j < shape.count; j += VECTOR) /* past the last key weights are zero, and what else is there not read */
            sum += _mm512_maskz_mul_ps(first_lanes(shape.count - j), _mm512_loadu_ps(weight + j), _mm512_loadu_ps(change + j));
        const float mean = _mm512_reduce_add_ps(sum);
        for (int j = 0; j < shape.count; j += VECTOR)
            write(wide->change + i * PADDED + j,
                  _mm512_maskz_mul_ps(first_lanes(shape.count - j), _mm512_loadu_ps(weight + j),
                                      _mm512_loadu_ps(change + j) - mean));
    }
    pair_rows(shape.count, width, made, 2 * inner, keys, wide->by_position);
    multiply(shape.asking, width, keys, (Left){wide->change, PADDED, 1}, wide->by_position,
             (Right){ROUND, query_gradient, inner, 0, 0});
    pair_rows(shape.asking, shape.count, wide->change, PADDED, queries, wide->patterns);
    pair_rows(shape.asking, width, query, inner, queries, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, 0}, wide->by_query,
             (Right){ROUND, made_gradient, 2 * inner, 0, 0});
    pair_rows(shape.asking, shape.count, wide->pattern, PADDED, queries, wide->patterns);
    pair_rows(shape.asking, width, gradient, inner, queries, wide->by_query);
    multiply(shape.count, width, queries, (Left){wide->patterns, queries, 0}, wide->by_query,
             (Right){ROUND, made_gradient + inner, 2 * inner, 0, 0});
}

/* A block -------------------------------------------------------------------------------------------------------- */

/* What a map reads and writes. */
typedef struct { int in, out; } Map;

ALWAYS int inner_of(Block block) { return block.heads * block.head_width; }

ALWAYS Map map_of(Block block, int which) {
    const int inner = inner_of(block);
    return which == QUERY ? (Map){block.width, inner} : which == KEY_VALUE ? (Map){block.width, 2 * inner}
        : which == OUT ? (Map){inner, block.width} : which == UP ? (Map){block.width, block.hidden}
        : (Map){block.hidden, block.width};
}

/* A map made ready: its panels, those of the inverse way, and its bias. */
typedef struct { Pair *forward, *backward; float *bias; } Ready;

ALWAYS int64_t ready_words(Map map) {
    const int64_t there = panels_of(pairs_of(map.in), map.out), back = panels_of(pairs_of(map.out), map.in);
    return there + back + (map.out + PANEL - 1) / PANEL * PANEL;
}

ALWAYS Ready ready_in(Block block, int which, Pair *words) {
    for (int i = 0; i < which; i++) words += ready_words(map_of(block, i));
    const Map map = map_of(block, which);
    Pair *backward = words + panels_of(pairs_of(map.in), map.out);
    return (Ready){words, backward, (float *)(backward + panels_of(pairs_of(map.out), map.in))};
}

/* Where the gradients of a map and its bias are summed, in fp32. */
ALWAYS float *sums_in(Block block, int which, float *sums) {
    for (int i = 0; i < which; i++) sums += (int64_t)(map_of(block, i).in + 1) * map_of(block, i).out;
    return sums;
}

int64_t block_ready_words(const Block *block) {
    int64_t words = 0;
    for (int i = 0; i < MATRICES; i++) words += ready_words(map_of(*block, i));
    return words;
}

int64_t block_sums(const Block *block) { return sums_in(*block, MATRICES, 0) - (float *)0; }

/* Where the parts of a map come from: keys and values are two maps outside. `norm` is the number of its gain, or -1. */
typedef struct { Map map; int first, parts, columns, norm; float factor; } Source;

ALWAYS Source source_of(Block block, int which, float scale) {
    const Map map = map_of(block, which);
    const int parts = which == KEY_VALUE ? 2 : 1, norm = which <= KEY_VALUE ? 0 : which == UP ? 2 : -1;
    return (Source){
        map, which + (which > KEY_VALUE), parts, map.out / parts, block.normed ? norm : -1, which == QUERY ? scale : 1};
}

/* Some rows of a map, up to a panel of them, folded, rounded and put where they belong. */
static void ready_rows(
    Source source, int row, const float *const *weights, const float *const *norms, Ready ready, bf16 *narrow) {
    const int rows = source.map.in - row < PANEL ? source.map.in - row : PANEL, out = source.map.out;
    for (int i = 0; i < rows; i++)
        for (int part = 0; part < source.parts; part++) {
            const float *weight = weights[source.first + part] + (int64_t)(row + i) * source.columns;
            const float factor = source.factor * (source.norm < 0 ? 1.0f : norms[source.norm][row + i]);
            bf16 *to = narrow + (int64_t)i * out + part * source.columns;
            for (int c = 0; c < source.columns; c += VECTOR) {
                const __mmask16 there = first_lanes(source.columns - c);
                _mm256_mask_storeu_epi16(to + c, there, narrowed(_mm512_maskz_loadu_ps(there, weight + c) * factor));
            }
        }
    pair_rows(rows, out, narrow, out, pairs_of(source.map.in), ready.forward + row / 2 * PANEL);
    pair_columns(rows, out, narrow, out, ready.backward + (int64_t)row * pairs_of(out));
}

/* Some numbers of a map's bias, and what the offset before it makes of its weights. */
ALWAYS void ready_bias(
    Source source, int part, int column, const float *weight, const float *bias, const float *const *norms, float *to) {
    const int columns = source.columns - column < PANEL ? source.columns - column : PANEL;
    float sums[PANEL];
    for (int c = 0; c < columns; c++) sums[c] = bias[column + c];
    for (int i = 0; source.norm >= 0 && i < source.map.in; i++)
        for (int c = 0; c < columns; c++)
            sums[c] += norms[source.norm + 1][i] * weight[(int64_t)i * source.columns + column + c];
    for (int c = 0; c < columns; c++) to[part * source.columns + column + c] = source.factor * sums[c];
}

/* Maps made ready for all that goes through them, folded with the norms before them.

   weights: of each map [in][out], of keys and values two one after the other; query's are `scale` times those used
   biases:  of each, likewise
   norms:   gain and offset before attention and before the MLP; none without
   narrow:  room of a panel of rows of the widest map, for every thread */
void block_ready(
    const Block *block, float scale, int threads, const float *const *weights, const float *const *biases,
    const float *const *norms, Pair *words, bf16 *narrow, int64_t narrow_size) {
    for (int which = 0; which < MATRICES; which++) {
        const Source source = source_of(*block, which, scale);
        const Ready ready = ready_in(*block, which, words);
        const int64_t first = 0, end = !source.map.out ? 0 : (source.map.in + PANEL - 1) / PANEL;
        FOR_SHARES(for (int64_t slab = from; slab < to; slab++)
            ready_rows(source, slab * PANEL, weights, norms, ready, narrow + share * narrow_size);)
        for (int part = 0; end && part < source.parts; part++)
            for (int c = 0; c < source.columns; c += PANEL)
                ready_bias(source, part, c, weights[source.first + part], biases[source.first + part], norms, ready.bias);
    }
}

/* From the gradients of a row of folded weights and of their bias to those of what they were folded from.

   sums: of all threads, each of that many numbers */
ALWAYS void unfold_row(
    Source source, int part, int row, const float *weight, const float *const *norms, int threads, int64_t size,
    const float *sums, const float *bias, float *to, float *const *to_norms) {
    const int64_t at = (int64_t)row * source.map.out + part * source.columns;
    const float gain = source.factor * (source.norm < 0 ? 1.0f : norms[source.norm][row]);
    const float offset = source.norm < 0 ? 0.0f : source.factor * norms[source.norm + 1][row];
    float along = 0, across = 0;
    for (int c = 0; c < source.columns; c++) {
        float sum = sums[at + c];
        for (int thread = 1; thread < threads; thread++) sum += sums[thread * size + at + c];
        to[c] = gain * sum + offset * bias[c];
        along += sum * weight[c], across += bias[c] * weight[c];
    }
    if (source.norm < 0) return;
    to_norms[source.norm][row] += source.factor * along;
    to_norms[source.norm + 1][row] += source.factor * across;
}

/* The gradients of weights, biases and norms, in the order of `block_ready`, from those of all threads. */
void block_unfold(
    const Block *block, float scale, int threads, const float *const *weights, const float *const *norms,
    const float *sums, int64_t size, float *const *to_weights, float *const *to_biases, float *const *to_norms) {
    for (int i = 0; block->normed && i < (block->hidden ? 4 : 2); i++)
        memset(to_norms[i], 0, block->width * sizeof(float));
    for (int which = 0; which < MATRICES; which++) {
        const Source source = source_of(*block, which, scale);
        const float *sum = sums_in(*block, which, (float *)sums);
        const int64_t first = 0, end = source.map.out ? source.map.in : 0, biases = (int64_t)source.map.in * source.map.out;
        for (int part = 0; end && part < source.parts; part++) {
            const int number = source.first + part;
            float *bias = to_biases[number];
            for (int c = 0; c < source.columns; c++) {
                bias[c] = 0;
                for (int thread = 0; thread < threads; thread++)
                    bias[c] += sum[thread * size + biases + part * source.columns + c];
            }
            FOR_SHARES(for (int64_t row = from; row < to; row++)
                unfold_row(source, part, row, weights[number] + row * source.columns, norms, threads, size, sum, bias,
                           to_weights[number] + row * source.columns, to_norms);)
            for (int c = 0; c < source.columns; c++) bias[c] *= source.factor;
        }
    }
}

/* What a block keeps of its way forward, [sequence][position][numbers] each: `middle` is the stream after attention. */
typedef struct { const bf16 *x; bf16 *query, *made, *brought, *middle, *hidden; } Kept;

ALWAYS Kept kept_from(Kept kept, Block block, int64_t sequence) {
    const int64_t inner = inner_of(block), asked = sequence * block.asking, all = sequence * block.count;
    return (Kept){
        kept.x + all * block.width, kept.query + asked * inner, kept.made + all * 2 * inner,
        kept.brought + asked * inner, kept.middle + asked * block.width, kept.hidden + asked * block.hidden};
}

ALWAYS Shape shape_of(Block block) {
    const int inner = inner_of(block);
    return (Shape){block.count, block.asking, block.heads, inner, 2 * inner, block.causal};
}

/* Of every sequence the positions that ask, close together. */
ALWAYS const bf16 *asking_of(Block block, int sequences, const bf16 *rows, bf16 *to) {
    if (block.asking == block.count) return rows;
    const int64_t part = (int64_t)block.asking * block.width, whole = (int64_t)block.count * block.width;
    for (int n = 0; n < sequences; n++)
        memcpy(to + n * part, rows + (n + 1) * whole - part, part * sizeof(bf16));
    return to;
}

/* Room for what some sequences need in between. */
typedef struct {
    bf16 *normalised, *asking, *stream, *hidden, *to_hidden, *to_brought, *to_query, *to_made;
    float *scales, *to_normalised;
    Pair *left, *right;
    Wide *wide;
} Room;

ALWAYS void *taken(char **from, int64_t bytes) {
    char *start = *from;
    *from += (bytes + 63) / 64 * 64;
    return start;
}

ALWAYS Room room_in(Block block, int sequences, char *bytes, int64_t *size) {
    const int64_t rows = (int64_t)sequences * block.count, inner = inner_of(block), pairs = pairs_of(rows);
    const int widest = block.hidden > 2 * inner ? block.hidden : 2 * inner;
    const int64_t panels = panels_of(pairs, widest > block.width ? widest : block.width) * sizeof(Pair);
    char *at = bytes;
    Room room;
    room.normalised = taken(&at, rows * block.width * sizeof(bf16));
    room.asking = taken(&at, rows * block.width * sizeof(bf16));
    room.stream = taken(&at, rows * block.width * sizeof(bf16));
    room.hidden = taken(&at, rows * block.hidden * sizeof(bf16));
    room.to_hidden = taken(&at, rows * block.hidden * sizeof(bf16));
    room.to_brought = taken(&at, rows * inner * sizeof(bf16));
    room.to_query = taken(&at, rows * inner * sizeof(bf16));
    room.to_made = taken(&at, rows * 2 * inner * sizeof(bf16));
    room.scales = taken(&at, rows * sizeof(float));
    room.to_normalised = taken(&at, rows * block.width * sizeof(float));
    room.left = taken(&at, panels);
    room.right = taken(&at, panels);
    room.wide = taken(&at, sizeof(Wide));
    if (size) *size = at - bytes;
    return room;
}

int64_t block_room(const Block *block, int sequences) {
    int64_t size;
    room_in(*block, sequences, (char *)64, &size);
    return size;
}

ALWAYS void attend_some(Block block, int sequences, Kept kept, Room room) {
    const Shape shape = shape_of(block);
    const int inner = inner_of(block), width = block.head_width;
    if (width <= NARROW) {
        forward_some(0, sequences, 1, width, shape, kept.query, kept.made, kept.brought);
        return;
    }
    for (int n = 0; n < sequences; n++)
        for (int h = 0; h < block.heads; h++) {
            const int64_t asked = (int64_t)n * block.asking * inner + h * width;
            wide_forward(shape, width, kept.query + asked, kept.made + (int64_t)n * block.count * 2 * inner + h * width,
                         kept.brought + asked, room.wide);
        }
}

ALWAYS void attend_some_back(Block block, int sequences, Kept kept, Room room) {
    const Shape shape = shape_of(block);
    const int inner = inner_of(block), width = block.head_width;
    if (width <= NARROW) {
        backward_some(0, sequences, 1, width, shape, kept.query, kept.made, room.to_brought, room.to_query, room.to_made);
        return;
    }
    for (int n = 0; n < sequences; n++)
        for (int h = 0; h < block.heads; h++) {
            const int64_t asked = (int64_t)n * block.asking * inner + h * width;
            const int64_t all = (int64_t)n * block.count * 2 * inner + h * width;
            wide_backward(shape, width, kept.query + asked, kept.made + all, room.to_brought + asked,
                          room.to_query + asked, room.to_made + all, room.wide);
        }
}

ALWAYS void through(Block block, int which, int rows, const bf16 *x, Pair *words, const bf16 *beside, bf16 *out) {
    const Map map = map_of(block, which);
    const Ready ready = ready_in(block, which, words);
    multiply(rows, map.out, pairs_of(map.in), (Left){x, map.in, 1}, ready.forward,
             (Right){ROUND, out, map.out, ready.bias, beside});
}

static void some_forward(Block block, int sequences, Pair *words, Kept kept, bf16 *out, Room room) {
    const int rows = sequences * block.count, asked = sequences * block.asking;
    const bf16 *x = kept.x, *normalised = x;
    if (block.normed) normalise(rows, block.width, x, room.normalised, room.scales), normalised = room.normalised;
    through(block, QUERY, asked, asking_of(block, sequences, normalised, room.asking), words, 0, kept.query);
    through(block, KEY_VALUE, rows, normalised, words, 0, kept.made);
    attend_some(block, sequences, kept, room);
    const bf16 *beside = asking_of(block, sequences, x, room.stream);
    through(block, OUT, asked, kept.brought, words, beside, kept.middle);
    if (!block.hidden) return;
    normalised = kept.middle;
    if (block.normed)
        normalise(asked, block.width, kept.middle, room.normalised, room.scales), normalised = room.normalised;
    through(block, UP, asked, normalised, words, 0, kept.hidden);
    gelu((int64_t)asked * block.hidden, kept.hidden, room.hidden);
    through(block, DOWN, asked, room.hidden, words, kept.middle, out);
}

/* Add to the gradients of a map what some rows say. */
ALWAYS void learn(Block block, int which, int rows, const bf16 *x, const bf16 *gradient, float *sums, Room room) {
    const Map map = map_of(block, which);
    const int pairs = pairs_of(rows);
    float *sum = sums_in(block, which, sums);
    pair_rows(rows, map.in, x, map.in, pairs, room.left);
    pair_rows(rows, map.out, gradient, map.out, pairs, room.right);
    multiply(map.in, map.out, pairs, (Left){room.left, pairs, 0}, room.right, (Right){ADD, sum, map.out, 0, 0});
    add_rows(rows, map.out, gradient, sum + (int64_t)map.in * map.out);
}

ALWAYS void back_through(
    Block block, int which, int rows, const bf16 *gradient, Pair *words, int kind, void *to, int64_t stride) {
    const Map map = map_of(block, which);
    multiply(rows, map.in, pairs_of(map.out), (Left){gradient, map.out, 1}, ready_in(block, which, words).backward,
             (Right){kind, to, stride, 0, 0});
}

static void some_backward(
    Block block, int sequences, Pair *words, Kept kept, const bf16 *gradient, bf16 *to_x, float *sums, Room room) {
    const int rows = sequences * block.count, asked = sequences * block.asking, width = block.width;
    if (block.hidden) {
        const bf16 *normalised = kept.middle;
        back_through(block, DOWN, asked, gradient, words, ROUND, room.to_hidden, block.hidden);
        gelu_and_back((int64_t)asked * block.hidden, kept.hidden, room.hidden, room.to_hidden);
        learn(block, DOWN, asked, room.hidden, gradient, sums, room);
        if (block.normed)
            normalise(asked, width, kept.middle, room.normalised, room.scales), normalised = room.normalised;
        learn(block, UP, asked, normalised, room.to_hidden, sums, room);
        back_through(block, UP, asked, room.to_hidden, words, KEEP, room.to_normalised, width);
        unnormalise(block.normed, asked, width, room.to_normalised, normalised, room.scales, gradient, room.stream);
        gradient = room.stream;
    }
    learn(block, OUT, asked, kept.brought, gradient, sums, room);
    back_through(block, OUT, asked, gradient, words, ROUND, room.to_brought, inner_of(block));
    attend_some_back(block, sequences, kept, room);
    const bf16 *normalised = kept.x;
    if (block.normed) normalise(rows, width, kept.x, room.normalised, room.scales), normalised = room.normalised;
    learn(block, QUERY, asked, asking_of(block, sequences, normalised, room.asking), room.to_query, sums, room);
    learn(block, KEY_VALUE, rows, normalised, room.to_made, sums, room);
    back_through(block, KEY_VALUE, rows, room.to_made, words, KEEP, room.to_normalised, width);
    const int64_t hidden = (int64_t)(block.count - block.asking) * width, inner = inner_of(block);
    if (!hidden) {
        back_through(block, QUERY, asked, room.to_query, words, ADD, room.to_normalised, width);
        unnormalise(block.normed, rows, width, room.to_normalised, normalised, room.scales, gradient, to_x);
        return;
    }
    for (int n = 0; n < sequences; n++) {
        const int64_t part = (int64_t)n * block.asking, whole = (int64_t)n * block.count;
        float *to_normalised = room.to_normalised + whole * width;
        const bf16 *mine = normalised + whole * width;
        back_through(block, QUERY, block.asking, room.to_query + part * inner, words, ADD, to_normalised + hidden, width);
        unnormalise(block.normed, block.count - block.asking, width, to_normalised, mine, room.scales + whole, 0,
                    to_x + whole * width);
        unnormalise(block.normed, block.asking, width, to_normalised + hidden, mine + hidden,
                    room.scales + whole + block.count - block.asking, gradient + part * width,
                    to_x + whole * width + hidden);
    }
}

/* Sequences from `first` to before `end` of all models, `at_once` together; those of a model stand together, and each
   model has its own words and sums. */
#define FOR_SOME(body)                                                                              \
    for (int64_t n = from, some; n < to; n += some) {                                               \
        const int64_t model = n / batch, left = ((model + 1) * batch < to ? (model + 1) * batch : to) - n; \
        some = left < at_once ? left : at_once;                                                     \
        Pair *mine = words + model * block_ready_words(block);                                      \
        const Kept kept = kept_from(*all, *block, n);                                               \
        body                                                                                        \
    }

/* Without an MLP `middle` is what the block gives. */
void block_forward(
    const Block *block, int64_t first, int64_t end, int threads, int64_t batch, int at_once, Pair *words,
    const Kept *all, bf16 *out, char *rooms) {
    const int64_t size = block_room(block, at_once);
    FOR_SHARES(
        const Room room = room_in(*block, at_once, rooms + share * size, 0);
        FOR_SOME(some_forward(*block, some, mine, kept, out + n * block->asking * block->width, room);))
}

/* sums: [thread][model][number]; `models` of them */
void block_backward(
    const Block *block, int64_t first, int64_t end, int threads, int64_t batch, int at_once, Pair *words,
    const Kept *all, const bf16 *gradient, bf16 *to_x, int64_t models, float *sums, char *rooms) {
    const int64_t size = block_room(block, at_once), numbers = block_sums(block);
    FOR_SHARES(
        const Room room = room_in(*block, at_once, rooms + share * size, 0);
        float *own = sums + share * models * numbers;
        memset(own, 0, models * numbers * sizeof(float));
        FOR_SOME(some_backward(
            *block, some, mine, kept, gradient + n * block->asking * block->width,
            to_x + n * block->count * block->width, own + model * numbers, room);))
}
#endif
