// SPDX-License-Identifier: Apache-2.0
/* Graphs of operations, run one after the other: every tensor as fp64 values of 4 axes, rounded to its own type when it is made. */
#include "graphs.h"

#include "numbers.h"

#include <algorithm>
#include <cstring>

enum { AXES = 4 };

struct values {
    int64_t dim[AXES];
    std::vector<double> at;

    int64_t count() const {
        return dim[0] * dim[1] * dim[2] * dim[3];
    }
    double &operator()(int64_t a, int64_t b, int64_t c, int64_t d) {
        return at[(size_t)(((a * dim[1] + b) * dim[2] + c) * dim[3] + d)];
    }
    double operator()(int64_t a, int64_t b, int64_t c, int64_t d) const {
        return at[(size_t)(((a * dim[1] + b) * dim[2] + c) * dim[3] + d)];
    }
    /* An axis of extent 1 is for all. */
    double broadcast(int64_t a, int64_t b, int64_t c, int64_t d) const {
        return (*this)(dim[0] == 1 ? 0 : a, dim[1] == 1 ? 0 : b, dim[2] == 1 ? 0 : c, dim[3] == 1 ? 0 : d);
    }
};

/* ---- Tensors ---------------------------------------------------------------------------------------------------------------------- */

static cudnnDataType_t type_of(const object &tensor) {
    return tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}

static bool flag_of(const object &tensor, int name) {
    return tensor.has(name) && tensor.value<bool>(name);
}

static number_kind kind_of(cudnnDataType_t type) {
    switch (type) {
    case CUDNN_DATA_FLOAT:
        return NUMBER_FP32;
    case CUDNN_DATA_BFLOAT16:
        return NUMBER_BF16;
    case CUDNN_DATA_HALF:
        return NUMBER_FP16;
    case CUDNN_DATA_FP8_E4M3:
        return NUMBER_E4M3;
    case CUDNN_DATA_FP8_E5M2:
        return NUMBER_E5M2;
    case CUDNN_DATA_INT8:
        return NUMBER_INT8;
    case CUDNN_DATA_INT32:
        return NUMBER_INT32;
    default:
        qs_shim_fail("cuDNN's data type %d in memory is not known to the double", (int)type);
    }
}

static void extents_of(const object &tensor, int64_t dim[AXES], int64_t stride[AXES]) {
    if (tensor.of(CUDNN_ATTR_TENSOR_DIMENSIONS).count != AXES || tensor.of(CUDNN_ATTR_TENSOR_STRIDES).count != AXES)
        qs_shim_fail("a tensor of cuDNN without 4 axes");
    for (size_t i = 0; i < AXES; i++) {
        dim[i] = tensor.value<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        stride[i] = tensor.value<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i);
        if (dim[i] < 1 || stride[i] < 0)
            qs_shim_fail("a tensor of cuDNN with extent %lld, stride %lld", (long long)dim[i], (long long)stride[i]);
    }
}

size_t tensor_extent(const object &tensor) {
    int64_t dim[AXES], stride[AXES], last = 1;
    extents_of(tensor, dim, stride);
    for (int i = 0; i < AXES; i++)
        last += (dim[i] - 1) * stride[i];
    return (size_t)last * (size_t)number_bytes(kind_of(type_of(tensor)));
}

template <typename F> static void each_element(const int64_t dim[AXES], F body) {
    for (int64_t a = 0; a < dim[0]; a++)
        for (int64_t b = 0; b < dim[1]; b++)
            for (int64_t c = 0; c < dim[2]; c++)
                for (int64_t d = 0; d < dim[3]; d++)
                    body(a, b, c, d);
}

/* Its extents alone. */
static values shape_for(const object &tensor) {
    values out;
    int64_t stride[AXES];
    extents_of(tensor, out.dim, stride);
    return out;
}

static values made_for(const object &tensor) {
    values out = shape_for(tensor);
    out.at.assign((size_t)out.count(), 0.0);
    return out;
}

static values load(const object &tensor, const void *from) {
    values out = made_for(tensor);
    int64_t dim[AXES], stride[AXES];
    const number_kind kind = kind_of(type_of(tensor));
    extents_of(tensor, dim, stride);
    each_element(dim, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        const int64_t i = a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
        int32_t whole;
        if (kind == NUMBER_INT32) {
            memcpy(&whole, static_cast<const char *>(from) + 4 * i, 4);
            out(a, b, c, d) = whole;
        } else {
            out(a, b, c, d) = (double)number_load(kind, from, i);
        }
    });
    return out;
}

