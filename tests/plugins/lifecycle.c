/* Its codec answers how often it was started and ended: 1000 * inits + finis. */
#include <stdint.h>
static uint64_t n_inits;
static uint64_t n_finis;
static uint64_t counts(uint32_t head_size, uint64_t n_tokens) {
    (void)head_size;
    (void)n_tokens;
    return 1000 * n_inits + n_finis;
}
#define ID "lifecycle"
#define ENCODED_BYTES counts
#define INIT_BODY (void)host; n_inits++; return KVP_OK;
#define FINI_BODY n_finis++;
#include "fault.h"
