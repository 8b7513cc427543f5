/* storage.h - The memory of declared values: inputs of one graph; weights and states, which several
 * graphs may share by name.
 *
 * Inputs and weights are in host memory in their own type.  States are in the memory of the device,
 * and where graphs are evaluated, doubles.  Memory is taken when it is first needed; what changes a
 * weight or a state has entered the executor's queue. */
#ifndef SL_API_STORAGE_H
#define SL_API_STORAGE_H
#include "api/executor.h"
#include "compiler/graph.h"

typedef struct sl_tensor {
    const char *name;
    sl_type type;
    sl_value_kind kind;
    void *data;         /* NULL: none yet */
    bool given;         /* data is the caller's */
    bool held;          /* the device keeps a copy of this weight */
    uint64_t version;   /* changes with the address */
    atomic_bool is_set; /* by the caller */
    struct sl_tensor *next;
} sl_tensor;

void sl_tensor_init(sl_tensor *tensor, const sl_value_info *value);
/* Takes memory if there is none. */
SL_CHECKED sl_status sl_tensor_ready(sl_tensor *tensor, const sl_executor *executor, sl_error *err);
void sl_tensor_release(sl_tensor *tensor, const sl_executor *executor);
/* Uses the caller's memory; NULL: none, until it is needed. */
SL_CHECKED sl_status sl_tensor_give(sl_tensor *tensor, const sl_executor *executor, void *data,
                                    sl_error *err);
/* Tells the device that an executable is bound to it. */
void sl_tensor_hold(sl_tensor *tensor, const sl_executor *executor);

/* A part of a tensor, and where it is copied from or to. */
typedef struct {
    uint64_t offset, bytes;
    const void *from;
    void *to;
} sl_tensor_range;
SL_CHECKED sl_status sl_tensor_check(const char *name, const sl_type *type,
                                     const sl_tensor_range *range, sl_error *err);
SL_CHECKED sl_status sl_tensor_write(sl_tensor *tensor, const sl_executor *executor,
                                     const sl_tensor_range *range, sl_error *err);
SL_CHECKED sl_status sl_tensor_read(sl_tensor *tensor, const sl_executor *executor,
                                    const sl_tensor_range *range, sl_error *err);

/* Weights and states by name. */
typedef struct sl_storage sl_storage;
SL_CHECKED sl_status sl_storage_create(sl_executor *executor, sl_storage **out, sl_error *err);
sl_storage *sl_storage_take(sl_storage *storage);
void sl_storage_release(sl_storage *storage); /* enters the queue; NULL is fine */
sl_executor *sl_storage_executor(const sl_storage *storage);
/* Finds the weights and states of a graph, and adds what is missing; tensors[value].  Fails if one
 * of that name has another type.  Enters the queue. */
SL_CHECKED sl_status sl_storage_join(sl_storage *storage, const sl_graph *graph,
                                     sl_tensor **tensors, sl_error *err);
#endif
