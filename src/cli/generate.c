// SPDX-License-Identifier: Apache-2.0
/* qsync generate: text from a decoder. The text alone goes to standard output, as it is formed; whatever is said about it goes to standard
 * error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "generate_model.h"
#include "qsync/generate.h"
#include "qsync/text.h"

/* Text on its way out. */
typedef struct writing {
    char *pending, *settled; /* bytes that wait for the rest of their character; what goes out */
    size_t pending_bytes, pending_room, settled_room;
    bool kept;  /* for --json: out at the end, from the next */
    char *text; /* all that went out */
    size_t text_bytes, text_room;
} writing;

typedef struct generation {
    const char *weights, *model, *vocabulary, *prompt, *prompt_file, *backend, *isa;
    int64_t tokens, seed, context;
    qs_sampling sampling;
    int threads;
    bool json;
    /* made from these */
    qs_graph *graph;
    qs_tokenizer *tokenizer;
    qs_device *device;
    qs_decoder *decoder;
    qs_sampler *sampler;
    char *file; /* the prompt of a file */
    int32_t *id;
    int64_t ids, prompted; /* prompt and what follows it */
    size_t room;
    float *logits;
    writing out;
} generation;

static const option_row option_rows[] = {
    {OPTION(generation, vocabulary, "vocab", "FILE", "vocabulary that the ids are of, or bytes: docs/text.md"),
     .usual = "bytes, where the model has 256 ids"},
    {OPTION(generation, model, "model", "NAME", "model of the weights, or a graph.json"),
     .usual = "what graph.json beside the file, the file, or config.json beside it says"},
    {OPTION(generation, prompt, "prompt", "TEXT", "text to go on with"), .usual = "none: the piece that starts a text",
     .excludes = "prompt-file"},
    {OPTION(generation, prompt_file, "prompt-file", "FILE", "the same, from a file")},
    {OPTION(generation, tokens, "tokens", "N", "ids to add at most"), .standard = "100", .minimum = 1},
    {OPTION(generation, context, "context", "N", "positions at most, prompt included"), .usual = "what the model is made for",
     .minimum = 1},
    {OPTION(generation, sampling.temperature, "temperature", "X", "0: always the most probable id"), .standard = "1"},
    {OPTION(generation, sampling.top_p, "top-p", "X", "choose among the most probable ids that have this probability together"),
     .standard = "1"},
    {OPTION(generation, seed, "seed", "N", "of the choices"), .standard = "1"},
    {OPTION(generation, backend, "backend", "NAME", "device backend"), .standard = "cpu"},
    {OPTION_THREADS(generation)},
    {OPTION_ISA(generation)},
    {OPTION_JSON(generation)},
};

/* ---- Model, vocabulary, prompt -------------------------------------------------------------------------------------------------- */

/* The model, and the longest sequence that it is made for: of a graph.json, which a run wrote, that of its samples. */
static qs_status model_find(generation *one, int64_t *longest) {
    char source[QS_MODEL];
    QS_TRY(generate_model(one->weights, one->model, source));
    QS_TRY(qs_model_open(source, NULL, &one->graph));
    qs_graph *step = NULL; /* whether it is a decoder */
    QS_TRY(qs_graph_decoder(one->graph, 1, 1, &step));
    qs_graph_release(step);
    *longest = one->graph->samples.target.extent;
    return qs_model_is_file(source) ? QS_OK : qs_model_positions(source, longest);
}

static qs_status vocabulary_open(generation *one) {
    const int64_t rows = one->graph->samples.target.classes;
    const char *path = one->vocabulary ? one->vocabulary : "bytes";
    if (!one->vocabulary && rows != 256)
        return qs_fail(QS_USAGE, "generate needs --vocab FILE: model %s has %lld ids, and only of 256 is it plain that they are bytes",
                       one->graph->name, (long long)rows);
    QS_TRY(qs_tokenizer_open(path, &one->tokenizer));
    const int64_t pieces = qs_tokenizer_size(one->tokenizer);
    if (pieces > rows)
        return qs_fail(QS_MISMATCH, "%s has %lld pieces, the table of model %s %lld rows: it is the vocabulary of another model", path,
                       (long long)pieces, one->graph->name, (long long)rows);
    return QS_OK;
}

/* START and the prompt's ids. A vocabulary whose START ends no text (llama2.c's) has it before every text; elsewhere it stands for an empty
 * prompt alone, as texts that language models are trained on have none. */
