/* subject.h - What is inspected: the step of an open model, of one that is only imagined, or any
 * graph. */
#ifndef SL_ENGINE_INSPECT_SUBJECT_H
#define SL_ENGINE_INSPECT_SUBJECT_H
#include "engine/session/model.h"

typedef struct {
    const sl_architecture *architecture;
    sl_forward_shape shape;  /* rows and wanted are the caller's */
    const sl_target *target; /* of the model's device; an imagined model's is the CPU */
    const sl_graph *graph;   /* any graph; NULL: that of the architecture */
    /* of imagined models */
    sl_arena arena;
    sl_model_config config;
    sl_weights weights;
    sl_expert_table experts;
} sl_subject;

/* The step of a model, which must outlive the subject. */
void sl_subject_of_model(sl_subject *subject, const sl_model *model);
/* shape: a name of shapes.h or the path of a config.json.  Deinit even if this fails. */
SL_CHECKED sl_status sl_subject_fake(sl_subject *subject, const char *shape,
                                     const sl_allocator *allocator, sl_error *err);
/* The graph must outlive the subject. */
void sl_subject_of_graph(sl_subject *subject, const sl_graph *graph);
/* Compiles it; *build_seconds is the time to build the graph. */
SL_CHECKED sl_status sl_subject_compile(const sl_subject *subject,
                                        const sl_compiler_options *options, sl_program **out,
                                        double *build_seconds, sl_error *err);
void sl_subject_deinit(sl_subject *subject);
#endif
