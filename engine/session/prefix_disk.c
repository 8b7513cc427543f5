#include "engine/session/prefix_disk.h"
#include "base/clock.h"
#include "engine/session/disk_folder.h"
#include "engine/session/slot.h"
#include "engine/session/state_parts.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_TOKENS = 64, ALIGN = 64 }; /* what is written has at least so many new tokens */

/* An entry of this model that is on the path of the last find. */
typedef struct {
    sl_disk_name name;
    uint64_t end; /* tokens that are the same */
} step;

typedef struct {
    sl_disk_name name;
    sl_tokens_hash before;
    uint64_t end;  /* in the last find that looked into it: tokens that are the same */
    uint32_t seen; /* the number of that find */
    bool unread;   /* `before` is not known yet */
    bool bad;      /* was reported */
} entry;

struct sl_prefix_disk {
    sl_prefix_disk_options options;
    sl_arena arena;
    sl_disk_folder folder;
    uint64_t model, recurrent_bytes;
    entry *entries;
    size_t count, room;
    step *steps;
    size_t step_count, step_room;
    uint32_t finds;
    sl_disk_name holder; /* of the last find: the entry with the recurrent state that is usable */
    bool loads;          /* what the last find has found */
};

static void tell(sl_prefix_disk *disk, const char *line) {
    if (disk->options.note) disk->options.note(disk->options.note_ctx, line);
}

sl_status sl_prefix_disk_create(const sl_prefix_disk_options *options, sl_prefix_disk **out,
                                sl_error *err) {
    sl_prefix_disk *disk = sl_allocate(options->allocator, sizeof *disk, _Alignof(sl_prefix_disk));
    if (!disk) return sl_no_memory(err, "a prefix cache on disk", sizeof *disk);
    disk->options = *options;
    disk->model = sl_fingerprint_number(options->fingerprint);
    disk->recurrent_bytes = sl_forward_recurrent_bytes(options->forward);
    sl_arena_init(&disk->arena, options->allocator);
    const char *path = sl_arena_copy_text(&disk->arena, options->folder, strlen(options->folder));
    sl_status status =
        path ? sl_disk_folder_open(&disk->folder, path, options->bytes, options->allocator, err)
             : sl_no_memory(err, "a folder", strlen(options->folder));
    if (status == SL_OK)
        *out = disk;
    else
        sl_prefix_disk_destroy(disk);
    return status;
}

void sl_prefix_disk_destroy(sl_prefix_disk *disk) {
    if (!disk) return;
    const sl_allocator *allocator = disk->options.allocator;
    sl_disk_folder_close(&disk->folder);
    sl_release(allocator, disk->entries, disk->room * sizeof *disk->entries, ALIGN);
    sl_release(allocator, disk->steps, disk->step_room * sizeof *disk->steps, ALIGN);
    sl_arena_deinit(&disk->arena);
    sl_release(allocator, disk, sizeof *disk, _Alignof(sl_prefix_disk));
}

sl_prefix_disk_options sl_prefix_disk_options_of(const sl_prefix_disk *disk) {
    sl_prefix_disk_options options = disk->options;
    options.folder = disk->folder.path;
    return options;
}

/* ---- what there is ---- */

static bool is_same_name(const sl_disk_name *a, const sl_disk_name *b) {
    return a->model == b->model && a->from == b->from && a->to == b->to && a->hash == b->hash;
}

static entry *find_entry(const sl_prefix_disk *disk, const sl_disk_name *name) {
    for (size_t i = 0; i < disk->count; i++)
        if (is_same_name(&disk->entries[i].name, name)) return &disk->entries[i];
    return NULL;
}

/* Keeps what is known of entries that are still there. */
static void list_entries(sl_prefix_disk *disk) {
    const sl_allocator *allocator = disk->options.allocator;
    size_t count = 0;
    for (size_t i = 0; i < disk->folder.count; i++)
        count += disk->folder.names[i].model == disk->model;
    entry *fresh = sl_resize(allocator, NULL, 0, (count + 1) * sizeof *fresh, ALIGN);
    if (!fresh) return;
    size_t next = 0;
    for (size_t i = 0; i < disk->folder.count; i++) {
        const sl_disk_name *name = &disk->folder.names[i];
        if (name->model != disk->model) continue;
        const entry *old = find_entry(disk, name);
        fresh[next++] = old ? *old : (entry){.name = *name, .unread = true};
    }
    sl_release(allocator, disk->entries, disk->room * sizeof *disk->entries, ALIGN);
    disk->entries = fresh;
    disk->room = count + 1;
    disk->count = count;
}