static qs_status prompt_encode(generation *one) {
    const int32_t start = qs_tokenizer_special(one->tokenizer, QS_SPECIAL_START),
                  end = qs_tokenizer_special(one->tokenizer, QS_SPECIAL_END);
    const char *text = one->prompt ? one->prompt : "";
    size_t bytes = strlen(text);
    qs_tokens tokens = {0};
    qs_status status = QS_OK;
    if (one->prompt_file) {
        QS_TRY(qs_file_read(one->prompt_file, SIZE_MAX / 4, &one->file, &bytes));
        text = one->file;
    }
    if (bytes == 0 && start < 0) return qs_fail(QS_USAGE, "the vocabulary has no piece that starts a text: give a --prompt to go on with");
    QS_GOTO(qs_tokenizer_encode(one->tokenizer, text, bytes, &tokens));
    if (bytes == 0) tokens.count = 0;
    if (tokens.invalid > 0) qs_log(QS_LOG_INFO, "%lld bytes of the prompt are no UTF-8", (long long)tokens.invalid);
    QS_GOTO(qs_grow(&one->id, &one->room, tokens.count + 1, sizeof *one->id));
    if (start >= 0 && (bytes == 0 || (end >= 0 && start != end))) one->id[one->ids++] = start;
    for (size_t i = 0; i < tokens.count; i++)
        one->id[one->ids++] = tokens.id[i];
    one->prompted = one->ids;
done:
    qs_tokens_release(&tokens);
    return status;
}

/* ---- Text ------------------------------------------------------------------------------------------------------------------------- */

/* Gives out what is whole of the bytes that wait; `last`: all of it. */
static qs_status text_settle(writing *out, bool last) {
    size_t written = 0;
    QS_TRY(qs_grow(&out->settled, &out->settled_room, 3 * out->pending_bytes + 1, 1));
    const size_t taken = qs_text_settle(out->pending, out->pending_bytes, last, out->settled, &written);
    memmove(out->pending, out->pending + taken, out->pending_bytes -= taken);
    if (out->kept) {
        QS_TRY(qs_grow(&out->text, &out->text_room, out->text_bytes + written + 1, 1));
        memcpy(out->text + out->text_bytes, out->settled, written);
        out->text_bytes += written;
        return QS_OK;
    }
    if (fwrite(out->settled, 1, written, stdout) != written || fflush(stdout) != 0)
        return qs_fail(QS_FAILED, "standard output could not be written");
    return QS_OK;
}

/* The bytes of an id behind another (-1: behind none). */
static qs_status text_put(const qs_tokenizer *tokenizer, int32_t before, int32_t id, writing *out) {
    const char *piece;
    size_t count;
    bool separated;
    QS_TRY(qs_tokenizer_piece(tokenizer, before, id, &piece, &count, &separated));
    QS_TRY(qs_grow(&out->pending, &out->pending_room, out->pending_bytes + count + 1, 1));
    if (separated) out->pending[out->pending_bytes++] = ' ';
    memcpy(out->pending + out->pending_bytes, piece, count);
    out->pending_bytes += count;
    return text_settle(out, false);
}

/* Special pieces are no text. */
static bool is_text(const generation *one, int32_t id) {
    return id != qs_tokenizer_special(one->tokenizer, QS_SPECIAL_START) && id != qs_tokenizer_special(one->tokenizer, QS_SPECIAL_END);
}

/* ---- Generating --------------------------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    const char *stopped; /* by "tokens", "end" or "context" */
    double prompt_seconds, seconds;
} outcome;

/* A text ends where the model says that it ends, or that another begins. */
static qs_status continued(generation *one, outcome *out) {
    const double begin = qs_clock();
    out->stopped = "tokens";
    QS_TRY(qs_decoder_take(one->decoder, one->ids, one->id, one->logits));
    out->prompt_seconds = qs_clock() - begin;
    for (;;) {
        int32_t id;
        QS_TRY(qs_sampler_draw(one->sampler, one->logits, (uint64_t)one->ids, &id));
        if (!is_text(one, id)) {
            out->stopped = "end";
            break;
        }
        QS_TRY(qs_grow(&one->id, &one->room, (size_t)one->ids + 1, sizeof *one->id));
        one->id[one->ids++] = id;
        QS_TRY(text_put(one->tokenizer, one->id[one->ids - 2], id, &one->out));
        if (one->ids - one->prompted == one->tokens) break;
        if (qs_decoder_place(one->decoder) == qs_decoder_context(one->decoder)) {
            out->stopped = "context";
            break;
        }
        QS_TRY(qs_decoder_take(one->decoder, 1, &id, one->logits));
    }
    out->seconds = qs_clock() - begin - out->prompt_seconds;
    return text_settle(&one->out, true);
}

