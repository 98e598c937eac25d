/* Vectors of float32 for the instruction set that a file is compiled for: LANES numbers each.
 *
 * Loads and stores may be unaligned. A fused multiply-add rounds once. */
#ifndef KVJOBS_VECTORS_H
#define KVJOBS_VECTORS_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include <immintrin.h>
#define LANES 16
typedef __m512 floats;
static inline floats load(const float *from) { return _mm512_loadu_ps(from); }
static inline void store(float *to, floats x) { _mm512_storeu_ps(to, x); }
static inline floats all(float x) { return _mm512_set1_ps(x); }
static inline floats multiply_add(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline floats larger(floats a, floats b) { return _mm512_max_ps(a, b); }
static inline floats smaller(floats a, floats b) { return _mm512_min_ps(a, b); }
/* The larger absolute value of each lane, compared as integers, which have the same order: NaN is larger than all
 * others. `a`: a result of this function. */
static inline floats larger_absolute(floats a, floats x) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(_mm512_abs_ps(x))));
}
static inline float largest_absolute(floats a) {
    int32_t bits = _mm512_reduce_max_epi32(_mm512_castps_si512(a));
    float x;
    return memcpy(&x, &bits, sizeof x), x;
}
/* a / b, to a unit in the last place: half as long as the instruction. */
static inline floats divide(floats a, floats b) {
    floats inverse = _mm512_rcp14_ps(b);
    inverse = _mm512_fmadd_ps(_mm512_fnmadd_ps(b, inverse, _mm512_set1_ps(1.0f)), inverse, inverse);
    floats quotient = a * inverse;
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(b, quotient, a), inverse, quotient);
}
static inline float sum(floats x) { return _mm512_reduce_add_ps(x); }
static inline float largest(floats x) { return _mm512_reduce_max_ps(x); }
/* The lanes in which x is larger than y, as bits. */
static inline unsigned places_larger(floats x, float y) { return _mm512_cmp_ps_mask(x, all(y), _CMP_GT_OQ); }
static inline floats load_int8(const int8_t *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}
/* Rounded to the nearest integer, halves to even, and cut to the range. */
static inline void store_int8(int8_t *to, floats x) {
    _mm_storeu_si128((__m128i *)to, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}
/* Numbers of -128 to 127, rounded likewise, plus 128. */
static inline void store_uint8(uint8_t *to, floats x) {
    __m512i shifted = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(128));
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(shifted));
}
static inline floats power_of_two(floats n) { return _mm512_scalef_ps(_mm512_set1_ps(1.0f), n); }
static inline floats rounded(floats x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* The sums of four vectors. */
static inline __m128 sums(floats a, floats b, floats c, floats d) {
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512 both = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
static inline void store_sums(float *to, floats a, floats b, floats c, floats d) {
    _mm_storeu_ps(to, sums(a, b, c, d));
}
/* The Hadamard transform of a vector's own numbers, without its factor: sums and differences of neighbours, of those
 * that are 2 apart, ... */
static inline floats hadamard(floats x) {
    const __m512 one = _mm512_set1_ps(1), minus_one = _mm512_set1_ps(-1);
    x = _mm512_fmadd_ps(x, _mm512_mask_mov_ps(one, 0xAAAA, minus_one), _mm512_permute_ps(x, 0xB1));
    x = _mm512_fmadd_ps(x, _mm512_mask_mov_ps(one, 0xCCCC, minus_one), _mm512_permute_ps(x, 0x4E));
    x = _mm512_fmadd_ps(x, _mm512_mask_mov_ps(one, 0xF0F0, minus_one), _mm512_shuffle_f32x4(x, x, 0xB1));
    return _mm512_fmadd_ps(x, _mm512_mask_mov_ps(one, 0xFF00, minus_one), _mm512_shuffle_f32x4(x, x, 0x4E));
}

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
#define LANES 8
typedef __m256 floats;
static inline floats load(const float *from) { return _mm256_loadu_ps(from); }
static inline void store(float *to, floats x) { _mm256_storeu_ps(to, x); }
static inline floats all(float x) { return _mm256_set1_ps(x); }
static inline floats multiply_add(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline floats larger(floats a, floats b) { return _mm256_max_ps(a, b); }
static inline floats smaller(floats a, floats b) { return _mm256_min_ps(a, b); }
static inline floats larger_absolute(floats a, floats x) {
    __m256i absolute = _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), absolute));
}
static inline float largest_absolute(floats a) {
    __m256i bits = _mm256_castps_si256(a);
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(1, 0, 3, 2)));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtss_f32(_mm_castsi128_ps(half));
}
static inline floats divide(floats a, floats b) { return a / b; }
static inline float sum(floats x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
static inline float largest(floats x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
static inline unsigned places_larger(floats x, float y) {
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, all(y), _CMP_GT_OQ));
}
static inline floats load_int8(const int8_t *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}
static inline __m128i to_int16(floats x) {
    __m256i whole = _mm256_cvtps_epi32(x);
    return _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}
