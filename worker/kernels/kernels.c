/* The kernels for one instruction set: -DNAME="avx2" -DKERNELS=kernels_avx2 */

#include "attention.c"
#include "logits.c"
#include "mixing.c"
#include "rows.c"


const struct kernels KERNELS = {NAME, attend, finish, sum_powers, best_continuations};
