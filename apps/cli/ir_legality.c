/* ir_legality.c - Which nodes of a program a device supports. */
#include "apps/cli/ir.h"
#include <string.h>

typedef struct {
    unsigned native, rewritten, unsupported;
} counts;

static sl_legality_item item_at(const sl_legality *legality, uint32_t index) {
    sl_legality_item item = {.struct_size = sizeof item};
    if (sl_legality_at(legality, index, &item, NULL) != SL_OK) item.status = "";
    return item;
}

static counts count_all(const sl_legality *legality) {
    counts c = {0};
    for (uint32_t i = 0; i < sl_legality_count(legality); i++) {
        const char *status = item_at(legality, i).status;
        c.native += strcmp(status, "native") == 0;
        c.rewritten += strcmp(status, "rewritten") == 0;
        c.unsupported += strcmp(status, "unsupported") == 0;
    }
    return c;
}

static int print_json(const sl_legality *legality, const char *device, const counts *c) {
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < sl_legality_count(legality); i++) {
        const sl_legality_item item = item_at(legality, i);
        cli_json_append(nodes, json_pack("{s:s, s:s, s:s, s:s}", "node", item.node, "op", item.op,
                                         "status", item.status, "detail", item.detail));
    }
    const int printed = cli_print_json(
        json_pack("{s:s, s:b, s:i, s:i, s:i, s:o}", "device", device, "legal", c->unsupported == 0,
                  "native", (int)c->native, "rewritten", (int)c->rewritten, "unsupported",
                  (int)c->unsupported, "nodes", nodes));
    return c->unsupported ? CLI_FAILED : printed;
}

int cli_ir_legality(const sl_legality *legality, const cli_options *options) {
    const char *device = options->device ? options->device : "cpu";
    const counts c = count_all(legality);
    const char *first = NULL; /* that is not supported */
    if (options->json) return print_json(legality, device, &c);
    for (uint32_t i = 0; i < sl_legality_count(legality); i++) {
        const sl_legality_item item = item_at(legality, i);
        if (!first && strcmp(item.status, "unsupported") == 0) first = item.detail;
        if (strcmp(item.status, "rewritten") == 0)
            (void)printf("rewritten   %s: becomes %s\n", item.node, item.detail);
        if (strcmp(item.status, "unsupported") == 0) (void)printf("unsupported %s\n", item.detail);
    }
    (void)printf("%s: %u native, %u rewritten, %u unsupported\n", device, c.native, c.rewritten,
                 c.unsupported);
    if (!first) return CLI_OK;
    return cli_fail_text("%s (%u of %u nodes are not supported)", first, c.unsupported,
                         c.native + c.rewritten + c.unsupported);
}
