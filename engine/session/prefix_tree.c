#include "engine/session/prefix_tree.h"
#include "base/clock.h"
#include "engine/session/slot.h"
#include <assert.h>
#include <string.h>

enum { TRIMMED_PAGES = 16, ALIGN = 64 };

/* A page of the KV cache, with a reference, and the tokens of its positions. */
typedef struct {
    int32_t page;
    sl_token tokens[SL_KV_PAGE];
} held_page;

/* Recurrent state after `length` tokens of the sequence. */
typedef struct {
    uint64_t length;
    void *data;
    double used; /* when, by the clock */
} kept_state;

typedef struct node {
    struct node *parent, *child, *next;
    uint64_t from, count; /* positions */
    held_page *pages;     /* of them; the last may be partly used */
    kept_state *kept;     /* ascending, from < length <= from + count */
    uint32_t page_room, kept_room, kept_count;
    uint32_t stamp; /* of the walk that is going on: nothing of it is dropped */
    bool reported;  /* as dropped, and nothing was added since */
    double used;
} node;

struct sl_prefix_tree {
    sl_prefix_tree_options options;
    sl_kv_pages *pages;
    uint64_t page_bytes, recurrent_bytes;
    uint64_t bytes;      /* of nodes and recurrent states */
    uint64_t page_count; /* references */
    uint32_t stamp;
    node root;
};

/* ---- memory ---- */

static void *resize(sl_prefix_tree *tree, void *old, uint64_t old_bytes, uint64_t bytes) {
    void *fresh = sl_resize(tree->options.allocator, old, old_bytes, bytes, ALIGN);
    if (fresh || bytes == 0) tree->bytes = tree->bytes - old_bytes + bytes;
    return fresh;
}

static uint64_t pages_of(uint64_t positions) {
    return (uint64_t)sl_kv_page_count((int64_t)positions);
}

static bool make_page_room(sl_prefix_tree *tree, node *n, uint64_t count) {
    if (count <= n->page_room) return true;
    const uint64_t room = count + count / 8;
    held_page *fresh = resize(tree, n->pages, n->page_room * sizeof *fresh, room * sizeof *fresh);
    if (!fresh) return false;
    n->pages = fresh;
    n->page_room = (uint32_t)room;
    return true;
}

/* Takes a reference to a page that somebody has, in place of an old one if there is one. */
static void hold(sl_prefix_tree *tree, held_page *to, int32_t page, bool replaces) {
    sl_kv_pages_retain(tree->pages, page);
    if (replaces) sl_kv_pages_release(tree->pages, to->page);
    tree->page_count += !replaces;
    to->page = page;
}

static bool make_kept_room(sl_prefix_tree *tree, node *n) {
    if (n->kept_count < n->kept_room) return true;
    const uint32_t room = n->kept_room + 4;
    kept_state *fresh = resize(tree, n->kept, n->kept_room * sizeof *fresh, room * sizeof *fresh);
    if (!fresh) return false;
    n->kept = fresh;
    n->kept_room = room;
    return true;
}

static void drop_kept(sl_prefix_tree *tree, node *n, uint32_t index) {
    (void)resize(tree, n->kept[index].data, tree->recurrent_bytes, 0);
    n->kept_count--;
    for (uint32_t i = index; i < n->kept_count; i++) n->kept[i] = n->kept[i + 1];
}

static void cut(sl_prefix_tree *tree, node *n, uint64_t count) {
    for (uint64_t i = pages_of(count); i < pages_of(n->count); i++) {
        sl_kv_pages_release(tree->pages, n->pages[i].page);
        tree->page_count--;
    }
    n->count = count;
    while (n->kept_count && n->kept[n->kept_count - 1].length > n->from + count)
        drop_kept(tree, n, n->kept_count - 1);
}

static void unlink_node(node *n) {
    node **at = &n->parent->child;
    while (*at != n) at = &(*at)->next;
    *at = n->next;
}

/* A leaf. */
static void destroy_node(sl_prefix_tree *tree, node *n) {
    cut(tree, n, 0);
    (void)resize(tree, n->pages, n->page_room * sizeof *n->pages, 0);
    (void)resize(tree, n->kept, n->kept_room * sizeof *n->kept, 0);
    (void)resize(tree, n, sizeof *n, 0);
}

