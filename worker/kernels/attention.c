/* Attention: scores, softmax, weighted sum.
 *
 * onnxruntime's GroupQueryAttention packs the keys of each row and head for a matrix product, which for a single query
 * costs more than the product. Here a head is one pass over its keys and one over its values, for one query or for four
 * that share them: the beams of a sentence, or the tokens of one that is encoded. */

#include "kernels.h"
#include "vectors.h"

/* Load vector `i` of the position that begins at `at`. */
INLINE floats cached(const void *from, size_t at, size_t i, int is_int8) {
    at += i * LANES;
    return is_int8 ? load_int8((const int8_t *)from + at) : load((const float *)from + at);
}

/* Ask for memory that is read soon: each head begins another page, where the processor's own prefetching stops. What is
 * in float32 would fill the requests that the first level can have under way, so it is asked into the second. */
INLINE void fetch_ahead(const void *from, size_t at, size_t count, int is_int8) {
    size_t element = is_int8 ? 1 : sizeof(float);
    const char *first = (const char *)from + at * element;
    for (size_t i = 0; i < count * element; i += 64) {
        if (is_int8)
            __builtin_prefetch(first + i, 0, 3);
        else
            __builtin_prefetch(first + i, 0, 2);
    }
}

INLINE const float *scales_of(const float *scales, size_t at) { return scales ? scales + at : NULL; }

/* Write a head's new numbers to the position that begins at `at`. */
INLINE void append(void *to, size_t at, size_t head_size, const float *new, const float *scales, int is_int8) {
    for (size_t i = 0; i < head_size; i += LANES) {
        if (is_int8)
            store_int8((int8_t *)to + at + i, load(new + i) / load(scales + i));
        else
            store((float *)to + at + i, load(new + i));
    }
}

/* Turn scores into weights; returns the factor that makes their sum 1. `scores` has room for LANES more numbers than
 * `length`. */
INLINE float softmax(float *scores, size_t length, const float *bias) {
    for (size_t t = 0; bias && t < length; t++) scores[t] += bias[t];
    for (size_t t = length; t < length + LANES; t++) scores[t] = -__builtin_inff();
    floats top = all(-__builtin_inff()), total = all(0);
    for (size_t t = 0; t < length; t += LANES) top = larger(top, load(scores + t));
    floats highest = all(largest(top));
    for (size_t t = 0; t < length; t += LANES) {
        floats weights = exponential(load(scores + t) - highest);
        store(scores + t, weights);
        total = total + weights;
    }
    /* Padding adds e^-87 each, which is nothing beside the 1 of the highest score. */
    return 1.0f / sum(total);
}

