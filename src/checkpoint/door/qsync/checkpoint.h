// SPDX-License-Identifier: Apache-2.0
/* checkpoint: a model's parameters, and whole training runs, to and from files of named tensors (tensor.h).
 *
 * Weights files hold every trained parameter and the running statistics in fp32, under the names, in the shapes and in the order of values
 * that PyTorch has (docs/weights.md), and name the graph they are of. So they are read by PyTorch, and files of PyTorch and Hugging Face's
 * transformers are read here. */
#ifndef QSYNC_CHECKPOINT_H
#define QSYNC_CHECKPOINT_H

#include "qsync/graph.h"

/* Writes atomically. trained and statistics are the flat buffers of the graph (trained_elements, statistics_elements). Models with GPT-2's
 * names are written with its packed and transposed matrices. */
QS_API qs_status qs_weights_write(const char *path, const qs_graph *graph, const float *trained, const float *statistics);

/* The same tensors in memory, in the order of parameters; release with qs_tensor_set_release. */
QS_API qs_status qs_weights_tensors(const qs_graph *graph, const float *trained, const float *statistics, qs_tensor_set *out);
/* Where one of the graph's parameters is in them. */
typedef struct qs_weights_place {
    char name[96];   /* of its tensor */
    bool transposed; /* a matrix [in, out], where ours is [out, in] */
    int part, parts; /* the tensor is so many equal pieces along the outputs, and the parameter is this one */
    qs_shape image;  /* its features (the last axis) are those of such an image [1,C,H,W] in the order C,H,W, where in memory they have the
                        order H,W,C; axes 0: they are none, or have one order */
} qs_weights_place;
QS_API qs_weights_place qs_weights_place_of(const qs_graph *graph, int parameter);

/* Reads the tensors of any weights file, told by what is in it: safetensors; an ONNX file by its name, maybe with options of the import
 * behind it, under the names that its import gives parameters; llama2.c's first format, and GGUF 2 and 3 of the architecture
 * llama (F32, F16, BF16, Q8_0, Q4_0, Q4_1), whose tensors become fp32 under the names that Hugging Face gives them, and whose rows of
 * queries and keys are put into its order (halves of a head are rotated, not neighbours). QS_BAD_FILE says what is wrong with a file.
 * `length`: positions that an ONNX file which leaves them open is imported with; 0: what qs_onnx_import takes by itself.
 * Release with qs_tensor_set_release. */
QS_API qs_status qs_weights_open(const char *path, int64_t length, qs_tensor_set *out);

/* Where a file and a model may differ: comma-separated shell patterns (fnmatch) of names. */
typedef struct qs_weights_choice {
    const char *fresh;  /* parameters, by their names here or in the file, that keep the values they have; NULL: none */
    const char *unused; /* tensors of the file, by their names there, that the model lacks; NULL: none */
} qs_weights_choice;
/* Fills the flat buffers from a file (qs_weights_open) whose tensors are F32, BF16 or F16. Names are compared as they are; where more are
 * found by a prefix ("bert.", "transformer.") that one side's names have and the other's lack, that is put before them or taken away.
 * GPT-2's layout, and that of minGPT, is told by the file. A second copy of a tied table may be there, and must be one; so may what is
 * computed (position_ids, masks, inv_freq, num_batches_tracked). Without patterns a file of ours must be of this graph by its signature, or
 * of one of the same name for samples of another size. choice NULL: no patterns. hash: xxHash-64 of the file, NULL: not wanted.
 * QS_MISMATCH, with nothing touched, names the first tensor that is missing, superfluous, of another shape or of another type; QS_USAGE a
 * pattern that fits nothing. */
QS_API qs_status qs_weights_start(const char *path, const qs_graph *graph, const qs_weights_choice *choice, float *trained,
                                  float *statistics, uint64_t *hash);
/* The same without a choice. */
QS_API qs_status qs_weights_read(const char *path, const qs_graph *graph, float *trained, float *statistics);
/* Model name (with options) stored in a weights file, or that the numbers of one of llama2.c's or GGUF describe, into name[QS_MODEL_NAME];
 * QS_MISMATCH where it is not said. */
QS_API qs_status qs_weights_model(const char *path, char *name);

/* ---- The state of a run ----------------------------------------------------------------------------------------------------- */
/* All that a run needs to go on with the same bits: flat fp32 buffers under their names, and how far it is. */
typedef struct qs_progress {
    int64_t step, steps_per_epoch; /* steps done, over all epochs */
    int64_t skipped;               /* of them skipped by loss scaling: the others updated the weights */
    double loss_scale;             /* of the next step */
    int64_t good_steps, bad_steps; /* since the last change of the scale; skipped in a row, up to now */
} qs_progress;

typedef struct qs_state_part {
    char name[64];
    int64_t elements;
    float *data; /* reading: NULL where it only has to be there */
} qs_state_part;

/* Writes atomically. */
QS_API qs_status qs_state_write(const char *path, const qs_graph *graph, const qs_progress *progress, int parts, const qs_state_part *part);
/* Fills the parts' data. QS_MISMATCH, with nothing touched, when it is the state of another model (name or graph), or has other parts. */
QS_API qs_status qs_state_read(const char *path, const qs_graph *graph, int parts, const qs_state_part *part, qs_progress *out);
/* One part, whatever others there are. */
QS_API qs_status qs_state_read_part(const char *path, const qs_graph *graph, const qs_state_part *part);

#endif
