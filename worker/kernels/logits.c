/* What a search asks of the logits of a step: the sum of powers of each row, and the best continuations of each sentence. */

#include "kernels.h"
#include "vectors.h"

/* The sum of e^(x * factor) over each row. Vectors of two places are added up apart, since additions wait for another. */
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

/* One sentence; whether its best are certain: no two of them alike, all finite. */
static int best_of_sentence(const struct continuations *c, size_t sentence, struct best *best) {
    for (size_t i = 0; i <= c->count; i++) best->scores[i] = -__builtin_inff();
    best->wanted = c->count;
    for (size_t row = 0; row < c->width; row++) {
        size_t at = sentence * c->width + row;
        const float *x = c->logits + at * c->size;
        float factor = c->factors ? c->factors[at] : 1, normalizer = c->normalizers[at], before = c->before[at];
        for (size_t i = 0; i < c->size; i += LANES) {
            size_t some = i + LANES <= c->size ? LANES : c->size - i;
            float scores[LANES];
            floats own;
            if (some == LANES) {
                own = load(x + i);
            } else {
                for (size_t k = 0; k < LANES; k++) scores[k] = k < some ? x[i + k] : -__builtin_inff();
                own = load(scores);
            }
            if (c->factors) own = own * all(factor);
            own = (own - all(normalizer)) + all(before);
            if (!any_larger(own, best->scores[c->count])) continue;
            store(scores, own);
            for (size_t k = 0; k < some; k++)
                if (scores[k] > best->scores[c->count]) insert(best, scores[k], row, i + k);
        }
    }
    for (size_t i = 0; i < c->count; i++)
        if (!(best->scores[i] > best->scores[i + 1]) || best->scores[i] - best->scores[i] != 0) return 0;
    return 1;
}

static void best_continuations(const struct continuations *c) {
    for (size_t sentence = 0; sentence < c->sentences; sentence++) {
        struct best best;
        c->is_sure[sentence] = (uint8_t)best_of_sentence(c, sentence, &best);
        memcpy(c->scores + sentence * c->count, best.scores, c->count * sizeof *best.scores);
        memcpy(c->rows + sentence * c->count, best.rows, c->count * sizeof *best.rows);
        memcpy(c->ids + sentence * c->count, best.ids, c->count * sizeof *best.ids);
    }
}
