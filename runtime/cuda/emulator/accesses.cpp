#include "runtime/cuda/emulator/accesses.h"
#include "runtime/cuda/emulator/emulator.h"
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sys/mman.h>
#include <unordered_map>

namespace emulated {
namespace {

enum : size_t { MEMORY_BYTES = (size_t)16 << 30, ALIGNMENT = 256, CELL_BYTES = 4, PAGE = 4096 };

/* Of 4 bytes: 1 + the node, as `base` counts them, that wrote them last, and the list of those that
 * have read them since.  Numbers below those of the present graph are of graphs that have ended. */
struct cell {
    uint32_t writer, readers;
};
/* A list of nodes: one more than the list `before`.  Equal lists are the same. */
struct readers {
    uint32_t before, node;
};

typedef std::vector<uint64_t> node_set;
bool has(const node_set &set, size_t node) {
    return set[node / 64] >> node % 64 & 1;
}
void add(node_set &set, size_t node) {
    set[node / 64] |= (uint64_t)1 << node % 64;
}
void add_all(node_set &set, const node_set &more) {
    for (size_t i = 0; i < set.size(); i++) set[i] |= more[i];
}

struct node_order {
    const char *kernel;
    bool followed, led_late;
    node_set started;   /* completed when it starts, */
    node_set waited;    /* and when it has called follow() */
    node_set reachable; /* by edges */
};

char *memory;
cell *cells;
std::map<char *, size_t> blocks; /* bytes of each */

bool checking;
std::vector<node_order> nodes;
size_t current;
uint32_t base, first_list = 1, next_list = 1;
uint32_t own_lists = 1; /* from here on they end with the current node */
std::vector<readers> lists; /* from first_list on */
std::unordered_map<uint64_t, uint32_t> list_numbers;
char message[512];

/* ---- what is wrong ---- */

/* A node on a path between two that did not wait for what came before it. */
const char *hasty_between(size_t from, size_t to) {
    for (size_t i = 0; i < nodes.size(); i++)
        if (has(nodes[to].reachable, i) && has(nodes[i].reachable, from) && !nodes[i].followed)
            return nodes[i].kernel;
    return "a kernel";
}

void report(size_t index, bool write, size_t other, bool other_wrote) {
    if (message[0]) return;
    const node_order &n = nodes[current];
    char *at = memory + index * CELL_BYTES;
    auto block = blocks.upper_bound(at);
    if (block == blocks.begin()) return; /* of no block */
    --block;
    const size_t byte = (size_t)(at - block->first);
    int used = std::snprintf(message, sizeof message,
                             "kernel '%s' %s bytes %zu to %zu of a block of %zu, which kernel '%s' %s",
                             n.kernel, write ? "writes" : "reads", byte, byte + CELL_BYTES - 1,
                             block->second, nodes[other].kernel, other_wrote ? "writes" : "reads");
    if (used < 0 || (size_t)used >= sizeof message) return;
    char *end = message + used;
    const size_t left = sizeof message - (size_t)used;
    if (!has(n.reachable, other))
        std::snprintf(end, left, ", and no path of edges orders them");
    else if (!here->followed && has(n.waited, other))
        std::snprintf(end, left, ", before follow()");
    else
        std::snprintf(end, left, ": kernel '%s' between them ends without follow()",
                      hasty_between(other, current));
}

/* ---- one access ---- */

bool is_ordered(uint32_t other) {
    return other == current || has(here->followed ? nodes[current].waited : nodes[current].started,
                                   other);
}

uint32_t with_reader(uint32_t list) {
    if (list >= own_lists) return list;
    if (list < first_list) list = 0;
    const uint64_t key = (uint64_t)list << 32 | (uint32_t)current;
    const auto [at, is_new] = list_numbers.try_emplace(key, next_list);
    if (is_new) {
        lists.push_back({list, (uint32_t)current});
        next_list++;
    }
    return at->second;
}

void access_cell(size_t index, bool write) {
    cell &c = cells[index];
    if (c.writer > base && !is_ordered(c.writer - base - 1))
        report(index, write, c.writer - base - 1, true);
    if (!write) {
        c.readers = with_reader(c.readers);
        return;
    }
    for (uint32_t list = c.readers; list >= first_list; list = lists[list - first_list].before)
        if (!is_ordered(lists[list - first_list].node))
            report(index, write, lists[list - first_list].node, false);
    c.writer = base + 1 + (uint32_t)current;
    c.readers = 0;
}
} // namespace

/* Whether the current node has made the same access before, no later than after follow(). */
static inline bool is_known(const cell &c, bool write) {
    if (write) return c.writer == base + 1 + current && !c.readers && here->followed;
    return c.readers >= own_lists && (c.writer <= base || here->followed);
}

static inline void access(const void *at, size_t bytes, bool write) {
    if (!checking) return;
    const size_t from = (size_t)((uintptr_t)at - (uintptr_t)memory);
    if (from >= MEMORY_BYTES) return;
    for (size_t i = from / CELL_BYTES; i <= (from + bytes - 1) / CELL_BYTES; i++)
        if (!is_known(cells[i], write)) access_cell(i, write);
}

/* ---- graphs ---- */

void accesses_begin(size_t count) {
    const size_t words = (count + 63) / 64;
    base += (uint32_t)nodes.size();
    nodes.assign(count, {"", false, false, node_set(words), node_set(words), node_set(words)});
    first_list = next_list;
    lists.clear();
    list_numbers.clear();
    message[0] = 0;
}

void accesses_begin_node(size_t node, const char *kernel, const std::vector<need> &needs) {
    node_order &n = nodes[node];
    n.kernel = kernel;
    for (const need &before : needs) {
        const node_order &p = nodes[before.node];
        add(n.reachable, before.node);
        add_all(n.reachable, p.reachable);
        add_all(n.started, before.programmatic && !p.led_late ? p.started : p.waited);
        add_all(n.waited, p.followed ? p.waited : p.started);
        add(n.waited, before.node);
        if (!before.programmatic) add(n.started, before.node);
    }
    add_all(n.waited, n.started);
    current = node;
    own_lists = next_list;
    checking = memory && nodes.size() > 1; /* one node has nothing to wait for */
}

void accesses_end_node(bool followed, bool led_late) {
    checking = false;
    nodes[current].followed = followed;
    nodes[current].led_late = led_late;
}

const char *accesses_end() {
    return message[0] ? message : nullptr;
}

/* ---- device memory ---- */

#if defined(__SANITIZE_ADDRESS__) /* which finds accesses beside a block by itself */
static void *take(size_t bytes) {
    void *block = nullptr;
    return posix_memalign(&block, ALIGNMENT, bytes) ? nullptr : block;
}
static void give(void *block, size_t) {
    std::free(block);
}
#else
static void *reserve(size_t bytes) {
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    return at;
}
static size_t whole(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}
/* From one range of addresses, so that an address tells whether it is device memory. */
static void *take(size_t bytes) {
    if (!memory) {
        memory = (char *)reserve(MEMORY_BYTES);
        cells = (cell *)reserve(MEMORY_BYTES / CELL_BYTES * sizeof(cell));
    }
    char *at = memory;
    for (const auto &[block, size] : blocks) {
        if ((size_t)(block - at) >= whole(bytes)) break;
        at = block + whole(size);
    }
    return whole(bytes) <= MEMORY_BYTES - (size_t)(at - memory) ? at : nullptr;
}
static void give(char *block, size_t bytes) {
    const size_t at = (size_t)(block - memory);
    const size_t first = (at + PAGE - 1) / PAGE * PAGE, last = (at + whole(bytes)) / PAGE * PAGE;
    if (last <= first) return;
    madvise(memory + first, last - first, MADV_DONTNEED);
    madvise(cells + first / CELL_BYTES, (last - first) / CELL_BYTES * sizeof(cell), MADV_DONTNEED);
}
#endif

void *device_allocate(size_t bytes) {
    void *block = take(bytes);
    if (block) blocks[(char *)block] = bytes;
    return block;
}
size_t device_release(void *block) {
    const auto at = blocks.find((char *)block);
    const size_t bytes = at->second;
    blocks.erase(at);
    give((char *)block, bytes);
    return bytes;
}
} // namespace emulated

/* ---- what compiled kernels call ---- */

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_read_range(void *at, size_t bytes) {
    emulated::access(at, bytes, false);
}
void __tsan_write_range(void *at, size_t bytes) {
    emulated::access(at, bytes, true);
}
#define OF_SIZE(BYTES)                                                                             \
    void __tsan_read##BYTES(void *at) {                                                            \
        emulated::access(at, BYTES, false);                                                        \
    }                                                                                              \
    void __tsan_write##BYTES(void *at) {                                                           \
        emulated::access(at, BYTES, true);                                                         \
    }                                                                                              \
    void __tsan_unaligned_read##BYTES(void *at) {                                                  \
        emulated::access(at, BYTES, false);                                                        \
    }                                                                                              \
    void __tsan_unaligned_write##BYTES(void *at) {                                                 \
        emulated::access(at, BYTES, true);                                                         \
    }
OF_SIZE(1) OF_SIZE(2) OF_SIZE(4) OF_SIZE(8) OF_SIZE(16)
}