/* As the tensor's type holds it; integers saturate. */
static double rounded(cudnnDataType_t type, double x) {
    char code[8] = {0};
    if (type == CUDNN_DATA_BOOLEAN) return x != 0;
    if (type == CUDNN_DATA_INT32) return fmin(fmax(nearbyint(x), -0x1p31), 0x1p31 - 1);
    number_store(kind_of(type), code, 0, (float)x);
    return (double)number_load(kind_of(type), code, 0);
}

static void store(const object &tensor, const values &from, void *to) {
    int64_t dim[AXES], stride[AXES];
    const number_kind kind = kind_of(type_of(tensor));
    extents_of(tensor, dim, stride);
    each_element(dim, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        const int64_t i = a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
        const double x = from(a, b, c, d);
        if (kind == NUMBER_INT32) {
            const int32_t whole = (int32_t)x;
            memcpy(static_cast<char *>(to) + 4 * i, &whole, 4);
        } else {
            number_store(kind, to, i, (float)x);
        }
    });
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------------------------- */

struct window {
    int64_t dilation[2], stride[2], before[2];
};

static window window_of(const object &convolution) {
    window out;
    for (size_t i = 0; i < 2; i++) {
        out.dilation[i] = convolution.value<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
        out.stride[i] = convolution.value<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        out.before[i] = convolution.value<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
    }
    return out;
}

/* The names that the three operations have for the same things. */
struct convolution_names {
    cudnnBackendDescriptorType_t type;
    int how, x, w, y, alpha, beta, made;
};
static const convolution_names convolutions[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW},
};

static const convolution_names *convolution_of(const object &operation) {
    for (const convolution_names &one : convolutions)
        if (one.type == operation.type) return &one;
    return nullptr;
}

/* Channels last, so that inner loops run over them. */
static std::vector<double> channels_last(const values &from) {
    std::vector<double> out(from.at.size());
    size_t i = 0;
    for (int64_t a = 0; a < from.dim[0]; a++)
        for (int64_t c = 0; c < from.dim[2]; c++)
            for (int64_t d = 0; d < from.dim[3]; d++)
                for (int64_t b = 0; b < from.dim[1]; b++)
                    out[i++] = from(a, b, c, d);
    return out;
}

static void from_channels_last(const std::vector<double> &from, values &out) {
    size_t i = 0;
    for (int64_t a = 0; a < out.dim[0]; a++)
        for (int64_t c = 0; c < out.dim[2]; c++)
            for (int64_t d = 0; d < out.dim[3]; d++)
                for (int64_t b = 0; b < out.dim[1]; b++)
                    out(a, b, c, d) = from[i++];
}

/* Every product of a pixel of x, a tap of w and a result of y, for the one of the three that is made. */
static void convolve(const window &how, const convolution_names &names, const values &x, const values &w, const values &y, values &made) {
    const int64_t groups = x.dim[1] / w.dim[1], outputs = w.dim[0] / groups, inputs = w.dim[1];
    std::vector<double> of_x = channels_last(x), of_w = channels_last(w), of_y = channels_last(y);
    const bool makes_y = names.made == names.y, makes_x = names.made == names.x;
    for (int64_t n = 0; n < y.dim[0]; n++)
        for (int64_t row = 0; row < y.dim[2]; row++)
            for (int64_t column = 0; column < y.dim[3]; column++)
                for (int64_t r = 0; r < w.dim[2]; r++)
                    for (int64_t s = 0; s < w.dim[3]; s++) {
                        const int64_t h = row * how.stride[0] - how.before[0] + r * how.dilation[0],
                                      v = column * how.stride[1] - how.before[1] + s * how.dilation[1];
                        if (h < 0 || v < 0 || h >= x.dim[2] || v >= x.dim[3]) continue;
                        for (int64_t k = 0; k < w.dim[0]; k++) {
                            double *px = &of_x[(size_t)(((n * x.dim[2] + h) * x.dim[3] + v) * x.dim[1] + k / outputs * inputs)],
                                   *pw = &of_w[(size_t)(((k * w.dim[2] + r) * w.dim[3] + s) * inputs)],
                                   *py = &of_y[(size_t)(((n * y.dim[2] + row) * y.dim[3] + column) * y.dim[1] + k)];
                            for (int64_t c = 0; c < inputs; c++) {
                                if (makes_y)
                                    *py += px[c] * pw[c];
                                else if (makes_x)
                                    px[c] += *py * pw[c];
                                else
                                    pw[c] += *py * px[c];
                            }
                        }
                    }
    from_channels_last(makes_y ? of_y : makes_x ? of_x : of_w, made);
}

