/* The kernels, each compiled for several instruction sets. A row depends on no other row. */
#ifndef KVJOBS_KERNELS_H
#define KVJOBS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Attention of a few queries to the keys and values of their source.
 *
 * B sources, each with some rows of queries; N heads of H numbers. Queries of a source are `query_step` numbers apart,
 * its keys and values `key_step`; the keys and values of the next head begin `key_head_step` numbers after this one's,
 * the next source's `key_source_step`. Keys and values are float32, or int8 with a scale for each channel (N, H). */
struct attention {
    size_t sources, queries_of_source, heads, head_size;  /* B, rows of a source, N, H */
    size_t query_step, key_step, key_head_step, key_source_step;
    float scale;              /* of the scores */
    const float *queries;     /* (B x queries_of_source, N x H) */
    const int32_t *last;      /* (B,): the last position that is read; NULL: `length` - 1 for all */
    size_t length;            /* the greatest number of positions */
    void *keys, *values;
    const float *key_scales, *value_scales;  /* (N, H); NULL: keys and values are float32 */
    const float *new_keys, *new_values;      /* written to the last position first, as `queries`; NULL: nothing */
    const float *bias;        /* added to the scores of a head (N, bias_size), by position; NULL: nothing */
    size_t bias_size, bias_source_step;      /* numbers from one source's to the next's; 0: one for all */
    float *attended;          /* (B x queries_of_source, N x H) */
    float *scratch;           /* ATTENTION_SCRATCH(length) numbers */
};
#define ATTENTION_SCRATCH(length) (4 * ((length) + 16))
#define LARGEST_HEAD 256

enum activation { NO_ACTIVATION, RELU, SILU };
enum norm { NO_NORM, LAYER_NORM, RMS_NORM };

/* What follows a product, by rows of N numbers: x * factor + bias, activation, + residual, norm; and its quantization.
 * Members that are NULL are left out. */
struct rows {
    size_t num_rows, size;    /* M, N */
    const float *x;           /* (M, N) */
    const float *factors;     /* (M,) */
    const float *bias;        /* (N,) */
    enum activation activation;
    const float *residual;    /* (M, N) */
    float *sums;              /* (M, N): before the norm; NULL without one */
    enum norm norm;
    const float *norm_weight, *norm_bias;  /* (N,) */
    float epsilon;
    float *y;                 /* (M, N) */
    float lowest;             /* a lower bound of y; 0 or more: none is known */
    float *mixed;             /* (N,) memory for a mixed row (mixing.c), which is quantized in place of y; NULL: y is */
    uint8_t *quantized;       /* (M, N): 128 + y / scale, rounded */
    float *scales;            /* (M,): the largest |y| / 127 */
};

/* The best continuations of sentences, of n sentences with `width` rows each. A score is
 * logit * factor - normalizer + before, each operation rounded. */
struct continuations {
    size_t sentences, width, size, count;  /* n, w, V, how many of a sentence */
    const float *logits;      /* (n x w, V) */
    const float *factors;     /* (n x w,); NULL: 1 */
    const float *normalizers, *before;  /* (n x w,) */
    float *scores;            /* (n, count): best first */
    int64_t *rows, *ids;      /* (n, count): the row within the sentence, and the id */
    uint8_t *is_sure;         /* (n,): 0 where scores are equal or not finite, so that their order is undecided */
};
#define MAX_CONTINUATIONS 64

/* Copies of cached positions [first, last) from some rows to others: see cache.c. */
struct row_copies {
    size_t parts, rows, heads, capacity, position;  /* position: bytes of one */
    char *memory;             /* (parts, rows, heads, capacity) positions */
    size_t count;
    const int64_t *to, *from; /* (count,) */
    const int32_t *first, *last;
};

/* The first `cached` positions of the first `kept_rows` rows, from one layout to another. */
struct layouts {
    size_t parts, heads, position, kept_rows, cached;
    size_t old_rows, old_capacity, new_rows, new_capacity;
    const char *from;
    char *to;
};

/* The result of a function that is called from Python. REFUSED: the arguments are impossible; nothing was written. */
enum { DONE = 0, REFUSED = 1 };

/* The kernels for one instruction set. */
struct kernels {
    const char *instruction_set;
    void (*attend)(const struct attention *);
    void (*finish)(const struct rows *);
    /* The sum of e^(x * factor) over each row (rows, size); factors NULL: 1. Powers beyond the range of float32 are cut
     * to it, so the caller has to look again at sums near its ends. */
    void (*sum_powers)(const float *x, size_t rows, size_t size, const float *factors, float *sums);
    void (*best_continuations)(const struct continuations *);
};

extern const struct kernels *chosen_kernels;  /* the ones this process uses */
extern const struct kernels kernels_any;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

#endif
