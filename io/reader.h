/* reader.h - Asynchronous positioned reads from a set of files.
 *
 * submit() queues reads, next() returns completed ones in order of completion.  Short reads are
 * continued, interrupted ones repeated; a completed read either has all its bytes or a status
 * with a message.  submit and next may be called from different threads. */
#ifndef SL_IO_READER_H
#define SL_IO_READER_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct {
    uint32_t file;
    uint64_t offset; /* a multiple of sl_reader_alignment */
    uint64_t bytes;  /* any count within the file */
    void *into;      /* aligned like offset; room for bytes rounded up to the alignment */
    uint64_t tag;    /* returned with the result */
} sl_read;

typedef struct {
    uint64_t tag;
    sl_status status; /* SL_OK or SL_IO, or what a call returned */
    sl_error error;
    double seconds; /* from submit to completion */
} sl_read_result;

typedef struct sl_reader sl_reader;
typedef enum {
    SL_READER_AUTO, /* io_uring if the kernel allows it, else threads */
    SL_READER_URING,
    SL_READER_THREADS
} sl_reader_kind;

typedef struct {
    sl_reader_kind kind;
    uint32_t depth; /* reads in flight; 0: the default, 16 */
    bool buffered;  /* through the page cache instead of direct I/O (O_DIRECT) */
    /* A reader of the same files that sl_reader_open made and that is closed later: its descriptors
     * are used.  NULL: the files are opened. */
    const sl_reader *shares;
} sl_reader_options;

/* Opens all files.  If a file system does not support direct reads, the pages are dropped from the
 * page cache after each read, so that the page cache does not grow in either case. */
SL_CHECKED sl_status sl_reader_open(const char *const *paths, uint32_t count,
                                    const sl_reader_options *options, const sl_allocator *allocator,
                                    sl_reader **out, sl_error *err);
/* A reader whose reads are calls of a function, on threads of its own: of `files` files that do not
 * exist, each of file_bytes.  read fills all bytes, or fills err and returns its status; it is
 * called by several threads at a time. */
typedef struct {
    sl_status (*read)(void *ctx, const sl_read *read, sl_error *err);
    void *ctx;
    const char *name; /* for messages */
    uint32_t files;
    uint64_t file_bytes;
    uint32_t alignment; /* of offsets and buffers */
    uint32_t threads;   /* 0: 4 */
} sl_read_calls;
SL_CHECKED sl_status sl_reader_open_calls(const sl_read_calls *calls, const sl_allocator *allocator,
                                          sl_reader **out, sl_error *err);
/* Waits for reads in flight, whose buffers must stay valid until then. */
void sl_reader_close(sl_reader *reader);

uint32_t sl_reader_alignment(const sl_reader *reader); /* a power of two; 1 if none is needed */
const char *sl_reader_name(const sl_reader *reader);   /* "io_uring", "threads", "simulated" */
/* Reserves memory for this many reads in flight, so that submitting them does not allocate. */
SL_CHECKED sl_status sl_reader_reserve(sl_reader *reader, uint32_t reads, sl_error *err);
/* Never blocks: reads beyond the depth wait in an internal queue.  Fails with SL_IO if the file
 * does not contain all the bytes. */
SL_CHECKED sl_status sl_reader_submit(sl_reader *reader, const sl_read *read, sl_error *err);
/* Returns one completed read; blocks until there is one.  SL_INVALID if no read is in flight. */
SL_CHECKED sl_status sl_reader_next(sl_reader *reader, sl_read_result *out, sl_error *err);
/* The same without blocking: false if no read has completed.  Also submits reads from the internal
 * queue, so a busy caller should poll now and then. */
bool sl_reader_poll(sl_reader *reader, sl_read_result *out);

/* The interface that each kind of reader implements, including the simulated disk of the tests. */
typedef struct {
    const char *name;
    sl_status (*submit)(sl_reader *reader, const sl_read *read, sl_error *err);
    sl_status (*next)(sl_reader *reader, sl_read_result *out, sl_error *err);
    bool (*poll)(sl_reader *reader, sl_read_result *out);
    void (*close)(sl_reader *reader);
} sl_reader_ops;
struct sl_reader {
    const sl_reader_ops *ops;
    uint32_t alignment;
};
#endif
