/* What stands between two products, in one pass over each row instead of a pass for each operation. */

#include "kernels.h"
#include "vectors.h"

INLINE void store_first(float *to, floats x) {
    float numbers[LANES];
    store(numbers, x);
    *to = numbers[0];
}

/* Which operations a row has, and whether its largest number is needed. */
enum { FACTORS = 1, BIAS = 2, RESIDUAL = 4, RANGE = 8 };

INLINE floats finished(floats x, floats factor, floats bias, floats residual, int parts, enum activation activation) {
    if (parts & FACTORS) x = x * factor;
    if (parts & BIAS) x = x + bias;
    if (activation == RELU) x = larger(all(0), x);
    if (activation == SILU) x = divide(x, all(1) + exponential(all(0) - x));
    if (parts & RESIDUAL) x = residual + x;
    return x;
}

/* x * factor + bias, activation, + residual; returns the largest absolute value of each lane. An absent
 * bias or residual is loaded from x so that the loop has no branch; the value is never used. */
INLINE floats add_up(const struct rows *r, size_t row, float *to, int parts, enum activation activation) {
    size_t size = r->size, i = 0;
    const float *x = r->x + row * size;
    const float *bias = parts & BIAS ? r->bias : x, *residual = parts & RESIDUAL ? r->residual + row * size : x;
    floats factor = all(parts & FACTORS ? r->factors[row] : 1), top = all(0), y;
    for (; i + LANES <= size; i += LANES) {
        y = finished(load(x + i), factor, load(bias + i), load(residual + i), parts, activation);
        store(to + i, y);
        if (parts & RANGE) top = larger_absolute(top, y);
    }
    for (; i < size; i++) {  /* one number at a time, in all lanes of a vector */
        y = finished(all(x[i]), factor, all(bias[i]), all(residual[i]), parts, activation);
        store_first(to + i, y);
        if (parts & RANGE) top = larger_absolute(top, y);
    }
    return top;
}

/* The combinations are constants, so that the loop over vectors has no branch. */
INLINE floats add_up_any(const struct rows *r, size_t row, float *to, int parts) {
#define CASE(parts, activation) case parts | 16 * activation: return add_up(r, row, to, parts, activation);
#define CASES(parts, activation) CASE((parts), activation) CASE((parts | RANGE), activation)
#define ALL_OF(more, activation) \
    CASES((more), activation) CASES((more | FACTORS), activation) \
    CASES((more | BIAS), activation) CASES((more | FACTORS | BIAS), activation)
    switch (parts | 16 * r->activation) {
        ALL_OF(0, NO_ACTIVATION)
        ALL_OF(RESIDUAL, NO_ACTIVATION)
        ALL_OF(0, RELU)
        ALL_OF(0, SILU)
    }
    return all(0);  /* an activation behind a residual connection: the graphs have none */
}

INLINE floats normalize(const struct rows *r, const float *from, float *to) {
    size_t size = r->size, whole = size - size % LANES, i;
    floats total = all(0), squares = all(0), top = all(0);
    float mean = 0, rest = 0;
    if (r->norm == LAYER_NORM) {
        for (i = 0; i < whole; i += LANES) total = total + load(from + i);
        for (; i < size; i++) rest += from[i];
        mean = (sum(total) + rest) / (float)size;
    }
    for (i = 0; i < whole; i += LANES) {
        floats off = load(from + i) - all(mean);
        squares = multiply_add(off, off, squares);
    }
    for (rest = 0; i < size; i++) rest += (from[i] - mean) * (from[i] - mean);
    floats inverse = all(1 / __builtin_sqrtf((sum(squares) + rest) / (float)size + r->epsilon));
    for (i = 0; i < whole; i += LANES) {
        floats y = (load(from + i) - all(mean)) * inverse * load(r->norm_weight + i);
        if (r->norm_bias) y = y + load(r->norm_bias + i);
        store(to + i, y);
        top = larger_absolute(top, y);
    }
    for (; i < size; i++) {
        floats y = all(from[i] - mean) * inverse * all(r->norm_weight[i]);
        if (r->norm_bias) y = y + all(r->norm_bias[i]);
        store_first(to + i, y);
        top = larger_absolute(top, y);
    }
    return top;
}

/* 128 + y / scale, where the largest |y| becomes 127. A row that is not finite gets a scale that is not either. */
INLINE void quantize(const struct rows *r, const float *y, size_t row, float top) {
    const float tiny = 1e-20f, one_127th = (float)(1.0 / 127);
    float least = -r->lowest > tiny ? -r->lowest : tiny, scale = (top < least ? least : top) * one_127th;
    floats inverse = all(1 / scale);
    size_t size = r->size, i = 0;
    uint8_t *to = r->quantized + row * size;
    r->scales[row] = scale;
    for (; i + LANES <= size; i += LANES) store_uint8(to + i, load(y + i) * inverse);
    for (; i < size; i++) {
        uint8_t numbers[LANES];
        store_uint8(numbers, all(y[i]) * inverse);
        to[i] = numbers[0];
    }
}

/* The largest absolute value of each lane. */
INLINE floats largest_of(const float *y, size_t size) {
    floats top = all(0);
    size_t i = 0;
    for (; i + LANES <= size; i += LANES) top = larger_absolute(top, load(y + i));
    for (; i < size; i++) top = larger_absolute(top, all(y[i]));
    return top;
}

static void finish(const struct rows *given) {
    /* A copy, which no store can change: else the compiler reads its members again for each vector. */
    const struct rows copy = *given, *r = &copy;
    int parts = (r->factors ? FACTORS : 0) | (r->bias ? BIAS : 0) | (r->residual ? RESIDUAL : 0);
    if (r->quantized && r->norm == NO_NORM && !r->mixed) parts |= RANGE;
    for (size_t row = 0; row < r->num_rows; row++) {
        size_t at = row * r->size;
        const float *y = r->x + at;
        floats top = all(0);
        if (r->y) {
            float *sums = r->sums ? r->sums + at : r->y + at;
            top = add_up_any(r, row, sums, parts);
            y = sums;
            if (r->norm != NO_NORM) top = normalize(r, sums, r->y + at), y = r->y + at;
        } else if (!r->mixed) {
            top = largest_of(y, r->size);
        }
        if (r->mixed) mix(y, r->mixed, r->size), y = r->mixed, top = largest_of(y, r->size);
        if (r->quantized) quantize(r, y, row, largest_absolute(top));
    }
}