static void look(sl_prefix_disk *disk) {
    sl_error err;
    if (!sl_disk_folder_changed(&disk->folder)) return;
    if (sl_disk_folder_list(&disk->folder, &err) == SL_OK)
        list_entries(disk);
    else
        tell(disk, err.message);
}

/* Whether an entry is still there; another process may have made room. */
static bool is_gone(const sl_prefix_disk *disk, const sl_disk_name *name) {
    char path[SL_DISK_PATH];
    sl_disk_folder_path(&disk->folder, name, path);
    return !sl_file_exists(path);
}

/* It is damaged, or not what its name says: it will not be looked at again, unless only memory was
 * missing.  One that is gone is nothing to speak of. */
static void reject(sl_prefix_disk *disk, const sl_disk_name *name, const sl_error *why) {
    entry *e = find_entry(disk, name);
    if (e && why->status != SL_NO_MEMORY) e->bad = true;
    if (is_gone(disk, name)) return;
    tell(disk, why->message);
    if (why->status == SL_FORMAT) sl_disk_folder_remove(&disk->folder, name);
}

/* Opens an entry and compares it with its name. */
static sl_status open_entry(const sl_prefix_disk *disk, const sl_disk_name *name,
                            sl_state_file *file, char path[SL_DISK_PATH], sl_error *err) {
    sl_disk_folder_path(&disk->folder, name, path);
    SL_TRY(sl_state_file_open(file, path, disk->options.allocator, err));
    SL_TRY(sl_state_file_check(file, disk->options.forward, disk->options.fingerprint, err));
    const sl_state_header *h = &file->header;
    if (h->from == name->from && h->to == name->to && h->tokens == name->to &&
        h->vocab == disk->options.vocab)
        return SL_OK;
    return sl_fail(err, SL_FORMAT, "%s: is not what its name says", path);
}

/* ---- finding ---- */

typedef struct {
    const sl_token *tokens;
    size_t count, limit;
    uint64_t covered, usable;
} search;

static uint64_t same_tokens(const sl_token *a, const sl_token *b, uint64_t count) {
    uint64_t same = 0;
    while (same < count && a[same] == b[same]) same++;
    return same;
}

/* How far an open entry is the same, and where a session could continue in it. */
static sl_status compare(sl_prefix_disk *disk, const sl_state_file *file, search *s, entry *e,
                         sl_error *err) {
    const sl_state_header *h = &file->header;
    const uint64_t count = h->to - h->from;
    const size_t bytes = count * sizeof(sl_token) + 1;
    sl_token *tokens = sl_resize(disk->options.allocator, NULL, 0, bytes, ALIGN);
    if (!tokens) return sl_no_memory(err, "the tokens of an entry", bytes);
    const sl_status status = sl_state_file_tokens(file, tokens, err);
    if (status == SL_OK) {
        const uint64_t most = s->count - h->from < count ? s->count - h->from : count;
        e->end = h->from + same_tokens(tokens, s->tokens + h->from, most);
        for (uint32_t i = 0; i < h->length_count; i++) {
            const uint64_t length = file->lengths[i];
            if (length > e->end || length > s->limit || length <= s->usable) continue;
            s->usable = length;
            disk->holder = e->name;
        }
    }
    sl_release(disk->options.allocator, tokens, bytes, ALIGN);
    return status;
}

static bool is_after(const entry *e, const search *s) {
    const sl_tokens_hash here = sl_tokens_hash_of(s->tokens, e->name.from);
    return here.low == e->before.low && here.high == e->before.high;
}

static sl_status examine(sl_prefix_disk *disk, entry *e, search *s, sl_error *err) {
    char path[SL_DISK_PATH];
    sl_state_file file;
    sl_status status = open_entry(disk, &e->name, &file, path, err);
    if (status == SL_OK) {
        e->before = file.header.before;
        e->unread = false;
        if (is_after(e, s)) status = compare(disk, &file, s, e, err);
    }
    sl_state_file_close(&file);
    return status;
}

/* Looks into the entries that begin in what is covered, once in each find. */
static void examine_all(sl_prefix_disk *disk, search *s) {
    for (size_t i = 0; i < disk->count; i++) {
        entry *e = &disk->entries[i];
        sl_error err;
        if (e->bad || e->seen == disk->finds || e->name.from > s->covered) continue;
        e->seen = disk->finds;
        e->end = 0;
        if (!e->unread && !is_after(e, s)) continue;
        if (examine(disk, e, s, &err) != SL_OK) reject(disk, &e->name, &err);
    }
}