/* ---- Operations ---------------------------------------------------------------------------------------------------------------------- */

/* What an operation reads and what it makes: names of attributes, 0 behind the last. */
struct operation_names {
    int reads[3], makes;
};

static operation_names names_of(const object &operation) {
    operation_names out = {{0, 0, 0}, 0};
    if (const convolution_names *names = convolution_of(operation)) {
        int i = 0;
        for (int name : {names->x, names->w, names->y})
            if (name != names->made) out.reads[i++] = name;
        out.makes = names->made;
        return out;
    }
    switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
        int i = 0;
        for (int name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
            if (operation.has(name)) out.reads[i++] = name;
        out.makes = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
        return out;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 0}, CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 0, 0}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC};
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 0, 0}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC};
    default:
        qs_shim_fail("cuDNN's operation of type %d is not known to the double", (int)operation.type);
    }
}

static double pointwise(cudnnPointwiseMode_t mode, double x, double b, double t) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_MAX:
        return fmax(x, b);
    case CUDNN_POINTWISE_MIN:
        return fmin(x, b);
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_RECIPROCAL:
        return 1 / x;
    case CUDNN_POINTWISE_RELU_FWD:
        return fmax(x, 0);
    case CUDNN_POINTWISE_CMP_EQ:
        return x == b;
    case CUDNN_POINTWISE_CMP_NEQ:
        return x != b;
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_CMP_LT:
        return x < b;
    case CUDNN_POINTWISE_CMP_LE:
        return x <= b;
    case CUDNN_POINTWISE_LOGICAL_AND:
        return x != 0 && b != 0;
    case CUDNN_POINTWISE_LOGICAL_OR:
        return x != 0 || b != 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? x : b;
    default:
        qs_shim_fail("cuDNN's pointwise mode %d is not known to the double", (int)mode);
    }
}

static void pointwise_run(const object &operation, const std::vector<const values *> &read, values &made) {
    const object &how = operation.other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const cudnnPointwiseMode_t mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const int64_t axis = how.has(CUDNN_ATTR_POINTWISE_AXIS) ? how.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS) : -1;
    each_element(made.dim, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        const int64_t place[AXES] = {a, b, c, d};
        double from[3] = {0, 0, 0};
        for (size_t i = 0; i < read.size(); i++)
            from[i] = read[i]->broadcast(a, b, c, d);
        made(a, b, c, d) = mode == CUDNN_POINTWISE_GEN_INDEX ? (double)place[axis] : pointwise(mode, from[0], from[1], from[2]);
    });
}

/* A matrix of a batch may serve several of the other operand: as many as its batch goes into the result's. */
static void matmul_run(const values &a, const values &b, values &made) {
    for (int64_t i = 0; i < made.dim[0]; i++)
        for (int64_t k = 0; k < made.dim[1]; k++) {
            const int64_t ai = i / (made.dim[0] / a.dim[0]), ak = k / (made.dim[1] / a.dim[1]), bi = i / (made.dim[0] / b.dim[0]),
                          bk = k / (made.dim[1] / b.dim[1]);
            for (int64_t row = 0; row < made.dim[2]; row++)
                for (int64_t inner = 0; inner < a.dim[3]; inner++) {
                    const double factor = a(ai, ak, row, inner);
                    for (int64_t column = 0; column < made.dim[3]; column++)
                        made(i, k, row, column) += factor * b(bi, bk, inner, column);
                }
        }
}

static void reduction_run(const object &operation, const values &x, values &made) {
    const cudnnReduceTensorOp_t what =
        operation.other(CUDNN_ATTR_OPERATION_REDUCTION_DESC).value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    if (what != CUDNN_REDUCE_TENSOR_ADD && what != CUDNN_REDUCE_TENSOR_MAX)
        qs_shim_fail("cuDNN's reduction %d is not known to the double", (int)what);
    if (what == CUDNN_REDUCE_TENSOR_MAX) made.at.assign(made.at.size(), -INFINITY);
    each_element(x.dim, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        const int64_t place[AXES] = {a, b, c, d};
        int64_t at[AXES]; /* as many neighbours fall together as the extent went down by */
        for (int i = 0; i < AXES; i++)
            at[i] = place[i] / (x.dim[i] / made.dim[i]);
        double &to = made(at[0], at[1], at[2], at[3]);
        to = what == CUDNN_REDUCE_TENSOR_ADD ? to + x(a, b, c, d) : fmax(to, x(a, b, c, d));
    });
}