static inline void store_int8(int8_t *to, floats x) {
    __m128i narrow = to_int16(x);
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(narrow, narrow));
}
static inline void store_uint8(uint8_t *to, floats x) {
    __m128i narrow = _mm_adds_epi16(to_int16(x), _mm_set1_epi16(128));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(narrow, narrow));
}
static inline floats power_of_two(floats n) {
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
static inline floats rounded(floats x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline void store_sums(float *to, floats a, floats b, floats c, floats d) {
    __m256 both = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1)));
}
static inline floats hadamard(floats x) {
    const __m256 minus_1 = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
    const __m256 minus_2 = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
    const __m256 minus_4 = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);
    x = _mm256_fmadd_ps(x, minus_1, _mm256_permute_ps(x, 0xB1));
    x = _mm256_fmadd_ps(x, minus_2, _mm256_permute_ps(x, 0x4E));
    return _mm256_fmadd_ps(x, minus_4, _mm256_permute2f128_ps(x, x, 1));
}

#else  /* any other: the compiler's own vectors */

#define LANES 4
typedef float floats __attribute__((vector_size(16)));
typedef int32_t integers __attribute__((vector_size(16)));
static inline floats load(const float *from) { floats x; memcpy(&x, from, sizeof x); return x; }
static inline void store(float *to, floats x) { memcpy(to, &x, sizeof x); }
static inline floats all(float x) { return (floats){x, x, x, x}; }
static inline floats multiply_add(floats a, floats b, floats c) { return a * b + c; }
static inline floats either(integers mask, floats a, floats b) {
    return (floats)(((integers)a & mask) | ((integers)b & ~mask));
}
static inline floats larger(floats a, floats b) { return either(a > b, a, b); }
static inline floats smaller(floats a, floats b) { return either(a < b, a, b); }
static inline floats larger_absolute(floats a, floats x) {
    integers bits = (integers)x & 0x7fffffff;
    return either((integers)a > bits, a, (floats)bits);
}
static inline float largest_absolute(floats a) {
    integers bits = (integers)a;
    int32_t left = bits[0] > bits[1] ? bits[0] : bits[1], right = bits[2] > bits[3] ? bits[2] : bits[3];
    int32_t top = left > right ? left : right;
    float x;
    return memcpy(&x, &top, sizeof x), x;
}
static inline floats divide(floats a, floats b) { return a / b; }
static inline float sum(floats x) { return (x[0] + x[2]) + (x[1] + x[3]); }
static inline float largest(floats x) {
    float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
    return a > b ? a : b;
}
static inline unsigned places_larger(floats x, float y) {
    return (unsigned)(x[0] > y) | (unsigned)(x[1] > y) << 1 | (unsigned)(x[2] > y) << 2 | (unsigned)(x[3] > y) << 3;
}
static inline floats load_int8(const int8_t *from) { return (floats){from[0], from[1], from[2], from[3]}; }
/* Adding 1.5 x 2^23 leaves no room for a fraction: halves go to even. */
static inline floats rounded(floats x) {
    floats magic = all(12582912.0f), cut = smaller(larger(x, all(-4194304.0f)), all(4194303.0f));
    return (cut + magic) - magic;
}
static inline void store_int8(int8_t *to, floats x) {
    floats cut = rounded(smaller(larger(x, all(-128.0f)), all(127.0f)));
    for (int i = 0; i < 4; i++) to[i] = (int8_t)cut[i];
}
static inline void store_uint8(uint8_t *to, floats x) {
    floats cut = rounded(smaller(larger(x, all(-128.0f)), all(127.0f)));
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)((int)cut[i] + 128);
}
static inline floats power_of_two(floats n) {
    integers exponent = {(int32_t)n[0] + 127, (int32_t)n[1] + 127, (int32_t)n[2] + 127, (int32_t)n[3] + 127};
    return (floats)(exponent << 23);
}
static inline void store_sums(float *to, floats a, floats b, floats c, floats d) {
    to[0] = sum(a), to[1] = sum(b), to[2] = sum(c), to[3] = sum(d);
}
static inline floats hadamard(floats x) {
    floats y = {x[0] + x[1], x[0] - x[1], x[2] + x[3], x[2] - x[3]};
    return (floats){y[0] + y[2], y[1] + y[3], y[0] - y[2], y[1] - y[3]};
}

#endif

/* e^x, to 2 units in the last place, of an x that is cut to -87.3 .. 88: the result is a normal number.
 *
 * x = n log 2 + r, |r| <= log 2 / 2; e^x = 2^n e^r, of which the series to r^7. Cody and Waite, Software Manual for the
 * Elementary Functions (1980), chapter 6: log 2 in two parts. NaN stays NaN. */
static inline floats exponential(floats x) {
    floats cut = larger(all(-87.3f), smaller(all(88.0f), x));  /* the second operand, where one is NaN */
    floats n = rounded(cut * all(1.44269504f));
    floats r = multiply_add(n, all(-0.693359375f), cut);
    r = multiply_add(n, all(2.12194440e-4f), r);
    floats p = all(1.0f / 5040);
    p = multiply_add(p, r, all(1.0f / 720));
    p = multiply_add(p, r, all(1.0f / 120));
    p = multiply_add(p, r, all(1.0f / 24));
    p = multiply_add(p, r, all(1.0f / 6));
    p = multiply_add(p, r, all(0.5f));
    p = multiply_add(p, r, all(1.0f));
    p = multiply_add(p, r, all(1.0f));
    return p * power_of_two(n);
}

#endif
