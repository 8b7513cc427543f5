/* memory_source.h - Experts in memory, filled at random and given out once per request, last first.
 * Holding too many of them is a mistake.  For op cases. */
#ifndef SL_TESTS_SUPPORT_MEMORY_SOURCE_H
#define SL_TESTS_SUPPORT_MEMORY_SOURCE_H
#include "tests/support/op_case.h"

enum { MAX_EXPERTS = 300, MOST_LEASES = 3 };
typedef struct {
    sl_expert_source base;
    int64_t experts;
    sl_cview matrices[MAX_EXPERTS][3]; /* gate, up, down */
    int32_t used[MAX_EXPERTS], wanted[MAX_EXPERTS];
    uint32_t used_count, left, held;
} memory_source;

static sl_status memory_source_request(sl_expert_source *base, sl_layer_id layer,
                                       const int32_t *experts, uint32_t count, sl_error *err) {
    memory_source *s = (memory_source *)base;
    (void)layer, (void)err;
    assert_true(count <= s->experts);
    memcpy(s->wanted, experts, count * sizeof *experts);
    s->left = count;
    return SL_OK;
}
static sl_status memory_source_take(sl_expert_source *base, sl_layer_id layer, sl_expert_lease *out,
                                    sl_error *err) {
    memory_source *s = (memory_source *)base;
    (void)layer, (void)err;
    *out = (sl_expert_lease){.expert = -1};
    if (!s->left) return SL_OK;
    assert_true(s->held < MOST_LEASES);
    const int32_t e = s->wanted[--s->left];
    *out = (sl_expert_lease){
        .expert = e, .gate = s->matrices[e][0], .up = s->matrices[e][1], .down = s->matrices[e][2]};
    s->held++;
    return SL_OK;
}
static void memory_source_release(sl_expert_source *base, const sl_expert_lease *lease) {
    memory_source *s = (memory_source *)base;
    assert_true(lease->expert >= 0 && s->held > 0);
    s->held--;
}
/* For op_case.prepare. */
static void memory_source_request_used(sl_expert_source *base) {
    const memory_source *s = (memory_source *)base;
    sl_error err = {0};
    assert_int_equal(base->request(base, (sl_layer_id){0}, s->used, s->used_count, &err), SL_OK);
}

/* matrices: [experts, width, hidden], the gates. */
static void memory_source_init(memory_source *s, const sl_type *matrices) {
    const int64_t *dims = matrices->shape.dims;
    *s = (memory_source){
        .base = {memory_source_request, memory_source_take, memory_source_release, MOST_LEASES},
        .experts = dims[0]};
    for (int64_t e = 0; e < s->experts; e++)
        for (int i = 0; i < 3; i++) {
            const sl_type type = sl_type_make(matrices->dtype, 2, i == 2 ? dims[2] : dims[1],
                                              i == 2 ? dims[1] : dims[2]);
            op_case owner = {0};
            s->matrices[e][i] = (sl_cview){input(&owner, type, -1, 1), type};
        }
}
static void memory_source_deinit(memory_source *s) {
    for (int64_t e = 0; e < s->experts; e++)
        for (int i = 0; i < 3; i++) free((void *)s->matrices[e][i].data);
}
#endif