static bool add_step(sl_prefix_disk *disk, const entry *e) {
    if (disk->step_count == disk->step_room) {
        const size_t room = disk->step_room + 64;
        step *fresh = sl_resize(disk->options.allocator, disk->steps,
                                disk->step_room * sizeof *fresh, room * sizeof *fresh, ALIGN);
        if (!fresh) return false;
        disk->steps = fresh;
        disk->step_room = room;
    }
    disk->steps[disk->step_count++] = (step){e->name, e->end};
    return true;
}

/* Adds the entry that extends what is covered the most; false: none does. */
static bool extend(sl_prefix_disk *disk, search *s) {
    const entry *best = NULL;
    examine_all(disk, s);
    for (size_t i = 0; i < disk->count; i++) {
        const entry *e = &disk->entries[i];
        if (e->bad || e->seen != disk->finds || e->end <= s->covered) continue;
        if (!best || e->end > best->end) best = e;
    }
    if (!best || !add_step(disk, best)) return false;
    s->covered = best->end;
    return true;
}

sl_prefix_match sl_prefix_disk_find(sl_prefix_disk *disk, const sl_token *tokens, size_t count,
                                    size_t limit) {
    search s = {tokens, count, limit, 0, 0};
    look(disk);
    disk->step_count = 0;
    disk->finds++;
    while (extend(disk, &s)) {}
    if (disk->recurrent_bytes == 0) s.usable = s.covered < limit ? s.covered : limit;
    return (sl_prefix_match){s.covered, s.usable};
}

/* ---- loading ---- */

typedef struct {
    uint64_t length, next; /* block */
    double until;          /* by the clock; 0: the end */
    bool advanced, paused; /* advanced: a piece was read in this call */
    uint32_t slot;
    char *buffer;
    uint64_t buffer_bytes;
} loading;

/* The blocks of an entry up to `end` that are missing. */
static sl_status load_blocks(const sl_prefix_disk *disk, const sl_state_file *file, loading *l,
                             uint64_t end, sl_error *err) {
    const sl_state_header *h = &file->header;
    for (uint32_t i = 0; i < sl_state_file_pieces(file); i++) {
        const uint64_t first = h->from / SL_KV_LANES + (uint64_t)i * h->piece_blocks;
        uint64_t count = sl_state_file_piece_blocks(file, i);
        if (first + count <= l->next || first >= end) continue;
        l->paused = l->advanced && l->until > 0 && sl_clock_seconds() > l->until;
        if (l->paused) return SL_OK;
        if (count * h->block_bytes > l->buffer_bytes)
            return sl_fail(err, SL_FORMAT, "%s: pieces of %llu bytes", file->path,
                           (unsigned long long)(count * h->block_bytes));
        SL_TRY(sl_state_file_piece(file, i, l->buffer, err));
        const uint64_t skipped = l->next > first ? l->next - first : 0;
        if (first + count > end) count = end - first;
        SL_TRY(sl_slot_write_blocks(disk->options.forward, l->slot, first + skipped,
                                    count - skipped, l->buffer + skipped * h->block_bytes, err));
        l->next = first + count;
        l->advanced = true;
    }
    return SL_OK;
}

/* The last block of an entry may have other tokens at its end: the next entry has it again. */
static sl_status load_step(sl_prefix_disk *disk, const step *from, loading *l, sl_error *err) {
    char path[SL_DISK_PATH];
    sl_state_file file;
    const uint64_t before = l->next, whole = from->end / SL_KV_LANES;
    const uint64_t end = from->end < l->length ? from->end : l->length;
    sl_status status = open_entry(disk, &from->name, &file, path, err);
    if (status == SL_OK) status = load_blocks(disk, &file, l, sl_blocks_of(end), err);
    sl_state_file_close(&file);
    if (from->end < l->length && l->next > whole && !l->paused)
        l->next = whole > before ? whole : before;
    return status;
}

static sl_status load_state(sl_prefix_disk *disk, loading *l, sl_error *err) {
    char path[SL_DISK_PATH];
    sl_state_file file;
    uint32_t i = 0;
    sl_status status = open_entry(disk, &disk->holder, &file, path, err);
    while (status == SL_OK && i < file.header.length_count && file.lengths[i] != l->length) i++;
    if (status == SL_OK && i == file.header.length_count)
        status = sl_fail(err, SL_IO, "%s: no state after %llu tokens", path,
                         (unsigned long long)l->length);
    if (status == SL_OK) status = sl_state_file_recurrent(&file, i, l->buffer, err);
    sl_state_file_close(&file);
    return status == SL_OK ? sl_slot_write_recurrent(disk->options.forward, l->slot, l->buffer, err)
                           : status;
}

/* All that it is needed for is there. */
static bool is_loaded(const step *from, const loading *l) {
    return from->end < l->length && l->next >= from->end / SL_KV_LANES;
}

