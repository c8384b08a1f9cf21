// SPDX-License-Identifier: Apache-2.0
/* qsync profile: measures on all ranks at once; rank 0 writes the profile. */
#include "cli.h"

static void progress(void *context, const char *what, double fraction) {
    (void)context;
    progress_show(fraction, "profile: %s", what);
}

static void class_print(const qs_class_profile *one) {
    printf("  %-10s %s, isa %s, %s, %d thread%s, speed %g\n             %d kernels, %d conversion fits, process base %s, data %s a sample\n",
           one->class_name, one->cpu, one->isa, one->library, one->threads, one->threads == 1 ? "" : "s", one->speed, one->kernels, one->conversions,
           bytes_text((double)one->base_bytes), time_text(one->data_us_per_sample));
}

static void profile_print(const qs_profile *profile, const char *out) {
    printf("profile of %s, batch %lld\n", profile->model, (long long)profile->batch);
    for (int c = 0; c < profile->classes; c++) class_print(&profile->class_[c]);
    for (int i = 0; i < profile->collectives; i++)
        printf("  all-reduce over %d ranks: %s + %.3g us per KiB (r2 %.3f)\n", profile->collective[i].ranks, time_text(profile->collective[i].alpha_us),
               profile->collective[i].us_per_byte * 1024, profile->collective[i].r2);
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
    for (int c = 0; c < profile->classes; c++) kernels += profile->class_[c].kernels;
    return json_print(json_pack("{s:s,s:s,s:s,s:I,s:i,s:i}", "profile", out, "signature", qs_profile_signature(profile, signature), "model",
                                profile->model, "batch", (json_int_t)profile->batch, "classes", profile->classes, "kernels", kernels));
}

qs_status verb_profile(int argc, char **argv) {
    const verb_usage usage = {"profile", "",
                              "Measures, on every rank at once and inside real training steps, what the predictor needs: kernel times, conversion fits,\n"
                              "all-reduce, and the tensor statistics behind the sensitivity indicator.",
                              "  mpirun -n 2 qsync profile --cluster cluster.json --model resnet8 --dataset fashion-mnist --out profile.json\n"};
    const char *out = "profile.json";
    int64_t repetitions = 0, iterations = 0;
    bool json = false, done = false;
    int first = 0;
    qs_profile_options options;
    job_options job;
    session_options where;
    session here;
    qs_profile profile = {0};
    option_table table = {0};
    qs_status status = QS_OK;
    qs_profile_options_default(&options);
    repetitions = options.repetitions;
    iterations = options.statistics_iterations;
    job_options_start(&job);
    session_options_add(&where, &table);
    job_options_add(&job, &table, false);
    options_add(&table, (option_row){"repetitions", OPTION_INTEGER, &repetitions, "N", "timed steps per measured plan", 1});
    options_add(&table, (option_row){"statistics-iterations", OPTION_INTEGER, &iterations, "N", "training iterations behind the statistics (50)", 0});
    options_add(&table, (option_row){"out", OPTION_TEXT, &out, "FILE", "where to write (profile.json)", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &json, NULL, "print a JSON summary", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    QS_TRY(job_options_finish(&job));
    QS_TRY(session_open(&where, &here));
    options.job = &job.job;
    options.cluster = &here.cluster;
    options.data_folder = job.data_folder;
    options.repetitions = (int)repetitions;
    options.statistics_iterations = (int)iterations;
    options.progress = session_is_first(&here) ? progress : NULL;
    QS_GOTO(qs_profile_measure(&options, here.device, here.comm, &profile));
    if (session_is_first(&here)) {
        progress_end();
        status = profile_out(&profile, out, json);
    }
    status = qs_comm_agree(here.comm, status);
done:
    qs_profile_release(&profile);
    return session_end(&here, status);
}
