#include "engine/session/pace.h"

enum {
    FIRST_ROWS = 64,  /* of prompts, before anything is known */
    LEAST_ROWS = 16,  /* that prompts get in any step, so that all of them end */
    LEAST_STEPS = 4,  /* a mean of fewer is not known */
    EXPIRES = 512,    /* steps after which a mean is not known any more */
    MOST_SKIPPED = 8, /* steps without prompts between two parts of them */
};
static const double weight = 0.25;                     /* of the latest step in a mean */
static const double more_reads = 1.1, few_reads = 0.5; /* per token, which are not more */

static uint32_t to_unit(const sl_pace *pace, double rows) {
    const uint32_t least = pace->unit > LEAST_ROWS ? pace->unit : LEAST_ROWS;
    if (!(rows < pace->most)) rows = pace->most;
    const uint32_t whole = (uint32_t)rows / pace->unit * pace->unit;
    return whole > least ? whole : least;
}

void sl_pace_init(sl_pace *pace, double target, uint32_t unit, uint32_t most, bool streams) {
    *pace = (sl_pace){.target = target, .unit = unit, .most = most, .streams = streams};
    pace->chunk = to_unit(pace, FIRST_ROWS);
}

static void blend(double *mean, double now) {
    *mean = *mean > 0 ? *mean + weight * (now - *mean) : now;
}

static double seconds_of(const sl_pace_step *step) {
    return step->seconds - step->compile_seconds;
}

/* At most twice the rows of the step before, because time does not grow evenly with them. */
static void choose_chunk(sl_pace *pace, const sl_pace_step *step) {
    const double seconds = seconds_of(step), more = seconds - pace->decode_seconds;
    blend(&pace->row_seconds, (more > 0 ? more : 0) / step->prefilled);
    const double left = pace->target - pace->decode_seconds;
    const double fits = left > 0 && pace->row_seconds > 0 ? left / pace->row_seconds : 0;
    const double most = seconds < pace->target ? 2.0 * step->prefilled : step->prefilled;
    if (seconds < pace->target && step->prefilled < pace->chunk && fits > pace->chunk)
        return; /* the prompts were too short to tell */
    pace->chunk = to_unit(pace, fits < most ? fits : most);
}

static void note_reads(sl_pace *pace, const sl_pace_step *step) {
    sl_pace_reads *known = &pace->by_count[step->decoded];
    const double reads = (double)step->read_again / step->rows;
    if (pace->steps - known->latest > EXPIRES) known->steps = 0;
    known->reads = known->steps ? known->reads + weight * (reads - known->reads) : reads;
    known->steps++;
    known->latest = pace->steps;
}

/* Where not even steps without prompts meet the target, every other one has a part. */
static uint32_t most_skipped(const sl_pace *pace) {
    return pace->decode_seconds < pace->target ? MOST_SKIPPED : 1;
}

/* What short steps save lasts for one long one. */
static void settle(sl_pace *pace, const sl_pace_step *step) {
    const double most = MOST_SKIPPED * pace->target;
    pace->skipped = step->prefilled ? 0 : pace->skipped + 1;
    pace->owed = step->decoded ? pace->owed + seconds_of(step) - pace->target : 0;
    if (pace->owed < -pace->target) pace->owed = -pace->target;
    if (pace->owed > most) pace->owed = most;
}

void sl_pace_note(sl_pace *pace, const sl_pace_step *step) {
    pace->steps++;
    settle(pace, step);
    if (step->decoded && step->prefilled) choose_chunk(pace, step);
    if (step->decoded == 0 || step->prefilled || step->decoded > SL_MAX_SESSIONS) return;
    blend(&pace->decode_seconds, seconds_of(step));
    note_reads(pace, step);
}

uint32_t sl_pace_rows(const sl_pace *pace, bool others_decode) {
    if (!others_decode) return pace->most;
    return pace->owed > 0 && pace->skipped < most_skipped(pace) ? 0 : pace->chunk;
}

static bool is_known(const sl_pace *pace, uint32_t count) {
    const sl_pace_reads *reads = &pace->by_count[count];
    return reads->steps >= LEAST_STEPS && pace->steps - reads->latest <= EXPIRES;
}

/* Whether so many sequences read more per token than fewer did. */
static bool is_worse(const sl_pace *pace, uint32_t count) {
    if (!is_known(pace, count)) return false;
    for (uint32_t fewer = 1; fewer < count; fewer++)
        if (is_known(pace, fewer) &&
            pace->by_count[count].reads > pace->by_count[fewer].reads * more_reads + few_reads)
            return true;
    return false;
}

bool sl_pace_admits(const sl_pace *pace, uint32_t live) {
    if (live == 0 || !pace->streams) return true;
    if (live >= SL_MAX_SESSIONS) return false;
    return is_known(pace, live) && !is_worse(pace, live) && !is_worse(pace, live + 1);
}
