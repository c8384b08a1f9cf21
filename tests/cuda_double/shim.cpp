// SPDX-License-Identifier: Apache-2.0
/* Threads of a block as fibers. A worker fiber takes the next thread of the block, runs it to its end, and takes the next one. One that meets
 * a barrier is set aside with its stack; another worker takes over. When all that a barrier waits for have come, those set aside go on. */
#include "shim.h"

#include "cuda_shim.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

qs_shim_index qs_shim_thread, qs_shim_block, qs_shim_block_extent, qs_shim_grid_extent;

void qs_shim_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("cuda double: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

/* ---- Kernels by name -------------------------------------------------------------------------------------------------------------- */

static qs_shim_kernel *first_kernel;

void qs_shim_register(qs_shim_kernel *kernel) {
    if (qs_shim_find(kernel->name)) qs_shim_fail("two kernels are called %s", kernel->name);
    kernel->next = first_kernel;
    first_kernel = kernel;
}

const qs_shim_kernel *qs_shim_find(const char *name) {
    for (const qs_shim_kernel *kernel = first_kernel; kernel; kernel = kernel->next)
        if (!strcmp(kernel->name, name)) return kernel;
    return nullptr;
}

size_t qs_shim_job_bytes(const qs_shim_kernel *kernel) {
    return kernel->job_bytes;
}

/* ---- Switching stacks -------------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
struct context {
    void *stack;
};
/* Keeps what a call must keep on the stack that is left; goes on where the other one was left. */
extern "C" void qs_shim_switch(void **leave, void *enter);
__asm__(".text\n"
        ".hidden qs_shim_switch\n"
        ".globl qs_shim_switch\n"
        ".type qs_shim_switch, @function\n"
        "qs_shim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size qs_shim_switch, .-qs_shim_switch\n");

static void context_switch(context *leave, context *enter) {
    qs_shim_switch(&leave->stack, enter->stack);
}

static void context_make(context *made, char *stack, size_t bytes, void (*start)()) {
    void **top = reinterpret_cast<void **>(stack + bytes);
    *--top = nullptr; /* where `start` would return to; at its entry the stack is aligned as behind a call */
    *--top = reinterpret_cast<void *>(start);
    for (int saved = 0; saved < 6; saved++)
        *--top = nullptr;
    made->stack = top;
}
#else
struct context {
    ucontext_t at;
};

static void context_switch(context *leave, context *enter) {
    swapcontext(&leave->at, &enter->at);
}

static void context_make(context *made, char *stack, size_t bytes, void (*start)()) {
    getcontext(&made->at);
    made->at.uc_stack.ss_sp = stack;
    made->at.uc_stack.ss_size = bytes;
    made->at.uc_link = nullptr;
    makecontext(&made->at, start, 0);
}
#endif

/* ---- A block --------------------------------------------------------------------------------------------------------------------- */

enum { MOST_THREADS = 1024, LANES = 32, STACK_BYTES = 256 << 10, MOST_SHARED = 227 << 10, PAGE = 4096 };

struct fiber {
    context here;
    char *stack;
    int thread; /* that it runs */
};

enum thread_state { NOT_STARTED, RUNS, AT_BLOCK, AT_WARP, ENDED };

struct lane_exchange {
    uint64_t value[2][LANES]; /* by turns: who was quick may bring the next one while others still read */
    int turn;                 /* meetings that took place */
    int came;
    const char *what;
};

static struct {
    const qs_shim_kernel *kernel;
    const void *job;
    int threads, started;
    bool reversed;
    thread_state state[MOST_THREADS];
    fiber *waits[MOST_THREADS];
    lane_exchange warp[MOST_THREADS / LANES];
    int at_block, ended, brought, brought_all;
    const char *file; /* of the barrier that some wait at */
    int line;
} block;

static std::vector<fiber *> idle, ready;
static fiber *current;
static context scheduler;
static char *shared_end; /* of dynamic shared memory: behind it is a page that nobody may touch */
static unsigned shared_bytes_now;

static int thread_at(int order) {
    return block.reversed ? block.threads - 1 - order : order;
}

static void become(int thread) {
    current->thread = thread;
    const unsigned x = qs_shim_block_extent.x, y = qs_shim_block_extent.y, number = (unsigned)thread;
    qs_shim_thread = {number % x, number / x % y, number / x / y};
}

/* What a worker does for ever: threads of the block, one after the other. */
static void work() {
    for (;;) {
        while (block.started < block.threads) {
            const int thread = thread_at(block.started++);
            become(thread);
            block.state[thread] = RUNS;
            block.kernel->entry(block.job);
            block.state[thread] = ENDED;
            block.ended++;
        }
        fiber *self = current;
        idle.push_back(self);
        context_switch(&self->here, &scheduler);
    }
}

static fiber *fiber_take() {
    if (!idle.empty()) {
        fiber *one = idle.back();
        idle.pop_back();
        return one;
    }
    fiber *one = new fiber;
    one->stack = static_cast<char *>(
        mmap(nullptr, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0));
    if (one->stack == MAP_FAILED || mprotect(one->stack, PAGE, PROT_NONE)) qs_shim_fail("no memory for the stack of a thread");
    context_make(&one->here, one->stack + PAGE, STACK_BYTES, work);
    return one;
}

/* The running thread is set aside; behind this it goes on. */
static void set_aside(thread_state where) {
    fiber *self = current;
    const int thread = self->thread;
    block.state[thread] = where;
    block.waits[thread] = self;
    context_switch(&self->here, &scheduler);
    become(thread);
    block.state[thread] = RUNS;
}

static int warp_threads(int warp) {
    const int behind = block.threads - warp * LANES;
    return behind < LANES ? behind : LANES;
}

int qs_shim_block_meet(int brought, const char *file, int line) {
    if (block.at_block && (line != block.line || strcmp(file, block.file)))
        qs_shim_fail("%s: threads of a block wait at two barriers, %s:%d and %s:%d", block.kernel->name, block.file, block.line, file,
                     line);
    block.file = file;
    block.line = line;
    block.brought += brought;
    block.at_block++;
    set_aside(AT_BLOCK);
    return block.brought_all;
}

qs_shim_lanes qs_shim_warp_meet(const char *what, unsigned mask, uint64_t value) {
    const int thread = current->thread, warp = thread / LANES, lane = thread % LANES, there = warp_threads(warp);
    const unsigned all = there == LANES ? 0xffffffffu : (1u << there) - 1;
    lane_exchange *exchange = &block.warp[warp];
    if ((mask & all) != all) qs_shim_fail("%s: %s of a part of the warp (mask %08x)", block.kernel->name, what, mask);
    if (exchange->came && strcmp(what, exchange->what))
        qs_shim_fail("%s: lanes of a warp meet at %s and at %s", block.kernel->name, what, exchange->what);
    const int turn = exchange->turn % 2;
    if (!exchange->came) memset(exchange->value[turn], 0, sizeof exchange->value[turn]);
    exchange->what = what;
    exchange->value[turn][lane] = value;
    exchange->came++;
    set_aside(AT_WARP);
    return {exchange->value[turn], all, lane};
}

/* Threads of [begin, end) go on. */
static void release(int begin, int end) {
    for (int order = end - 1; order >= begin; order--) { /* the last one that is made ready goes first */
        const int thread = block.reversed ? begin + end - 1 - order : order;
        ready.push_back(block.waits[thread]);
    }
}

/* Whether somebody can go on; ends the process when threads wait for what never comes. */
static bool next_ready() {
    if (!ready.empty()) return true;
    for (int warp = 0; warp * LANES < block.threads; warp++) {
        lane_exchange *exchange = &block.warp[warp];
        if (!exchange->came || exchange->came < warp_threads(warp)) continue;
        exchange->came = 0;
        exchange->turn++;
        release(warp * LANES, warp * LANES + warp_threads(warp));
        return true;
    }
    if (block.started < block.threads) {
        ready.push_back(fiber_take());
        return true;
    }
    if (block.ended == block.threads) return false;
    if (block.at_block == block.threads) {
        block.brought_all = block.brought;
        block.at_block = block.brought = 0;
        release(0, block.threads);
        return true;
    }
    for (int thread = 0; thread < block.threads; thread++)
        if (block.state[thread] == AT_WARP)
            qs_shim_fail(
                "%s: %d lanes of a warp (thread %d among them) wait at %s for the others, of %d threads %d have ended and %d wait at "
                "a barrier of the block",
                block.kernel->name, block.warp[thread / LANES].came, thread, block.warp[thread / LANES].what, block.threads, block.ended,
                block.at_block);
    qs_shim_fail("%s: %d of %d threads wait at the barrier %s:%d, %d have ended", block.kernel->name, block.at_block, block.threads,
                 block.file, block.line, block.ended);
}

static void block_run() {
    block.started = block.ended = block.at_block = block.brought = 0;
    memset(block.state, 0, sizeof block.state);
    for (int warp = 0; warp * LANES < block.threads; warp++)
        block.warp[warp].came = block.warp[warp].turn = 0;
    if (shared_bytes_now) memset(shared_end - shared_bytes_now, 0xa5, shared_bytes_now);
    while (next_ready()) {
        current = ready.back();
        ready.pop_back();
        context_switch(&scheduler, &current->here);
    }
}

void *qs_shim_dynamic_shared() {
    return shared_end - shared_bytes_now;
}

void qs_shim_run(const qs_shim_kernel *kernel, const void *job, const unsigned grid[3], const unsigned extent[3], unsigned shared_bytes) {
    static const char *const order = getenv("QSYNC_DOUBLE_ORDER"); /* "reverse": last blocks and threads first */
    if (!shared_end) {
        const size_t bytes = MOST_SHARED + PAGE - MOST_SHARED % PAGE;
        char *memory = static_cast<char *>(mmap(nullptr, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (memory == MAP_FAILED || mprotect(memory + bytes, PAGE, PROT_NONE)) qs_shim_fail("no memory for shared memory");
        shared_end = memory + bytes;
    }
    shared_bytes_now = (shared_bytes + 15) / 16 * 16;
    block.kernel = kernel;
    block.job = job;
    block.threads = (int)(extent[0] * extent[1] * extent[2]);
    block.reversed = order && !strcmp(order, "reverse");
    qs_shim_block_extent = {extent[0], extent[1], extent[2]};
    qs_shim_grid_extent = {grid[0], grid[1], grid[2]};
    const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t k = 0; k < blocks; k++) {
        const uint64_t number = block.reversed ? blocks - 1 - k : k;
        qs_shim_block = {(unsigned)(number % grid[0]), (unsigned)(number / grid[0] % grid[1]), (unsigned)(number / grid[0] / grid[1])};
        block_run();
    }
}
