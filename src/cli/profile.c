// SPDX-License-Identifier: Apache-2.0
/* qsync profile: measures on all ranks at once; rank 0 writes the profile. */
#include "cli.h"

static void progress(void *context, const char *what, double fraction) {
    (void)context;
    progress_show(fraction, "profile: %s", what);
}

static void class_print(const qs_class_profile *one) {
    printf(
        "  %-10s %s, isa %s, %s, %d thread%s, speed %g\n             %d kernels, %d conversion fits, process base %s, data %s a sample\n",
        one->class_name, one->cpu, one->isa, one->library, one->threads, one->threads == 1 ? "" : "s", one->speed, one->kernels,
        one->conversions, bytes_text((double)one->base_bytes), time_text(one->data_us_per_sample));
}

static void collective_print(const qs_collective_cost *row) {
    printf("  all-reduce %s of %d ranks over %s: %s + %.3g us per KiB (r2 %.3f)\n", row->algorithm, row->ranks, row->link,
           time_text(row->alpha_us), row->us_per_byte * 1024, row->r2);
}

static void profile_print(const qs_profile *profile, const char *out) {
    printf("profile of %s, batch %lld\n", profile->model, (long long)profile->batch);
    for (int c = 0; c < profile->classes; c++)
        class_print(&profile->class_[c]);
    for (int i = 0; i < profile->collectives; i++)
        collective_print(&profile->collective[i]);
    printf("  statistics of %d operators over %d iterations at batch %lld\nwritten to %s\n", profile->statistics.operators,
           profile->statistics.iterations, (long long)profile->statistics.batch, out);
}

static qs_status profile_out(const qs_profile *profile, const char *out, bool json) {
    char signature[32];
    QS_TRY(qs_profile_write(out, profile));
    if (!json) {
        profile_print(profile, out);
        return QS_OK;
    }
    int kernels = 0;
    for (int c = 0; c < profile->classes; c++)
        kernels += profile->class_[c].kernels;
    return json_print(json_pack("{s:s,s:s,s:s,s:I,s:i,s:i}", "profile", out, "signature", qs_profile_signature(profile, signature), "model",
                                profile->model, "batch", (json_int_t)profile->batch, "classes", profile->classes, "kernels", kernels));
}

typedef struct profile_work {
    qs_profile_options options;
    job_options job;
    session_options where;
    const char *out;
    bool json, hessian;
} profile_work;

static qs_status work_read(profile_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        "profile", "",
        "Measures, on every rank at once and inside real training steps, what the predictor needs: kernel times, conversion fits,\n"
        "all-reduce, and the tensor statistics behind the sensitivity indicator.",
        "  mpirun -n 2 qsync profile --cluster cluster.json --model resnet8 --dataset fashion-mnist --out profile.json\n"};
    qs_profile_options *options = &work->options;
    int first = 0;
    option_table table = {0};
    qs_profile_options_default(options);
    job_options_start(&work->job);
    session_options_add(&work->where, "profile", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_STEP | JOB_SET | JOB_FOLDER);
    options_add(&table, (option_row){"repetitions", OPTION_INT, &options->repetitions, "N",
                                     "timed steps per measured plan, at least (10)", 2});
    options_add(&table, (option_row){"statistics-iterations", OPTION_INT, &options->statistics_iterations, "N",
                                     "training iterations behind the statistics (50)", 0});
    options_add(&table, (option_row){"hessian", OPTION_FLAG, &work->hessian, NULL,
                                     "also Hessian eigenvalues, which indicator hess needs (minutes)", 0});
    options_add(&table, (option_row){"out", OPTION_TEXT, &work->out, "FILE", "where to write (profile.json)", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &work->json, NULL, "print a JSON summary", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    return job_options_finish(&work->job);
}

static qs_status profiled(profile_work *work, const session *here, qs_profile *profile) {
    QS_TRY(qs_comm_agree(here->comm, session_is_first(here) ? output_check(work->out) : QS_OK));
    work->options.job = &work->job.job;
    work->options.cluster = &here->cluster;
    work->options.data_folder = work->job.data_folder;
    work->options.progress = session_is_first(here) ? progress : NULL;
    QS_TRY(qs_profile_measure(&work->options, here->device, here->comm, profile));
    if (work->hessian) QS_TRY(qs_profile_hessian(&work->options, here->device, here->comm, profile));
    qs_status status = QS_OK;
    if (session_is_first(here)) {
        progress_end();
        status = profile_out(profile, work->out, work->json);
    }
    return qs_comm_agree(here->comm, status);
}

qs_status verb_profile(int argc, char **argv) {
    profile_work work = {.out = "profile.json"};
    session here;
    qs_profile profile = {0};
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    QS_TRY(session_open(&work.where, status, &here));
    status = profiled(&work, &here, &profile);
    qs_profile_release(&profile);
    return session_end(&here, status);
}