static qs_status outcome_tell(const generation *one, const outcome *is) {
    const int64_t added = one->ids - one->prompted, steps = qs_decoder_place(one->decoder) - one->prompted;
    const double pace = steps > 0 && is->seconds > 0 ? (double)steps / is->seconds : 0; /* the first id came with the prompt */
    if (!one->json) {
        const char *apart = isatty(STDOUT_FILENO) ? "\n" : ""; /* the text ends where it ends */
        if (strcmp(is->stopped, "context") == 0) {
            fprintf(stderr, "%s%s: stopped: the context has %lld positions\n", apart, program_name(),
                    (long long)qs_decoder_context(one->decoder));
            apart = "";
        }
        fprintf(stderr, "%s%s: %lld tokens behind %lld, %.1f tokens/s; the prompt took %s\n", apart, program_name(), (long long)added,
                (long long)one->prompted, pace, time_text(1e6 * is->prompt_seconds));
        return QS_OK;
    }
    json_t *ids = json_array();
    for (int64_t i = one->prompted; i < one->ids; i++)
        json_array_append_new(ids, json_integer(one->id[i]));
    return json_print(json_pack("{s:s,s:s%,s:o,s:I,s:I,s:s,s:I,s:I,s:f,s:f}", "model", one->graph->name, "text",
                                one->out.text ? one->out.text : "", one->out.text_bytes, "ids", ids, "prompt_tokens",
                                (json_int_t)one->prompted, "tokens", (json_int_t)added, "stopped", is->stopped, "context",
                                (json_int_t)qs_decoder_context(one->decoder), "memory_bytes", (json_int_t)qs_decoder_bytes(one->decoder),
                                "prompt_seconds", is->prompt_seconds, "tokens_per_s", pace));
}

static qs_status generated(generation *one) {
    int64_t longest = 0;
    outcome is = {0};
    QS_TRY(model_find(one, &longest));
    QS_TRY(vocabulary_open(one));
    QS_TRY(prompt_encode(one));
    if (one->context > 0) longest = one->context;
    if (one->prompted > longest)
        return qs_fail(QS_USAGE, "the prompt has %lld ids, the context %lld positions: shorten it%s", (long long)one->prompted,
                       (long long)longest, one->context > 0 ? ", or raise --context" : "");
    /* What is added last need not be read. */
    const int64_t context = one->tokens <= longest - one->prompted ? one->prompted + one->tokens - 1 : longest;
    one->sampling.seed = (uint64_t)one->seed;
    QS_TRY(qs_sampler_create(&one->sampling, qs_tokenizer_size(one->tokenizer), &one->sampler));
    QS_TRY(device_start(one->backend, one->threads, one->isa, &one->device));
    QS_TRY(qs_decoder_open(one->graph, one->weights, NULL, context, one->device, &one->decoder));
    QS_TRY(qs_allocate((size_t)qs_decoder_vocabulary(one->decoder), sizeof *one->logits, &one->logits));
    if (qs_tokenizer_size(one->tokenizer) < qs_decoder_vocabulary(one->decoder))
        qs_log(QS_LOG_INFO, "the vocabulary has %d pieces, the model %lld ids: those beyond are never chosen",
               qs_tokenizer_size(one->tokenizer), (long long)qs_decoder_vocabulary(one->decoder));
    for (int64_t i = 0; i < one->prompted; i++)
        if (is_text(one, one->id[i])) QS_TRY(text_put(one->tokenizer, i > 0 ? one->id[i - 1] : -1, one->id[i], &one->out));
    QS_TRY(continued(one, &is));
    return outcome_tell(one, &is);
}

static void generation_release(generation *one) {
    qs_decoder_close(one->decoder);
    if (one->device) qs_device_close(one->device);
    qs_sampler_release(one->sampler);
    if (one->tokenizer) qs_tokenizer_close(one->tokenizer);
    qs_graph_release(one->graph);
    free(one->file);
    free(one->id);
    free(one->logits);
    free(one->out.pending);
    free(one->out.settled);
    free(one->out.text);
}

qs_status verb_generate(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "generate",
        .arguments = "WEIGHTS",
        .purpose = "Text from a decoder (gpt2, llama), computed in fp32: the prompt, and what the model adds to it, to standard output as\n"
                   "it is formed; the pace to standard error. It ends behind --tokens, where the model ends the text, or where the\n"
                   "context is full. Equal weights, settings, seeds and threads give equal text.",
        .examples = "  sh tools/fetch-data.sh data models/stories260K\n"
                    "  qsync generate data/models/stories260K/stories260K.bin --vocab data/models/stories260K/tok512.bin --tokens 200 "
                    "--temperature 0\n"
                    "  qsync generate run/weights.safetensors --vocab vocab/gpt2 --prompt 'The old man' --temperature 0.8 --top-p 0.9 "
                    "--seed 7\n",
        .least = 1,
        .most = 1};
    generation one = {0};
    option_table table = {0};
    bool done = false;
    int first = 0;
    OPTIONS_ADD(&table, option_rows, &one);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    one.weights = argv[first];
    one.out.kept = one.json;
    const qs_status status = generated(&one);
    generation_release(&one);
    return status;
}