/* The same places of memory under other extents and strides. */
static void reshape_run(const object &operation, const values &x, values &made) {
    const object &from = operation.other(CUDNN_ATTR_OPERATION_RESHAPE_XDESC), &to = operation.other(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    const auto place = [](const object &tensor, int64_t a, int64_t b, int64_t c, int64_t d) {
        const auto stride = [&](size_t axis) { return tensor.value<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, axis); };
        return a * stride(0) + b * stride(1) + c * stride(2) + d * stride(3);
    };
    std::map<int64_t, double> memory;
    each_element(x.dim, [&](int64_t a, int64_t b, int64_t c, int64_t d) { memory[place(from, a, b, c, d)] = x(a, b, c, d); });
    each_element(made.dim, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        const auto found = memory.find(place(to, a, b, c, d));
        if (found == memory.end()) qs_shim_fail("cuDNN's reshape reads what its operand has not");
        made(a, b, c, d) = found->second;
    });
}

static void convolution_run(const object &operation, const convolution_names &names, const std::vector<const values *> &read, values &made,
                            bool tensor_cores) {
    values factor[2] = {*read[0], *read[1]};
    const values *of[3];
    size_t next = 0;
    const int name[3] = {names.x, names.w, names.y};
    for (int i = 0; i < 3; i++) {
        of[i] = name[i] == names.made ? &made : &factor[next];
        if (name[i] == names.made) continue;
        if (tensor_cores && type_of(operation.other(name[i])) == CUDNN_DATA_FLOAT)
            for (double &x : factor[next].at)
                x = (double)number_tf32((float)x);
        next++;
    }
    convolve(window_of(operation.other(names.how)), names, *of[0], *of[1], *of[2], made);
}

static void operation_run(const object &operation, const std::vector<const values *> &read, values &made, bool tensor_cores) {
    if (const convolution_names *names = convolution_of(operation)) {
        convolution_run(operation, *names, read, made, tensor_cores);
    } else if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
        pointwise_run(operation, read, made);
    } else if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
        matmul_run(*read[0], *read[1], made);
    } else if (operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
        reshape_run(operation, *read[0], made);
    } else {
        reduction_run(operation, *read[0], made);
    }
}