/* One head of one source: `queries` rows, 1 or 4, from `first` on. */
INLINE void attend_head(const struct attention *a, size_t source, size_t head, size_t length, size_t first,
                        size_t queries, size_t head_size, int is_int8) {
    size_t width = a->heads * head_size, size = length + LANES, step = a->key_step;
    size_t begins = source * a->key_source_step + head * a->key_head_step;
    const void *keys = a->keys, *values = a->values;
    const float *key_scales = scales_of(a->key_scales, head * head_size);
    const float *value_scales = scales_of(a->value_scales, head * head_size);
    float q[4 * LARGEST_HEAD], *scores = a->scratch;
    const size_t vectors = head_size / LANES;

    for (size_t j = 0; j < queries; j++) {
        const float *row = a->queries + (source * a->queries_of_source + first + j) * a->query_step + head * head_size;
        for (size_t i = 0; i < head_size; i += LANES) {
            floats scaled = load(row + i) * all(a->scale);
            if (is_int8) scaled = scaled * load(key_scales + i);
            store(q + j * head_size + i, scaled);
        }
    }
    if (queries == 1) {
        for (size_t t = 0; t < length; t += 4) {
            fetch_ahead(values, begins + t * step, 4 * head_size, is_int8);
            /* The last four may be fewer: then the last position is read again. */
            size_t t1 = t + 1 < length ? t + 1 : t, t2 = t + 2 < length ? t + 2 : t, t3 = t + 3 < length ? t + 3 : t;
            floats s0 = all(0), s1 = all(0), s2 = all(0), s3 = all(0);
            for (size_t i = 0; i < vectors; i++) {
                floats own = load(q + i * LANES);
                s0 = multiply_add(own, cached(keys, begins + t * step, i, is_int8), s0);
                s1 = multiply_add(own, cached(keys, begins + t1 * step, i, is_int8), s1);
                s2 = multiply_add(own, cached(keys, begins + t2 * step, i, is_int8), s2);
                s3 = multiply_add(own, cached(keys, begins + t3 * step, i, is_int8), s3);
            }
            store_sums(scores + t, s0, s1, s2, s3);
        }
    } else {
        for (size_t t = 0; t < length; t++) {
            fetch_ahead(values, begins + t * step, head_size, is_int8);
            floats s0 = all(0), s1 = all(0), s2 = all(0), s3 = all(0);
            for (size_t i = 0; i < vectors; i++) {
                floats key = cached(keys, begins + t * step, i, is_int8);
                s0 = multiply_add(load(q + i * LANES), key, s0);
                s1 = multiply_add(load(q + head_size + i * LANES), key, s1);
                s2 = multiply_add(load(q + 2 * head_size + i * LANES), key, s2);
                s3 = multiply_add(load(q + 3 * head_size + i * LANES), key, s3);
            }
            float four[4];
            store_sums(four, s0, s1, s2, s3);
            for (size_t j = 0; j < 4; j++) scores[j * size + t] = four[j];
        }
    }
    float shares[4];
    const float *bias = a->bias ? a->bias + source * a->bias_source_step + head * a->bias_size : NULL;
    for (size_t j = 0; j < queries; j++) shares[j] = softmax(scores + j * size, length, bias);

    /* A few vectors of the result at a time, which stay in registers. */
    for (size_t i = 0; i < vectors; i += 4) {
        size_t together = vectors - i < 4 ? vectors - i : 4;
        floats sums[4][4];
        for (size_t j = 0; j < queries; j++)
            for (size_t k = 0; k < together; k++) sums[j][k] = all(0);
        for (size_t t = 0; t < length; t++) {
            if (i == 0) fetch_ahead(keys, begins + a->key_head_step + t * step, head_size, is_int8);
            for (size_t k = 0; k < together; k++) {
                floats value = cached(values, begins + t * step, i + k, is_int8);
                for (size_t j = 0; j < queries; j++)
                    sums[j][k] = multiply_add(all(scores[j * size + t]), value, sums[j][k]);
            }
        }
        for (size_t j = 0; j < queries; j++) {
            float *to = a->attended + (source * a->queries_of_source + first + j) * width + head * head_size;
            for (size_t k = 0; k < together; k++) {
                floats result = sums[j][k] * all(shares[j]);
                if (is_int8) result = result * load(value_scales + (i + k) * LANES);
                store(to + (i + k) * LANES, result);
            }
        }
    }
}

INLINE void attend_all(const struct attention *a, size_t head_size, int is_int8) {
    for (size_t source = 0; source < a->sources; source++) {
        size_t length = a->last ? (size_t)a->last[source] + 1 : a->length;
        for (size_t head = 0; head < a->heads; head++) {
            if (a->new_keys) {
                size_t at = source * a->key_source_step + head * a->key_head_step + (length - 1) * a->key_step;
                size_t from = source * a->query_step + head * head_size;
                const float *key_scales = scales_of(a->key_scales, head * head_size);
                const float *value_scales = scales_of(a->value_scales, head * head_size);
                append(a->keys, at, head_size, a->new_keys + from, key_scales, is_int8);
                append(a->values, at, head_size, a->new_values + from, value_scales, is_int8);
            }
            size_t first = 0;
            for (; first + 4 <= a->queries_of_source; first += 4)
                attend_head(a, source, head, length, first, 4, head_size, is_int8);
            for (; first < a->queries_of_source; first++)
                attend_head(a, source, head, length, first, 1, head_size, is_int8);
        }
    }
}

static void attend(const struct attention *given) {
    const struct attention copy = *given, *a = &copy;  /* see `finish` */
    int is_int8 = a->key_scales != NULL;
    /* The usual sizes of a head are constants, so that loops over its vectors are unrolled. */
    switch (a->head_size) {
    case 32: is_int8 ? attend_all(a, 32, 1) : attend_all(a, 32, 0); break;
    case 64: is_int8 ? attend_all(a, 64, 1) : attend_all(a, 64, 0); break;
    case 128: is_int8 ? attend_all(a, 128, 1) : attend_all(a, 128, 0); break;
    default: is_int8 ? attend_all(a, a->head_size, 1) : attend_all(a, a->head_size, 0);
    }
}
