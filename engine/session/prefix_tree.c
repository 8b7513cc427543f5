#include "engine/session/prefix_tree.h"
#include "base/clock.h"
#include "engine/session/slot.h"
#include <assert.h>
#include <string.h>

enum { TRIMMED_BLOCKS = 64, ALIGN = 64 };
static const uint64_t pointer_bytes = sizeof(void *);

/* Tokens of a block, and their keys and values behind them. */
typedef struct {
    sl_token tokens[SL_KV_LANES];
    char data[];
} block;

/* Recurrent state after `length` tokens of the sequence. */
typedef struct {
    uint64_t length;
    void *data;
    double used; /* when, by the clock */
} kept_state;

typedef struct node {
    struct node *parent, *child, *next;
    uint64_t from, count; /* positions */
    block **blocks;       /* of them; the last may be partly used */
    kept_state *kept;     /* ascending, from < length <= from + count */
    uint32_t block_room, kept_room, kept_count;
    uint32_t stamp; /* of the walk that is going on: nothing of it is dropped */
    bool reported;  /* as dropped, and nothing was added since */
    double used;
} node;

struct sl_prefix_tree {
    sl_prefix_tree_options options;
    uint64_t block_bytes, recurrent_bytes, bytes; /* block: with its tokens */
    uint32_t stamp;
    node root;
};

/* ---- memory ---- */

static void *resize(sl_prefix_tree *tree, void *old, uint64_t old_bytes, uint64_t bytes) {
    void *fresh = sl_resize(tree->options.allocator, old, old_bytes, bytes, ALIGN);
    if (fresh || bytes == 0) tree->bytes = tree->bytes - old_bytes + bytes;
    return fresh;
}

static bool make_block_room(sl_prefix_tree *tree, node *n, uint64_t count) {
    if (count <= n->block_room) return true;
    const uint64_t room = count + count / 8;
    block **fresh = resize(tree, n->blocks, n->block_room * pointer_bytes, room * pointer_bytes);
    if (!fresh) return false;
    n->blocks = fresh;
    n->block_room = (uint32_t)room;
    return true;
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
    for (uint64_t b = sl_blocks_of(count); b < sl_blocks_of(n->count); b++)
        (void)resize(tree, n->blocks[b], tree->block_bytes, 0);
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
    (void)resize(tree, n->blocks, n->block_room * pointer_bytes, 0);
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
    tree->block_bytes = sizeof(block) + sl_slot_block_bytes(options->forward);
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
    assert(tree->bytes == 0);
    sl_release(tree->options.allocator, tree, sizeof *tree, _Alignof(sl_prefix_tree));
}

uint64_t sl_prefix_tree_bytes(const sl_prefix_tree *tree) {
    return tree->bytes;
}

/* ---- finding ---- */