static bool load_all(sl_prefix_disk *disk, loading *l) {
    sl_error err;
    for (size_t i = 0; i < disk->step_count; i++) {
        const step *from = &disk->steps[i];
        if (from->name.from >= l->length || is_loaded(from, l)) continue;
        if (load_step(disk, from, l, &err) != SL_OK) {
            reject(disk, &from->name, &err);
            return false;
        }
        if (l->paused) return true;
        sl_disk_folder_touch(&disk->folder, &from->name);
    }
    if (disk->recurrent_bytes == 0 || load_state(disk, l, &err) == SL_OK) return true;
    reject(disk, &disk->holder, &err);
    return false;
}

sl_disk_loaded sl_prefix_disk_load(sl_prefix_disk *disk, size_t length, uint64_t *next,
                                   uint32_t slot, double seconds) {
    const uint64_t block = sl_slot_block_bytes(disk->options.forward);
    const uint64_t blocks = block > SL_STATE_PIECE_BYTES ? block : SL_STATE_PIECE_BYTES;
    const uint64_t bytes = blocks > disk->recurrent_bytes ? blocks : disk->recurrent_bytes;
    loading l = {.length = length,
                 .next = *next,
                 .until = seconds > 0 ? sl_clock_seconds() + seconds : 0,
                 .slot = slot,
                 .buffer_bytes = bytes};
    l.buffer = sl_resize(disk->options.allocator, NULL, 0, bytes, ALIGN);
    if (!l.buffer) {
        tell(disk, "no memory for reading the prefix cache on disk");
        return SL_DISK_DAMAGED;
    }
    disk->loads = true;
    const bool good = load_all(disk, &l);
    disk->loads = false;
    sl_release(disk->options.allocator, l.buffer, bytes, ALIGN);
    *next = l.next;
    return !good ? SL_DISK_DAMAGED : l.paused ? SL_DISK_PART : SL_DISK_ALL;
}

/* ---- adding ---- */

/* The recurrent states of a content from an index on. */
typedef struct {
    const sl_state_content *content;
    uint32_t first;
} later_states;

static sl_status give_recurrent(void *ctx, uint32_t index, void *out, sl_error *err) {
    const later_states *later = ctx;
    return later->content->recurrent(later->content->ctx, index + later->first, out, err);
}
static sl_status give_blocks(void *ctx, uint64_t first, uint64_t count, void *out, sl_error *err) {
    const later_states *later = ctx;
    return later->content->blocks(later->content->ctx, first, count, out, err);
}

/* With the folder locked. */
static sl_status write_entry(sl_prefix_disk *disk, const sl_state_content *content, sl_error *err) {
    const sl_disk_name name = {disk->model, content->from, content->to,
                               sl_tokens_hash_of(content->tokens, content->to).low};
    char path[SL_DISK_PATH];
    const uint64_t bytes = sl_state_file_bytes(content);
    sl_disk_folder_path(&disk->folder, &name, path);
    SL_TRY(sl_disk_folder_make_room(&disk->folder, bytes, err));
    SL_TRY(sl_file_check_space(path, bytes, err));
    return sl_state_file_write(path, content, disk->options.allocator, err);
}

void sl_prefix_disk_add(sl_prefix_disk *disk, const sl_state_content *content) {
    sl_state_content part = *content;
    later_states later = {content, 0};
    sl_error err;
    if (disk->loads || (disk->recurrent_bytes && content->length_count == 0)) return;
    if (disk->recurrent_bytes) part.to = content->lengths[content->length_count - 1];
    const sl_prefix_match found = sl_prefix_disk_find(disk, content->tokens, part.to, part.to);
    if (part.to - found.usable < LEAST_TOKENS) return;
    const uint64_t covered = found.same / SL_KV_LANES * SL_KV_LANES;
    if (covered > part.from) part.from = covered;
    while (later.first + 1 < content->length_count && content->lengths[later.first] <= part.from)
        later.first++;
    part.token_count = part.to;
    part.note = NULL;
    part.note_bytes = 0;
    part.logits = NULL;
    if (later.first) part.lengths += later.first; /* of none, they may be NULL */
    part.length_count -= later.first;
    part.recurrent = give_recurrent;
    part.blocks = give_blocks;
    part.ctx = &later;
    sl_status status = sl_disk_folder_lock(&disk->folder, &err);
    if (status == SL_OK) {
        status = write_entry(disk, &part, &err);
        sl_disk_folder_unlock(&disk->folder);
    }
    if (status != SL_OK && status != SL_CANCELLED) tell(disk, err.message);
}
