// SPDX-License-Identifier: Apache-2.0
/* Memory of the double of CUDA's driver: addresses that are reserved, pieces of memory that are mapped there, and memory of the host that is
 * pinned. */
#include "inside.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace inside;

enum : size_t { PAGE = 4096 };

/* One file without a name is the memory of all devices: what is created is a part of it, mapped where the program wants it. */
struct piece { /* of physical memory */
    size_t offset, bytes;
    CUdevice device;
    bool released, poisoned;
    int mapped;
};
struct mapping {
    size_t bytes;
    piece *memory;
    bool accessible;
};

static int memory_file = -1;
static std::map<size_t, piece *> pieces; /* by offset */
static size_t used_bytes[MOST_DEVICES];
static std::map<CUdeviceptr, size_t> reservations;
static std::map<CUdeviceptr, mapping> mappings;
static std::map<CUdeviceptr, size_t> pinned; /* memory of the host, of any context */

static void check_kind(const char *function, const CUmemAllocationProp *kind) {
    if (kind->type != CU_MEM_ALLOCATION_TYPE_PINNED) qs_shim_fail("%s: memory of type %d", function, (int)kind->type);
    if (kind->location.type != CU_MEM_LOCATION_TYPE_DEVICE) qs_shim_fail("%s: location of type %d", function, (int)kind->location.type);
    check_device(function, kind->location.id);
}

API CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    ENTER_CONTEXT("cuMemGetInfo");
    *total = device_bytes();
    *available = device_bytes() - used_bytes[current->device];
    return CUDA_SUCCESS;
}

API CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *kind, CUmemAllocationGranularity_flags) {
    ENTER("cuMemGetAllocationGranularity");
    check_kind(function, kind);
    *bytes = GRANULARITY;
    return CUDA_SUCCESS;
}