static node *add_node(sl_prefix_tree *tree, node *parent) {
    node *n = resize(tree, NULL, 0, sizeof *n);
    if (!n) return NULL;
    *n = (node){.parent = parent,
                .next = parent->child,
                .from = parent->from + parent->count,
                .stamp = tree->stamp,
                .used = sl_clock_seconds()};
    parent->child = n;
    return n;
}

sl_status sl_prefix_tree_create(const sl_prefix_tree_options *options, sl_prefix_tree **out,
                                sl_error *err) {
    sl_prefix_tree *tree = sl_allocate(options->allocator, sizeof *tree, _Alignof(sl_prefix_tree));
    if (!tree) return sl_no_memory(err, "a prefix cache", sizeof *tree);
    tree->options = *options;
    tree->pages = sl_forward_kv_pages(options->forward);
    tree->page_bytes = sl_forward_page_bytes(options->forward);
    tree->recurrent_bytes = sl_forward_recurrent_bytes(options->forward);
    *out = tree;
    return SL_OK;
}

static node *first_leaf(node *n) {
    while (n->child) n = n->child;
    return n;
}

/* The node after n where children come before their parent; NULL after the root. */
static node *after(node *n) {
    if (n->next) return first_leaf(n->next);
    return n->parent;
}

void sl_prefix_tree_destroy(sl_prefix_tree *tree) {
    if (!tree) return;
    node *n = first_leaf(&tree->root);
    while (n != &tree->root) {
        node *next = after(n);
        destroy_node(tree, n);
        n = next;
    }
    assert(tree->bytes == 0 && tree->page_count == 0);
    sl_release(tree->options.allocator, tree, sizeof *tree, _Alignof(sl_prefix_tree));
}

sl_prefix_tree_use sl_prefix_tree_describe(const sl_prefix_tree *tree) {
    return (sl_prefix_tree_use){tree->bytes, tree->page_count};
}

/* ---- finding ---- */

/* How many tokens from the node's first one are the same. */
static uint64_t same_tokens(const node *n, const sl_token *tokens, uint64_t count) {
    const sl_token *given = tokens + n->from;
    const uint64_t most = count - n->from < n->count ? count - n->from : n->count;
    uint64_t same = 0;
    while (same < most && n->pages[same / SL_KV_PAGE].tokens[same % SL_KV_PAGE] == given[same])
        same++;
    return same;
}

typedef struct {
    node *last;    /* all of it is the same */
    node *partial; /* its child of which most is the same, but not all; NULL: none */
    uint64_t same; /* with that */
} walked;

static walked walk(sl_prefix_tree *tree, const sl_token *tokens, uint64_t count) {
    walked w = {&tree->root, NULL, 0};
    const double now = sl_clock_seconds();
    tree->stamp++;
    for (;;) {
        const uint64_t before = w.last->from + w.last->count;
        node *best = NULL;
        w.same = before;
        for (node *n = w.last->child; n; n = n->next) {
            const uint64_t same = before + same_tokens(n, tokens, count);
            if (same <= w.same) continue;
            w.same = same;
            best = n;
        }
        if (best) best->stamp = tree->stamp;
        if (best) best->used = now;
        if (!best || w.same < best->from + best->count) {
            w.partial = best;
            return w;
        }
        w.last = best;
    }
}

/* The last recurrent state of a node that includes at most `most` tokens. */
static kept_state *last_kept(const node *n, uint64_t most) {
    kept_state *found = NULL;
    for (uint32_t i = 0; i < n->kept_count && n->kept[i].length <= most; i++) found = &n->kept[i];
    return found;
}

/* The last one on a path, its siblings at the end included. */
static kept_state *find_kept(const walked *w, const sl_token *tokens, uint64_t count,
                             uint64_t limit) {
    kept_state *best = NULL;
    for (const node *n = w->last->child; n; n = n->next) {
        const uint64_t same = n->from + same_tokens(n, tokens, count);
        kept_state *found = last_kept(n, same < limit ? same : limit);
        if (found && (!best || found->length > best->length)) best = found;
    }
    for (const node *n = w->last; n && !best; n = n->parent) best = last_kept(n, limit);
    return best;
}

