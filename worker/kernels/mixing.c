/* A row times an orthogonal matrix, before it is rounded to int8: mixing.py says which and why, and `mix`
 * there gives the same bits. */

#include "kernels.h"
#include "vectors.h"

enum { MOST_AT_A_TIME = 8 };  /* vectors: AVX2 has 16 registers; 16 vectors in the 32 of AVX-512 were no faster */

/* So that the vectors are in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

static const uint64_t SIGNS = 0x98240bf9b831d6a3;  /* of the segments, as in mixing.py */

/* What a pass does first: within vectors, or a change of signs, from bit to bit of SIGNS. */
enum start { BEGINS = 1, SIGNED = 2 };

/* Sums and differences of `radix` vectors that are `step` numbers apart, of neighbours first; 1, 2, 4 or 8.
 * `segment`: the number of the first, and `across`: of the first without a sign. */
INLINE void pass(const float *from, float *to, size_t length, size_t step, size_t radix, int starts, float factor,
                 size_t segment, size_t across) {
    for (size_t begin = 0; begin < length; begin += radix * step, segment += radix) {
        floats signs[MOST_AT_A_TIME];
        if (starts & SIGNED)
            UNROLL for (size_t i = 0; i < radix; i++)
                signs[i] = all(segment + i < across && SIGNS >> (segment + i) % 64 & 1 ? -1 : 1);
        for (size_t j = begin; j < begin + step; j += LANES) {
            floats v[MOST_AT_A_TIME];
            UNROLL for (size_t i = 0; i < radix; i++) {
                v[i] = load(from + j + i * step);
                if (starts & BEGINS) v[i] = hadamard(v[i]);
                if (starts & SIGNED) v[i] = v[i] * signs[i];
            }
            UNROLL for (size_t apart = 1; apart < radix; apart *= 2)
                UNROLL for (size_t i = 0; i < radix; i++)
                    if (!(i & apart)) {
                        floats low = v[i], high = v[i + apart];
                        v[i] = low + high, v[i + apart] = low - high;
                    }
            UNROLL for (size_t i = 0; i < radix; i++) store(to + j + i * step, v[i] * all(factor));
        }
    }
}

/* The Hadamard transform of `length` numbers, over those that are `step` or more apart. */
INLINE void transform(const float *from, float *to, size_t length, size_t step, int starts, size_t segment,
                      size_t across) {
    float whole = 1 / __builtin_sqrtf((float)(starts & BEGINS ? length : length / step));
    do {
        size_t radix = length / step < MOST_AT_A_TIME ? length / step : MOST_AT_A_TIME;
        float factor = step * radix == length ? whole : 1;
        switch (radix + 32 * (size_t)starts) {  /* constants, so that the loop over vectors has no branch */
#define PASS(radix, starts) case radix + 32 * starts: \
    pass(from, to, length, step, radix, starts, factor, segment, across); break;
#define PASSES(starts) PASS(2, starts) PASS(4, starts) PASS(8, starts)
            PASS(1, BEGINS) PASSES(0) PASSES(BEGINS) PASSES(SIGNED)
        }
        from = to, starts = 0, step *= radix;
    } while (step < length);
}

/* `size`: a multiple of 16. */
static void mix(const float *from, float *to, size_t size) {
    size_t segment = size & -size, segments = size / segment, across = 1;
    for (size_t begin = 0; begin < size; begin += segment)
        transform(from + begin, to + begin, segment, LANES, BEGINS, 0, 0);
    while (2 * across <= segments) across *= 2;
    if (across == 1) return;
    transform(to, to, across * segment, segment, 0, 0, 0);
    float *last = to + (segments - across) * segment;
    transform(last, last, across * segment, segment, SIGNED, segments - across, across);
}
