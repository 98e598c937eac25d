/* Moving what is cached: by rows, when beams or sentences take other rows, and as a whole, when the capacity changes.
 *
 * Keys and values (parts, rows, heads, capacity) of positions that are `position` bytes each. */

#include <string.h>

#include "kernels.h"

/* Whether a copy stays within the cache. */
static int is_inside(const struct row_copies *c, size_t i) {
    int64_t rows = (int64_t)c->rows, capacity = (int64_t)c->capacity;
    return c->to[i] >= 0 && c->to[i] < rows && c->from[i] >= 0 && c->from[i] < rows && c->first[i] >= 0 &&
           c->last[i] <= capacity;
}

/* In the order given: no row may be overwritten before it is copied. */
int kvjobs_copy_rows(const struct row_copies *c) {
    for (size_t i = 0; i < c->count; i++)
        if (!is_inside(c, i)) return REFUSED;
    size_t head = c->capacity * c->position, row = c->heads * head, part = c->rows * row;
    for (size_t i = 0; i < c->count; i++) {
        if (c->first[i] >= c->last[i] || c->to[i] == c->from[i]) continue;
        size_t begin = (size_t)c->first[i] * c->position, bytes = (size_t)(c->last[i] - c->first[i]) * c->position;
        for (size_t p = 0; p < c->parts; p++) {
            char *to = c->memory + p * part + (size_t)c->to[i] * row + begin;
            const char *from = c->memory + p * part + (size_t)c->from[i] * row + begin;
            for (size_t h = 0; h < c->heads; h++) memcpy(to + h * head, from + h * head, bytes);
        }
    }
    return DONE;
}

/* From one layout to another, which may share memory. Blocks have the same order in both. So a block that moves back
 * lands on what has moved already, if blocks are moved in their order, and one that moves ahead in the opposite order;
 * and no block that moves back lands on one that still has to move ahead, which would have to overtake it. */
int kvjobs_lay_out(const struct layouts *l) {
    if (l->kept_rows > l->old_rows || l->kept_rows > l->new_rows || l->cached > l->old_capacity ||
        l->cached > l->new_capacity)
        return REFUSED;
    size_t old_head = l->old_capacity * l->position, new_head = l->new_capacity * l->position;
    size_t old_part = l->old_rows * l->heads * old_head, new_part = l->new_rows * l->heads * new_head;
    size_t bytes = l->cached * l->position, blocks = l->kept_rows * l->heads, total = l->parts * blocks;
    for (int ahead = 0; ahead < 2; ahead++) {
        for (size_t n = 0; n < total; n++) {
            size_t i = ahead ? total - 1 - n : n, part = i / blocks, block = i % blocks;
            const char *from = l->from + part * old_part + block * old_head;
            char *to = l->to + part * new_part + block * new_head;
            if (ahead ? to > from : to < from) memmove(to, from, bytes);
        }
    }
    return DONE;
}
