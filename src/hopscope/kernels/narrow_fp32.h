/* Attention with narrow heads in fp32: as attention.c has it. */

#pragma once

#include "attention.h"
#include "fp32.h"

static void narrow_forward(
    int sequences, int head_width, Shape shape, const Number *query, const Number *made, Number *weighted) {
    heads_forward(0, sequences, 0, head_width, shape, query, made, weighted);
}

static void narrow_backward(
    int sequences, int head_width, Shape shape, const Number *query, const Number *made, const Number *gradient,
    Number *query_gradient, Number *made_gradient) {
    heads_backward(0, sequences, 0, head_width, shape, query, made, gradient, query_gradient, made_gradient);
}