/* ---- Graphs -------------------------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const object &tensor) {
    return tensor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

static const std::vector<std::shared_ptr<object>> &operations_of(const object &graph) {
    return graph.of(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects;
}

template <typename F> static void each_tensor(const object &graph, F body) {
    for (const auto &operation : operations_of(graph)) {
        const operation_names names = names_of(*operation);
        for (int name : names.reads)
            if (name) body(operation->other(name), false);
        body(operation->other(names.makes), true);
    }
}

std::map<int64_t, const object *> graph_tensors(const object &graph) {
    std::map<int64_t, const object *> out;
    each_tensor(graph, [&](const object &tensor, bool) {
        if (!flag_of(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) out[number_of(tensor)] = &tensor;
    });
    return out;
}

static void convolution_check(const object &operation, const convolution_names &names) {
    const window how = window_of(operation.other(names.how));
    const values x = shape_for(operation.other(names.x)), w = shape_for(operation.other(names.w)), y = shape_for(operation.other(names.y));
    if (operation.other(names.how).value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2) qs_shim_fail("a convolution without 2 axes");
    if (operation.other(names.how).value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
        qs_shim_fail("a convolution with a turned filter");
    if (operation.value<float>(names.alpha) != 1 || operation.value<float>(names.beta) != 0)
        qs_shim_fail("a convolution with alpha other than 1, or beta other than 0");
    bool fits = x.dim[0] == y.dim[0] && x.dim[1] % w.dim[1] == 0 && w.dim[0] == y.dim[1] && w.dim[0] % (x.dim[1] / w.dim[1]) == 0;
    for (size_t i = 0; i < 2; i++) {
        const int64_t behind = operation.other(names.how).value<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        fits =
            fits && (x.dim[2 + i] + how.before[i] + behind - how.dilation[i] * (w.dim[2 + i] - 1) - 1) / how.stride[i] + 1 == y.dim[2 + i];
    }
    if (!fits) qs_shim_fail("extents of a convolution do not fit");
}

/* Types that engines take: those of the manual's tables, for capabilities up to 9.0. */
static const char *convolution_refusal(const object &operation, const convolution_names &names) {
    const object &w = operation.other(names.w), &y = operation.other(names.y);
    const int first = names.made == names.x ? names.y : names.x, second = names.made == names.w ? names.y : names.w;
    const cudnnDataType_t left = type_of(operation.other(first)), right = type_of(operation.other(second)),
                          made = type_of(operation.other(names.made)),
                          sums = operation.other(names.how).value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
    const bool forward = names.made == names.y, is_short = left == CUDNN_DATA_FP8_E4M3 || left == CUDNN_DATA_FP8_E5M2,
               whole = left == CUDNN_DATA_INT8;
    const values of_w = shape_for(w), of_y = shape_for(y);
    if (left != right) return "two types of factors";
    if (qs_double_capability() < 80 && left == CUDNN_DATA_BFLOAT16) return "bf16 wants capability 8.0";
    if (qs_double_capability() < 89 && is_short) return "formats of 8 bits want capability 8.9";
    if (sums != (whole ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT)) return "sums of this type";
    if ((whole || is_short) && !forward) return "gradients of 8 bits";
    if (whole && made != CUDNN_DATA_INT32) return "int8 goes into int32 sums";
    if (whole && flag_of(y, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && (of_w.dim[1] % 4 || of_y.dim[1] % 4))
        return "int8 in a larger graph wants multiples of 4 channels";
    if (is_short && (of_w.dim[1] % 16 || of_y.dim[1] % 16)) return "formats of 8 bits want multiples of 16 channels";
    if (!forward && made != left) return "gradients of another type";
    return nullptr;
}

const char *graph_refusal(const object &graph) {
    std::map<int64_t, bool> made;
    std::map<int64_t, std::string> known;
    each_tensor(graph, [&](const object &tensor, bool makes) {
        const std::string &dims = tensor.of(CUDNN_ATTR_TENSOR_DIMENSIONS).bytes;
        const auto before = known.find(number_of(tensor));
        if (before != known.end() && before->second != dims)
            qs_shim_fail("two tensors of a cuDNN graph have the number %lld", (long long)number_of(tensor));
        known[number_of(tensor)] = dims;
        if (makes && made[number_of(tensor)]) qs_shim_fail("two operations make tensor %lld", (long long)number_of(tensor));
        if (makes) made[number_of(tensor)] = true;
    });
    each_tensor(graph, [&](const object &tensor, bool makes) {
        if (!makes && flag_of(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && !made[number_of(tensor)])
            qs_shim_fail("nothing makes the virtual tensor %lld", (long long)number_of(tensor));
    });
    for (const auto &operation : operations_of(graph)) {
        const convolution_names *names = convolution_of(*operation);
        if (!names) continue;
        convolution_check(*operation, *names);
        if (const char *reason = convolution_refusal(*operation, *names)) return reason;
    }
    return nullptr;
}

int64_t graph_filter_gradient(const object &graph) {
    for (const auto &operation : operations_of(graph)) {
        if (operation->type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) continue;
        const object &made = operation->other(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
        if (type_of(made) != CUDNN_DATA_FLOAT) continue;
        return std::max(made.value<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, 2), made.value<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, 3));
    }
    return 0;
}

void graph_run(const object &graph, const std::map<int64_t, void *> &at, bool tensor_cores) {
    std::map<int64_t, values> known;
    std::vector<const object *> left;
    std::map<int64_t, bool> to_make;
    for (const auto &operation : operations_of(graph)) {
        left.push_back(operation.get());
        to_make[number_of(operation->other(names_of(*operation).makes))] = true;
    }
    const auto ready = [&](const object &operation) {
        for (int name : names_of(operation).reads)
            if (name && to_make[number_of(operation.other(name))] && !known.count(number_of(operation.other(name)))) return false;
        return true;
    };
    while (!left.empty()) {
        size_t next = 0;
        while (next < left.size() && !ready(*left[next]))
            next++;
        if (next == left.size()) qs_shim_fail("operations of a cuDNN graph wait for each other");
        const object &operation = *left[next];
        left.erase(left.begin() + (long)next);
        const operation_names names = names_of(operation);
        std::vector<const values *> read;
        for (int name : names.reads) {
            if (!name) continue;
            const object &tensor = operation.other(name);
            const int64_t number = number_of(tensor);
            if (!known.count(number)) known[number] = load(tensor, at.at(number));
            read.push_back(&known[number]);
        }
        const object &result = operation.other(names.makes);
        values made = made_for(result);
        operation_run(operation, read, made, tensor_cores);
        for (double &x : made.at)
            x = rounded(type_of(result), x);
        if (!flag_of(result, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) store(result, made, at.at(number_of(result)));
        known[number_of(result)] = std::move(made);
    }
}
