/* fibers.cpp - The threads of a block, one at a time. */
#include "runtime/cuda/emulator/fibers.h"
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define ANNOTATED 1
#else
#define ANNOTATED 0
#endif

namespace emulated {

__thread place *here;

namespace {
enum { STACK_BYTES = 256 << 10, MAX_THREADS = 1024, SLOT = 64 };

/* Where a fiber stopped.  Only what a callee must keep is on its stack. */
extern "C" void emulated_switch(void **save, void *load);
#if defined(__x86_64__)
__asm__(".text\n.type emulated_switch,@function\nemulated_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#else
#error "the emulator's fibers are written for x86-64"
#endif

struct fiber {
    place where;
    void *stack_pointer, *stack;
    bool done;
    unsigned barrier, exchange; /* how many it has passed */
#if ANNOTATED
    void *fake_stack;
#endif
};

/* Two sets of what lanes give, used in turn: a lane may write its next while others still read. */
struct warp {
    unsigned arrived, passed;
    alignas(SLOT) unsigned char given[2][WARP * SLOT];
};

struct block_state {
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    void *scheduler, *stacks;
    unsigned count, running, live;
    unsigned arrived, passed; /* of the block's barrier */
    int sum, last_sum;
    bool backwards;
    bool led, led_late, followed; /* of the block: lead() was called, after follow(); follow() was */
    const kernel *what;
    const void *args;
#if ANNOTATED
    void *scheduler_fake;
    const void *scheduler_stack;
    size_t scheduler_bytes;
#endif
};
block_state state; /* one kernel runs at a time: what is __shared__ exists once */

fiber &self() {
    return state.fibers[state.running];
}

/* To the scheduler, which goes on with the next fiber. */
void pause() {
    fiber &f = self();
#if ANNOTATED
    __sanitizer_start_switch_fiber(f.done ? nullptr : &f.fake_stack, state.scheduler_stack,
                                   state.scheduler_bytes);
#endif
    emulated_switch(&f.stack_pointer, state.scheduler);
#if ANNOTATED
    __sanitizer_finish_switch_fiber(f.fake_stack, nullptr, nullptr);
#endif
}

void body() {
#if ANNOTATED
    __sanitizer_finish_switch_fiber(nullptr, &state.scheduler_stack, &state.scheduler_bytes);
#endif
    state.what->call(state.args);
    self().done = true;
    state.live--;
    for (;;) pause();
}

void enter_fiber(unsigned index) {
    fiber &f = state.fibers[index];
    state.running = index;
    here = &f.where;
#if ANNOTATED
    __sanitizer_start_switch_fiber(&state.scheduler_fake, f.stack, STACK_BYTES);
#endif
    emulated_switch(&state.scheduler, f.stack_pointer);
#if ANNOTATED
    __sanitizer_finish_switch_fiber(state.scheduler_fake, nullptr, nullptr);
#endif
}

void prepare(unsigned index, const launch &l, const uint3 &block) {
    fiber &f = state.fibers[index];
    f = fiber{};
    f.stack = (char *)state.stacks + (size_t)index * STACK_BYTES;
    void **top = (void **)((char *)f.stack + STACK_BYTES);
    *--top = nullptr; /* what body would return to; leaves the stack as a call does */
    *--top = (void *)body;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    f.stack_pointer = top;
    f.where.block_size = l.block;
    f.where.grid_size = l.grid;
    f.where.block = block;
    f.where.thread = {index % l.block.x, index / l.block.x % l.block.y,
                      index / l.block.x / l.block.y};
    f.where.lane = index % WARP;
    f.where.dynamic_shared = l.dynamic_shared;
    f.where.followed = false;
}

/* A full round in which nobody gets further means that some wait for what never comes.  Only what
 * never decreases is counted: sums of others may be the same by chance. */
uint64_t progress_of() {
    uint64_t sum = (uint64_t)state.passed + state.count - state.live;
    for (const warp &w : state.warps) sum += w.passed;
    for (const fiber &f : state.fibers) sum += (uint64_t)f.barrier + f.exchange;
    return sum;
}

void run_block(const launch &l, const uint3 &block) {
    for (unsigned i = 0; i < state.count; i++) prepare(i, l, block);
    for (warp &w : state.warps) w.arrived = w.passed = 0;
    state.arrived = state.passed = 0;
    state.sum = 0;
    state.live = state.count;
    state.led = state.led_late = state.followed = false;
    while (state.live > 0) {
        const uint64_t before = progress_of();
        for (unsigned n = 0; n < state.count; n++) {
            const unsigned index = state.backwards ? state.count - 1 - n : n;
            if (!state.fibers[index].done) enter_fiber(index);
        }
        if (state.live > 0 && progress_of() == before) {
            std::fprintf(stderr, "emulated cuda: kernel '%s' waits for ever: %u of %u threads are "
                                 "at a barrier that the others do not reach\n",
                         l.what->name, state.live, state.count);
            std::abort();
        }
    }
}
} // namespace

void lead() {
    if (!state.led) state.led_late = here->followed;
    state.led = true;
}

void follow() {
    here->followed = state.followed = true;
}

void block_barrier() {
    (void)block_barrier_sum(0);
}

int block_barrier_sum(int value) {
    const unsigned mine = self().barrier++;
    state.sum += value;
    state.arrived++;
    while (state.passed == mine) {
        if (state.arrived >= state.live) {
            state.last_sum = state.sum;
            state.sum = 0;
            state.arrived = 0;
            state.passed++;
        } else {
            pause();
        }
    }
    return state.last_sum;
}

const unsigned char *warp_exchange(const void *mine, unsigned bytes) {
    warp &w = state.warps[state.running / WARP];
    const unsigned turn = self().exchange++;
    unsigned char *given = w.given[turn % 2];
    std::memcpy(given + here->lane * SLOT, mine, bytes);
    w.arrived++;
    while (w.passed == turn) {
        if (w.arrived == WARP) {
            w.arrived = 0;
            w.passed++;
        } else {
            pause();
        }
    }
    return given;
}

bool run(const launch &l, outcome *out) {
    static bool backwards;
    *out = {};
    backwards = !backwards;
    state.count = l.block.x * l.block.y * l.block.z;
    if (state.count == 0 || state.count > MAX_THREADS || state.count % WARP) return false;
    if (!state.stacks) {
        state.stacks = mmap(nullptr, (size_t)STACK_BYTES * MAX_THREADS, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (state.stacks == MAP_FAILED) std::abort();
    }
    state.fibers.resize(state.count);
    state.warps.resize(state.count / WARP);
    state.backwards = backwards;
    state.what = l.what;
    state.args = l.args;
    for (unsigned z = 0; z < l.grid.z; z++)
        for (unsigned y = 0; y < l.grid.y; y++)
            for (unsigned x = 0; x < l.grid.x; x++) {
                run_block(l, {x, y, z});
                out->followed |= state.followed;
                out->led_late |= state.led ? state.led_late : state.followed;
            }
    return true;
}
} // namespace emulated
