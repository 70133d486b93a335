/* Nothing is wrong with this one. It reads its options back in init, so that a test can see what it was given. */
#include <kvplane/host.h>

static kvp_status check_options(const kvp_host* host);
static const kvp_option* const declared[4];

#define ID "sound"
#define N_OPTIONS 4
#define OPTIONS declared
#define INIT_BODY return check_options(host);
#include "fault.h"

static const kvp_option exact = {
    KVP_HEAD(kvp_option), TEXT("exact"), KVP_OPTION_BOOL, 0, TEXT("false"), 0, 1, {NULL, 0}, TEXT("whether it is exact")};
static const kvp_option group = {
    KVP_HEAD(kvp_option), TEXT("group"), KVP_OPTION_I64, 0, TEXT("32"), 8, 256, {NULL, 0}, TEXT("values of a scale")};
static const kvp_option alpha = {
    KVP_HEAD(kvp_option), TEXT("alpha"), KVP_OPTION_F64, 0, TEXT("inf"), 0, __builtin_inf(), {NULL, 0}, TEXT("limit")};
static const kvp_option mode = {
    KVP_HEAD(kvp_option), TEXT("mode"), KVP_OPTION_STR, 0, TEXT("fast"), 0, 0, TEXT("fast|exact"), TEXT("how")};
static const kvp_option* const declared[4] = {&exact, &group, &alpha, &mode};

/* Refuses group = 64, with a text that shows every value. */
static kvp_status check_options(const kvp_host* host) {
    static const kvp_str keys[] = {TEXT("exact"), TEXT("group"), TEXT("alpha"), TEXT("mode")};
    static const kvp_str reason = TEXT("64 is taken");
    uint32_t is_exact;
    int64_t size;
    double limit;
    kvp_str how;
    if (host->option_bool(host->context, keys[0], &is_exact) != KVP_OK) return KVP_ERROR_INTERNAL;
    if (host->option_i64(host->context, keys[1], &size) != KVP_OK) return KVP_ERROR_INTERNAL;
    if (host->option_f64(host->context, keys[2], &limit) != KVP_OK) return KVP_ERROR_INTERNAL;
    if (host->option_str(host->context, keys[3], &how) != KVP_OK) return KVP_ERROR_INTERNAL;
    if (host->option_i64(host->context, keys[0], &size) != KVP_NOT_FOUND) return KVP_ERROR_INTERNAL;
    if (size == 64) {
        host->set_error(host->context, reason);
        return KVP_ERROR_INVALID;
    }
    return KVP_OK;
}