API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long flags) {
    ENTER("cuMemAddressReserve");
    if (bytes == 0 || bytes % GRANULARITY || flags || alignment > GRANULARITY) return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(nullptr, bytes + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(at) + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    const size_t before = begin - reinterpret_cast<uintptr_t>(at);
    if (before) munmap(at, before);
    if (before < GRANULARITY) munmap(reinterpret_cast<void *>(begin + bytes), GRANULARITY - before);
    reservations[begin] = bytes;
    *address = begin;
    return CUDA_SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    ENTER("cuMemAddressFree");
    const auto found = reservations.find(address);
    if (found == reservations.end() || found->second != bytes)
        qs_shim_fail("%s: %#llx, %zu bytes, was not reserved so", function, address, bytes);
    const auto inside = mappings.lower_bound(address);
    if (inside != mappings.end() && inside->first < address + bytes) qs_shim_fail("%s: memory is mapped at %#llx", function, inside->first);
    munmap(reinterpret_cast<void *>(address), bytes);
    reservations.erase(found);
    return CUDA_SUCCESS;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *kind, unsigned long long flags) {
    ENTER("cuMemCreate");
    check_kind(function, kind);
    if (bytes == 0 || bytes % GRANULARITY || flags) return CUDA_ERROR_INVALID_VALUE;
    const CUdevice device = kind->location.id;
    if (bytes > device_bytes() - used_bytes[device]) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t offset = 0;
    for (const auto &other : pieces) {
        if (other.first - offset >= bytes) break;
        offset = other.first + other.second->bytes;
    }
    if (memory_file < 0) memory_file = memfd_create("device memory", MFD_CLOEXEC);
    if (memory_file < 0 || ftruncate(memory_file, (off_t)((size_t)device_count() * device_bytes() * 2)))
        qs_shim_fail("%s: the host gives no memory", function);
    piece *made = new piece{offset, bytes, device, false, false, 0};
    pieces[offset] = made;
    used_bytes[device] += bytes;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(made);
    return CUDA_SUCCESS;
}

static piece *piece_of(const char *function, CUmemGenericAllocationHandle handle) {
    for (const auto &one : pieces)
        if (reinterpret_cast<CUmemGenericAllocationHandle>(one.second) == handle && !one.second->released) return one.second;
    qs_shim_fail("%s: %#llx is no memory", function, handle);
}

static void piece_drop(piece *memory) {
    if (!memory->released || memory->mapped) return;
    if (fallocate(memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)memory->offset, (off_t)memory->bytes))
        qs_shim_fail("the host does not take memory back");
    used_bytes[memory->device] -= memory->bytes;
    pieces.erase(memory->offset);
    delete memory;
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER("cuMemRelease");
    piece *memory = piece_of(function, handle);
    memory->released = true;
    piece_drop(memory);
    return CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    ENTER("cuMemMap");
    piece *memory = piece_of(function, handle);
    if (offset || flags || bytes != memory->bytes || address % GRANULARITY) return CUDA_ERROR_INVALID_VALUE;
    auto reserved = reservations.upper_bound(address);
    if (reserved == reservations.begin() || (--reserved)->first + reserved->second < address + bytes)
        qs_shim_fail("%s: %#llx, %zu bytes, is not inside a reservation", function, address, bytes);
    auto next = mappings.lower_bound(address);
    const bool meets_next = next != mappings.end() && next->first < address + bytes;
    const bool meets_last = next != mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address;
    if (meets_next || meets_last) qs_shim_fail("%s: memory is mapped at %#llx already", function, address);
    mappings[address] = {bytes, memory, false};
    memory->mapped++;
    return CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    ENTER("cuMemUnmap");
    check_idle(function);
    /* CUDA takes away whole mappings. */
    CUdeviceptr at = address;
    while (at < address + bytes) {
        const auto found = mappings.find(at);
        if (found == mappings.end() || at + found->second.bytes > address + bytes)
            qs_shim_fail("%s: [%#llx, %#llx) is no whole mapping from %#llx on", function, address, address + bytes, at);
        if (mmap(reinterpret_cast<void *>(at), found->second.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            qs_shim_fail("%s: the host does not unmap memory", function);
        at += found->second.bytes;
        found->second.memory->mapped--;
        piece_drop(found->second.memory);
        mappings.erase(found);
    }
    return CUDA_SUCCESS;
}

API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    ENTER("cuMemSetAccess");
    if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        qs_shim_fail("%s: access other than reads and writes by one device", function);
    CUdeviceptr at = address;
    while (at < address + bytes) {
        const auto found = mappings.find(at);
        if (found == mappings.end() || at + found->second.bytes > address + bytes)
            qs_shim_fail("%s: [%#llx, %#llx) is no whole mapping from %#llx on", function, address, address + bytes, at);
        piece *memory = found->second.memory;
        if (access->location.id != memory->device) qs_shim_fail("%s: memory of device %d for another", function, memory->device);
        void *where = reinterpret_cast<void *>(at);
        if (!found->second.accessible && mmap(where, found->second.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_file,
                                              (off_t)memory->offset) == MAP_FAILED)
            qs_shim_fail("%s: the host does not map memory", function);
        if (!memory->poisoned) memset(where, POISON, memory->bytes);
        memory->poisoned = true;
        found->second.accessible = true;
        at += found->second.bytes;
    }
    return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    ENTER_CONTEXT("cuMemHostAlloc");
    if (bytes == 0 || flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    void *at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(at, POISON, bytes < ((size_t)64 << 20) ? bytes : 0);
    pinned[reinterpret_cast<CUdeviceptr>(at)] = whole;
    *memory = at;
    return CUDA_SUCCESS;
}

API CUresult cuMemFreeHost(void *memory) {
    ENTER_CONTEXT("cuMemFreeHost");
    check_idle(function);
    const auto found = pinned.find(reinterpret_cast<CUdeviceptr>(memory));
    if (found == pinned.end()) qs_shim_fail("%s: %p was not allocated", function, memory);
    munmap(memory, found->second);
    pinned.erase(found);
    return CUDA_SUCCESS;
}

bool inside::lies_in_pinned(CUdeviceptr at, size_t bytes) {
    auto found = pinned.upper_bound(at);
    return found != pinned.begin() && (--found)->first + found->second >= at + bytes;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags) {
    ENTER_CONTEXT("cuMemHostGetDevicePointer");
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    *address = reinterpret_cast<CUdeviceptr>(memory);
    if (!lies_in_pinned(*address, 1)) qs_shim_fail("%s: %p was not allocated", function, memory);
    return CUDA_SUCCESS;
}

static bool lies_in_device(CUdeviceptr at, size_t bytes) {
    const CUdeviceptr end = at + bytes;
    auto found = mappings.upper_bound(at);
    if (found == mappings.begin()) return false;
    for (--found; at < end; ++found) {
        if (found == mappings.end() || found->first > at || found->first + found->second.bytes <= at || !found->second.accessible)
            return false;
        at = found->first + found->second.bytes;
    }
    return true;
}

void qs_double_check_memory(const char *what, CUdeviceptr at, size_t bytes) {
    if (bytes && !lies_in_device(at, bytes) && !lies_in_pinned(at, bytes))
        qs_shim_fail("%s: [%#llx, %#llx) is not memory that the device sees", what, at, at + bytes);
}

size_t inside::memory_used(CUdevice device) {
    return used_bytes[device];
}

size_t inside::pinned_pieces() {
    return pinned.size();
}