sl_prefix_match sl_prefix_tree_find(sl_prefix_tree *tree, const sl_token *tokens, size_t count,
                                    size_t limit) {
    const walked w = walk(tree, tokens, count);
    if (tree->recurrent_bytes == 0)
        return (sl_prefix_match){w.same, w.same < limit ? w.same : limit};
    const kept_state *kept = find_kept(&w, tokens, count, limit);
    return (sl_prefix_match){w.same, kept ? kept->length : 0};
}

const void *sl_prefix_tree_recurrent(sl_prefix_tree *tree, const sl_token *tokens, size_t length) {
    const walked w = walk(tree, tokens, length);
    kept_state *kept = find_kept(&w, tokens, length, length);
    if (!kept || kept->length != length) return NULL;
    kept->used = sl_clock_seconds();
    return kept->data;
}

/* ---- dropping ---- */

/* What there is too much of, or will be. */
typedef struct {
    uint64_t pages, bytes;
    bool free; /* it is free pages that are wanted */
} shortage;
static const double shared_cost = 1e6; /* more than anything else costs */

/* What is dropped at once, and what it costs. */
typedef struct {
    shortage of; /* what it must be good for */
    node *from;
    uint64_t keeps; /* of its positions; all: only the state of an index goes */
    uint32_t index;
    double cost;
} victim;

static uint64_t kept_before(const node *n, uint32_t index) {
    if (index) return n->kept[index - 1].length;
    for (n = n->parent; n; n = n->parent)
        if (n->kept_count) return n->kept[n->kept_count - 1].length;
    return 0;
}

static void consider(victim *best, node *n, uint64_t keeps, uint32_t index, double cost) {
    if (best->from && cost >= best->cost) return;
    *best = (victim){best->of, n, keeps, index, cost};
}

static double cost_of(uint64_t tokens, uint64_t bytes, double age) {
    return (double)tokens / (double)bytes / (1 + age);
}

/* Whether others have the pages of a leaf: all that have its last one have those before it, so that
 * dropping some gives none back. */
static bool is_shared(const sl_prefix_tree *tree, const node *n) {
    return sl_kv_pages_references(tree->pages, n->pages[pages_of(n->count) - 1].page) > 1;
}

/* The end of a leaf. */
static void consider_end(const sl_prefix_tree *tree, victim *best, node *n, double now) {
    uint64_t keeps = 0, tokens = n->count, bytes = 0;
    if (tree->recurrent_bytes == 0 && pages_of(n->count) > TRIMMED_PAGES) {
        keeps = (pages_of(n->count) - TRIMMED_PAGES) * SL_KV_PAGE;
        tokens = n->count - keeps;
    }
    if (tree->recurrent_bytes && n->kept_count) {
        const uint64_t before = kept_before(n, n->kept_count - 1);
        if (before > n->from) keeps = before - n->from;
        tokens = n->kept[n->kept_count - 1].length - before;
        bytes = tree->recurrent_bytes;
    } else if (tree->recurrent_bytes) {
        tokens = 0; /* no session can continue there */
    }
    const uint64_t pages = pages_of(n->count) - pages_of(keeps);
    bytes += pages * (tree->page_bytes + sizeof(held_page)) + sizeof *n;
    const double cost = cost_of(tokens, bytes, now - n->used);
    consider(best, n, keeps, 0, best->of.free && is_shared(tree, n) ? shared_cost + cost : cost);
}

static victim find_victim(sl_prefix_tree *tree, shortage of) {
    const double now = sl_clock_seconds();
    victim best = {.of = of};
    for (node *n = first_leaf(&tree->root); n != &tree->root; n = after(n)) {
        if (n->stamp == tree->stamp) continue;
        if (!n->child) consider_end(tree, &best, n, now);
        for (uint32_t i = 0; of.bytes && i + !n->child < n->kept_count; i++) {
            const uint64_t tokens = n->kept[i].length - kept_before(n, i);
            consider(&best, n, n->count, i,
                     cost_of(tokens, tree->recurrent_bytes, now - n->kept[i].used));
        }
    }
    return best;
}

/* ---- what is dropped, as content ---- */

typedef struct {
    const sl_prefix_tree *tree;
    const node *leaf;
} leaf_source;