/* How many tokens from the node's first one are the same. */
static uint64_t same_tokens(const node *n, const sl_token *tokens, uint64_t count) {
    const sl_token *given = tokens + n->from;
    const uint64_t most = count - n->from < n->count ? count - n->from : n->count;
    uint64_t same = 0;
    while (same < most && n->blocks[same / SL_KV_LANES]->tokens[same % SL_KV_LANES] == given[same])
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

/* What is dropped at once, and what it costs. */
typedef struct {
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
    *best = (victim){n, keeps, index, cost};
}

static double cost_of(uint64_t tokens, uint64_t bytes, double age) {
    return (double)tokens / (double)bytes / (1 + age);
}

/* The end of a leaf. */
static void consider_end(const sl_prefix_tree *tree, victim *best, node *n, double now) {
    uint64_t keeps = 0, tokens = n->count, bytes = 0;
    if (tree->recurrent_bytes == 0 && sl_blocks_of(n->count) > TRIMMED_BLOCKS) {
        keeps = (sl_blocks_of(n->count) - TRIMMED_BLOCKS) * SL_KV_LANES;
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
    bytes += (sl_blocks_of(n->count) - sl_blocks_of(keeps)) * tree->block_bytes + sizeof *n;
    consider(best, n, keeps, 0, cost_of(tokens, bytes, now - n->used));
}

static victim find_victim(sl_prefix_tree *tree) {
    const double now = sl_clock_seconds();
    victim best = {0};
    for (node *n = first_leaf(&tree->root); n != &tree->root; n = after(n)) {
        if (n->stamp == tree->stamp) continue;
        if (!n->child) consider_end(tree, &best, n, now);
        for (uint32_t i = 0; i + !n->child < n->kept_count; i++) {
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
    const leaf_source *source = ctx;
    const uint64_t bytes = source->tree->block_bytes - sizeof(block);
    const uint64_t begin = first - source->leaf->from / SL_KV_LANES;
    (void)err;
    for (uint64_t i = 0; i < count; i++)
        memcpy((char *)out + i * bytes, source->leaf->blocks[begin + i]->data, bytes);
    return SL_OK;
}

/* All tokens up to the end of a node. */
static void gather_tokens(const node *n, sl_token *out) {
    for (; n; n = n->parent)
        for (uint64_t i = 0; i < n->count; i++)
            out[n->from + i] = n->blocks[i / SL_KV_LANES]->tokens[i % SL_KV_LANES];
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

/* Makes room for so many bytes more; false if what is left is in use. */
static bool make_room(sl_prefix_tree *tree, uint64_t bytes) {
    const uint64_t budget = tree->options.budget_bytes;
    if (bytes > budget) return false;
    while (tree->bytes > budget - bytes) {
        const victim found = find_victim(tree);
        if (!found.from) return false;
        drop(tree, &found);
    }
    return true;
}

/* ---- adding ---- */

/* What is from `at` positions on becomes a child; false without memory. */
static bool split(sl_prefix_tree *tree, node *n, uint64_t at) {
    const uint64_t first = at / SL_KV_LANES, moved = sl_blocks_of(n->count) - first;
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
    bool made = make_block_room(tree, lower, moved);
    const uint32_t states = n->kept_count - kept;
    if (made && states) {
        lower->kept = resize(tree, NULL, 0, states * sizeof *lower->kept);
        made = lower->kept != NULL;
    }
    if (!made || !lower->blocks) {
        (void)resize(tree, lower->blocks, lower->block_room * pointer_bytes, 0);
        (void)resize(tree, lower, sizeof *lower, 0);
        return false;
    }
    memcpy(lower->blocks, n->blocks + first, moved * pointer_bytes);
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

/* Puts the block that begins at the end of a leaf's whole blocks; false: no room. */
static bool put_block(sl_prefix_tree *tree, node *n, const sl_state_content *content) {
    const uint64_t index = n->count / SL_KV_LANES, at = n->from + index * SL_KV_LANES;
    const uint64_t used = content->to - at < SL_KV_LANES ? content->to - at : SL_KV_LANES;
    const bool replaces = n->count % SL_KV_LANES != 0;
    const uint64_t array = index < n->block_room ? 0 : 2 * (index + 1) * pointer_bytes;
    if (!replaces &&
        (!make_room(tree, tree->block_bytes + array) || !make_block_room(tree, n, index + 1)))
        return false;
    block *b = replaces ? n->blocks[index] : resize(tree, NULL, 0, tree->block_bytes);
    if (!b) return false;
    const bool good = content->blocks(content->ctx, at / SL_KV_LANES, 1, b->data, NULL) == SL_OK;
    if (!good && !replaces) (void)resize(tree, b, tree->block_bytes, 0);
    if (!good && replaces) cut(tree, n, index * SL_KV_LANES);
    if (!good) return false;
    if (used < SL_KV_LANES) sl_block_clear(content->forward, b->data, (uint32_t)used);
    memcpy(b->tokens, content->tokens + at, used * sizeof *b->tokens);
    n->blocks[index] = b;
    n->count = index * SL_KV_LANES + used;
    n->reported = false;
    return true;
}

/* The leaf that tokens from the end of the walk on are added to; NULL: no memory. */
static node *leaf_for(sl_prefix_tree *tree, const walked *w) {
    node *parent = w->last;
    if (w->partial) {
        const uint64_t shared = (w->same - w->partial->from) / SL_KV_LANES * SL_KV_LANES;
        const uint64_t arrays = 2 * sl_blocks_of(w->partial->count) * pointer_bytes +
                                w->partial->kept_count * sizeof(kept_state);
        if (!make_room(tree, 2 * sizeof(node) + arrays)) return NULL;
        if (shared && !split(tree, w->partial, shared)) return NULL;
        if (shared) parent = w->partial;
    } else if (parent != &tree->root && !parent->child) {
        return parent;
    }
    return make_room(tree, sizeof(node)) ? add_node(tree, parent) : NULL;
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
    if (!make_room(tree, tree->recurrent_bytes + 4 * sizeof(kept_state)) ||
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
    if (end == 0) return;
    bounded.to = bounded.token_count = end;
    walked w = walk(tree, content->tokens, end);
    if (w.same < end) {
        node *leaf = leaf_for(tree, &w);
        while (leaf && leaf->from + leaf->count < end)
            if (!put_block(tree, leaf, &bounded)) break;
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
                              uint64_t first, uint32_t slot, sl_error *err) {
    sl_forward *forward = tree->options.forward;
    const walked w = walk(tree, tokens, length);
    if (w.same < length)
        return sl_fail(err, SL_INVALID, "the prefix cache has %llu of %zu tokens",
                       (unsigned long long)w.same, length);
    for (const node *n = w.partial ? w.partial : w.last; n; n = n->parent) {
        const uint64_t begin = n->from / SL_KV_LANES;
        uint64_t blocks = sl_blocks_of(n->count);
        if (begin + blocks > sl_blocks_of(length)) blocks = sl_blocks_of(length) - begin;
        for (uint64_t i = first > begin ? first - begin : 0; i < blocks; i++)
            SL_TRY(sl_slot_write_blocks(forward, slot, begin + i, 1, n->blocks[i]->data, err));
    }
    return SL_OK;
}

/* ---- checks ---- */

static bool differs_from_siblings(const node *n) {
    for (const node *other = n->next; other; other = other->next) {
        uint64_t same = 0;
        while (same < n->count && same < other->count && same < SL_KV_LANES &&
               n->blocks[0]->tokens[same] == other->blocks[0]->tokens[same])
            same++;
        if (same == SL_KV_LANES || other->parent != n->parent) return false;
    }
    return true;
}

static bool is_sound(const node *n) {
    uint64_t before = n->from;
    if (n->count == 0 || n->from != n->parent->from + n->parent->count) return false;
    if (n->from % SL_KV_LANES || (n->child && n->count % SL_KV_LANES)) return false;
    for (uint32_t i = 0; i < n->kept_count; i++) {
        if (n->kept[i].length <= before || n->kept[i].length > n->from + n->count) return false;
        before = n->kept[i].length;
    }
    return differs_from_siblings(n);
}

bool sl_prefix_tree_verify(const sl_prefix_tree *tree) {
    uint64_t bytes = 0;
    node *n = first_leaf((node *)(uintptr_t)&tree->root);
    for (; n != &tree->root; n = after(n)) {
        if (!is_sound(n)) return false;
        bytes += sizeof *n + n->block_room * pointer_bytes + n->kept_room * sizeof *n->kept +
                 sl_blocks_of(n->count) * tree->block_bytes + n->kept_count * tree->recurrent_bytes;
    }
    return bytes == tree->bytes && bytes <= tree->options.budget_bytes;
}
