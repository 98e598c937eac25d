/* The two passes of a search over the logits of a step: the sum of powers of each row, and the best continuations of
 * each sentence. */

#include "kernels.h"
#include "vectors.h"

/* The sum of e^(x * factor) over each row. Every other vector is added up apart: additions wait for the one before. */
static void sum_powers(const float *x, size_t rows, size_t size, const float *factors, float *sums) {
    for (size_t row = 0; row < rows; row++, x += size) {
        floats factor = all(factors ? factors[row] : 1), even = all(0), odd = all(0);
        size_t i = 0;
        for (; i + 2 * LANES <= size; i += 2 * LANES) {
            even = even + exponential(load(x + i) * factor);
            odd = odd + exponential(load(x + i + LANES) * factor);
        }
        float rest = 0;
        for (; i < size; i++) {
            float power[LANES];
            store(power, exponential(all(x[i]) * factor));
            rest += power[0];
        }
        sums[row] = sum(even + odd) + rest;
    }
}

/* The best of a sentence so far, best first; one more than are wanted, to see whether the last wanted one is alone. */
struct best {
    size_t wanted;
    float scores[MAX_CONTINUATIONS + 1];
    int64_t rows[MAX_CONTINUATIONS + 1], ids[MAX_CONTINUATIONS + 1];
};

static void insert(struct best *best, float score, size_t row, size_t id) {
    size_t at = best->wanted;
    while (at > 0 && best->scores[at - 1] < score) {
        best->scores[at] = best->scores[at - 1], best->rows[at] = best->rows[at - 1], best->ids[at] = best->ids[at - 1];
        at--;
    }
    best->scores[at] = score, best->rows[at] = (int64_t)row, best->ids[at] = (int64_t)id;
}

/* The scores of a vector of ids, -inf for those beyond the vocabulary. */
struct row_scores {
    const float *x;
    size_t size;
    floats factor, normalizer, before;
    int has_factor;
};

INLINE struct row_scores row_scores(const struct continuations *c, size_t row) {
    struct row_scores found = {
        c->logits + row * c->size, c->size, all(c->factors ? c->factors[row] : 1), all(c->normalizers[row]),
        all(c->before[row]), c->factors != NULL,
    };
    return found;
}

INLINE floats scores_of(const struct row_scores *row, size_t i) {
    floats own;
    if (i + LANES <= row->size) {
        own = load(row->x + i);
    } else {
        float last[LANES];
        for (size_t k = 0; k < LANES; k++) last[k] = i + k < row->size ? row->x[i + k] : -__builtin_inff();
        own = load(last);
    }
    if (row->has_factor) own = own * row->factor;
    return (own - row->normalizer) + row->before;
}

/* Below at most this score are all but the `count` + 1 best of a sentence: of SPREAD groups of ids, each has its best,
 * and as many groups have one that is at least as good. -inf if this gives no bound. */
#define SPREAD 16
static float lower_bound(const struct continuations *c, size_t sentence) {
    enum { VECTORS = SPREAD / LANES };
    floats tops[VECTORS];
    float bests[SPREAD];
    if (c->count + 1 > SPREAD) return -__builtin_inff();
    for (size_t v = 0; v < VECTORS; v++) tops[v] = all(-__builtin_inff());
    for (size_t row = 0; row < c->width; row++) {
        struct row_scores scores = row_scores(c, sentence * c->width + row);
        for (size_t i = 0; i < c->size; i += SPREAD)
            for (size_t v = 0; v < VECTORS; v++)
                if (i + v * LANES < c->size) tops[v] = larger(scores_of(&scores, i + v * LANES), tops[v]);
    }
    for (size_t v = 0; v < VECTORS; v++) store(bests + v * LANES, tops[v]);
    for (size_t i = 1; i < SPREAD; i++) {  /* sort, best first */
        float own = bests[i];
        size_t at = i;
        for (; at > 0 && bests[at - 1] < own; at--) bests[at] = bests[at - 1];
        bests[at] = own;
    }
    return bests[c->count];
}

/* Find the best of one sentence; returns whether they are certain: no two scores equal, all finite. */
static int best_of_sentence(const struct continuations *c, size_t sentence, struct best *best) {
    float bound = lower_bound(c, sentence);
    /* A number below the bound, so that what equals it is found. */
    float least = bound - bound == 0 ? bound - 1e-6f * (bound < 0 ? -bound : bound) - 1e-30f : -__builtin_inff();
    for (size_t i = 0; i <= c->count; i++) best->scores[i] = least;
    best->wanted = c->count;
    for (size_t row = 0; row < c->width; row++) {
        struct row_scores scores = row_scores(c, sentence * c->width + row);
        for (size_t i = 0; i < c->size; i += LANES) {
            floats own = scores_of(&scores, i);
            unsigned places = places_larger(own, best->scores[c->count]);
            if (!places) continue;
            float numbers[LANES];
            store(numbers, own);
            for (; places; places &= places - 1) {
                size_t k = (size_t)__builtin_ctz(places);
                if (numbers[k] > best->scores[c->count]) insert(best, numbers[k], row, i + k);
            }
        }
    }
    for (size_t i = 0; i < c->count; i++)
        if (!(best->scores[i] > best->scores[i + 1]) || best->scores[i] - best->scores[i] != 0) return 0;
    return 1;
}

static void best_continuations(const struct continuations *given) {
    const struct continuations copy = *given, *c = &copy;  /* see `finish` */
    for (size_t sentence = 0; sentence < c->sentences; sentence++) {
        struct best best;
        c->is_sure[sentence] = (uint8_t)best_of_sentence(c, sentence, &best);
        memcpy(c->scores + sentence * c->count, best.scores, c->count * sizeof *best.scores);
        memcpy(c->rows + sentence * c->count, best.rows, c->count * sizeof *best.rows);
        memcpy(c->ids + sentence * c->count, best.ids, c->count * sizeof *best.ids);
    }
}