static sl_status give_recurrent(void *ctx, uint32_t index, void *out, sl_error *err) {
    const leaf_source *source = ctx;
    (void)err;
    memcpy(out, source->leaf->kept[index].data, source->tree->recurrent_bytes);
    return SL_OK;
}

static sl_status give_blocks(void *ctx, uint64_t first, uint64_t count, void *out, sl_error *err) {
    enum { EACH = SL_KV_PAGE / SL_KV_LANES };
    const leaf_source *source = ctx;
    const sl_forward *forward = source->tree->options.forward;
    const uint64_t block_bytes = sl_slot_block_bytes(forward);
    char *to = out;
    first -= source->leaf->from / SL_KV_LANES;
    for (const uint64_t end = first + count; first < end; first += count) {
        count = EACH - first % EACH < end - first ? EACH - first % EACH : end - first;
        SL_TRY(sl_pages_read_blocks(forward, &source->leaf->pages[first / EACH].page, first % EACH,
                                    count, to, err));
        to += count * block_bytes;
    }
    return SL_OK;
}

/* All tokens up to the end of a node. */
static void gather_tokens(const node *n, sl_token *out) {
    for (; n; n = n->parent)
        for (uint64_t i = 0; i < n->count; i++)
            out[n->from + i] = n->pages[i / SL_KV_PAGE].tokens[i % SL_KV_PAGE];
}

/* A leaf as content that begins where it does. */
static void report(sl_prefix_tree *tree, node *leaf) {
    const sl_prefix_tree_options *options = &tree->options;
    const uint64_t end = leaf->from + leaf->count;
    const size_t token_bytes = end * sizeof(sl_token),
                 length_bytes = leaf->kept_count * sizeof(uint64_t);
    if (!options->dropped || leaf->reported || leaf->count == 0) return;
    leaf->reported = true;
    if (tree->recurrent_bytes && leaf->kept_count == 0) return;
    sl_token *tokens = sl_resize(options->allocator, NULL, 0, token_bytes, ALIGN);
    uint64_t *lengths =
        length_bytes ? sl_resize(options->allocator, NULL, 0, length_bytes, ALIGN) : NULL;
    if (tokens && (lengths || leaf->kept_count == 0)) {
        leaf_source source = {tree, leaf};
        gather_tokens(leaf, tokens);
        for (uint32_t i = 0; i < leaf->kept_count; i++) lengths[i] = leaf->kept[i].length;
        const sl_state_content content = {.forward = options->forward,
                                          .fingerprint = options->fingerprint,
                                          .vocab = options->vocab,
                                          .from = leaf->from,
                                          .to = end,
                                          .token_count = end,
                                          .tokens = tokens,
                                          .lengths = lengths,
                                          .length_count = leaf->kept_count,
                                          .recurrent = give_recurrent,
                                          .blocks = give_blocks,
                                          .ctx = &source};
        options->dropped(options->dropped_ctx, &content);
    }
    sl_release(options->allocator, tokens, token_bytes, ALIGN);
    sl_release(options->allocator, lengths, length_bytes, ALIGN);
}

/* Drops a part of a node, or all of it. */
static void drop(sl_prefix_tree *tree, const victim *found) {
    node *n = found->from;
    if (!n->child) report(tree, n);
    if (found->keeps == n->count) {
        drop_kept(tree, n, found->index);
        return;
    }
    cut(tree, n, found->keeps);
    if (n->count) return;
    unlink_node(n);
    destroy_node(tree, n);
}

/* Makes room for so many pages and bytes more; false if what is left is in use. */
static bool make_room(sl_prefix_tree *tree, uint64_t pages, uint64_t bytes) {
    const sl_prefix_tree_options *o = &tree->options;
    if (pages > o->most_pages || bytes > o->most_bytes) return false;
    for (;;) {
        const uint64_t all_pages = tree->page_count + pages, all_bytes = tree->bytes + bytes;
        const shortage of = {.pages = all_pages > o->most_pages ? all_pages - o->most_pages : 0,
                             .bytes = all_bytes > o->most_bytes ? all_bytes - o->most_bytes : 0};
        if (!of.pages && !of.bytes) return true;
        const victim found = find_victim(tree, of);
        if (!found.from) return false;
        drop(tree, &found);
    }
}

