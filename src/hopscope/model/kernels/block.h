/* A block of a transformer, forward and backward, a few sequences at a time: what lies between its products stays in a
   core's own cache. `fused_block.py` calls it, tests pin it to the plain form.

   Rows stand one position after the other, sequence after sequence; they are what the header included before this one
   calls numbers. All sums are fp32, as are weights and their gradients outside; a LayerNorm's gain and offset are folded
   into the map that follows. */

#pragma once

#include "wide_attention.h"
#include "between.h"

#define block_ready_words KIND(block_ready_words)
#define block_sums KIND(block_sums)
#define block_room KIND(block_room)
#define block_ready KIND(block_ready)
#define block_forward KIND(block_forward)
#define block_backward KIND(block_backward)
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

/* Maps made ready for all that goes through them, folded with the norms before them.

   weights: of each map [in][out], of keys and values two one after the other; query's are `scale` times those used
   biases:  of each, likewise
   norms:   gain and offset before attention and before the MLP; none without
   narrow:  room of a panel of rows of the widest map, for every thread */
void block_ready(
    const Block *block, float scale, int threads, const float *const *weights, const float *const *biases,
    const float *const *norms, Word *words, Number *narrow, int64_t narrow_size) {
    for (int which = 0; which < MATRICES; which++) {
        const Source source = source_of(*block, which, scale);
        const Ready ready = ready_in(*block, which, words);
        const int64_t first = 0, end = !source.map.out ? 0 : (source.map.in + PANEL - 1) / PANEL;
        FOR_SHARES(for (int64_t slab = from; slab < to; slab++)
            ready_rows(source, slab * PANEL, weights, norms, ready, narrow + share * narrow_size);)
        for (int part = 0; end && part < source.parts; part++)
            for (int c = 0; c < source.columns; c += PANEL)
                ready_bias(
                    source, part, c, weights[source.first + part], biases[source.first + part], norms, ready.bias);
    }
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

/* What a block keeps of its way forward, [sequence][position][numbers] each: `middle` is the stream after attention.
   What products make of the stream, query, made and hidden, only where PRODUCTS_ARE_KEPT. */
typedef struct { const Number *x; Number *query, *made, *brought, *middle, *hidden; } Kept;

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
ALWAYS const Number *asking_of(Block block, int sequences, const Number *rows, Number *to) {
    if (block.asking == block.count) return rows;
    const int64_t part = (int64_t)block.asking * block.width, whole = (int64_t)block.count * block.width;
    for (int n = 0; n < sequences; n++)
        memcpy(to + n * part, rows + (n + 1) * whole - part, part * sizeof(Number));
    return to;
}

/* Room for what some sequences need in between. */
typedef struct {
    Number *normalised, *asking, *stream, *query, *made, *hidden, *to_hidden, *to_brought, *to_query, *to_made;
    float *scales, *to_normalised;
    Word *left, *right;
    Wide *wide;
} Room;

ALWAYS void *taken(char **from, int64_t bytes) {
    char *start = *from;
    *from += (bytes + 63) / 64 * 64;
    return start;
}

ALWAYS Room room_in(Block block, int sequences, char *bytes, int64_t *size) {
    const int64_t rows = (int64_t)sequences * block.count, inner = inner_of(block), pairs = words_of(rows);
    const int widest = block.hidden > 2 * inner ? block.hidden : 2 * inner;
    const int columns = widest > block.width ? widest : block.width;
    char *at = bytes;
    Room room;
    room.normalised = taken(&at, rows * block.width * sizeof(Number));
    room.asking = taken(&at, rows * block.width * sizeof(Number));
    room.stream = taken(&at, rows * block.width * sizeof(Number));
    room.query = taken(&at, PRODUCTS_ARE_KEPT ? 0 : rows * inner * sizeof(Number));
    room.made = taken(&at, PRODUCTS_ARE_KEPT ? 0 : rows * 2 * inner * sizeof(Number));
    room.hidden = taken(&at, rows * block.hidden * sizeof(Number));
    room.to_hidden = taken(&at, rows * block.hidden * sizeof(Number));
    room.to_brought = taken(&at, rows * inner * sizeof(Number));
    room.to_query = taken(&at, rows * inner * sizeof(Number));
    room.to_made = taken(&at, rows * 2 * inner * sizeof(Number));
    room.scales = taken(&at, rows * sizeof(float));
    room.to_normalised = taken(&at, rows * block.width * sizeof(float));
    room.left = taken(&at, left_of(pairs, columns) * sizeof(Word));
    room.right = taken(&at, panels_of(pairs, columns) * sizeof(Word));
    room.wide = taken(&at, sizeof(Wide));
    if (size) *size = at - bytes;
    return room;
}

int64_t block_room(const Block *block, int sequences) {
    int64_t size;
    room_in(*block, sequences, (char *)64, &size);
    return size;
}

/* Where products go whose results are not kept. */
ALWAYS Kept kept_or_in(Kept kept, Room room) {
    if (PRODUCTS_ARE_KEPT) return kept;
    return (Kept){kept.x, room.query, room.made, kept.brought, kept.middle, room.hidden};
}

ALWAYS void attend_some(Block block, int sequences, Kept kept, Room room) {
    const Shape shape = shape_of(block);
    const int inner = inner_of(block), width = block.head_width;
    if (width <= NARROW) {
        narrow_forward(sequences, width, shape, kept.query, kept.made, kept.brought);
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
        narrow_backward(
            sequences, width, shape, kept.query, kept.made, room.to_brought, room.to_query, room.to_made);
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

ALWAYS void through(Block block, int which, int rows, const Number *x, Word *words, const Number *beside, Number *out) {
    const Map map = map_of(block, which);
    const Ready ready = ready_in(block, which, words);
    multiply(rows, map.out, words_of(map.in), (Left){x, map.in, ROWS}, ready.forward,
             (Right){ROUND, out, map.out, ready.bias, beside});
}

/* Queries of the positions that ask, keys and values of all. */
ALWAYS void ask(Block block, int sequences, Word *words, const Number *normalised, Kept kept, Room room) {
    const Number *asking = asking_of(block, sequences, normalised, room.asking);
    through(block, QUERY, sequences * block.asking, asking, words, 0, kept.query);
    through(block, KEY_VALUE, sequences * block.count, normalised, words, 0, kept.made);
}

static void some_forward(Block block, int sequences, Word *words, Kept kept, Number *out, Room room) {
    const int rows = sequences * block.count, asked = sequences * block.asking;
    const Number *x = kept.x, *normalised = x;
    if (block.normed) normalise(rows, block.width, x, room.normalised, room.scales), normalised = room.normalised;
    ask(block, sequences, words, normalised, kept, room);
    attend_some(block, sequences, kept, room);
    const Number *beside = asking_of(block, sequences, x, room.stream);
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
ALWAYS void learn(Block block, int which, int rows, const Number *x, const Number *gradient, float *sums, Room room) {
    const Map map = map_of(block, which);
    const int words = words_of(rows);
    float *sum = sums_in(block, which, sums);
    lay_left(rows, map.in, x, map.in, room.left);
    panel_rows(rows, map.out, gradient, map.out, words, room.right);
    multiply(map.in, map.out, words, (Left){room.left, words, LAID}, room.right, (Right){ADD, sum, map.out, 0, 0});
    add_words(words, map.out, room.right, sum + (int64_t)map.in * map.out);
}

ALWAYS void back_through(
    Block block, int which, int rows, const Number *gradient, Word *words, int kind, void *to, int64_t stride) {
    const Map map = map_of(block, which);
    multiply(rows, map.in, words_of(map.out), (Left){gradient, map.out, ROWS}, ready_in(block, which, words).backward,
             (Right){kind, to, stride, 0, 0});
}

/* The gradient of the stream between attention and MLP, into `to_middle`. */
static void some_backward_mlp(
    Block block, int sequences, Word *words, Kept kept, const Number *gradient, Number *to_middle, float *sums,
    Room room) {
    const int asked = sequences * block.asking, width = block.width;
    const Number *normalised = kept.middle;
    if (block.normed)
        normalise(asked, width, kept.middle, room.normalised, room.scales), normalised = room.normalised;
    if (!PRODUCTS_ARE_KEPT) through(block, UP, asked, normalised, words, 0, kept.hidden);
    back_through(block, DOWN, asked, gradient, words, ROUND, room.to_hidden, block.hidden);
    gelu_and_back((int64_t)asked * block.hidden, kept.hidden, room.hidden, room.to_hidden);
    learn(block, DOWN, asked, room.hidden, gradient, sums, room);
    learn(block, UP, asked, normalised, room.to_hidden, sums, room);
    back_through(block, UP, asked, room.to_hidden, words, KEEP, room.to_normalised, width);
    unnormalise(block.normed, asked, width, room.to_normalised, normalised, room.scales, gradient, to_middle);
}

/* The gradient of the stream before the block, from that between attention and MLP. */
static void some_backward_attention(
    Block block, int sequences, Word *words, Kept kept, const Number *gradient, Number *to_x, float *sums, Room room) {
    const int rows = sequences * block.count, asked = sequences * block.asking, width = block.width;
    const Number *normalised = kept.x;
    if (block.normed) normalise(rows, width, kept.x, room.normalised, room.scales), normalised = room.normalised;
    if (!PRODUCTS_ARE_KEPT) ask(block, sequences, words, normalised, kept, room);
    learn(block, OUT, asked, kept.brought, gradient, sums, room);
    back_through(block, OUT, asked, gradient, words, ROUND, room.to_brought, inner_of(block));
    attend_some_back(block, sequences, kept, room);
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
        const Number *mine = normalised + whole * width;
        back_through(
            block, QUERY, block.asking, room.to_query + part * inner, words, ADD, to_normalised + hidden, width);
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
        Word *mine = words + model * block_ready_words(block);                                      \
        const Kept kept = kept_or_in(kept_from(*all, *block, n), room);                             \
        body                                                                                        \
    }

/* Without an MLP `middle` is what the block gives. */
void block_forward(
    const Block *block, int64_t first, int64_t end, int threads, int64_t batch, int at_once, Word *words,
    const Kept *all, Number *out, char *rooms) {
    const int64_t size = block_room(block, at_once);
    FOR_SHARES(
        const Room room = room_in(*block, at_once, rooms + share * size, 0);
        const Before before = begin_products();
        FOR_SOME(some_forward(*block, some, mine, kept, out + n * block->asking * block->width, room);)
        end_products(before);)
}

/* First through the MLP, all sequences, then through attention: half of the weights and of their sums at a time fill less
   of a core's cache. In between the gradient of the stream waits in `to_x`.

   sums: [thread][model][number]; `models` of them */
void block_backward(
    const Block *block, int64_t first, int64_t end, int threads, int64_t batch, int at_once, Word *words,
    const Kept *all, const Number *gradient, Number *to_x, int64_t models, float *sums, char *rooms) {
    const int64_t size = block_room(block, at_once), numbers = block_sums(block);
    const int64_t asked = block->asking * block->width, all_of_one = block->count * block->width;
    FOR_SHARES(
        const Room room = room_in(*block, at_once, rooms + share * size, 0);
        float *own = sums + share * models * numbers;
        memset(own, 0, models * numbers * sizeof(float));
        const Before before = begin_products();
        FOR_SOME(if (block->hidden) some_backward_mlp(
            *block, some, mine, kept, gradient + n * asked, to_x + n * all_of_one, own + model * numbers, room);)
        FOR_SOME(
            const Number *to_out = gradient + n * asked;
            if (block->hidden) to_out = memcpy(room.stream, to_x + n * all_of_one, some * asked * sizeof(Number));
            some_backward_attention(
                *block, some, mine, kept, to_out, to_x + n * all_of_one, own + model * numbers, room);)
        end_products(before);)
}
