// SPDX-License-Identifier: Apache-2.0
/* Parts of a device in the double of CUDA's driver: green contexts, which have some of its multiprocessors. In what numbers they come is by
 * capability, as the driver's header tells. What the header leaves open is misuse here: a stream of a part is used while its context is
 * current, and no other way. */
#include "inside.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

using namespace inside;

/* Green contexts share the memory of their device's primary context; streams, events and modules stay with the one that was current. */
struct CUgreenCtx_st {
    CUctx_st context;
};
struct CUdevResourceDesc_st {
    CUdevice device;
    unsigned multiprocessors;
};

static std::set<CUgreenCtx> greens;
enum { OF_DEVICE = 0x5110, OF_SPLIT = 0x5111 }; /* where a resource comes from, in its hidden bytes, before the device's number */

bool inside::is_green(CUcontext context) {
    for (CUgreenCtx green : greens)
        if (context == &green->context) return true;
    return false;
}

void inside::check_no_green(const char *function, CUdevice device) {
    for (CUgreenCtx green : greens)
        if (green->context.device == device) qs_shim_fail("%s: left is a green context", function);
}

void qs_double_check_multiprocessors(const char *what, int fill) {
    const int has = current ? current->multiprocessors : 0, told = fill > 0 ? fill : MULTIPROCESSORS;
    if (told != has) qs_shim_fail("%s: kernels that fill %d multiprocessors, and the current context has %d", what, told, has);
}

bool qs_double_on_a_part() {
    return current && current->multiprocessors != MULTIPROCESSORS;
}

static void resource_sign(CUdevResource *resource, int from, CUdevice device) {
    const int hidden[2] = {from, device};
    memcpy(resource->_internal_padding, hidden, sizeof hidden);
}

static int resource_check(const char *function, const CUdevResource *resource, CUdevice *device) {
    int hidden[2];
    memcpy(hidden, resource->_internal_padding, sizeof hidden);
    if (resource->type != CU_DEV_RESOURCE_TYPE_SM || (hidden[0] != OF_DEVICE && hidden[0] != OF_SPLIT))
        qs_shim_fail("%s: no resource of multiprocessors", function);
    *device = hidden[1];
    return hidden[0];
}

API CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type) {
    ENTER("cuDeviceGetDevResource");
    check_device(function, device);
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    const int capability = qs_double_capability();
    *resource = CUdevResource{};
    resource->type = type;
    resource->sm.smCount = MULTIPROCESSORS;
    resource->sm.minSmPartitionSize = capability >= 90 ? 8 : capability >= 80 ? 4 : 2;
    resource->sm.smCoscheduledAlignment = capability >= 90 ? 8 : 2;
    resource_sign(resource, OF_DEVICE, device);
    return CUDA_SUCCESS;
}

API CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned *groups, const CUdevResource *input, CUdevResource *remaining,
                                         unsigned flags, unsigned least) {
    ENTER("cuDevSmResourceSplitByCount");
    CUdevice device;
    if (resource_check(function, input, &device) != OF_DEVICE) qs_shim_fail("%s: what was split is split again", function);
    if (!groups || flags || remaining) qs_shim_fail("%s: without a number of groups, or with what the double does not know", function);
    if (least > input->sm.smCount) return CUDA_ERROR_INVALID_VALUE;
    const unsigned unit = input->sm.smCoscheduledAlignment;
    const unsigned count = std::max((least + unit - 1) / unit * unit, input->sm.minSmPartitionSize);
    const unsigned most = input->sm.smCount / count;
    if (most == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *groups = result ? std::min(*groups, most) : most;
    for (unsigned i = 0; result && i < *groups; i++) {
        result[i] = *input;
        result[i].sm.smCount = count;
        resource_sign(&result[i], OF_SPLIT, device);
    }
    return CUDA_SUCCESS;
}

API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resource, unsigned count) {
    static std::vector<std::unique_ptr<CUdevResourceDesc_st>> made; /* nothing gives them back */
    ENTER("cuDevResourceGenerateDesc");
    CUdevice device;
    if (count != 1) qs_shim_fail("%s: %u resources", function, count);
    resource_check(function, resource, &device);
    made.emplace_back(new CUdevResourceDesc_st{device, resource->sm.smCount});
    *description = made.back().get();
    return CUDA_SUCCESS;
}

API CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned flags) {
    ENTER_CONTEXT("cuGreenCtxCreate"); /* else it would start the primary context by itself */
    check_device(function, device);
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM) qs_shim_fail("%s: flags %u", function, flags);
    if (description->device != device || current != &contexts[device]) qs_shim_fail("%s: a part of another device", function);
    *green = new CUgreenCtx_st{};
    (*green)->context.device = device;
    (*green)->context.retained = 1;
    (*green)->context.multiprocessors = (int)description->multiprocessors;
    greens.insert(*green);
    return CUDA_SUCCESS;
}

static void check_green(const char *function, CUgreenCtx green) {
    if (!greens.count(green)) qs_shim_fail("%s: %p is no green context", function, (void *)green);
}

API CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green) {
    ENTER("cuCtxFromGreenCtx");
    check_green(function, green);
    *context = &green->context;
    return CUDA_SUCCESS;
}

API CUresult cuGreenCtxDestroy(CUgreenCtx green) {
    ENTER("cuGreenCtxDestroy");
    check_green(function, green);
    const CUctx_st &context = green->context;
    if (current == &context) qs_shim_fail("%s: of what is current", function);
    if (!context.streams.empty() || !context.events.empty() || !context.modules.empty())
        qs_shim_fail("%s: left are %zu streams, %zu events, %zu modules", function, context.streams.size(), context.events.size(),
                     context.modules.size());
    greens.erase(green);
    delete green;
    return CUDA_SUCCESS;
}

API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned flags, int) {
    ENTER("cuGreenCtxStreamCreate");
    check_green(function, green);
    if (flags != CU_STREAM_NON_BLOCKING) qs_shim_fail("%s: flags %u", function, flags);
    *stream = stream_make(&green->context);
    return CUDA_SUCCESS;
}