bool sl_prefix_tree_give_up(sl_prefix_tree *tree) {
    tree->stamp++; /* nothing is in use */
    const victim found = find_victim(tree, (shortage){.pages = 1, .free = true});
    if (found.from) drop(tree, &found);
    return found.from;
}

/* ---- adding ---- */

/* What is from `at` positions on becomes a child; false without memory. */
static bool split(sl_prefix_tree *tree, node *n, uint64_t at) {
    const uint64_t first = at / SL_KV_PAGE, moved = pages_of(n->count) - first;
    uint32_t kept = 0;
    while (kept < n->kept_count && n->kept[kept].length <= n->from + at) kept++;
    node *lower = resize(tree, NULL, 0, sizeof *lower);
    if (!lower) return false;
    *lower = (node){.parent = n,
                    .from = n->from + at,
                    .count = n->count - at,
                    .stamp = n->stamp,
                    .used = n->used,
                    .reported = n->reported};
    bool made = make_page_room(tree, lower, moved);
    const uint32_t states = n->kept_count - kept;
    if (made && states) {
        lower->kept = resize(tree, NULL, 0, states * sizeof *lower->kept);
        made = lower->kept != NULL;
    }
    if (!made || !lower->pages) {
        (void)resize(tree, lower->pages, lower->page_room * sizeof *lower->pages, 0);
        (void)resize(tree, lower, sizeof *lower, 0);
        return false;
    }
    memcpy(lower->pages, n->pages + first, moved * sizeof *lower->pages);
    if (states) memcpy(lower->kept, n->kept + kept, states * sizeof *lower->kept);
    lower->kept_room = lower->kept_count = states;
    lower->child = n->child;
    for (node *child = lower->child; child; child = child->next) child->parent = lower;
    n->child = lower;
    n->count = at;
    n->kept_count = kept;
    n->reported = false;
    return true;
}

/* Puts the page that begins at the end of a leaf's whole pages; false: no room. */
static bool put_page(sl_prefix_tree *tree, node *n, const sl_state_content *content) {
    const uint64_t index = n->count / SL_KV_PAGE, at = n->from + index * SL_KV_PAGE;
    const uint64_t used = content->to - at < SL_KV_PAGE ? content->to - at : SL_KV_PAGE;
    const bool replaces = n->count % SL_KV_PAGE != 0;
    const uint64_t array = index < n->page_room ? 0 : 2 * (index + 1) * sizeof(held_page);
    if (!replaces && (!make_room(tree, 1, array) || !make_page_room(tree, n, index + 1)))
        return false;
    held_page *to = &n->pages[index];
    hold(tree, to, content->pages[at / SL_KV_PAGE], replaces);
    memcpy(to->tokens, content->tokens + at, used * sizeof *to->tokens);
    n->count = index * SL_KV_PAGE + used;
    n->reported = false;
    return true;
}

/* The leaf that tokens from the end of the walk on are added to; NULL: no memory. */
static node *leaf_for(sl_prefix_tree *tree, const walked *w) {
    node *parent = w->last;
    if (w->partial) {
        const uint64_t shared = (w->same - w->partial->from) / SL_KV_PAGE * SL_KV_PAGE;
        const uint64_t arrays = 2 * pages_of(w->partial->count) * sizeof(held_page) +
                                w->partial->kept_count * sizeof(kept_state);
        if (!make_room(tree, 0, 2 * sizeof(node) + arrays)) return NULL;
        if (shared && !split(tree, w->partial, shared)) return NULL;
        if (shared) parent = w->partial;
    } else if (parent != &tree->root && !parent->child) {
        return parent;
    }
    return make_room(tree, 0, sizeof(node)) ? add_node(tree, parent) : NULL;
}

