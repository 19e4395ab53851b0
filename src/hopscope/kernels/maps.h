/* The maps of a block: what they read and write, how they are made ready for products, and how the gradients of what
   they became are made those of weights, biases and norms. */

#pragma once

#include "panels.h"

#define block_ready_words KIND(block_ready_words)
#define block_sums KIND(block_sums)
#define block_ready KIND(block_ready)
#define block_unfold KIND(block_unfold)

#define MATRICES 5

/* query; key and value; out; up; down */
enum { QUERY, KEY_VALUE, OUT, UP, DOWN };

/* What a block is. Of `count` positions the last `asking` ask, and only these go on. No MLP: hidden is 0. */
typedef struct { int32_t count, asking, heads, head_width, width, hidden, causal, normed; } Block;

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
typedef struct { Word *forward, *backward; float *bias; } Ready;

ALWAYS int64_t ready_words(Map map) {
    const int64_t there = panels_of(words_of(map.in), map.out), back = panels_of(words_of(map.out), map.in);
    return there + back + (map.out + PANEL - 1) / PANEL * PANEL;
}

ALWAYS Ready ready_in(Block block, int which, Word *words) {
    for (int i = 0; i < which; i++) words += ready_words(map_of(block, i));
    const Map map = map_of(block, which);
    Word *backward = words + panels_of(words_of(map.in), map.out);
    return (Ready){words, backward, (float *)(backward + panels_of(words_of(map.out), map.in))};
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
    Source source, int row, const float *const *weights, const float *const *norms, Ready ready, Number *narrow) {
    const int rows = source.map.in - row < PANEL ? source.map.in - row : PANEL, out = source.map.out;
    for (int i = 0; i < rows; i++)
        for (int part = 0; part < source.parts; part++) {
            const float *weight = weights[source.first + part] + (int64_t)(row + i) * source.columns;
            const float factor = source.factor * (source.norm < 0 ? 1.0f : norms[source.norm][row + i]);
            Number *to = narrow + (int64_t)i * out + part * source.columns;
            for (int c = 0; c < source.columns; c += VECTOR) {
                const int there = source.columns - c;
                write_first(there, to + c, load_first(there, weight + c) * factor);
            }
        }
    panel_rows(rows, out, narrow, out, words_of(source.map.in), ready.forward + row / TOGETHER * PANEL);
    panel_columns(rows, out, narrow, out, ready.backward + (int64_t)row * words_of(out));
}

/* A panel's numbers of a map's bias, and what the offset before it makes of its weights. */
ALWAYS void ready_bias(
    Source source, int part, int column, const float *weight, const float *bias, const float *const *norms, float *to) {
    Vector sums[PANEL / VECTOR];
    const int there = source.columns - column;
    for (int v = 0; v < PANEL / VECTOR; v++) sums[v] = load_first(there - v * VECTOR, bias + column + v * VECTOR);
    for (int i = 0; source.norm >= 0 && i < source.map.in; i++) {
        const float offset = norms[source.norm + 1][i], *row = weight + (int64_t)i * source.columns + column;
        for (int v = 0; v < PANEL / VECTOR; v++) sums[v] += offset * load_first(there - v * VECTOR, row + v * VECTOR);
    }
    to += part * source.columns + column;
    for (int v = 0; v < PANEL / VECTOR; v++) store_first(there - v * VECTOR, to + v * VECTOR, source.factor * sums[v]);
}

/* A block is made ready in pieces: of each map its slabs of rows, then its bias, panel by panel. This does those from
   `from` to before `to`, or none, and gives the number of all. */
static int64_t ready_pieces(
    Block block, float scale, const float *const *weights, const float *const *biases, const float *const *norms,
    Word *words, Number *narrow, int64_t from, int64_t to) {
    int64_t at = 0;
    for (int which = 0; which < MATRICES; which++) {
        const Source source = source_of(block, which, scale);
        const int slabs = source.map.out ? (source.map.in + PANEL - 1) / PANEL : 0; /* none without an MLP */
        const int panels = (source.columns + PANEL - 1) / PANEL;
        for (int i = 0; i < (slabs ? slabs + source.parts * panels : 0); i++, at++) {
            if (at < from || at >= to) continue;
            const Ready ready = ready_in(block, which, words);
            const int panel = i - slabs;
            if (panel < 0) {
                ready_rows(source, i * PANEL, weights, norms, ready, narrow);
                continue;
            }
            const int part = panel / panels, number = source.first + part;
            ready_bias(source, part, panel % panels * PANEL, weights[number], biases[number], norms, ready.bias);
        }
    }
    return at;
}

/* Maps made ready for all that goes through them, folded with the norms before them.

   weights: of each map [in][out], of keys and values two one after the other; query's are `scale` times those used
   biases:  of each, likewise
   norms:   gain and offset before attention and before the MLP; none without
   narrow:  room of a panel of rows of the widest map, for every thread */
void block_ready(
    const Block *block, float scale, int threads, const float *const *weights, const float *const *biases,
    const float *const *norms, Word *words, Number *narrow, int64_t narrow_size) {
    const int64_t first = 0, end = ready_pieces(*block, scale, 0, 0, 0, 0, 0, 0, 0);
    FOR_SHARES(
        ready_pieces(*block, scale, weights, biases, norms, words, narrow + share * narrow_size, from, to);)
}

/* From the gradients of a row of folded weights and of their bias to those of what they were folded from.

   sums: of all threads, each of that many numbers */
ALWAYS void unfold_row(
    Source source, int part, int row, const float *weight, const float *const *norms, int threads, int64_t size,
    const float *sums, const float *bias, float *to, float *const *to_norms) {
    const float *at = sums + (int64_t)row * source.map.out + part * source.columns;
    const float gain = source.factor * (source.norm < 0 ? 1.0f : norms[source.norm][row]);
    const float offset = source.norm < 0 ? 0.0f : source.factor * norms[source.norm + 1][row];
    Vector along = {}, across = {};
    for (int c = 0; c < source.columns; c += VECTOR) {
        const int there = source.columns - c;
        Vector sum = load_first(there, at + c);
        for (int thread = 1; thread < threads; thread++) sum += load_first(there, at + thread * size + c);
        const Vector own = load_first(there, bias + c), folded = load_first(there, weight + c);
        store_first(there, to + c, gain * sum + offset * own);
        along += sum * folded, across += own * folded;
    }
    if (source.norm < 0) return;
    to_norms[source.norm][row] += source.factor * sum_of(along);
    to_norms[source.norm + 1][row] += source.factor * sum_of(across);
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
        const int64_t first = 0, end = source.map.out ? source.map.in : 0;
        const int64_t biases = (int64_t)source.map.in * source.map.out;
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
