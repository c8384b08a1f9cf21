// SPDX-License-Identifier: Apache-2.0
/* What the files of the driver's double share (driver.cpp, memory.cpp, green.cpp, recordings.cpp). */
#ifndef QSYNC_TESTS_INSIDE_H
#define QSYNC_TESTS_INSIDE_H

#include "double.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#define API extern "C" QS_DOUBLE_API
/* The head of a function of the driver; it is called `function` in messages. */
#define ENTER(name)                                            \
    std::lock_guard<std::recursive_mutex> lock(inside::mutex); \
    static const char function[] = name;                       \
    (void)function;                                            \
    if (!inside::initialised) qs_shim_fail("%s before cuInit", function)
#define ENTER_CONTEXT(name) \
    ENTER(name);            \
    qs_double_check_current(function)

struct CUctx_st {
    CUdevice device;
    int retained, multiprocessors;
    std::set<CUstream> streams;
    std::set<CUevent> events;
    std::set<CUmodule> modules;
    int graphs; /* and what was made of them to be launched */
};

namespace inside {
struct item;
}

struct CUstream_st {
    CUcontext context;
    std::deque<inside::item> queue;
    bool runs;        /* somebody is at work in it */
    CUgraph captures; /* NULL: work is put into it as ever */
};

namespace inside {

enum : size_t { GRANULARITY = 2 << 20 };
enum { MOST_DEVICES = 8, MULTIPROCESSORS = 132, POISON = 0xa5 };

extern std::recursive_mutex mutex;
extern bool initialised;
extern CUctx_st contexts[MOST_DEVICES];
extern thread_local CUcontext current;

/* A whole number from the environment. */
int64_t setting(const char *name, int64_t otherwise);
int device_count();
size_t device_bytes();
void check_device(const char *function, CUdevice device);
/* Nothing is queued anywhere: what goes away may be needed by what is. */
void check_idle(const char *function);

/* A stream of a context. */
CUstream stream_make(CUcontext context);
bool is_green(CUcontext context);
void check_no_green(const char *function, CUdevice device);

struct mark; /* an event as it was recorded once */

/* Something in a stream, or in a graph. */
struct item {
    std::string what;
    std::function<void()> work;
    std::shared_ptr<mark> reaches, follows;
    CUmodule module; /* that a kernel is of */
};

/* At the end of a stream, or of what it captures. */
void put(CUstream stream, item one);
/* A launch of a kernel of ours, which is checked. */
item kernel_item(const char *function, CUfunction kernel, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                 void **parameters, void **extra);
/* recordings.cpp: the graph that a stream captures takes it. */
void capture(CUgraph graph, item one);
/* Whether a graph that may be launched has kernels of the module. */
bool is_in_graphs(CUmodule module);

size_t memory_used(CUdevice device);
size_t pinned_pieces();
bool lies_in_pinned(CUdeviceptr at, size_t bytes);

} // namespace inside

#endif