static void put_state(sl_prefix_tree *tree, node *n, const sl_state_content *content,
                      uint32_t index) {
    const uint64_t length = content->lengths[index];
    uint32_t at = n->kept_count;
    while (at && n->kept[at - 1].length > length) at--;
    if (at && n->kept[at - 1].length == length) {
        n->kept[at - 1].used = sl_clock_seconds();
        return;
    }
    if (!make_room(tree, 0, tree->recurrent_bytes + 4 * sizeof(kept_state)) ||
        !make_kept_room(tree, n))
        return;
    void *data = resize(tree, NULL, 0, tree->recurrent_bytes);
    if (!data) return;
    if (content->recurrent(content->ctx, index, data, NULL) != SL_OK) {
        (void)resize(tree, data, tree->recurrent_bytes, 0);
        return;
    }
    for (uint32_t i = n->kept_count; i > at; i--) n->kept[i] = n->kept[i - 1];
    n->kept[at] = (kept_state){length, data, sl_clock_seconds()};
    n->kept_count++;
    n->reported = false;
}

void sl_prefix_tree_add(sl_prefix_tree *tree, const sl_state_content *content) {
    uint64_t end = content->to;
    sl_state_content bounded = *content;
    if (tree->recurrent_bytes) /* a session can continue nowhere after the last one */
        end = content->length_count ? content->lengths[content->length_count - 1] : 0;
    if (end == 0 || !content->pages) return;
    bounded.to = bounded.token_count = end;
    walked w = walk(tree, content->tokens, end);
    if (w.same < end) {
        node *leaf = leaf_for(tree, &w);
        while (leaf && leaf->from + leaf->count < end)
            if (!put_page(tree, leaf, &bounded)) break;
        if (leaf && leaf->count == 0) {
            unlink_node(leaf);
            destroy_node(tree, leaf);
        }
    }
    for (uint32_t i = tree->recurrent_bytes ? content->length_count : 0; i-- > 0;) {
        w = walk(tree, content->tokens, content->lengths[i]);
        if (w.same < content->lengths[i]) continue;
        put_state(tree, w.partial ? w.partial : w.last, content, i);
    }
}

sl_status sl_prefix_tree_load(sl_prefix_tree *tree, const sl_token *tokens, size_t length,
                              uint32_t slot, sl_error *err) {
    const walked w = walk(tree, tokens, length);
    if (w.same < length)
        return sl_fail(err, SL_INVALID, "the prefix cache has %llu of %zu tokens",
                       (unsigned long long)w.same, length);
    const uint64_t all = pages_of(length);
    for (uint64_t i = 0; i < all;) {
        const node *n = w.partial ? w.partial : w.last;
        while (n->from / SL_KV_PAGE > i) n = n->parent;
        for (const uint64_t begin = n->from / SL_KV_PAGE; i < all && i - begin < pages_of(n->count);
             i++)
            sl_kv_pages_adopt(tree->pages, slot, (uint32_t)i, n->pages[i - begin].page);
    }
    sl_kv_pages_truncate(tree->pages, slot, length);
    return SL_OK;
}

/* ---- checks ---- */

static bool differs_from_siblings(const node *n) {
    for (const node *other = n->next; other; other = other->next) {
        uint64_t same = 0;
        while (same < n->count && same < other->count && same < SL_KV_PAGE &&
               n->pages[0].tokens[same] == other->pages[0].tokens[same])
            same++;
        if (same == SL_KV_PAGE || other->parent != n->parent) return false;
    }
    return true;
}

static bool is_sound(const node *n) {
    uint64_t before = n->from;
    if (n->count == 0 || n->from != n->parent->from + n->parent->count) return false;
    if (n->from % SL_KV_PAGE || (n->child && n->count % SL_KV_PAGE)) return false;
    for (uint32_t i = 0; i < n->kept_count; i++) {
        if (n->kept[i].length <= before || n->kept[i].length > n->from + n->count) return false;
        before = n->kept[i].length;
    }
    return differs_from_siblings(n);
}

bool sl_prefix_tree_verify(const sl_prefix_tree *tree) {
    uint64_t bytes = 0, pages = 0;
    node *n = first_leaf((node *)(uintptr_t)&tree->root);
    for (; n != &tree->root; n = after(n)) {
        if (!is_sound(n)) return false;
        bytes += sizeof *n + n->page_room * sizeof *n->pages + n->kept_room * sizeof *n->kept +
                 n->kept_count * tree->recurrent_bytes;
        pages += pages_of(n->count);
    }
    return bytes == tree->bytes && bytes <= tree->options.most_bytes && pages == tree->page_count &&
           pages <= tree->options.most_pages;
}
