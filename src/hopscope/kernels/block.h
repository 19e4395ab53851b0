/* A block of a transformer, forward and backward, a few sequences at a time: what lies between its products stays in a
   core's own cache. `fused_block.py` calls it, tests pin it to the plain form.

   Rows stand one position after the other, sequence after sequence; they are what the header included before this one
   calls numbers. All sums are fp32, as are weights and their gradients outside; a LayerNorm's gain and offset are folded
   into the map that follows. */

#pragma once

#include "wide_attention.h"
#include "between.h"
#include "maps.h"

#define block_room KIND(block_room)
#define block_forward KIND(block_forward)
#define block_backward KIND(block_backward)

/* What a block keeps of its way forward, [sequence][position][numbers] each: `middle` is the stream after attention.
   What products make of the stream, query, made and hidden, only where PRODUCTS_ARE_KEPT. */
typedef struct { const Number *x; Number *query, *made, *weighted, *middle, *hidden; } Kept;

ALWAYS Kept kept_from(Kept kept, Block block, int64_t sequence) {
    const int64_t inner = inner_of(block), asked = sequence * block.asking, all = sequence * block.count;
    return (Kept){
        kept.x + all * block.width, kept.query + asked * inner, kept.made + all * 2 * inner,
        kept.weighted + asked * inner, kept.middle + asked * block.width, kept.hidden + asked * block.hidden};
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
    return (Kept){kept.x, room.query, room.made, kept.weighted, kept.middle, room.hidden};
}

ALWAYS void attend_some(Block block, int sequences, Kept kept, Room room) {
    const Shape shape = shape_of(block);
    const int inner = inner_of(block), width = block.head_width;
    if (width <= NARROW) {
        narrow_forward(sequences, width, shape, kept.query, kept.made, kept.weighted);
        return;
    }
    for (int n = 0; n < sequences; n++)
        for (int h = 0; h < block.heads; h++) {
            const int64_t asked = (int64_t)n * block.asking * inner + h * width;
            wide_forward(shape, width, kept.query + asked, kept.made + (int64_t)n * block.count * 2 * inner + h * width,
                         kept.weighted + asked, room.wide);
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
    through(block, OUT, asked, kept.weighted, words, beside, kept.middle);
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
    learn(block, OUT, asked, kept.weighted, gradient, sums, room);
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
